"""The entry point: all commands by purpose, and the exit code of every error."""

import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from nanotok_ray.cli.app import SETTINGS, Arguments, Choice, Group, command
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
    Console,
)
from nanotok_ray.errors import (
    CorruptOutputError,
    DiskFullError,
    IncompleteOutputError,
    LeaseLostError,
    NanotokError,
    NodeError,
    OutputInUseError,
    PatternError,
    QuarantineLimitError,
    SliceError,
    TransientIOError,
    UnreachableError,
    UnsafeStoreError,
    VerificationError,
    os_error_message,
)
from nanotok_ray.job.termination import Terminated, interruptible, terminable
from nanotok_ray.units import did_you_mean

SECTIONS: Final = {
    "Before a job": {"init": "init", "doctor": "doctor", "plan": "jobs"},
    "The job": {"prepare": "jobs", "train": "jobs", "tokenize": "jobs", "submit": "jobs"},
    "Its output": {
        "status": "outputs",
        "report": "outputs",
        "verify": "outputs",
        "inspect": "outputs",
        "export": "outputs",
    },
    "Tokenizers": {"tokenizer": "tokenizer"},
    "Maintenance": {"cache": "cache", "gc": "cache"},
    "Shell": {"completion": "main"},
}
"""The commands by purpose, with the module of each."""

COMPLETION_VARIABLE: Final = "_NANOTOK_COMPLETE"

_EXAMPLES = """
nanotok init /data/web         # read a folder and write /data/recipe.toml
nanotok doctor recipe.toml     # is this machine ready for a job?
nanotok plan recipe.toml       # what will a job do, and how long will it take?
nanotok prepare recipe.toml    # run the job; run it again to resume
"""


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value and not ctx.resilient_parsing:
        from nanotok_ray.job.doctor.software import versions

        click.echo(versions())
        ctx.exit()


nanotok = Group(
    "nanotok",
    sections=SECTIONS,
    examples=_EXAMPLES,
    context_settings=SETTINGS,
    help="Turn a text corpus into a BPE tokenizer and verified token shards, on Ray.\n\n"
    "A recipe describes the job. docs/recipes.md explains recipes, and jobs/recipes/ has examples. "
    "`nanotok COMMAND --help` describes each command.\n\n"
    "Text for people goes to stderr. If stdout is not a terminal, its last line is the result as "
    "one JSON document.",
    epilog=f"Exit codes:\n{EXIT_CODES}",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the versions of nanotok_ray, its core, Ray and Python, and the CPU level.",
        )
    ],
)


@command(
    examples="""
eval "$(nanotok completion bash)"                          # in ~/.bashrc
eval "$(nanotok completion zsh)"                           # in ~/.zshrc
nanotok completion fish > ~/.config/fish/completions/nanotok.fish
""",
    has_json=False,
)
@click.argument("shell", type=Choice(("bash", "zsh", "fish")), metavar="bash|zsh|fish")
def completion(arguments: Arguments) -> int:
    """Print the script that completes commands, options and paths in a shell."""
    from click.shell_completion import get_completion_class

    shell = get_completion_class(arguments.shell)
    assert shell is not None
    click.echo(shell(nanotok, {}, "nanotok", COMPLETION_VARIABLE).source())
    return 0


def main(
    argv: Sequence[str] | None = None,
    *,
    default_recipe: str | None = None,
    job: Callable[..., Any] | None = None,
) -> int:
    """Run one command and return the exit code.

    Args:
        argv: the arguments without the program's name; None: those of the process.
        default_recipe: the recipe of a job without arguments.
        job: a replacement for `nanotok_ray.prepare`, `train` or `tokenize` with the same
            arguments, for the command of that name; None: the function itself.
    """
    _print_anything()
    words = sys.argv[1:] if argv is None else list(argv)
    _complete()
    console = Console(default_recipe=default_recipe, job=job, as_json="--json" in words)
    with interruptible():
        code = _run(words, console)
    _leave_a_dead_ray(code)
    return code


def _leave_a_dead_ray(code: int) -> None:
    """End this process if its local Ray has died, since Ray would end it with another exit code.

    The result is written already. What Ray may have printed after it is dropped.
    """
    local_ray = sys.modules.get("nanotok_ray.cluster.local_ray")
    if local_ray is not None and local_ray.has_died():
        os._exit(code)


def _complete() -> None:
    """Answer a completion request of a shell, and exit."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(nanotok, {}, "nanotok", COMPLETION_VARIABLE, instruction))


def _run(words: list[str], console: Console) -> int:  # noqa: PLR0911 - one for each error
    """Run a command; print its error."""
    try:
        with terminable(), nanotok.make_context("nanotok", words, obj=console) as context:
            return int(nanotok.invoke(context) or 0)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        console.failure("failed", f"error: {usage_message(error)}")
        return USAGE
    except NanotokError as error:
        console.failure("failed", f"error: {_with_step(error)}")
        return exit_code(error)
    except KeyboardInterrupt:
        console.failure("interrupted", "interrupted; the same command resumes from here")
        return INTERRUPTED
    except Terminated:
        console.failure("terminated", "terminated; the same command resumes from here")
        return TERMINATED
    except BrokenPipeError:
        return FAILED
    except OSError as error:  # e.g. a full disk or a folder without permission
        console.failure("failed", f"error: {os_error_message(error)}")
        return INFRASTRUCTURE


def _print_anything() -> None:
    """Print characters that the terminal's encoding lacks as escapes, for example with LC_ALL=C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def usage_message(error: click.UsageError) -> str:
    """Return one line for a wrong argument: the problem and the next step."""
    path = "nanotok" if error.ctx is None else error.ctx.command_path
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        known = [name for param in error.ctx.command.params for name in param.opts]
        options = [name for name in known if name.startswith("--")]
        near = did_you_mean(error.option_name, options)
        message = f"there is no option {error.option_name}" + (f"; {near}" if near else "")
    else:
        text = " ".join(error.format_message().split()).rstrip(".")
        message = text[:1].lower() + text[1:]
    return message if "; " in message else f"{message}; see `{path} --help`"


def _with_step(error: NanotokError) -> str:
    """Return the message of an error, with a next step for errors of the core's regex engine."""
    if isinstance(error, PatternError) and str(error).startswith("cannot compile"):
        return f"{error}; correct the expression, or use the name of a pattern, such as gpt4"
    return str(error)


def exit_code(error: NanotokError) -> int:
    """Return the exit code of an error."""
    codes: tuple[tuple[type[NanotokError] | tuple[type[NanotokError], ...], int], ...] = (
        (QuarantineLimitError, BAD_DATA),
        ((VerificationError, CorruptOutputError, IncompleteOutputError), BAD_OUTPUT),
        ((OutputInUseError, LeaseLostError), IN_USE),
        (
            (
                *(DiskFullError, NodeError, SliceError, TransientIOError, UnreachableError),
                UnsafeStoreError,
            ),
            INFRASTRUCTURE,
        ),
    )
    return next((code for kinds, code in codes if isinstance(error, kinds)), USAGE)
