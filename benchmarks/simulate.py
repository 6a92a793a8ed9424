"""The engine of every fan-out on simulated clusters of up to 6,400 CPUs, in virtual time.

    python benchmarks/simulate.py [--quick] [--save] [--seed N]

Takes a few minutes. Prints for each scenario the time over the ideal, idle and wasted CPU seconds,
additional attempts, and the driver's CPU time; the memory of the engine; and the tasks that the
code itself plans (`nanotok_ray/job/reducing.py`) to merge and sum the count files of such a job,
whose sizes follow from the slices and from how distinct spans grow with text. Figures of virtual
time depend on the scenario alone; CPU time and memory on this machine. docs/sizing.md lists what
the simulation does not model.
"""

import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from frame import Figures, finish, parser, peak, reset_peak, run, show
from nanotok_ray.counts import Weights
from nanotok_ray.formats import CountFlow, CountRecord, SliceName, StoredFile, key_of
from nanotok_ray.job.counting import CountedSlices
from nanotok_ray.job.reducing import WeightedCounts, merge_items, reduce_items
from nanotok_ray.job.runner import run_tasks
from nanotok_ray.job.task import RetryPolicy, Task, TaskResult
from nanotok_ray.job.work import MergeWork, ReduceWork
from nanotok_ray.shards import Record
from simulated import (
    ALL,
    CALM,
    NODE_CPUS,
    STORM,
    STRAGGLERS,
    Faults,
    SimulatedCluster,
    Slice,
    ideal_seconds,
    tasks_of,
)

WEATHERS: Mapping[str, Faults] = {
    "calm": CALM,
    "stragglers": STRAGGLERS,
    "spot storm": STORM,
    "all": ALL,
}
SIZES = ((10_000, 96), (50_000, 1_600), (200_000, 6_400))
QUICK_SIZES = ((1_000, 96), (3_000, 320))
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
REDUCED = ("calm", "all")
"""Conditions for which the sum of counts is simulated too."""
MAX_LOOKS = 3
"""Snapshots of memory: the first turns, when the window is full and other slices still wait."""


def main() -> None:
    """Run all scenarios."""
    command = parser(__doc__, seed=0)
    command.add_argument("--quick", action="store_true", help="small scenarios, in seconds")
    options = command.parse_args()
    chosen = scenarios(quick=options.quick, seed=options.seed)
    before = reset_peak()
    rows = [show("run", simulate(scenario).as_row()) for scenario in chosen]
    row = {"seed": options.seed, "quick": options.quick, "rows": rows}
    row |= show("memory", {"peak_bytes": peak() - before, "baseline_bytes": before})
    row |= show("engine", memory(max(chosen, key=lambda each: each.slices * each.cpus)))
    reduced = [run_reduce(scenario) for scenario in chosen if scenario.weather in REDUCED]
    row["reduces"] = [show("sum", asdict(each)) for each in reduced]
    finish("simulate", ["simulated"], row, save=options.save)


@contextmanager
def traced(held: list[int]) -> Iterator[Callable[[], None]]:
    """Trace memory; the function appends the bytes that the engine's own code holds."""
    own = tracemalloc.Filter(inclusive=True, filename_pattern="*/nanotok_ray/job/*")

    def look() -> None:
        if len(held) < MAX_LOOKS:
            taken = tracemalloc.take_snapshot().filter_traces([own])
            held.append(sum(each.size for each in taken.statistics("filename")))

    tracemalloc.start()
    try:
        yield look
    finally:
        tracemalloc.stop()


def memory(scenario: "Scenario") -> Figures:
    """Return the highest memory of the driver's own code, in total and per slice."""
    held: list[int] = []
    with traced(held) as look:

        def look_first() -> None:
            if tracemalloc.is_tracing():
                look()
            if len(held) == MAX_LOOKS:
                tracemalloc.stop()  # tracing the whole run would take minutes

        simulate(scenario, on_wait=look_first)
    return {"driver_bytes": max(held), "driver_bytes_per_slice": max(held) / scenario.slices}


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """One run of the engine."""

    weather: str
    slices: int
    cpus: int
    first_cpus: int | None = None
    """CPUs at the start, where others come as the autoscaler sees calls wait; None: all of them."""
    seed: int = 0

    @property
    def faults(self) -> Faults:
        """What goes wrong."""
        return WEATHERS[self.weather]

    @property
    def nodes(self) -> int:
        """Nodes at most."""
        return self.cpus // NODE_CPUS

    @property
    def first_nodes(self) -> int:
        """Nodes at the start."""
        return (self.cpus if self.first_cpus is None else self.first_cpus) // NODE_CPUS

    @property
    def name(self) -> str:
        """What a person reads."""
        return (
            self.weather
            if self.first_cpus is None
            else f"{self.weather}, from {self.first_cpus} CPUs"
        )


def scenarios(*, quick: bool, seed: int) -> list[Scenario]:
    """Return all of them, small ones alone if it is to be quick."""
    sizes = QUICK_SIZES if quick else SIZES
    own = [
        Scenario(weather=weather, slices=slices, cpus=cpus, seed=seed)
        for slices, cpus in sizes
        for weather in WEATHERS
    ]
    slices, cpus = sizes[-1]
    own += [
        Scenario(weather=weather, slices=slices, cpus=cpus, first_cpus=NODE_CPUS, seed=seed)
        for weather in ("calm", "all")
    ]
    if not quick:
        own.append(Scenario(weather="all", slices=200_000, cpus=96, seed=seed))
        own.append(Scenario(weather="all", slices=10_000, cpus=6_400, seed=seed))
    return own


class TimedCalls:
    """A simulated cluster that measures its own CPU seconds, which are not the driver's."""

    def __init__(self, cluster: SimulatedCluster, on_wait: Callable[[], None]) -> None:
        self.own_seconds = 0.0
        self._on_wait = on_wait
        self.now = cluster.now
        for name in ("sleep", "resources", "free_cpus", "submit", "wait", "result", "cancel"):
            setattr(self, name, self._timed(name, getattr(cluster, name)))

    def _timed(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            start = time.thread_time()
            if name == "wait":
                self._on_wait()
            result = method(*arguments, **named)
            self.own_seconds += time.thread_time() - start
            return result

        return call


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFigures:
    """What one scenario gave. Seconds are virtual unless they are of the driver."""

    scenario: str
    seed: int
    slices: int
    cpus: int
    calls: int
    turns: int
    """Of the engine's loop."""
    seconds: float
    ideal: float
    """All work over all CPUs, or the longest slice."""
    idle: float
    """Share of the CPU seconds that there were in which nothing ran."""
    wasted: float
    """Share of the CPU seconds in which something ran that did not count."""
    seconds_made: int
    """Second attempts beside the first."""
    seconds_helped: int
    """Those that ended a slice."""
    failed: int
    """Slices that failed for good."""
    poison: int
    nodes_lost: int
    driver_seconds: float
    """CPU time of the engine."""
    errors: tuple[str, ...]
    """Of slices that failed for good and are no poison."""

    @property
    def over_ideal(self) -> float:
        """Time it took over the ideal."""
        return self.seconds / self.ideal

    @property
    def driver_per_thousand(self) -> float:
        """CPU seconds of the driver for 1,000 slices."""
        return 1000 * self.driver_seconds / self.slices

    def as_row(self) -> dict[str, Any]:
        """Return them for JSON."""
        return asdict(self) | {"over_ideal": self.over_ideal}


def simulate(
    scenario: Scenario,
    retry_policy: RetryPolicy | None = None,
    on_wait: Callable[[], None] = lambda: None,
) -> RunFigures:
    """Run a scenario; AssertionError if a slice ended never or twice.

    `on_wait` is called when the engine waits; its time is not the driver's.
    """
    rng = random.Random(f"slices {scenario.seed}")
    tasks = tasks_of(scenario.slices, scenario.faults, rng)
    cluster = SimulatedCluster(
        scenario.faults,
        nodes=scenario.nodes,
        first_nodes=scenario.first_nodes,
        seed=scenario.seed,
    )
    calls: Any = TimedCalls(cluster, on_wait)
    start = time.thread_time()
    ended = list(run_tasks(tasks, retry_policy=retry_policy, pool_of=lambda _: calls))
    driver = time.thread_time() - start - calls.own_seconds
    return figures_of(scenario, tasks, ended, cluster, driver)


def figures_of(
    scenario: Scenario,
    tasks: list[Task],
    ended: list[TaskResult],
    cluster: SimulatedCluster,
    driver_seconds: float,
) -> RunFigures:
    """Sum up a run."""
    assert_once(tasks, ended)
    good = [each.result for each in ended if each.error is None]
    useful = sum(result.cpu_seconds for result in good)
    busy = cluster.busy_seconds
    failed = [each for each in ended if each.error is not None]
    return RunFigures(
        scenario=scenario.name,
        seed=scenario.seed,
        slices=scenario.slices,
        cpus=scenario.cpus,
        calls=cluster.num_calls,
        turns=cluster.num_waits,
        seconds=cluster.now(),
        ideal=ideal_seconds(tasks, cpus=scenario.cpus),
        idle=1 - busy / cluster.cpu_seconds,
        wasted=1 - useful / busy,
        seconds_made=len(cluster.seconds),
        seconds_helped=len(cluster.seconds & {result.call for result in good}),
        failed=len(failed),
        poison=sum(task.argument.is_poison for task in tasks),
        nodes_lost=cluster.nodes_lost,
        driver_seconds=driver_seconds,
        errors=tuple(str(each.error) for each in failed if not each.task.argument.is_poison),
    )


def assert_once(tasks: Iterable[Task], ended: Iterable[TaskResult]) -> None:
    """Stop if a slice did not end, or ended twice, or a poisonous one ended well."""
    times = Counter(each.task.argument.number for each in ended)
    wanted = Counter(task.argument.number for task in tasks)
    assert times == wanted, f"did not end once: {(times - wanted) + (wanted - times)}"
    assert not [each for each in ended if each.task.argument.is_poison and each.error is None]


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


def run_reduce(scenario: Scenario) -> ReduceFigures:
    """Plan and run the tasks between counting and learning."""
    sizes = [task.num_bytes for task in _slices(scenario)]
    counted = _counted([_distinct(size) * ROW_BYTES for size in sizes])
    held: list[int] = []
    with traced(held) as look:
        groups = merge_items("/work", counted)
        merged = _times(groups, sizes)
        merge_seconds = _run(scenario, groups, merged, look)
        rows = _rows(groups, sizes)
        items = reduce_items(_summed(counted, groups))
        share = sum(rows) / max(1, len(items)) / ROWS + len(rows) * OPEN_SECONDS
        held.clear()
        reduce_seconds = _run(scenario, items, [share] * len(items), look)
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
        texts=0,
        text_bytes=0,
        code_points=0,
        spans=0,
        distinct_spans=0,
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
    calls: Any = TimedCalls(cluster, on_wait)
    failed = [each for each in run_tasks(tasks, pool_of=lambda _: calls) if each.error]
    assert not failed, failed[0].error
    return cluster.now()


if __name__ == "__main__":
    run(main)
