"""Quarantine: what could not be used, one JSON line each.

Takes entries; gives the bytes of a quarantine file, and back. Does not know how documents are read
or how many may be quarantined.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from nanotok_ray.errors import CorruptOutputError, QuarantineLimitError
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.storage import Folder

TAIL = "tail"
"""Reason of the one entry that stands for rows that could not be enumerated."""
SKIPPED = "skipped"
"""Reason of the one entry for each piece of a slice that could not be done at all, where the recipe
allows it; it does not count towards the limits either."""
DROPPED = "dropped"
"""Reason of a document that the user's own rule left out; it does not count towards the limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantineEntry:
    """One document, or one tail, that is not in the output.

    >>> entry = QuarantineEntry(
    ...     source="web", file="a.jsonl", row=3, position=120, reason="invalid JSON", hash64=None
    ... )
    >>> entry.to_json()
    '{"file":"a.jsonl","hash64":null,"position":120,"reason":"invalid JSON","row":3,"source":"web"}'
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


def from_json_lines(data: bytes, *, name: str) -> list[QuarantineEntry]:
    """Read a quarantine file; `name` is what errors call it.

    Raises:
        CorruptOutputError: a line is not an entry.
    """
    entries = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            entries.append(QuarantineEntry(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise CorruptOutputError(f"{name}, line {number} is no quarantine entry") from error
    return entries


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
        QuarantineLimitError: more tails, or a larger share of the documents, than is allowed.
    """
    counted = sum(number for kind, number in quarantined.items() if kind not in {DROPPED, SKIPPED})
    reasons = ", ".join(f"{kind} ({number:,})" for kind, number in quarantined.items())
    tails = quarantined.get(TAIL, 0)
    if tails > limits.max_tails:
        raise QuarantineLimitError(
            f"the rest of {tails:,} files could not be read, limits.max_tails = "
            f"{limits.max_tails}; mend the files listed in {where}, or raise the limit"
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
    with folder.create(name) as file:
        for entry in entries:
            file.write(f"{entry.to_json()}\n".encode())
    return file.size, file.sha256
