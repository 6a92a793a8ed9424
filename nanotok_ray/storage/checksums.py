"""Checksums of the small files that later runs read: plans, records and training reports.

The checksum of NAME is the name of an empty file, run/checksums/NAME.HASH, which is written before
NAME. One listing therefore returns the checksums of all files, and files keep their bytes. A file
without a checksum, such as one of an earlier version, is accepted.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nanotok_ray.storage.folder import Folder

CHECKSUMS = "run/checksums/"
_HASH_CHARS = 32  # 128 bits of the sha256


def write_checked(folder: Folder, name: str, data: bytes) -> None:
    """Publish a file in one step after its checksum."""
    folder.create_empty(checksum_name(name, hashlib.sha256(data).hexdigest()))
    folder.write_bytes(name, data)


def checksum_name(name: str, sha256: str) -> str:
    """Return the name of the checksum of a file.

    >>> checksum_name("records/learn.json", "0123456789abcdef" * 4)
    'run/checksums/records/learn.json.0123456789abcdef0123456789abcdef'
    """
    return f"{CHECKSUMS}{name}.{sha256[:_HASH_CHARS]}"


def checked_name(checksum: str) -> str:
    """Return the name of the file of a checksum.

    >>> checked_name(checksum_name("records/learn.json", "0123456789abcdef" * 4))
    'records/learn.json'
    """
    return checksum.removeprefix(CHECKSUMS)[: -_HASH_CHARS - 1]


def remove_checksums(folder: Folder) -> None:
    """Remove all checksums of a folder."""
    folder.remove_below(CHECKSUMS)


@dataclass(frozen=True, slots=True)
class Checksums:
    """The checksums of files of a folder."""

    names: Mapping[str, frozenset[str]]
    """The names of the checksums of each file, of which one must be that of its bytes."""

    @classmethod
    def of(cls, folder: Folder, prefixes: Iterable[str]) -> "Checksums":
        """List the checksums of the files whose names begin with one of some prefixes.

        Raises:
            TransientIOError: A remote store failed in a way that a retry can solve.
        """
        by_name: dict[str, set[str]] = defaultdict(set)
        for prefix in prefixes:
            for checksum in folder.sizes(CHECKSUMS + prefix):
                by_name[checked_name(checksum)].add(checksum)
        return cls({name: frozenset(checksums) for name, checksums in by_name.items()})

    def are_of(self, name: str, sha256: str) -> bool:
        """Return whether a file has the sha256 (hex) with which it was written, or no checksum."""
        known = self.names.get(name)
        return known is None or checksum_name(name, sha256) in known
