"""Merging and summing the count files of a simulated job: the tasks that the code itself plans.

The plan is that of `nanotok_ray/job/reducing.py` for records of made-up sizes, which follow from
the slices and from how distinct spans grow with text. Seconds of a task follow from measured rates.
"""

import random
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from nanotok_ray.counts import Weights
from nanotok_ray.formats import CountFlow, CountRecord, SliceName, StoredFile, key_of
from nanotok_ray.job.counting import CountedSlices
from nanotok_ray.job.reducing import WeightedCounts, merge_items, reduce_items
from nanotok_ray.job.runner import run_tasks
from nanotok_ray.job.task import Task
from nanotok_ray.job.work import MergeWork, ReduceWork
from nanotok_ray.shards import Record
from simulated_cluster import SimulatedCluster
from simulated_driver import TimedCalls
from simulated_scenarios import Scenario
from simulated_slices import Slice, tasks_of

ROWS = 5.4e6
"""Rows of count files that one core adds up in a second."""

JOINED = 10e6
"""Sums of parts that the driver reads in a second."""

OPEN_SECONDS = 0.005
"""What a task takes to open one count file: 1.3 ms were measured on a disk."""

ROW_BYTES = 15
"""Of a count file, for each of its distinct spans."""

GROWTH = 0.55
"""Distinct spans grow with this power of the text (docs/sizing.md)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReduceFigures:
    """What one scenario gave. Seconds are virtual."""

    scenario: str
    slices: int
    cpus: int
    files: int
    """Count files that are summed: of slices, or of groups of them."""
    merge_seconds: float
    parts: int
    reduce_seconds: float
    """Of the tasks of all parts."""
    join_seconds: float
    """Of the driver, which reads the sums of the parts."""
    one_thread_seconds: float
    """Of a driver that sums the same files by itself."""
    plan_bytes: int
    """The most memory that planning and running the tasks take of the driver's own code."""

    def as_row(self) -> dict[str, Any]:
        """Return them for JSON."""
        return asdict(self)


def run_reduce(scenario: Scenario) -> ReduceFigures:
    """Plan and run the tasks between counting and learning."""
    sizes = [task.num_bytes for task in _slices(scenario)]
    counted = _counted([_distinct(size) * ROW_BYTES for size in sizes])
    own = tracemalloc.Filter(inclusive=True, filename_pattern="*/nanotok_ray/job/*")
    held: list[int] = []

    def look() -> None:
        if len(held) < MAX_LOOKS:
            taken = tracemalloc.take_snapshot().filter_traces([own])
            held.append(sum(each.size for each in taken.statistics("filename")))

    tracemalloc.start()
    try:
        groups = merge_items("/work", counted)
        merged = _times(groups, sizes)
        merge_seconds = _run(scenario, groups, merged, look)
        rows = _rows(groups, sizes)
        items = reduce_items(_summed(counted, groups))
        share = sum(rows) / max(1, len(items)) / ROWS + len(rows) * OPEN_SECONDS
        held.clear()
        reduce_seconds = _run(scenario, items, [share] * len(items), look)
    finally:
        tracemalloc.stop()
    return ReduceFigures(
        scenario=scenario.name,
        slices=scenario.slices,
        cpus=scenario.cpus,
        files=len(rows),
        merge_seconds=merge_seconds,
        parts=max(1, len(items)),
        reduce_seconds=reduce_seconds,
        join_seconds=_distinct(sum(sizes)) / JOINED if items else 0.0,
        one_thread_seconds=sum(rows) / ROWS + len(rows) * OPEN_SECONDS,
        plan_bytes=max(held, default=0),
    )


MAX_LOOKS = 3
"""Snapshots of memory: the first turns, when all is planned and in flight."""


def _slices(scenario: Scenario) -> list[Task]:
    return tasks_of(scenario.slices, scenario.faults, random.Random(f"slices {scenario.seed}"))


def _distinct(text_bytes: float) -> int:
    """Return the distinct spans of so much text: 1.3 million were counted in 334 MB."""
    return int(1.3e6 * (text_bytes / 334e6) ** GROWTH)


def _record(key: str, size: int) -> CountRecord:
    """Return the record of a count file of a size."""
    return CountRecord(
        stage="count",
        key=key,
        slice=SliceName(source="web", split="train", number=0),
        read=(),
        documents=CountFlow(in_=0, quarantined=0),
        quarantined={},
        **dict.fromkeys(("texts", "text_bytes", "code_points", "spans", "distinct_spans"), 0),
        gaps=0,
        files=(StoredFile(name=key, size=size, sha256=key),),
    )


def _counted(sizes: Sequence[int]) -> CountedSlices:
    """Return slices that were counted into files of these sizes."""
    keys = [key_of({"slice": number}) for number in range(len(sizes))]
    records = [
        Record(
            name=key,
            value=_record(key, size),
            sha256=key,
            num_bytes=0,
        )
        for key, size in zip(keys, sizes, strict=True)
    ]
    return CountedSlices(
        items=(),
        records=tuple(records),
        files=tuple(("web", f"counts/web/{key[:16]}.arrow") for key in keys),
        keys=tuple(keys),
    )


def _summed(counted: CountedSlices, groups: Sequence[MergeWork]) -> WeightedCounts:
    """Return what is summed: the files of the groups, if there are any."""
    if groups:
        counted = replace(
            counted,
            files=tuple((group.source, f"{group.name}.arrow") for group in groups),
            keys=tuple(group.key for group in groups),
        )
    weights = Weights(unit=1, multipliers={"web": 1})
    return WeightedCounts(counted=counted, weights=weights, min_count=1, work="/work")


def _rows(groups: Sequence[MergeWork], sizes: Sequence[int]) -> list[int]:
    """Return the rows of every file that is summed."""
    return [_distinct(sum(members)) for members in _members(groups, sizes)]


def _times(groups: Sequence[MergeWork], sizes: Sequence[int]) -> list[float]:
    """Return what merging each group takes."""
    return [
        sum(map(_distinct, members)) / ROWS + len(members) * OPEN_SECONDS
        for members in _members(groups, sizes)
    ]


def _members(groups: Sequence[MergeWork], sizes: Sequence[int]) -> list[Sequence[int]]:
    """Return the bytes of text of the slices behind every file."""
    if not groups:
        return [[size] for size in sizes]
    ends = [0]
    for group in groups:
        ends.append(ends[-1] + len(group.files))
    return [sizes[first:end] for first, end in pairwise(ends)]


def _run(
    scenario: Scenario,
    items: Sequence[MergeWork | ReduceWork],
    seconds: Sequence[float],
    on_wait: Callable[[], None],
) -> float:
    """Run tasks on a new cluster; return when the last has ended."""
    if not items:
        return 0.0
    faults = replace(scenario.faults, poison=0, hungry_bytes=None)
    cluster = SimulatedCluster(
        faults, nodes=scenario.nodes, first_nodes=scenario.first_nodes, seed=scenario.seed
    )
    tasks = [
        Task(
            name=work.name,
            work=len,
            argument=Slice(number, took, False, 0),
            num_bytes=work.num_bytes,
        )
        for number, (work, took) in enumerate(zip(items, seconds, strict=True))
    ]
    calls = TimedCalls(cluster, on_wait)
    failed = [each for each in run_tasks(tasks, pool_of=lambda _: calls) if each.error]
    assert not failed, failed[0].error
    return cluster.now()
