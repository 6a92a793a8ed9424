"""The first document that could not be used, told to whoever must mend the input.

Takes slices and their records; reads one quarantine file. Does not know which limits there are.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from nanotok_ray.output import Expected, Record
from nanotok_ray.plan import Slice
from nanotok_ray.quarantine import DROPPED, QUARANTINE, SKIPPED, QuarantineEntry, entry_of
from nanotok_ray.storage import Folder

_BY_CHOICE: Final = {DROPPED, SKIPPED}
_START_BYTES = 1 << 20


def first_refused(out: Folder, expected: Sequence[Expected], records: Sequence[Record]) -> str:
    """Name the first document that was quarantined though no rule asked for it.

    Returns:
        Its place, dialect and reason; empty if it is not found.
    """
    for each, record in zip(expected, records, strict=True):
        if record.values["quarantined"].keys() - _BY_CHOICE:
            for entry in _first_entries(out, record):
                if entry.kind not in _BY_CHOICE:
                    return _told(entry, each.slice)
    return ""


def _first_entries(out: Folder, record: Record) -> Iterator[QuarantineEntry]:
    for file in record.values["files"]:
        if file["name"].startswith(QUARANTINE):
            *lines, _ = out.read_start(file["name"], _START_BYTES).split(b"\n")
            yield from filter(None, map(entry_of, lines))


def _told(entry: QuarantineEntry, own: Slice) -> str:
    piece = next((each for each in own.pieces if each.path == entry.file), own.pieces[0])
    unit = "row" if piece.format == "parquet" else "byte"
    read_as = f", read as {piece.dialect}" if piece.dialect else ""
    return (
        f"the first is {entry.file} of {entry.source}, {unit} {entry.position}{read_as}: "
        f"{entry.reason}"
    )
