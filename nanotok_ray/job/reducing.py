"""The stages between counting and learning: merging many count files, and summing large ones.

Tasks of both stages write files with records to the work folder, so that a repeated run reuses
them. Neither stage changes a sum.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from nanotok_ray.counts import (
    CountPart,
    HashPart,
    OnRead,
    PartSettings,
    PartSums,
    SpanSums,
    Weights,
    merge_groups,
    part_key,
    reduce_counts,
)
from nanotok_ray.errors import CorruptOutputError, CountOverflowError, CountsError, PlanError
from nanotok_ray.formats import CountRecord, MergeRecord, SumRecord
from nanotok_ray.job.counting import (
    CountedSlices,
    CountProgress,
    Training,
    counted_sources,
    counts_results,
    counts_stage,
    training_of,
)
from nanotok_ray.job.events import Note, OnEvent
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.frozen_plan import plan_for
from nanotok_ray.job.stage import ENDS_STAGE, TaskRules, complete
from nanotok_ray.job.work import CountsWork, MergeWork, ReduceWork, merge_work, reduce_work
from nanotok_ray.recipe import Recipe
from nanotok_ray.shards import Record, is_unchanged, read_record
from nanotok_ray.storage import Folder

if TYPE_CHECKING:
    from typing_extensions import Self


SIGNS_OF_DAMAGE = (CorruptOutputError, CountsError, CountOverflowError)
"""Errors that a damaged count file can cause, so that the files are compared with their records."""

_RULES = TaskRules(fatal=(*ENDS_STAGE, *SIGNS_OF_DAMAGE))

MERGE_ABOVE = 2048
"""The maximum number of count files that are summed without merging them first."""


def merge_first(work: str, counted: CountedSlices, runtime: Runtime) -> CountedSlices:
    """Merge the count files if there are more than `MERGE_ABOVE`; requires a session.

    Args:
        work: URL of the work folder.
        counted: The slices, their records, and the files.
        runtime: the executor, and the listener of the events of the stage `merge`.

    Raises:
        SliceError: a group could not be merged.
    """
    items = merge_items(work, counted)
    if items:
        complete(counts_stage("merge", items, MergeRecord, merge_work, rules=_RULES), runtime)
    return _merged(counted, items)


def _merged(counted: CountedSlices, items: Sequence[MergeWork]) -> CountedSlices:
    """Return the counts with the files of the groups, if any, instead of those of the slices."""
    if not items:
        return counted
    return replace(
        counted,
        files=tuple((group.source, f"{group.name}.arrow") for group in items),
        keys=tuple(group.key for group in items),
    )


def merge_items(work: str, counted: CountedSlices) -> list[MergeWork]:
    """Return the groups of files to merge, none if there are at most `MERGE_ABOVE` files."""
    if len(counted.files) <= MERGE_ABOVE:
        return []
    items: list[MergeWork] = []
    named = zip(counted.files, counted.records, strict=True)
    for source, group in groupby(named, key=lambda item: item[0][0]):
        members = [(name, record) for (_, name), record in group]
        for first, end in merge_groups([record.value.key for _, record in members]):
            records = [record for _, record in members[first:end]]
            items.append(
                MergeWork(
                    source=source,
                    files=tuple(name for name, _ in members[first:end]),
                    keys=tuple(record.value.key for record in records),
                    num_bytes=sum(record.value.files[0].size for record in records),
                    work=work,
                )
            )
    return items


PART_BYTES = 256 << 20
"""Bytes of count files per part; they take a few times as much memory."""

MAX_PARTS = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedCounts:
    """The count files, the weights of their sources, and the files of the sums."""

    counted: CountedSlices
    weights: Weights
    min_count: int
    work: str
    """URL of the work folder."""
    parts: tuple[Record[SumRecord], ...] = ()
    """The records of the summed parts; none if the count files are small."""

    @classmethod
    def of(cls, training: Training, counted: CountedSlices) -> "Self":
        """Create the value with the weights of the sources.

        Raises:
            SourceError: A source with a share has no text.
        """
        text_bytes = counted.by_source("text_bytes")
        return cls(
            counted=counted,
            weights=Weights.of(counted_sources(training.recipe), text_bytes=text_bytes),
            min_count=training.recipe.tokenizer.min_count,
            work=training.recipe.output.work,
        )

    @property
    def num_bytes(self) -> int:
        """Bytes of the count files of all slices."""
        return sum(record.value.files[0].size for record in self.counted.records)

    def reduced(self, on_progress: OnRead | None = None) -> SpanSums | PartSums:
        """Return the sums of all files.

        Raises:
            CorruptOutputError: A file is damaged, or the sums differ from the records.
            CountOverflowError: A sum exceeds 2**64 - 1.
        """
        folder = Folder(self.work)
        if self.parts:
            reduced: SpanSums | PartSums = PartSums(
                folder=folder, records=[part.value for part in self.parts]
            )
        else:
            files = [
                CountPart(url=folder.join(name), weight=self.weights.multipliers[source])
                for source, name in self.counted.files
            ]
            reduced = reduce_counts(files, min_count=self.min_count, on_progress=on_progress)
        actual, expected = reduced.totals.spans, self.counted.sum("spans")
        if actual != expected:
            raise CorruptOutputError(
                f"the count files in {folder.join('counts')} hold {actual:,} spans, their records "
                f"say {expected:,}: remove the folder and run the job again"
            )
        return reduced


def sum_parts(summed: WeightedCounts, runtime: Runtime) -> WeightedCounts:
    """Sum the parts as tasks if the count files are large; requires a session.

    Raises:
        SliceError: A part could not be summed.
    """
    items = reduce_items(summed)
    if not items:
        return summed
    stage = counts_stage("reduce", items, SumRecord, reduce_work, rules=_RULES)
    return replace(
        summed, parts=tuple(record for _, record in complete(stage, runtime).stored.done)
    )


def reduce_items(summed: WeightedCounts) -> list[ReduceWork]:
    """Return the parts to sum, none if the count files are small.

    The number of parts is a power of two that depends only on the size of the files. Runs on other
    machines therefore write and reuse the same files.
    """
    num_parts = min(MAX_PARTS, 1 << ((summed.num_bytes - 1) // PART_BYTES).bit_length())
    if num_parts == 1:
        return []
    names = tuple(name for _, name in summed.counted.files)
    weights = tuple(summed.weights.multipliers[source] for source, _ in summed.counted.files)
    keys = list(zip(summed.counted.keys, weights, strict=True))
    items = []
    for number in range(num_parts):
        settings = PartSettings(
            min_count=summed.min_count,
            part=HashPart(number=number, num_parts=num_parts),
        )
        items.append(
            ReduceWork(
                files=names,
                weights=weights,
                settings=settings,
                key=part_key(keys, settings),
                num_bytes=summed.num_bytes // num_parts,
                work=summed.work,
            )
        )
    return items


def remove_damaged_sums(training: Training, counted: CountedSlices, *, on_event: OnEvent) -> bool:
    """Remove the records of damaged count files, and of the sums that were made from any of them.

    Return whether a record was removed, so that the sum can be tried again.
    """
    folder = Folder(training.recipe.output.work)
    items = _later_items(training, counted)
    later = [record for work in items if (record := _record_of(work, folder)) is not None]
    records: list[Record[Any]] = [*counted.records, *later]
    files = [record.value.files[0] for record in records]
    with ThreadPoolExecutor() as pool:
        are_unchanged = list(pool.map(partial(is_unchanged, folder), files))
    names = {record.name for record in later}
    for record, file, is_same in zip(records, files, are_unchanged, strict=True):
        if not is_same:
            names.add(record.name)
            text = f"{folder.join(file.name)} is damaged, its sha256 is not that of its record"
            on_event(Note(text=f"{text}; it is made again"))
    for name in sorted(names):
        folder.remove(name)
    return bool(names)


def _record_of(work: MergeWork | ReduceWork, folder: Folder) -> Record[Any] | None:
    kind = MergeRecord if isinstance(work, MergeWork) else SumRecord
    try:
        return read_record(folder, work.record_name, kind)
    except CorruptOutputError:
        folder.remove(work.record_name)
        return None


def _later_items(training: Training, counted: CountedSlices) -> list[MergeWork | ReduceWork]:
    """Return the merges and the sums of counts."""
    groups = merge_items(training.recipe.output.work, counted)
    summed = WeightedCounts.of(training, _merged(counted, groups))
    return [*groups, *reduce_items(summed)]


def names_in_use(recipe: Recipe) -> frozenset[str]:
    """Return the names of the count files that `prepare` would use, whether they exist or not.

    Raises:
        SourceError, PlanError: The plan cannot be made, none of its slices is counted, or
            duplicates must be found first.
    """
    plan = plan_for(recipe, Folder(recipe.output.path), with_sample=False)
    if plan.is_pending:
        raise PlanError(
            "the duplicates among the current inputs are not known, so it is not known which "
            "counts are used; run the job first"
        )
    training = training_of(recipe, plan)
    progress = CountProgress.of(training)
    items: list[CountsWork] = [*progress.stored.items]
    if not progress.missing():
        selected = progress.selected()
        items += selected
        stored = counts_results(selected, CountRecord).find() if selected else progress.stored
        if not stored.missing:
            progress.add(stored)
            items += _later_items(training, progress.counted(selected))
    return frozenset(work.name for work in items)
