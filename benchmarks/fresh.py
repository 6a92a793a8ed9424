"""Fresh processes, in turn: a script of this folder is run, and its last line of stdout is JSON.

Takes names of scripts and their arguments, perhaps another interpreter to run them with; gives what
they printed. Knows none of them.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
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


def in_turn(works: Mapping[str, Callable[[], Figures]], repeats: int) -> dict[str, list[Figures]]:
    """Run each work once, then each again, and so on: a noisy minute hits all of them."""
    runs: dict[str, list[Figures]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            runs[name].append(work())
    return runs


def median(runs: Iterable[Figures], figure: str) -> float:
    """Give the median of a figure over runs."""
    values: list[float] = [run[figure] for run in runs]
    return statistics.median(values)


def assert_same(runs: Mapping[str, Iterable[Figures]], figure: str, what: str) -> None:
    """Stop if the figure is not the same in all runs of all works."""
    values = {name: {run[figure] for run in each} for name, each in runs.items()}
    assert len(set().union(*values.values())) == 1, f"{what}: {figure} differ: {values}"
