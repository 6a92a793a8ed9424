"""Files on local disks and remote stores: reading, listing, and atomic writing.

The input is paths, globs and URLs. The output is bytes, sizes and file objects. The package
retries transient failures of stores.
"""

from nanotok_ray.storage.checksums import (
    CHECKSUMS,
    Checksums,
    checked_name,
    checksum_name,
    remove_checksums,
    write_checked,
)
from nanotok_ray.storage.connect import connect, extra_for, store_options
from nanotok_ray.storage.folder import Folder, VerifiedFile, arrow_sink
from nanotok_ray.storage.inputs import (
    FoundFiles,
    InputFile,
    find_files,
    open_input,
    read_start,
    unreadable,
    version_of,
)
from nanotok_ray.storage.local import LocalStore, WrittenFile, writer_is_alive
from nanotok_ray.storage.remote import CONDITIONAL, RemoteStore, is_precondition_conflict
from nanotok_ray.storage.remote_input import RemoteInput, SeekableFile
from nanotok_ray.storage.retries import (
    StoreRetryPolicy,
    attempt,
    backoff,
    transient_errors,
)
from nanotok_ray.storage.tree import Entry, is_below, is_temporary, static_parts

__all__ = [
    "CHECKSUMS",
    "CONDITIONAL",
    "Checksums",
    "Entry",
    "Folder",
    "FoundFiles",
    "InputFile",
    "LocalStore",
    "RemoteInput",
    "RemoteStore",
    "SeekableFile",
    "StoreRetryPolicy",
    "VerifiedFile",
    "WrittenFile",
    "arrow_sink",
    "attempt",
    "backoff",
    "checked_name",
    "checksum_name",
    "connect",
    "extra_for",
    "find_files",
    "is_below",
    "is_precondition_conflict",
    "is_temporary",
    "open_input",
    "read_start",
    "remove_checksums",
    "static_parts",
    "store_options",
    "transient_errors",
    "unreadable",
    "version_of",
    "write_checked",
    "writer_is_alive",
]
