"""The engine of every fan-out on simulated clusters of up to 6,400 CPUs, in virtual time.

Run: `.venv/bin/python benchmarks/simulate.py [--quick] [--save] [--seed N]`. A few minutes. Prints
a table: time over the ideal, idle and wasted CPU seconds, additional attempts, the driver's time.
docs/sizing.md lists what it does not model.
"""

import argparse
import tracemalloc
from collections.abc import Sequence

import resident
from about import about, finish
from simulated_reduce import ReduceFigures, run_reduce
from simulated_run import Figures, run
from simulated_scenarios import Scenario, scenarios

HEAD = (
    "scenario                slices  CPUs  attempts     time  x ideal   idle wasted  "
    "more:useful   nodes lost  failed:poison  driver ms/1,000  of time"
)


def line_of(own: Figures) -> str:
    """Return a row of the table."""
    return (
        f"{own.scenario:22} {own.slices:7,} {own.cpus:5,} {own.calls:8,} {own.seconds:8,.0f}s "
        f"{own.over_ideal:8.2f} {own.idle:6.1%} {own.wasted:6.1%}  "
        f"{own.seconds_made:6}:{own.seconds_helped:<6}  {own.nodes_lost:10}  "
        f"{own.failed:6}:{own.poison:<6} {1000 * own.driver_per_thousand:16.1f}  "
        f"{own.driver_seconds / own.seconds:6.2%}"
    )


REDUCED = ("calm", "all")
"""Conditions for which the sum of counts is simulated too."""

REDUCE_HEAD = (
    "sum of counts           slices  CPUs    files   merge  parts  tasks    join  one thread  plan"
)


def reduce_line_of(own: ReduceFigures) -> str:
    """Return a row of the table of sums."""
    return (
        f"{own.scenario:22} {own.slices:7,} {own.cpus:5,} {own.files:8,} "
        f"{own.merge_seconds:6,.0f}s {own.parts:6,} {own.reduce_seconds:5,.0f}s "
        f"{own.join_seconds:6,.1f}s "
        f"{own.one_thread_seconds:10,.0f}s {own.plan_bytes / 1e6:5,.1f} MB"
    )


def memory(scenario: Scenario) -> dict[str, float]:
    """Return the highest memory of the driver's own code, in total and per slice."""
    samples: list[int] = []
    own = tracemalloc.Filter(inclusive=True, filename_pattern="*/nanotok_ray/job/*")

    def look() -> None:
        if len(samples) == MAX_SAMPLES:
            tracemalloc.stop()
        else:
            taken = tracemalloc.take_snapshot().filter_traces([own])
            samples.append(sum(each.size for each in taken.statistics("filename")))

    tracemalloc.start()
    try:
        run(scenario, on_wait=look)
    finally:
        tracemalloc.stop()
    return {"driver_bytes": max(samples), "driver_bytes_per_slice": max(samples) / scenario.slices}


MAX_SAMPLES = 3
"""Snapshots of memory: the first turns, when the window is full and other slices still wait."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all scenarios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small scenarios, in seconds")
    parser.add_argument("--save", action="store_true", help="add the row to results/simulate.jsonl")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (default: 0)")
    options = parser.parse_args(arguments)
    chosen = scenarios(quick=options.quick, seed=options.seed)
    before = resident.reset_peak()
    print(HEAD)
    rows = []
    for scenario in chosen:
        figures = run(scenario)
        rows.append(figures.as_row())
        print(line_of(figures), flush=True)
    peak = resident.peak() - before
    largest = max(chosen, key=lambda each: each.slices * each.cpus)
    held = memory(largest)
    print(
        f"the engine holds {held['driver_bytes'] / 1e6:.1f} MB at {largest.slices:,} slices, "
        f"{held['driver_bytes_per_slice']:.0f} B each; the process, with tasks and simulation, "
        f"{peak / 1e6:.0f} MB at its peak above {before / 1e6:.0f} MB"
    )
    print(REDUCE_HEAD)
    reduces = [run_reduce(scenario) for scenario in chosen if scenario.weather in REDUCED]
    for reduced in reduces:
        print(reduce_line_of(reduced), flush=True)
    row = about("simulate", ["simulated"]) | {"seed": options.seed, "quick": options.quick}
    row |= {"reduces": [reduced.as_row() for reduced in reduces]}
    row |= {"rows": rows, "peak_bytes": peak, "baseline_bytes": before} | held
    finish(row, save=options.save)


if __name__ == "__main__":
    main()
