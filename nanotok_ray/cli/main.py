"""The entry point: arguments to a command, its errors to an exit code."""

import argparse
import importlib
import io
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

from nanotok_ray.cli.overview import COMMANDS, overview
from nanotok_ray.cli.printing import (
    BAD_DATA,
    BAD_OUTPUT,
    EXIT_CODES,
    FAILED,
    IN_USE,
    INFRASTRUCTURE,
    INTERRUPTED,
    TERMINATED,
    USAGE,
    print_json,
)
from nanotok_ray.errors import (
    CorruptOutputError,
    DiskFullError,
    IncompleteOutputError,
    LeaseLostError,
    NanotokError,
    OutputInUseError,
    QuarantineLimitError,
    SharedFolderError,
    SliceError,
    TransientIOError,
    UnreachableError,
    VerificationError,
    os_error_message,
)
from nanotok_ray.job.termination import Terminated, interruptible, terminable
from nanotok_ray.units import printable

_SEVERAL = {"*", "+"}


class CommandParser(argparse.ArgumentParser):
    """As argparse's own, which takes `FILE --flag` and `--flag FILE`, but not both in one line."""

    _is_second_try = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; inputs that are left over are taken together with those before the options."""
        known, left = super().parse_known_args(args, namespace)
        if self._is_second_try or not self._takes_several or not any(map(_is_input, left)):
            return known, left
        self._is_second_try = True  # what is called here calls this method
        try:
            return self.parse_known_intermixed_args(args)
        finally:
            self._is_second_try = False

    @property
    def _takes_several(self) -> bool:
        positionals = self._get_positional_actions()
        return any(action.nargs in _SEVERAL for action in positionals)


def _is_input(argument: str) -> bool:
    return not argument.startswith("-")


def main(
    argv: Sequence[str] | None = None,
    *,
    default_recipe: str | None = None,
    job: Callable[..., Any] | None = None,
) -> int:
    """Run one command and return the exit code.

    Args:
        argv: arguments without the program's name; None: those of the process.
        default_recipe: the recipe of a job that may be called without one.
        job: called in the place of `nanotok_ray.prepare`, `train` or `tokenize`, with their
            arguments, by the command of that name; None: they are called.
    """
    _print_anything()
    words = sys.argv[1:] if argv is None else argv
    with interruptible():
        whole = parser(default_recipe=default_recipe, only=words[:1])
        return _run(whole.parse_args(words, argparse.Namespace(job=job)))


def _run(arguments: argparse.Namespace) -> int:
    try:
        with terminable():
            return int(arguments.run(arguments))
    except NanotokError as error:
        _print_failure(arguments, "failed", f"error: {error}")
        return exit_code(error)
    except KeyboardInterrupt:
        _print_failure(arguments, "interrupted", "interrupted; the same command resumes from here")
        return INTERRUPTED
    except Terminated:
        _print_failure(arguments, "terminated", "terminated; the same command resumes from here")
        return TERMINATED
    except BrokenPipeError:
        return FAILED
    except OSError as error:  # a full disk, a folder that may not be written: no place in our code
        _print_failure(arguments, "failed", f"error: {os_error_message(error)}")
        return INFRASTRUCTURE


def _print_anything() -> None:
    """Print characters that the terminal's encoding lacks as escapes, as under LC_ALL=C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_failure(arguments: argparse.Namespace, status: str, message: str) -> None:
    print(f"nanotok: {printable(message, lines=True)}", file=sys.stderr)
    if COMMANDS[arguments.command].has_json:
        print_json({"status": status, "error": message.removeprefix("error: ")})


def exit_code(error: NanotokError) -> int:
    """Return the exit code of an error."""
    codes: tuple[tuple[type[NanotokError] | tuple[type[NanotokError], ...], int], ...] = (
        (QuarantineLimitError, BAD_DATA),
        ((VerificationError, CorruptOutputError, IncompleteOutputError), BAD_OUTPUT),
        ((OutputInUseError, LeaseLostError), IN_USE),
        (
            (DiskFullError, SliceError, SharedFolderError, TransientIOError, UnreachableError),
            INFRASTRUCTURE,
        ),
    )
    return next((code for kinds, code in codes if isinstance(error, kinds)), USAGE)


def parser(
    *, default_recipe: str | None = None, only: Collection[str] | None = None
) -> argparse.ArgumentParser:
    """Build the parser of all commands.

    Args:
        default_recipe: the recipe of a job that may be called without one.
        only: the commands whose modules are imported; of others there is but the name. None: all.
    """
    whole = CommandParser(
        prog="nanotok",
        usage="nanotok [-h] [--version] COMMAND ...",
        description=overview(),
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument(
        "--version", action=_Version, help="show versions of nanotok_ray, its core and Ray"
    )
    commands = whole.add_subparsers(
        dest="command", required=True, metavar="COMMAND", prog="nanotok", help=argparse.SUPPRESS
    )
    wanted = {command.module for name, command in COMMANDS.items() if only is None or name in only}
    for module in sorted(wanted):
        imported = importlib.import_module(f"nanotok_ray.cli.{module}")
        of_jobs = {"default_recipe": default_recipe} if module == "jobs" else {}
        imported.add_commands(commands, **of_jobs)
    for name, command in COMMANDS.items():
        if command.module not in wanted:
            commands.add_parser(name, help=command.summary)
    return whole


class _Version(argparse.Action):
    """Prints versions and ends; Ray is not imported."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from nanotok_ray.job.doctor.software import versions  # noqa: PLC0415 - where it is needed

        print(versions())
        parser.exit()
