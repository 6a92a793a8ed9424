"""The command that says how the last run of an output stands: status. Starts no Ray."""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nanotok_ray.cli.exit_codes import BAD_OUTPUT
from nanotok_ray.cli.json_line import print_json
from nanotok_ray.errors import TransientIOError
from nanotok_ray.units import printable

WATCH_SECONDS = 10.0

_STATUS = """\
Say how the last run of an output stands: running, dead, finished, failed; from its files alone.

  nanotok status /data/out
  nanotok status /data/out --watch                  (every 10 s, until the run has ended)
  nanotok status s3://bucket/out --json             (JSON alone, as for jq .state)

Read are the lease and the journal of the run (OUT/run/lease and OUT/run/journal), from any machine
that sees the output, while the run goes on or long after. The journal is written when a
stage begins, then after 2, 4, 8 and 16 s, then every 30 s, and less often in a run of more than
two hours. The last line on stdout is JSON.

states:
  running      its process is there, or it was heard of within 60 s by this machine's clock
  dead         its process is gone for sure, or it was silent for longer
  finished     the output is published, and nothing is known to be wrong
  trained      `nanotok train` is done
  failed, interrupted, terminated    so the last run ended; an earlier output may be published
  unfinished   a run was there, and how it ended is not known
  never run    there is a plan and nothing else
  nothing      there is nothing of ours

exit codes:
  0  running, finished or trained
  4  any other state
  5  storage does not answer
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    """The time of day in seconds since 1970, and waiting: tests have their own."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    own = commands.add_parser(
        "status",
        help=_STATUS.partition("\n")[0],
        description=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    own.add_argument("output", metavar="DIR", help="folder or URL of the output")
    own.add_argument(
        "--watch", action="store_true", help="look again every 10 s until the run has ended"
    )
    own.add_argument("--json", action="store_true", help="the line of JSON alone, no text")
    own.set_defaults(run=_run_status)


def _run_status(arguments: argparse.Namespace) -> int:
    show = (lambda _: None) if arguments.json else _print_text
    values = look(arguments.output, watch=arguments.watch, show=show)
    print_json(values)
    return exit_code(values)


def exit_code(values: dict[str, Any]) -> int:
    """Give the exit code that stands for a state."""
    from nanotok_ray.job.status import WELL  # noqa: PLC0415 - slow to import

    return 0 if values["state"] in WELL else BAD_OUTPUT


def look(
    output: str,
    *,
    watch: bool = False,
    show: Callable[[dict[str, Any]], None],
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Look how an output stands, with `watch` again and again while a run goes on.

    Args:
        output: folder or URL.
        watch: whether to look until the run has ended.
        show: given the values of each look.
        clock: None: that of this machine.

    Returns:
        The values of the last look.

    Raises:
        TransientIOError: storage does not answer; while watching only at the first look.
    """
    clock = clock or Clock()
    values = _look_once(output, clock.now())
    show(values)
    while watch and values["state"] == "running":
        clock.sleep(WATCH_SECONDS)
        try:
            values = _look_once(output, clock.now())
        except TransientIOError as error:
            print(f"nanotok: {printable(str(error), lines=True)}", file=sys.stderr)
            continue
        show(values)
    return values


def _look_once(output: str, now: float) -> dict[str, Any]:
    from nanotok_ray.cli.status_values import status_values  # noqa: PLC0415 - slow to import
    from nanotok_ray.job.status import standing_of  # noqa: PLC0415 - as above
    from nanotok_ray.storage import Folder  # noqa: PLC0415 - as above

    out = Folder(output)
    return status_values(out, standing_of(out, now=now), now=now)


def _print_text(values: dict[str, Any]) -> None:
    from nanotok_ray.cli.status_text import status_lines  # noqa: PLC0415 - as above

    for line in status_lines(values):
        print(printable(line, lines=True), file=sys.stderr)
    if values["state"] == "running":
        print(file=sys.stderr)
