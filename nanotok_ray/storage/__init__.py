"""Files on local disks and remote stores: reading, listing, and writing that is whole or absent.

Input is paths, globs and URLs. Output is bytes, sizes and file objects. The package retries
transient failures of stores.
"""

from nanotok_ray.storage.folder import Folder
from nanotok_ray.storage.inputs import (
    FoundFiles,
    InputFile,
    find_files,
    list_files,
    open_input,
    read_start,
    unreadable,
    version_of,
)
from nanotok_ray.storage.local import WholeFile
from nanotok_ray.storage.remote_input import SeekableFile
from nanotok_ray.storage.tree import is_below

__all__ = [
    "Folder",
    "FoundFiles",
    "InputFile",
    "SeekableFile",
    "WholeFile",
    "find_files",
    "is_below",
    "list_files",
    "open_input",
    "read_start",
    "unreadable",
    "version_of",
]
