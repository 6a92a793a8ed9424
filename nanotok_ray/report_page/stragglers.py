"""Stragglers: the slices that took longest for their size, against the median of their stage.

Takes a journal; gives a table. Small slices, whose time is mostly that of their start, are left
out.
"""

from collections.abc import Sequence
from statistics import median

from nanotok_ray.job.journal import JournalledSlice, RunJournal
from nanotok_ray.report_page import numbers
from nanotok_ray.report_page.markup import code, heading, note, shown, table

SHOWN = 10
_SMALL = 0.25
"""Of the median size of its stage: a slice that is smaller is left out."""

_LEAST = 3
"""Slices of a stage: fewer have no median worth the name."""


def stragglers(journal: RunJournal) -> str:
    """Give the table; nothing if no stage has slices enough."""
    found = slowest(journal.slices)
    if not found:
        return ""
    rows = [
        (
            code(numbers.slice_name(own.name, own.stage), 120),
            shown(own.stage, 60),
            code(own.worker, 80),
            numbers.seconds(own.seconds),
            numbers.num_bytes(own.num_bytes),
            numbers.rate(own.num_bytes, own.seconds),
            f"{times:.2f}\u00d7",
            f"{own.attempts:,}",
        )
        for times, own in found
    ]
    heads = ("slice", "stage", "worker", "time", "text", "rate", "of the median", "attempts")
    told = (
        "Seconds per byte against the median of the stage, of slices that have at least a quarter "
        "of the median size."
    )
    return f"{heading('Slowest slices')}{table(heads, rows, texts=3)}{note(told)}"


def slowest(slices: Sequence[JournalledSlice]) -> list[tuple[float, JournalledSlice]]:
    """Give the slowest for their size, each with how many times the median of its stage it took."""
    ended = [own for own in slices if own.error is None and own.num_bytes > 0 and own.seconds > 0]
    by_stage: dict[str, list[JournalledSlice]] = {}
    for own in ended:
        by_stage.setdefault(own.stage, []).append(own)
    found: list[tuple[float, JournalledSlice]] = []
    for group in by_stage.values():
        least = _SMALL * median(own.num_bytes for own in group)
        large = [own for own in group if own.num_bytes >= least]
        if len(large) < _LEAST:
            continue
        usual = median(own.seconds / own.num_bytes for own in large)
        found += [(own.seconds / own.num_bytes / usual, own) for own in large]
    return sorted(found, key=lambda each: (-each[0], each[1].stage, each[1].name))[:SHOWN]
