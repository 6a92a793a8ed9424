"""The first document that could not be used, told to whoever must correct the input.

Takes slices and their records; reads quarantine files up to it, and its input file. Does not know
which limits there are.
"""

from collections.abc import Iterable, Iterator

from nanotok_ray.shards.output import Record
from nanotok_ray.sources import Slice
from nanotok_ray.sources.quarantine import (
    BY_CHOICE,
    TAIL,
    FirstBad,
    QuarantineEntry,
    entry_of,
    is_quarantine_file,
    places_of,
    reason_of,
)
from nanotok_ray.storage import Folder, open_input


def first_refused(
    folder: Folder, records: Iterable[tuple[Slice, Record]], *, tails: bool
) -> FirstBad | None:
    """Return the first document that was quarantined though no rule asked for it, or first tail.

    Args:
        folder: where the quarantine files are: the output or work folder.
        records: the records of the slices, in the order of the plan.
        tails: whether only tails are meant.
    """
    for own, record in records:
        kinds = record.values["quarantined"].keys()
        if (TAIL in kinds) if tails else (kinds - BY_CHOICE):
            for file in record.values["files"]:
                if is_quarantine_file(file["name"]):
                    found = first_listed(folder, file["name"], own, tails=tails)
                    if found is not None:
                        return found
    return None


def first_listed(folder: Folder, name: str, own: Slice, *, tails: bool = False) -> FirstBad | None:
    """Return the first such entry of one quarantine file of a slice."""
    for entry in _entries(folder.join(name)):
        if entry.kind == TAIL if tails else entry.kind not in BY_CHOICE:
            (place,) = places_of([entry], own.pieces)
            dialect = next((each.dialect for each in own.pieces if each.path == entry.file), None)
            read_as = f", read as {dialect}" if dialect and not tails else ""
            return FirstBad(
                place=f"source {entry.source!r}, {place}{read_as}",
                reason=reason_of(entry),
                listed=folder.join(name),
            )
    return None


def _entries(url: str) -> Iterator[QuarantineEntry]:
    with open_input(url) as file:
        yield from filter(None, map(entry_of, file))
