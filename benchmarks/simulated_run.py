"""One scenario through the real engine: what came out, as figures.

Figures of virtual time depend on the scenario alone; CPU time and memory on this machine.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from nanotok_ray.job.runner import run_tasks
from nanotok_ray.job.task import RetryPolicy, Task, TaskResult
from simulated_cluster import SimulatedCluster
from simulated_driver import TimedCalls
from simulated_scenarios import Scenario
from simulated_slices import ideal_seconds, tasks_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
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


def run(
    scenario: Scenario,
    retry_policy: RetryPolicy | None = None,
    on_wait: Callable[[], None] = lambda: None,
) -> Figures:
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
    calls = TimedCalls(cluster, on_wait)
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
) -> Figures:
    """Sum up a run."""
    assert_once(tasks, ended)
    good = [each.result for each in ended if each.error is None]
    useful = sum(result.cpu_seconds for result in good)
    busy = cluster.busy_seconds
    failed = [each for each in ended if each.error is not None]
    return Figures(
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
