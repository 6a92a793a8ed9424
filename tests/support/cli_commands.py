"""The commands of `nanotok` for tests of help and pages.

    python -m tests.support.cli_commands

writes the help of all commands to tests/cli/golden/help.txt.
"""

from pathlib import Path

import click

from nanotok_ray.cli import Console, nanotok

GOLDEN = Path(__file__).parents[1] / "cli/golden/help.txt"
COLUMNS = 80


def parse(words, *, default_recipe=None):
    """Parse a command like `main`, and return the context of the innermost command.

    Raises:
        click.UsageError: The command is wrong.
    """
    command, rest = nanotok, list(words)
    console = Console(default_recipe=default_recipe)
    context = click.Context(nanotok, info_name="nanotok", obj=console, **nanotok.context_settings)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name, command, rest = command.resolve_command(context, rest)
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=name, parent=context)
    return command.make_context(command.name, rest, parent=context)


def walk(command=nanotok, parent=None):
    """Yield the context of every command, groups before their commands."""
    context = click.Context(
        command, parent=parent, info_name=command.name, terminal_width=COLUMNS,
        **(command.context_settings if parent is None else {}),
    )  # fmt: skip
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), context)


def whole_help():
    """Return the help of all commands."""
    return "\n\n".join(
        f"$ {context.command_path} --help\n{context.get_help()}" for context in walk()
    )


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(f"{whole_help()}\n", "utf-8")
