"""Read every layout of a real output with the classes of its peers, for `make peers`.

    python -m tests.peers.run [--python PEERS] [--out DIR --texts DIR ... --chats FILE ...]

Without --out it runs a job on the demo's corpus. It exports to all layouts, into
DIR/export/LAYOUT, runs each check in a separate process in the peers' environment, and prints a
table. The exit code is 1 if a check failed, or if a peer is not installed without --allow-missing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.peers.job import Made, made_by_a_job
from tests.peers.readers import TOKENIZER, Check, checks

ROOT = Path(__file__).parent.parent.parent

OK, FAILED, MISSING = "ok", "FAILED", "not installed"

SHOWN_LINES = 20
"""Limit of shown lines of a failed process."""

ASK_VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One line of the table."""

    layout: str
    reader: str
    seconds: float
    outcome: str
    compared: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskResult:
    """The result of a process."""

    seconds: float
    code: int
    output: str

    @property
    def last_line(self) -> str:
        """Its last line of output."""
        return (self.output.strip().splitlines() or ["said nothing"])[-1]


def main() -> int:
    """Export, check, print; return the exit code."""
    given = arguments()
    if given.out is None:
        return run_all(made_by_a_job(given.demo.resolve(), given.work.resolve()), given)
    texts, chats = (tuple(path.resolve() for path in own) for own in (given.texts, given.chats))
    return run_all(Made(out=given.out.resolve(), texts=texts, chats=chats), given)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--demo", type=Path, default=Path("build/demo"))
    parser.add_argument("--work", type=Path, default=Path("build/peers"))
    parser.add_argument(
        "--out", type=Path, help="a finished output, instead of the job of recipe.toml"
    )
    parser.add_argument(
        "--texts", type=Path, nargs="*", default=[], help="with --out: for its tokenizer"
    )
    parser.add_argument(
        "--chats", type=Path, nargs="*", default=[], help="with --out: for its tokenizer"
    )
    parser.add_argument("--python", default=sys.executable, help="where the peers are installed")
    parser.add_argument("--llm-c", type=Path, help="a checkout, for its loaders in Python and in C")
    parser.add_argument("--gpt-neox", type=Path, help="a checkout, for its dataset")
    parser.add_argument("--only", nargs="*", help="layouts, or (tokenizer)")
    parser.add_argument("--allow-missing", action="store_true")
    return parser.parse_args()


def run_all(made: Made, given: argparse.Namespace) -> int:
    """Run every requested check, print the result of each, and the table last."""
    every = checks(given.llm_c, given.gpt_neox)
    wanted = [own for own in every if not given.only or own.layout in given.only]
    if not (made.texts or made.chats):
        say(f"{TOKENIZER} is left out: neither --texts nor --chats")
        wanted = [own for own in wanted if own.layout != TOKENIZER]
    versions = installed(given.python, wanted)
    rows = []
    for check in wanted:
        rows.append(row_of(check, made, python=given.python, versions=versions))
        say(f"{rows[-1].layout}: {rows[-1].outcome} after {rows[-1].seconds:.0f} s")
    say("\n" + table(rows))
    accepted = {OK, MISSING} if given.allow_missing else {OK}
    return int(not rows or any(row.outcome not in accepted for row in rows))


def installed(python: str, wanted: Sequence[Check]) -> dict[str, str]:
    """Return the versions of all peers in their environment."""
    names = sorted({name for check in wanted for name in check.peers})
    done = subprocess.run([python, "-c", ASK_VERSIONS, *names], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def row_of(check: Check, made: Made, *, python: str, versions: dict[str, str]) -> Row:
    """Export to the check's layout, then run the check."""
    if check.layout != TOKENIZER:
        nanotok = str(Path(sys.executable).with_name("nanotok"))
        ended = ran([nanotok, "export", str(made.out), "--to", check.layout])
        if ended.code:
            return row(check, ended, FAILED, versions=versions)
    return checked(check, made, python=python, versions=versions)


def checked(check: Check, made: Made, *, python: str, versions: dict[str, str]) -> Row:
    """Run the check in the peers' environment."""
    missing = [name for name in check.peers if name not in versions]
    if missing:
        ended = TaskResult(seconds=0.0, code=1, output=f"without {', '.join(missing)}")
        return row(check, ended, MISSING, versions=versions)
    ended = ran([python, *check.command(made, made.out / "export" / check.layout)])
    is_equal = not ended.code and ended.last_line.startswith("equal: ")
    return row(check, ended, OK if is_equal else FAILED, versions=versions)


def row(check: Check, ended: TaskResult, outcome: str, *, versions: dict[str, str]) -> Row:
    """Return a line of the table from the output of a process; print all output of a failed one."""
    if outcome == FAILED:
        lines = ended.output.strip().splitlines()[-SHOWN_LINES:]
        say("\n".join([f"{check.layout}:", *(f"    {line}" for line in lines)]))
    peers = [f"{name} {versions.get(name, '')}".strip() for name in check.peers]
    peers += [f"{option[2:]} (checkout)" for option in check.checkout]
    return Row(
        layout=check.layout,
        reader=", ".join(peers),
        seconds=ended.seconds,
        outcome=outcome,
        compared=ended.last_line.removeprefix("equal: "),
    )


def ran(command: Sequence[str]) -> TaskResult:
    """Run a process at the root of this repository, which is on its path."""
    begin = time.perf_counter()
    done = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - begin
    output = done.stdout if done.returncode == 0 else done.stdout + done.stderr
    return TaskResult(seconds=seconds, code=done.returncode, output=output)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned lines with a heading.

    >>> row = Row(layout="raw", reader="numpy 2", seconds=1.25, outcome=OK, compared="3 documents")
    >>> print(table([row]))
    layout  reader   seconds  outcome  equal
    raw     numpy 2      1.2  ok       3 documents
    """
    cells = [("layout", "reader", "seconds", "outcome", "equal")]
    cells += [(r.layout, r.reader, f"{r.seconds:.1f}", r.outcome, r.compared) for r in rows]
    a, b, c, d = (max(len(row[column]) for row in cells) for column in range(4))
    return "\n".join(f"{u:<{a}}  {v:<{b}}  {w:>{c}}  {x:<{d}}  {y}" for u, v, w, x, y in cells)


def say(line: str) -> None:
    """Print and flush a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
