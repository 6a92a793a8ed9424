"""The classes of commands: groups that import commands on first use, help, completion."""

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click

from nanotok_ray.errors import IncompleteOutputError
from nanotok_ray.units import did_you_mean

if TYPE_CHECKING:
    from nanotok_ray.cli.printing import Console

SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Settings of the program, which all commands inherit."""

Run = Callable[["Arguments"], int]


class Arguments(SimpleNamespace):
    """The values of a command's arguments and options, with the `console` of its output."""

    console: "Console"

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # noqa: ANN401


class Command(click.Command):
    """A command: a function of its `Arguments` that returns an exit code.

    Its help is the docstring of the function, followed by the unwrapped examples.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401
        examples: str = "",
        has_json: bool = True,
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Add the common options, including `--json` for commands that print JSON."""
        super().__init__(*args, **options)
        self.examples = examples.strip("\n")
        self.has_json = has_json
        self.params += _common_options(has_json=has_json)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; errors name this command instead of its group.

        Raises:
            click.UsageError: An argument is wrong.
        """
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            if ctx.obj is not None:  # None during completion by a shell
                ctx.obj.has_json = self.has_json
            raise

    def invoke(self, ctx: click.Context) -> int:
        """Call the function."""
        from nanotok_ray.cli.options import note_ignored, running_message

        console: Console = ctx.obj
        values = dict(ctx.params)
        console.adjust(
            has_json=self.has_json,
            as_json=values.pop("as_json", False),
            quiet=values.pop("quiet"),
            verbose=values.pop("verbose"),
        )
        assert self.callback is not None
        arguments = Arguments(console=console, **values)
        note_ignored(arguments)
        try:
            return int(self.callback(arguments))
        except IncompleteOutputError as error:
            if message := running_message(values.get("location")):
                raise IncompleteOutputError(message) from error
            raise

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description and the examples."""
        super().format_help_text(ctx, formatter)
        write_examples(formatter, self.examples)


def write_examples(formatter: click.HelpFormatter, examples: str) -> None:
    """Write a section of unwrapped lines."""
    if examples:
        with formatter.section("Examples"):
            lines = [f"  {line}".rstrip() for line in examples.split("\n")]
            formatter.write("\n".join([*lines, ""]))


def command(
    name: str | None = None,
    *,
    examples: str,
    has_json: bool = True,
    **options: Any,  # noqa: ANN401
) -> Callable[[Run], Command]:
    """Return a decorator that turns a function into a command; see `Command`."""
    return click.command(name, cls=Command, examples=examples, has_json=has_json, **options)


def _common_options(*, has_json: bool) -> list[click.Parameter]:
    as_json = click.Option(
        ["--json", "as_json"],
        is_flag=True,
        help="Print the result as JSON on stdout, and not as text on stderr.",
    )
    quiet = click.Option(["-q", "--quiet"], is_flag=True, help="Print errors only.")
    verbose = click.Option(
        ["-v", "--verbose"],
        is_flag=True,
        help="Print more, such as a line for every finished slice and the traceback of an error.",
    )
    return [as_json, quiet, verbose] if has_json else [quiet, verbose]


class Group(click.Group):
    """Commands in sections, which are imported when they are used or listed.

    `sections` has, for each title, the names of commands with their location in this package: a
    module, or MODULE:ATTRIBUTE if the attribute has another name. Without a command, the help is
    printed.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401
        sections: Mapping[str, Mapping[str, str]],
        examples: str = "",
        **options: Any,  # noqa: ANN401
    ) -> None:
        options |= {"invoke_without_command": True, "callback": _print_help}
        options["subcommand_metavar"] = "[COMMAND] [ARGS]..."
        super().__init__(*args, **options)
        self.sections = sections
        self.examples = examples.strip("\n")

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the sections."""
        del ctx
        return [name for names in self.sections.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or return None if the name is unknown."""
        del ctx
        for modules in self.sections.values():
            if cmd_name in modules:
                module, _, attribute = modules[cmd_name].partition(":")
                loaded = importlib.import_module(f"nanotok_ray.cli.{module}")
                result: click.Command = getattr(loaded, attribute or cmd_name)
                return result
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first argument.

        Raises:
            click.UsageError: The command is unknown.
        """
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            known = self.list_commands(ctx)
            inner = [path for path in self._inner_commands(ctx) if path.endswith(f" {name}")]
            hint = f"did you mean {inner[0]!r}?" if inner else nearest(name, known)
            raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the epilog unwrapped."""
        del ctx
        if self.epilog:
            formatter.write(f"\n{self.epilog}")

    def _inner_commands(self, ctx: click.Context) -> Iterator[str]:
        """Yield the paths of the commands in groups, such as "tokenizer learn"."""
        for name in self.list_commands(ctx):
            group = self.get_command(ctx, name)
            if isinstance(group, click.Group):
                yield from (f"{name} {inner}" for inner in group.list_commands(ctx))

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description and the examples."""
        super().format_help_text(ctx, formatter)
        write_examples(formatter, self.examples)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries of all commands by section."""
        width = max(map(len, self.list_commands(ctx)))
        for title, modules in self.sections.items():
            rows = []
            for name in modules:
                loaded = self.get_command(ctx, name)
                assert loaded is not None
                rows.append((name.ljust(width), loaded.get_short_help_str(limit=200)))
            with formatter.section(title):
                formatter.write_dl(rows)


@click.pass_context
def _print_help(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def nearest(value: str, known: Collection[str]) -> str:
    """Return a suggestion with the nearest choice, or with all choices.

    >>> nearest("prepar", ["plan", "prepare"]), nearest("x", ["a", "b"])
    ("did you mean 'prepare'?", 'choose from a, b')
    """
    return did_you_mean(value, known) or f"choose from {', '.join(known)}"


class Choice(click.Choice):  # type: ignore[type-arg] # generic in newer versions alone
    """One of several words; the error for another word suggests the nearest."""

    def convert(
        self,
        value: Any,  # noqa: ANN401
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """Return the word.

        Raises:
            click.BadParameter: The word is not a choice.
        """
        if value in self.choices:
            return value
        return self.fail(f"{value!r} is unknown; {nearest(str(value), self.choices)}", param, ctx)
