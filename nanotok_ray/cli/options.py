"""Options and arguments of several commands, which are defined and explained once."""

import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nanotok_ray.cli.app import Arguments, Choice
from nanotok_ray.units import parse_count, parse_weights

if TYPE_CHECKING:
    from nanotok_ray.recipe import Recipe

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Decorator = Callable[[F], F]

PATH = click.Path()
"""A path or URL, which shells complete."""


def integer(minimum: int) -> Callable[[Any], int]:
    """Return a parser of integers of at least `minimum`.

    >>> integer(1)("12")
    12
    """

    def read(value: object) -> int:
        text = str(value)
        if not (text.isascii() and text.isdecimal()) or int(text) < minimum:
            raise click.BadParameter(f"{text!r} is not a whole number of {minimum} or more")
        return int(text)

    return read


COUNT = integer(1)


def options(*decorators: Decorator[Any]) -> Decorator[Any]:
    """Combine decorators into one, in the order of the help."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def listed(read: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Return a parser of values that are separated by commas, without duplicates.

    >>> listed(str)("web, code,web"), listed(integer(1))("300,280")
    (['web', 'code'], [300, 280])
    """
    return lambda text: list(dict.fromkeys(read(part.strip()) for part in text.split(",")))


def number(
    minimum: float, maximum: float = math.inf, *, is_above: bool = False
) -> Callable[[str], float]:
    """Return a parser of finite numbers in a range, which excludes `minimum` if `is_above`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (minimum <= value <= maximum and math.isfinite(value)) or (
            is_above and value == minimum
        ):
            limits = f"more than {minimum:g}" if is_above else f"{minimum:g} or more"
            limits += "" if math.isinf(maximum) else f" and at most {maximum:g}"
            raise click.BadParameter(f"{text!r} is not a number of {limits}")
        return value

    return read


PACKINGS = ("best-fit", "windows", "conversations", "nanochat")


def parsed(parse: Callable[[str], T]) -> Callable[[object], T]:
    """Return a parser that reports the ValueError of another one as a wrong value of an option."""

    def read(value: object) -> T:
        try:
            return parse(str(value))
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return read


WEIGHTS = parsed(parse_weights)
TOKENS = parsed(parse_count)


def packings(text: str) -> list[str]:
    """Parse packing methods, or `all`, in their fixed order.

    >>> packings("windows,best-fit")
    ['best-fit', 'windows']

    Raises:
        click.BadParameter: A method is unknown.
    """
    choice = Choice((*PACKINGS, "all"))
    chosen = listed(lambda name: choice.convert(name, None, None))(text)
    return [name for name in PACKINGS if name in chosen or "all" in chosen]


def default_recipe(
    ctx: click.Context, param: click.Parameter, value: str | tuple[str, ...] | None
) -> str | tuple[str, ...] | None:
    """Return the value of an argument, or without one the default recipe.

    Raises:
        click.MissingParameter: There is no default recipe.
    """
    if value not in {None, ()} or ctx.resilient_parsing:
        return value
    if ctx.obj.default_recipe is None:
        raise click.MissingParameter(ctx=ctx, param=param)
    recipe: str = ctx.obj.default_recipe
    return recipe if value is None else (recipe,)


recipe_argument = click.argument(
    "recipe", type=PATH, required=False, default=None, metavar="RECIPE", callback=default_recipe
)
"""The TOML file that describes the job."""

output_argument = click.argument("location", type=PATH, metavar="OUTPUT|RECIPE")
"""A finished or unfinished output: its folder or URL, or its recipe."""

override_option = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override a key of the recipe, as in limits.slice_bytes=64MiB or source.NAME.split=train. "
    "Repeatable.",
)

change_options = options(
    click.option(
        "--resplit",
        is_flag=True,
        help="Assign all files to train and val again. By default, files keep the split of the "
        "first plan.",
    ),
    click.option(
        "--allow-removed",
        is_flag=True,
        help="Accept that a source, or more than a tenth of its files or bytes, is missing, and "
        "remove its documents from the output.",
    ),
    click.option(
        "--replace",
        is_flag=True,
        help="Accept that no source of the output remains, and replace the output.",
    ),
)

skip_option = click.option(
    "--skip-unreadable",
    is_flag=True,
    help="Leave out files that cannot be opened, or of which none of the first documents can be "
    "used, and list them.",
)

relearn_option = click.option(
    "--relearn",
    is_flag=True,
    help="Relearn the tokenizer from the current inputs. By default, it is kept when only the "
    "inputs have changed.",
)

also_option = click.option(
    "--also",
    type=lambda text: sorted(listed(COUNT)(text)),
    metavar="SIZE,...",
    help="Also write tokenizers of these smaller vocabulary sizes.",
)

cpus_option = click.option(
    "--cpus", type=COUNT, metavar="N", help="CPUs of this machine to use.  [default: all]"
)

local_option = click.option(
    "--local", is_flag=True, help="Run in processes of this machine, without Ray."
)

execution_options = options(
    cpus_option,
    local_option,
    click.option(
        "--address",
        metavar="ADDRESS",
        help="Ray cluster to run on: HOST:PORT, or auto.  [default: RAY_ADDRESS, else a local Ray]",
    ),
)

dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print what would be done, and change nothing."
)

split_option = click.option(
    "--split", type=Choice(("train", "val")), default="train", show_default=True, help="The split."
)


def vocab_size_option(
    default: str | None = None, *, is_required: bool = False
) -> Callable[[Any], Any]:
    """Return `--vocab-size`; `default` describes the value without the option."""
    text = "Vocabulary size, which includes bytes and special tokens."
    return click.option(
        "--vocab-size",
        type=int,
        metavar="N",
        required=is_required,
        help=text if default is None else f"{text}  [default: {default}]",
    )


file_options = options(
    click.option(
        "--input-format",
        type=Choice(("parquet", "jsonl", "lines", "document")),
        help="Format of all files.  [default: by suffix]",
    ),
    click.option(
        "--document-per-file",
        is_flag=True,
        help="Read a .txt file, or a file with an unknown suffix, as one document.",
    ),
    click.option(
        "--column",
        metavar="NAME",
        help="Parquet column or JSON field of the text.  "
        "[default: text, or the only one with text]",
    ),
)

corpus_options = options(
    click.option(
        "--kind",
        type=Choice(("text", "chat")),
        default="text",
        show_default=True,
        help="Kind of the documents: texts, or conversations, of which all messages are read.",
    ),
    file_options,
)


def max_bytes_option(default: str) -> Callable[[Any], Any]:
    """Return `--max-bytes` with its default."""
    return click.option(
        "--max-bytes",
        default=default,
        show_default=True,
        metavar="SIZE",
        help="Read this much text of each source, from its beginning.",
    )


def flag_of(name: str) -> str:
    """Return the flag of an option.

    >>> flag_of("no_sample")
    '--no-sample'
    """
    return f"--{name.replace('_', '-')}"


def overrides_of(arguments: Arguments) -> list[str]:
    """Return the overrides of a recipe: those of `--set`, and those of other options."""
    values = vars(arguments)
    given = {key: values.get(name) for name, key in _KEYS.items()}
    return [
        *arguments.overrides,
        *(f"{key}={str(value).lower()}" for key, value in given.items() if value),
        *(f"tokenizer.also={sizes}" for sizes in (values.get("also"),) if sizes is not None),
    ]


_KEYS = {
    "allow_removed": "output.allow_removed",
    "replace": "output.replace",
    "vocab_size": "tokenizer.vocab_size",
    "max_chars": "limits.max_chars",
    "doc_cap": "limits.doc_cap",
}
"""Options that override keys of a recipe."""


def recipe_of(arguments: Arguments) -> "Recipe":
    """Return the recipe with its overrides.

    Raises:
        RecipeError: The recipe cannot be read, or is invalid.
    """
    from pathlib import Path

    from nanotok_ray.errors import RecipeError
    from nanotok_ray.recipe import load_recipe
    from nanotok_ray.sources import suffix_format

    path = arguments.recipe
    if Path(path).is_dir():
        raise RecipeError(
            f"{path} is a folder, not a recipe; pass the TOML file that describes the job"
        )
    if suffix_format(path) is not None:
        raise RecipeError(
            f"{path} is not a recipe, which is a TOML file; to learn from files without one, use "
            "`nanotok tokenizer train`"
        )
    return load_recipe(arguments.recipe, overrides=overrides_of(arguments))


def is_recipe(location: str) -> bool:
    """Return whether an argument is a recipe rather than a folder."""
    from pathlib import Path

    return location.endswith(".toml") or Path(location).is_file()


def output_of(location: str) -> str:
    """Return the output folder of an argument, which is the folder or a recipe.

    Raises:
        RecipeError: The recipe cannot be read, or is invalid.
    """
    from nanotok_ray.recipe import load_recipe

    return load_recipe(location).output.path if is_recipe(location) else location


def note_ignored(arguments: Arguments) -> None:
    """Print a note if `--cpus` has no effect because a Ray cluster runs the job.

    Raises:
        RecipeError: Both `--local` and `--address` are given.
    """
    from nanotok_ray.errors import RecipeError

    values = vars(arguments)
    address = values.get("address") or os.environ.get("RAY_ADDRESS")
    if values.get("local") and values["address"]:
        raise RecipeError("--local and --address cannot be combined; omit one of them")
    if "local" not in values or values["local"] or not values["cpus"] or address in {None, "local"}:
        return
    arguments.console.note(
        f"--cpus has no effect on the Ray cluster {address}, of which all CPUs are used; pass "
        "--local to use only this machine"
    )


def running_message(location: str | None) -> str | None:
    """Return a message if an output is not finished because its job is running, else None.

    Raises:
        TransientIOError: The storage does not answer.
    """
    if location is None:
        return None
    from nanotok_ray.job.status import RUNNING, run_status
    from nanotok_ray.storage import Folder

    output = output_of(location)
    if run_status(Folder(output), now=time.time()).state != RUNNING:
        return None
    return (
        f"{output} is not finished yet: its job is running; wait until it has ended, or follow it "
        f"with `nanotok status {output} --watch`"
    )
