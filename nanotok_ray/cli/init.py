"""The command that drafts a recipe, `init`, and the draft of `prepare` without a recipe."""

from typing import TYPE_CHECKING, Final

import click

from nanotok_ray.cli.app import Arguments, command
from nanotok_ray.cli.options import PATH, overrides_of, vocab_size_option

if TYPE_CHECKING:
    from nanotok_ray.job import OnEvent
    from nanotok_ray.recipe import Recipe
    from nanotok_ray.sources import Draft

RECIPE_NAME: Final = "recipe.toml"
DEFAULT_VOCAB_SIZE: Final = 32768


@command(
    examples="""
nanotok init /data/web                          # writes /data/recipe.toml
nanotok init /data/web --output web.toml
nanotok init '/data/*.jsonl.gz' /data/chats --output all.toml --vocab-size 65536
"""
)
@click.argument("files", type=PATH, metavar="FILE|FOLDER...", nargs=-1, required=True)
@click.option(
    "--output",
    type=PATH,
    metavar="FILE",
    help="The recipe to write.  [default: recipe.toml beside the first folder]",
)
@vocab_size_option(str(DEFAULT_VOCAB_SIZE))
@click.option("--force", is_flag=True, help="Overwrite an existing recipe.")
def init(arguments: Arguments) -> int:
    """Read the first documents of files, and write a recipe for them.

    The command accepts files, folders, globs and URLs. It detects the format of each file: parquet
    and the column of the text, JSON lines and the field of the text, plain text, conversations, or
    documents with images, compressed or not. The recipe has one source for each folder, format and
    kind of documents. A source of a named folder includes the files that are added to it later; a
    source of named files does not. Files that cannot be read are listed with the reason, as are
    files of which several columns can be the text, and preference data.

    The last file of a text source is for validation, as in nanochat, or 1% of its documents if that
    file has more than 5% of the source. Check the recipe, which has comments, before you run it.
    The output folder is named after the first folder, with "-tokens" at its end.
    """
    from pathlib import Path

    from nanotok_ray.errors import RecipeError
    from nanotok_ray.job import Activity
    from nanotok_ray.recipe.text import absolute_path

    first = absolute_path(arguments.files[0]).rstrip("/")
    base = first if "://" in first or Path(first).is_dir() else str(Path(first).parent)
    target = Path(arguments.output or Path(base).with_name(RECIPE_NAME))
    if arguments.output is None and "://" in base:
        raise RecipeError(f"{base} is a URL; name the recipe to write with --output FILE")
    if target.exists() and not arguments.force:
        raise RecipeError(f"{target} already exists; pass another --output, or add --force")
    with arguments.console.progress() as on_event:
        on_event(Activity(text=f"looking at {', '.join(arguments.files)}"))
        draft = _draft(arguments, f"{base}-tokens", on_event)
    target.write_text(draft.text, "utf-8")
    values = {"status": "done", "recipe": str(target), "found": draft.found, "unread": draft.unread}
    arguments.console.result(
        values,
        *(f"found       {line}" for line in draft.found),
        *(f"skipped     {line}" for line in draft.unread),
        f"wrote       {target}",
        f"next        nanotok plan {target}",
        f"            nanotok prepare {target}",
    )
    return 0


def drafted_recipe(arguments: Arguments, on_event: "OnEvent") -> "Recipe":
    """Return the recipe that is drafted for files, which is saved as OUT/recipe.toml.

    Raises:
        RecipeError: Another recipe exists, or keys would be overridden.
        SourceError: No file can be used.
    """
    from nanotok_ray.errors import RecipeError
    from nanotok_ray.job import Note
    from nanotok_ray.recipe import parse_recipe
    from nanotok_ray.storage import Folder

    if arguments.overrides:
        raise RecipeError(
            "--set needs a recipe: write one with `nanotok init`, or run the one that is saved in "
            "the output"
        )
    out = Folder(arguments.output)
    draft = _draft(arguments, arguments.output, on_event)
    for line in draft.found:
        on_event(Note(text=f"found {line}"))
    for line in draft.unread:
        on_event(Note(text=f"skipped {line}"))
    name = out.join(RECIPE_NAME)
    data = draft.text.encode()
    if out.exists(RECIPE_NAME) and out.read_bytes(RECIPE_NAME) != data:
        raise RecipeError(
            f"{name} is not the recipe of these files and options: it was edited, or made for "
            f"others. Run `nanotok prepare {name}` to use it, or remove it"
        )
    if not arguments.dry_run:
        out.write_whole(RECIPE_NAME, data)
    arguments.vocab_size = None  # part of the draft
    return parse_recipe(draft.text, overrides=overrides_of(arguments), name=name)


def _draft(arguments: Arguments, output: str, on_event: "OnEvent") -> "Draft":
    from nanotok_ray.errors import SourceError
    from nanotok_ray.job import Activity
    from nanotok_ray.sources import draft_recipe

    def on_look(_: str, done: int, todo: int) -> None:
        text = "opening files" if todo else "listing files"
        on_event(Activity(text=text, done=done, todo=todo))

    draft = draft_recipe(
        arguments.files,
        output=output,
        vocab_size=arguments.vocab_size or DEFAULT_VOCAB_SIZE,
        on_look=on_look,
    )
    if not draft.text:
        raise SourceError(
            "no file can be used:\n" + "\n".join(f"  {line}" for line in draft.unread)
        )
    return draft
