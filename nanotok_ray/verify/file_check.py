"""One file read once: its size, its sha256, and what else is asked of its bytes on the way.

Takes a folder and a name in it. Does not know records. Never holds more than a block, but for what
is to be kept, which grows with what is really there.
"""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Protocol

from nanotok_ray.formats.paths import path_inside
from nanotok_ray.sources.quarantine import entry_of
from nanotok_ray.storage import Folder, open_input

BLOCK_BYTES = 1 << 20
"""Read at a time: stays in a core's cache between hashing and the rest; a multiple of an id."""

MAX_LINE_BYTES = 16 << 20
"""Of a quarantine file; a line has a few hundred."""


class Use(Protocol):
    """What is done with the bytes of a file besides hashing."""

    def add(self, block: memoryview) -> None:
        """Take the next bytes; they change once this returns."""


class Kept:
    """Keeps all bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, block: memoryview) -> None:
        """Append."""
        self.data += block


class Lines:
    """Counts the entries of a quarantine file by the kind of their reason."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.num_bytes = 0
        """Bytes of the documents they stand for."""
        self.rest = b""
        self.problem: str | None = None
        """Of the first line that is no entry."""

    def add(self, block: memoryview) -> None:
        """Count the lines that end here."""
        if self.problem is not None:
            return
        *lines, self.rest = (self.rest + bytes(block)).split(b"\n")
        for line in lines:
            self._enter(line)
        if len(self.rest) > MAX_LINE_BYTES:
            self.problem = f"a line of more than {MAX_LINE_BYTES:,} bytes"

    def _enter(self, line: bytes) -> None:
        entry = entry_of(line)
        if entry is None:
            place = self.kinds.total() + 1
            self.problem = self.problem or f"line {place} is no quarantine entry"
            return
        self.kinds[entry.kind] += 1
        self.num_bytes += entry.bytes


def read_once(folder: Folder, name: str, *, most: int, use: Use) -> tuple[int, str]:
    """Give size and sha256 (hex) of a file; reading stops soon after `most` bytes.

    Raises:
        FileNotFoundError: there is none.
        CorruptOutputError: the name or a link leads out of the folder.
    """
    if folder.local_path(name) is not None:
        path_inside(Path(folder.url), name)
    digest, size = hashlib.sha256(), 0
    buffer = memoryview(bytearray(BLOCK_BYTES))
    with open_input(folder.join(name)) as file:
        while size <= most and (length := file.readinto(buffer)):  # type: ignore[attr-defined]
            block = buffer[:length]
            digest.update(block)
            use.add(block)
            size += length
    return size, digest.hexdigest()
