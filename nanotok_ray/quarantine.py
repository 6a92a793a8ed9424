"""Quarantine: what could not be used, one JSON line each.

Takes entries; gives the bytes of a quarantine file, and back. Does not know how documents are read
or how many may be quarantined.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from nanotok_ray.errors import QuarantineLimitError
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.storage import Folder

QUARANTINE = "quarantine/"
"""Where quarantine files lie in the output folder."""

TAIL = "tail"
"""Reason of the one entry that stands for rows that could not be enumerated."""
SKIPPED = "skipped"
"""Reason of the one entry for each piece of a slice that could not be done at all, where the recipe
allows it; it does not count towards the limits either."""
DROPPED = "dropped"
"""Reason of a document that the user's own rule left out; it does not count towards the limit."""

MAX_ID_CHARS = 1000
"""As much of a document's id is in its entry, which is a line that people read."""

_NUMBER_END = 1 << 64
_HASH = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantineEntry:
    """One document, or one tail, that is not in the output.

    >>> entry = QuarantineEntry(
    ...     source="web", file="a", row=3, position=120, reason="invalid JSON", hash64=None, bytes=7
    ... )
    >>> entry.to_json()[:61]
    '{"bytes":7,"file":"a","hash64":null,"id":null,"position":120,'
    """

    source: str
    file: str
    """Path relative to its source."""
    row: int
    """Parquet: row in the file. Line formats: number of the document in the range that was read."""
    position: int
    """Parquet: row in the file. Line formats: byte in the decoded file. A document: 0."""
    reason: str
    """The kind of the reason, and after a colon what is particular to this document."""
    hash64: str | None
    """The document's hash64 in 16 hex digits; None where there are no bytes to hash."""
    bytes: int
    """Bytes of the document; of a tail, and of a compressed file too large to decode, as stored."""
    id: str | None = None
    """What its source's `id_column` says, the first 1,000 characters; None where there is none, or
    it is not known."""

    @property
    def kind(self) -> str:
        """The part of the reason before the colon."""
        return self.reason.partition(":")[0]

    def to_json(self) -> str:
        """Give the entry as one line of JSON with sorted keys, without the line break."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def to_json_lines(entries: Iterable[QuarantineEntry]) -> bytes:
    """Give the bytes of a quarantine file: one entry a line, in the order given."""
    return b"".join(f"{entry.to_json()}\n".encode() for entry in entries)


def entry_of(line: bytes) -> QuarantineEntry | None:
    """Read a line of a quarantine file, whoever wrote it; None if it is no entry.

    >>> entry_of(b'{"row": 3}') is None
    True
    """
    try:
        return _entry(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None


def _entry(values: object) -> QuarantineEntry:
    """Check every value.

    Raises:
        TypeError, ValueError: it is no entry.
    """
    if not isinstance(values, dict):
        raise TypeError
    entry = QuarantineEntry(**values)
    texts = (entry.source, entry.file, entry.reason, entry.hash64 or "", entry.id or "")
    numbers = (entry.row, entry.position, entry.bytes)
    if not all(isinstance(text, str) for text in texts) or not all(
        type(number) is int and 0 <= number < _NUMBER_END for number in numbers
    ):
        raise TypeError
    if entry.hash64 is not None and not _HASH.fullmatch(entry.hash64):
        raise ValueError
    return entry


def check_limits(
    *, documents: int, quarantined: Mapping[str, int], limits: LimitsRecipe, where: str
) -> None:
    """Refuse a result from which too much is missing.

    Args:
        documents: how many came in, quarantined ones included.
        quarantined: how many for each kind of reason.
        limits: what the recipe allows.
        where: folder of the quarantine files, for the message.

    Raises:
        QuarantineLimitError: more tails, more documents, or a larger share of them, than is
            allowed.
    """
    counted = sum(number for kind, number in quarantined.items() if kind not in {DROPPED, SKIPPED})
    reasons = ", ".join(f"{kind} ({number:,})" for kind, number in quarantined.items())
    tails = quarantined.get(TAIL, 0)
    if tails > limits.max_tails:
        raise QuarantineLimitError(
            f"the rest of {tails:,} files could not be read, limits.max_tails = "
            f"{limits.max_tails}; mend the files listed in {where}, or raise the limit"
        )
    if limits.max_quarantined is not None and counted > limits.max_quarantined:
        raise QuarantineLimitError(
            f"{counted:,} of {documents:,} documents were quarantined, limits.max_quarantined = "
            f"{limits.max_quarantined}: {reasons}; see {where}, mend the input or raise the limit"
        )
    if counted > limits.max_quarantined_share * documents:
        raise QuarantineLimitError(
            f"{counted:,} of {documents:,} documents were quarantined, more than "
            f"limits.max_quarantined_share = {limits.max_quarantined_share}: {reasons}; "
            f"see {where}, mend the input or raise the limit"
        )


def write_quarantine(
    folder: Folder, entries: Iterable[QuarantineEntry], *, name: str
) -> tuple[int, str]:
    """Publish a quarantine file, and give its size and sha256."""
    with folder.create_once(name) as file:
        for entry in entries:
            file.write(f"{entry.to_json()}\n".encode())
    return file.size, file.sha256
