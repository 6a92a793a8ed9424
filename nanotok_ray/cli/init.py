"""The command that drafts a recipe, `init`, and the draft of `prepare` without a recipe."""

from typing import TYPE_CHECKING, Final

import click

from nanotok_ray.cli.app import Arguments, command
from nanotok_ray.cli.options import PATH, file_options, overrides_of, vocab_size_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nanotok_ray.job.events import OnEvent
    from nanotok_ray.recipe import Recipe
    from nanotok_ray.sources import Draft, KnownSource, NamedPaths, OnLook, SavedRecipe
    from nanotok_ray.storage import Folder
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
@file_options
@click.option("--force", is_flag=True, help="Overwrite an existing recipe.")
def init(arguments: Arguments) -> int:
    """Read the first documents of files, and write a recipe for them.

    The command accepts files, folders, globs and URLs. It detects the format of each file: parquet
    and the column of the text, JSON lines and the field of the text, plain text, conversations, or
    documents with images, compressed or not. The recipe has one source for each folder, format and
    kind of documents. A source of a named folder includes the files that are added to it later; a
    source of named files does not. Files that cannot be used are listed with the reason, such as
    damaged files, preference data, and files of which several columns can be the text; the recipe
    excludes them by name. Files in no known format are counted.

    The last file of a text source is for validation, as in nanochat, or 1% of its documents if that
    file has more than 5% of the source. Check the recipe, which has comments, before you run it.
    The output folder is named after the first folder, with "-tokens" at its end.
    """
    from pathlib import Path

    from nanotok_ray.errors import RecipeError
    from nanotok_ray.formats import RECIPE_NAME
    from nanotok_ray.job.events import Activity
    from nanotok_ray.recipe.text import absolute_path
    from nanotok_ray.sources import find_paths

    first = absolute_path(arguments.files[0]).rstrip("/")
    base = first if "://" in first or Path(first).is_dir() else str(Path(first).parent)
    target = Path(arguments.output or Path(base).with_name(RECIPE_NAME))
    if arguments.output is None and "://" in base:
        raise RecipeError(f"{base} is a URL; name the recipe to write with --output FILE")
    if target.exists() and not arguments.force:
        raise RecipeError(f"{target} already exists; pass another --output, or add --force")
    with arguments.console.progress() as on_event:
        on_event(Activity(text=f"looking at {', '.join(arguments.files)}"))
        output = f"{base}-tokens"
        named = find_paths(arguments.files, output=output, on_look=_on_look(on_event))
        draft = _draft(arguments, named, on_event, excludes_unusable=True)
    target.write_text(draft.text, "utf-8")
    values = {"status": "done", "recipe": str(target), "found": draft.found, "unread": draft.unread}
    arguments.console.result(
        values,
        lines=[
            *(f"found       {line}" for line in draft.found),
            *(f"skipped     {line}" for line in draft.unread),
            f"wrote       {target}",
            f"next        nanotok plan {target}",
            f"            nanotok prepare {target}",
        ],
    )
    return 0


def drafted_recipe(arguments: Arguments, on_event: "OnEvent") -> "Recipe":
    """Return the recipe for files that is saved as OUT/recipe.toml, or drafted and saved there.

    A saved recipe is used again. Files that it does not read get new sources, or are added to the
    paths of its sources, unless it was edited. Paths that match no file any more are left out.

    Raises:
        RecipeError: Options contradict the saved recipe, it is that of other files, or keys would
            be overridden.
        SourceError: Files cannot be used, unless --skip-unreadable is set.
    """
    from nanotok_ray.cli.inputs import with_flags
    from nanotok_ray.errors import RecipeError, SourceError
    from nanotok_ray.formats import RECIPE_NAME
    from nanotok_ray.job.events import Note
    from nanotok_ray.recipe import parse_recipe
    from nanotok_ray.sources import find_paths, listed_problems
    from nanotok_ray.storage import Folder, write_checked
    from nanotok_ray.units import quantity

    if arguments.overrides:
        raise RecipeError(
            "--set needs a recipe: write one with `nanotok init`, or run the one that is saved in "
            "the output"
        )
    out = Folder(arguments.output)
    named = find_paths(arguments.files, output=arguments.output, on_look=_on_look(on_event))
    saved = _saved_recipe(arguments, out, named)
    if saved is None:
        draft = _draft(arguments, named, on_event)
    else:
        draft = _extended(arguments, saved, named, on_event)
    for word, lines in (("found", draft.found), ("skipped", draft.unused)):
        for line in lines:
            on_event(Note(text=f"{word} {line}"))
    if draft.unusable and not arguments.skip_unreadable:
        head = (
            f"{quantity(len(draft.unusable), 'file')} cannot be used; fix or remove each, or pass "
            "--skip-unreadable to go on without"
        )
        listed = listed_problems(head, [*map(str, draft.unusable)])
        raise with_flags(SourceError(listed))
    name = out.join(RECIPE_NAME)
    arguments.vocab_size = None  # part of the recipe
    recipe = parse_recipe(draft.text, overrides=overrides_of(arguments), name=name)
    if not arguments.dry_run and (saved is None or saved.text != draft.text):
        write_checked(out, RECIPE_NAME, draft.text.encode())
        on_event(Note(text=f"{'saved' if saved is None else 'extended'} {name}"))
    arguments.skipped_files = draft.unusable
    return recipe if saved is None else saved.without_missing(recipe)


def _saved_recipe(arguments: Arguments, out: "Folder", named: "NamedPaths") -> "SavedRecipe | None":
    """Return the recipe that is saved in the output, or None if there is none to use.

    Raises:
        RecipeError: It is that of other files, and --replace is not set.
    """
    import hashlib

    from nanotok_ray.formats import RECIPE_NAME
    from nanotok_ray.recipe.text import decoded
    from nanotok_ray.sources import SavedRecipe
    from nanotok_ray.storage import Checksums

    if not out.exists(RECIPE_NAME):
        return None
    data, name = out.read_bytes(RECIPE_NAME), out.join(RECIPE_NAME)
    checksums = Checksums.of(out, [RECIPE_NAME])
    is_drafted = RECIPE_NAME in checksums.names and checksums.are_of(
        RECIPE_NAME, hashlib.sha256(data).hexdigest()
    )
    saved = SavedRecipe.of(decoded(data, name=name), name=name, is_edited=not is_drafted)
    if arguments.replace and not saved.reading(named):
        return None
    saved.check_reading(named)
    return saved


def _extended(
    arguments: Arguments, saved: "SavedRecipe", named: "NamedPaths", on_event: "OnEvent"
) -> "Draft":
    from nanotok_ray.cli.inputs import rules_of
    from nanotok_ray.errors import RecipeError
    from nanotok_ray.formats import LEARN_RECORD
    from nanotok_ray.job.events import Note
    from nanotok_ray.sources import extend_recipe
    from nanotok_ray.storage import Folder
    from nanotok_ray.units import few

    reading = saved.reading(named)
    for option, key in _contradictions(arguments, saved.recipe, reading):
        raise RecipeError(
            f"{option} contradicts {saved.name}, which has {key}: omit it, or choose another "
            f"--output, or change the recipe and run `nanotok prepare {saved.name}`"
        )
    on_event(Note(text=f"using {saved.name}"))
    others = [known.recipe.name for known in saved.sources if known.listing.files]
    if others := [name for name in others if name not in {known.recipe.name for known in reading}]:
        on_event(Note(text=f"it also names files that are not named here, of {few(others)}"))
    is_late = not arguments.relearn and Folder(arguments.output).exists(LEARN_RECORD)
    return extend_recipe(
        saved,
        named,
        rules=rules_of(arguments),
        is_late=is_late,
        on_look=_on_look(on_event),
    )


def _contradictions(
    arguments: Arguments, recipe: "Recipe", reading: "list[KnownSource]"
) -> "Iterator[tuple[str, str]]":
    """Yield the options that contradict a saved recipe, with its keys."""
    from nanotok_ray.recipe.text import absolute_path

    size, form = recipe.tokenizer.vocab_size, arguments.input_format
    output = absolute_path(arguments.output).rstrip("/")
    if output != recipe.output.path.rstrip("/"):
        yield f"--output {output}", f"path = {recipe.output.path!r}"
    if arguments.vocab_size not in {None, size}:
        yield f"--vocab-size {arguments.vocab_size}", f"vocab_size = {size}"
    for known in reading:
        name, column = known.recipe.name, known.recipe.column
        has_format = f"the format {known.format!r} for source {name!r}"
        if form not in {None, known.format}:
            yield f"--input-format {form}", has_format
        if arguments.document_per_file and known.format == "lines":
            yield "--document-per-file", has_format
        if column and arguments.column not in {None, column}:
            yield f"--column {arguments.column}", f"column = {column!r} for source {name!r}"


def _draft(
    arguments: Arguments,
    named: "NamedPaths",
    on_event: "OnEvent",
    *,
    excludes_unusable: bool = False,
) -> "Draft":
    """Draft a recipe for files: for an output, or to be read by a person first."""
    from nanotok_ray.cli.inputs import rules_of, with_flags
    from nanotok_ray.errors import SourceError
    from nanotok_ray.sources import draft_recipe

    draft = draft_recipe(
        named,
        vocab_size=arguments.vocab_size or DEFAULT_VOCAB_SIZE,
        rules=rules_of(arguments),
        excludes_unusable=excludes_unusable,
        on_look=_on_look(on_event),
    )
    if not draft.text:
        listed = "\n".join(f"  {line}" for line in draft.unread)
        raise with_flags(SourceError(f"no file can be used:\n{listed}"))
    return draft


def _on_look(on_event: "OnEvent") -> "OnLook":
    from nanotok_ray.job.events import Activity

    def on_look(_: str, done: int, todo: int) -> None:
        text = "opening files" if todo else "listing files"
        on_event(Activity(text=text, done=done, todo=todo))

    return on_look
