"""Run scripts of this folder in fresh processes, in turn; the last line of their stdout is JSON."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

Figures = dict[str, Any]


def fresh(
    script: str,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    python: str = sys.executable,
) -> Figures:
    """Run a script in a process of its own; subprocess.TimeoutExpired if it takes too long."""
    command = [python, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | dict(env or {}),
        timeout=timeout,
    )
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def side_by_side(script: str, *arguments: object, processes: int) -> tuple[float, list[Figures]]:
    """Run a script in independent processes, from the first start to the last end.

    Each gets its number and the number of processes as last arguments, prints `ready`, and waits
    for a line on stdin. Return the seconds from then on, and the last line of each.
    """
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    started = [
        subprocess.Popen(
            [*command, str(number), str(processes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start = time.perf_counter()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [json.loads(line) for line in _last_lines(started)]
    return time.perf_counter() - start, answers


def _last_lines(processes: Sequence["subprocess.Popen[str]"]) -> Iterator[str]:
    """Wait for processes, and yield the last line of each."""
    for process in processes:
        out, _ = process.communicate()
        assert process.returncode == 0
        yield out.splitlines()[-1]


def in_turn(works: Mapping[str, Callable[[], Figures]], repeats: int) -> dict[str, list[Figures]]:
    """Run each work once, then each again, and so on: a noisy minute affects all of them."""
    runs: dict[str, list[Figures]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            runs[name].append(work())
    return runs


def median(runs: Iterable[Figures], figure: str) -> float:
    """Return the median of a figure over runs."""
    values: list[float] = [run[figure] for run in runs]
    return statistics.median(values)


def median_ratio(runs: Mapping[str, Sequence[Figures]], above: str, below: str) -> float:
    """Return the median over rounds of a ratio of seconds: noise affects both runs of a round."""
    pairs = zip(runs[above], runs[below], strict=True)
    ratios: list[float] = [a["seconds"] / b["seconds"] for a, b in pairs]
    return statistics.median(ratios)


def assert_same(runs: Mapping[str, Iterable[Figures]], figure: str, what: str) -> None:
    """Stop if the figure differs between runs."""
    values = {name: {run[figure] for run in each} for name, each in runs.items()}
    assert len(set().union(*values.values())) == 1, f"{what}: {figure} differ: {values}"
