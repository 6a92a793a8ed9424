"""The entry point: arguments to a command, its errors to an exit code."""

import argparse
import sys
from collections.abc import Sequence

from nanotok_ray.cli import (
    counts,
    export,
    gc,
    jobs,
    learn,
    look,
    pack,
    plan,
    report,
    tokenizer,
    verify,
)
from nanotok_ray.errors import (
    CorruptOutputError,
    IncompleteOutputError,
    LeaseLostError,
    NanotokError,
    OutputInUseError,
    QuarantineLimitError,
    SharedFolderError,
    SliceError,
    TransientIOError,
    VerificationError,
)
from nanotok_ray.printable import printable
from nanotok_ray.termination import EXIT_CODE as TERMINATED
from nanotok_ray.termination import Terminated, terminable

FAILED, USAGE, BAD_DATA, BAD_OUTPUT, INFRASTRUCTURE = 1, 2, 3, 4, 5
IN_USE, INTERRUPTED = 6, 130

_GROUPS = (
    plan,
    learn,
    counts,
    export,
    pack,
    gc,
    tokenizer,
    verify,
    look,
    report,
)
"""Modules of the commands beside those that run the job, in the order of `nanotok --help`."""

_WITH_JSON = sum(
    (own.COMMANDS for own in (jobs, learn, plan, counts, export, gc, pack, tokenizer)), ()
)
"""The last line of their stdout is JSON, however they end."""

EXIT_CODES = """\
exit codes:
  0  done, or nothing to do
  1  a failure with no code of its own
  2  the recipe, an input or an argument is wrong
  3  more documents were quarantined than the recipe allows
  4  the output is unfinished or not what it should be
  5  slices failed for good, or storage or the disk did
  6  another run has this output
  130  interrupted (Ctrl-C): the same command goes on from there
  143  terminated (SIGTERM): the same command goes on from there
"""


def main(argv: Sequence[str] | None = None, *, default_recipe: str | None = None) -> int:
    """Run one command and give the exit code.

    Args:
        argv: arguments without the program's name; None: those of the process.
        default_recipe: the recipe of a job that may be called without one.
    """
    arguments = parser(default_recipe=default_recipe).parse_args(argv)
    try:
        with terminable():
            return int(arguments.run(arguments))
    except NanotokError as error:
        _tell(arguments, "failed", f"error: {error}")
        return exit_code(error)
    except KeyboardInterrupt:
        _tell(arguments, "interrupted", "interrupted; the same command goes on from here")
        return INTERRUPTED
    except Terminated:
        _tell(arguments, "terminated", "terminated; the same command goes on from here")
        return TERMINATED
    except BrokenPipeError:
        return FAILED
    except OSError as error:  # a full disk, a folder that may not be written: no place in our code
        _tell(arguments, "failed", f"error: {error}")
        return INFRASTRUCTURE


def _tell(arguments: argparse.Namespace, status: str, message: str) -> None:
    print(f"nanotok: {printable(message, lines=True)}", file=sys.stderr)
    if arguments.command in _WITH_JSON:
        jobs.print_json({"status": status, "error": message.removeprefix("error: ")})


def exit_code(error: NanotokError) -> int:
    """Give the exit code that stands for an error."""
    codes: tuple[tuple[type[NanotokError] | tuple[type[NanotokError], ...], int], ...] = (
        (QuarantineLimitError, BAD_DATA),
        ((VerificationError, CorruptOutputError, IncompleteOutputError), BAD_OUTPUT),
        ((OutputInUseError, LeaseLostError), IN_USE),
        ((SliceError, SharedFolderError, TransientIOError), INFRASTRUCTURE),
    )
    return next((code for kinds, code in codes if isinstance(error, kinds)), USAGE)


def parser(*, default_recipe: str | None = None) -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    whole = argparse.ArgumentParser(
        prog="nanotok",
        description="Turn a text corpus into a BPE tokenizer and verified token shards, on Ray.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    jobs.add_commands(commands, default_recipe=default_recipe)
    for group in _GROUPS:
        group.add_commands(commands)
    return whole
