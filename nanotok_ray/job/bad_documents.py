"""The limits of bad documents: when a stage ends early, and the first one for the message."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

from nanotok_ray.errors import QuarantineLimitError
from nanotok_ray.formats import CountRecord, ShardRecord
from nanotok_ray.job.stage import TaskRules
from nanotok_ray.job.task import TaskResult
from nanotok_ray.job.work import AllBad
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.shards import Record
from nanotok_ray.sources import (
    BY_CHOICE,
    TAIL,
    FirstBad,
    Piece,
    QuarantineEntry,
    Slice,
    entry_of,
    format_first_bad,
    is_quarantine_file,
    locations_of,
    reason_of,
)
from nanotok_ray.storage import Folder
from nanotok_ray.units import quantity


def first_quarantined(
    folder: Folder,
    records: Iterable[tuple[Slice, Record[CountRecord] | Record[ShardRecord]]],
    *,
    tails: bool,
) -> FirstBad | None:
    """Return the first document that was quarantined by no rule of the recipe, or the first tail.

    Args:
        folder: The folder of the quarantine files: the output or work folder.
        records: The records of the slices, in the order of the plan.
        tails: Whether to return only tails.
    """
    for slice_, record in records:
        kinds = record.value.quarantined.keys()
        if (TAIL in kinds) if tails else (kinds - BY_CHOICE):
            for file in record.value.files:
                if is_quarantine_file(file.name):
                    first = first_listed(folder, file.name, slice_, tails=tails)
                    if first is not None:
                        return first
    return None


def first_listed(
    folder: Folder, name: str, slice_: Slice, *, tails: bool = False
) -> FirstBad | None:
    """Return the first such entry of one quarantine file of a slice."""
    for entry in _entries(folder, name):
        if entry.kind == TAIL if tails else entry.kind not in BY_CHOICE:
            (location,) = locations_of([entry], slice_.pieces)
            dialect = next((file.dialect for file in slice_.files if file.path == entry.file), None)
            read_as = f", read as {dialect}" if dialect and not tails else ""
            return FirstBad(
                location=f"source {entry.source!r}, {location}{read_as}",
                reason=reason_of(entry),
                listed=folder.join(name),
            )
    return None


def _entries(folder: Folder, name: str) -> Iterator[QuarantineEntry]:
    with folder.open(name) as file:
        yield from filter(None, map(entry_of, file))


MIN_BAD: Final = 10_000
"""The minimum number of documents, all bad, after which a stage can end early."""

_MIN_BYTES: Final = {"jsonl": 64, "lines": 8}
"""Lower bound of the average bytes of a document on a line, far below that of real text."""


def give_up_after(limits: LimitsRecipe, slices: Iterable[Slice]) -> int | None:
    """Return the number of documents, all bad, after which the limits are exceeded; None: none.

    Let R be rows, G the most lines that can be documents, s the share that may be bad. A result of
    T documents within the limit has at most s * T bad lines, so T <= R + G + s * T.
    """
    allowed = [] if limits.max_quarantined is None else [limits.max_quarantined]
    share = limits.max_quarantined_share
    slices = list(slices)
    if any(slice_.transform is not None for slice_ in slices):
        return None  # a function can make several documents of one
    if share < 1:
        good = sum(_max_documents(piece) for slice_ in slices for piece in slice_.pieces)
        allowed.append(ceil(share * good / (1 - share)))
    return max(MIN_BAD, min(allowed) + 1) if allowed else None


def _max_documents(piece: Piece) -> int:
    """Return the maximum number of documents of a piece, without bad lines."""
    if piece.file.format == "parquet":
        return sum(group.rows for group in piece.file.layout[piece.start : piece.stop])
    if piece.file.format == "document":
        return 1
    return piece.num_bytes // _MIN_BYTES[piece.file.format] + 1


def slice_rules(
    stage: str, folder: Folder, limits: LimitsRecipe, *, after: int | None, skipped: int = 0
) -> TaskRules:
    """Return the rules of a stage that reads slices.

    Args:
        stage: The name of the stage.
        folder: The folder of the quarantine files.
        limits: The limits of the recipe.
        after: The result of `give_up_after`.
        skipped: The number of slices that were skipped before.
    """
    return TaskRules(
        on_result=_GivingUp(stage, folder, limits, after),
        max_skipped=limits.max_skipped_slices - skipped,
        deadline=limits.slice_deadline,
    )


@dataclass(slots=True)
class _GivingUp:
    """The handler of results that ends a stage if all of many documents are bad."""

    stage: str
    folder: Folder
    limits: LimitsRecipe
    after: int | None
    _documents: int = 0
    _slices: int = 0

    def __call__(self, ended: TaskResult) -> int:
        """Return the bytes of a slice that succeeded.

        Raises:
            QuarantineLimitError: The limits are exceeded.
        """
        result = ended.result
        if not isinstance(result, AllBad):
            return result or 0
        self._documents += result.documents
        self._slices += 1
        if self.after is not None and self._documents >= self.after:
            first = first_listed(self.folder, result.listed, ended.task.argument.slice)
            raise QuarantineLimitError(
                f"{self._limit_message()}; {format_first_bad(first, where=self.folder.url)}"
            )
        return 0

    def _limit_message(self) -> str:
        limit = self.limits.max_quarantined
        number = "" if limit is None else f" or limits.max_quarantined = {limit}"
        return (
            f"{self.stage} stopped early: all {self._documents:,} documents that were read of "
            f"{quantity(self._slices, 'slice')} were quarantined, more "
            f"than limits.max_quarantined_share = {self.limits.max_quarantined_share}{number} "
            "allows of the whole input"
        )
