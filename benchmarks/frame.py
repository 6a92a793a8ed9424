"""The frame of every benchmark: its command line, processes, medians, comparisons and record.

A benchmark measures with functions whose arguments and results are JSON. `fresh` runs such a
function in a new process, `in_turn` repeats several of them alternately, so that a noisy minute
affects all, and `assert_same` stops if their answers differ. `finish` prints one line of JSON with
time, place and subject, which `--save` also appends to results/BENCHMARK.jsonl. The module imports
only the standard library, so that it runs with the interpreter of any other library.
"""

import argparse
import ctypes
import gc
import inspect
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from glob import glob
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent

Figures = dict[str, Any]
Rows = list[Figures]
Measure = Callable[..., Figures]
Runs = dict[str, list[Figures]]

_ONE = "--one"


def run(main: Callable[[], object] | None = None) -> None:
    """Run a benchmark, or the measured function that `fresh` names."""
    if sys.argv[1:2] != [_ONE]:
        assert main is not None, "this file has no benchmark, only what others measure"
        main()
        return
    name, arguments = sys.argv[2:]
    print(json.dumps(vars(sys.modules["__main__"])[name](*json.loads(arguments))))


def parser(doc: str | None, **defaults: float) -> argparse.ArgumentParser:
    """Return a command line with --save and an option for each number."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in defaults.items():
        option = f"--{name.replace('_', '-')}"
        made.add_argument(option, type=type(value), default=value, help=f"default: {value}")
    made.add_argument("--save", action="store_true", help="append the record to results/")
    return made


def add_quick(made: argparse.ArgumentParser, **sizes: int) -> None:
    """Add --quick, which sees in little time that a benchmark works."""
    text = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    made.add_argument("--quick", action="store_true", help=f"see that it works: {text}")
    if "--quick" in sys.argv:
        made.set_defaults(**sizes)


def files_of(globs: str) -> list[Path]:
    """Return the files of GLOB[,GLOB...], as argparse wants it."""
    files = sorted(Path(path).resolve() for each in globs.split(",") for path in glob(each))  # noqa: PTH207 - absolute globs
    if not files:
        raise argparse.ArgumentTypeError(f"{globs!r} matches no file")
    return files


def fresh(
    measure: Measure,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    python: str = sys.executable,
) -> Figures:
    """Run a function in a new process; subprocess.TimeoutExpired if it takes too long."""
    done = subprocess.run(
        _command(python, measure, arguments),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | dict(env or {}),
        timeout=timeout,
    )
    return _last_line(done.stdout)


def side_by_side(
    measure: Measure, *arguments: object, processes: int
) -> tuple[float, list[Figures]]:
    """Run a function in several processes at once; it receives its number and their number.

    Return the seconds from the time at which all were `ready` to the last end, and all results.
    """
    started = [
        subprocess.Popen(
            _command(sys.executable, measure, (*arguments, number, processes)),
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
    outputs = [process.communicate()[0] for process in started]
    assert not any(process.returncode for process in started)
    return time.perf_counter() - start, [_last_line(each) for each in outputs]


def ready() -> None:
    """Wait until the other processes of `side_by_side` are ready too."""
    print("ready", flush=True)
    sys.stdin.readline()


def _command(python: str, measure: Measure, arguments: Sequence[object]) -> list[str]:
    file = inspect.getfile(measure)
    return [python, file, _ONE, measure.__name__, json.dumps(arguments, default=str)]


def _last_line(output: str) -> Figures:
    figures: Figures = json.loads(output.splitlines()[-1])
    return figures


def in_turn(works: Mapping[str, Callable[[], Figures]], repeats: int) -> Runs:
    """Run each work once, then each again, and so on."""
    runs: Runs = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            runs[name].append(work())
    return runs


def median(runs: Iterable[Figures], figure: str = "seconds") -> float:
    """Return the median of a figure over runs."""
    values: list[float] = [run[figure] for run in runs]
    return statistics.median(values)


def ratio(runs: Runs, above: str, below: str, figure: str = "seconds") -> float:
    """Return the median over rounds of a ratio: noise affects both runs of a round."""
    pairs = zip(runs[above], runs[below], strict=True)
    values: list[float] = [a[figure] / b[figure] for a, b in pairs]
    return statistics.median(values)


def assert_same(runs: Mapping[str, Iterable[Figures]], figure: str, what: str) -> None:
    """Stop if a figure differs between runs."""
    values = {name: {run[figure] for run in each} for name, each in runs.items()}
    assert len(set().union(*values.values())) == 1, f"{what}: {figure} differ: {values}"


def show(label: str, row: Figures) -> Figures:
    """Print and return a row, without its lists, dictionaries and hashes."""
    shown = {
        name: _text(name, value)
        for name, value in row.items()
        if isinstance(value, int | float | str) and "sha256" not in name
    }
    print(f"{label}: {', '.join(f'{name} {text}' for name, text in shown.items())}", flush=True)
    return row


def _text(name: str, value: float | str) -> str:
    if isinstance(value, str | bool):
        return str(value)
    if name.endswith("bytes") and value > 100_000:  # noqa: PLR2004 - as MB
        return f"{value / 1e6:,.1f} MB"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def finish(
    benchmark: str,
    corpora: Iterable[str],
    row: Figures,
    *,
    peers: Iterable[str] = (),
    save: bool = False,
) -> None:
    """Print the record as the last line of stdout; it names versions of peers, null if missing."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE)
    head = {
        "benchmark": benchmark,
        "corpus": sorted(set(corpora)),
        "commit": commit.stdout.strip(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "peers": {name: version_of(name) for name in peers},
    }
    line = json.dumps(head | row)
    if save:
        with (HERE / "results" / f"{benchmark}.jsonl").open("a") as file:
            file.write(line + "\n")
    print(line)


def version_of(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def stop(message: str) -> NoReturn:
    """End the benchmark with an error."""
    sys.exit(message)


def resident(process: str = "self") -> int:
    """Return the resident bytes of a process of this user: touched pages, freed or not."""
    return _status(process, "VmRSS")


def peak(process: str = "self") -> int:
    """Return the highest resident bytes since the last reset."""
    return _status(process, "VmHWM")


def reset_peak(process: str = "self") -> int:
    """Reset the peak, and return the resident bytes, to which growth is relative.

    This process first returns freed memory to the system, so that it hides no growth.
    """
    if process == "self":
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    Path(f"/proc/{process}/clear_refs").write_text("5")
    return resident(process)


def _status(process: str, name: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
