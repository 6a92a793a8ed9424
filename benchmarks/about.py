"""The record that every benchmark prints at its end: one line of JSON with time, place and subject.

With `save` the line is also appended to results/BENCHMARK.jsonl.
"""

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def about(benchmark: str, corpora: Iterable[str], peers: Iterable[str] = ()) -> dict[str, Any]:
    """Return machine, corpora, and versions of peers (null: not installed) of a run."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE)
    return {
        "benchmark": benchmark,
        "corpus": sorted(set(corpora)),
        "commit": commit.stdout.strip(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "peers": {name: version_of(name) for name in peers},
    }


def finish(row: dict[str, Any], *, save: bool = False) -> None:
    """Print the record as the last line of stdout, and with `save` append it to the results."""
    line = json.dumps(row)
    if save:
        with (HERE / "results" / f"{row['benchmark']}.jsonl").open("a") as file:
            file.write(line + "\n")
    print(line)


def version_of(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
