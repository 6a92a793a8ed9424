"""Storage: files that are whole or absent, and inputs, on local disks and remote stores.

Takes paths and URLs; gives bytes, sizes and file objects. Does not know what any file means.
"""

from nanotok_ray.locations import is_local
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
from nanotok_ray.storage.node_copy import local_copy
from nanotok_ray.storage.positioned import PositionedFile
from nanotok_ray.storage.tree import is_below

__all__ = [
    "Folder",
    "FoundFiles",
    "InputFile",
    "PositionedFile",
    "WholeFile",
    "find_files",
    "is_below",
    "is_local",
    "list_files",
    "local_copy",
    "open_input",
    "read_start",
    "unreadable",
    "version_of",
]
