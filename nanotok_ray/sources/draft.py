"""Drafts a recipe for unknown files, and extends a drafted recipe when files are added."""

from dataclasses import dataclass, replace

from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe import Recipe, SourceRecipe, parse_recipe
from nanotok_ray.sources.draft_sources import (
    Draft,
    DraftedSource,
    KnownSource,
    NamedPaths,
    draft_sources,
)
from nanotok_ray.sources.draft_text import (
    IMAGES,
    NOT_COUNTED,
    extended_text,
    recipe_text,
    source_text,
    toml,
)
from nanotok_ray.sources.listing import Listing, list_source
from nanotok_ray.sources.named_files import ReadingRules
from nanotok_ray.sources.resolve import OnLook, ignore_looks
from nanotok_ray.units import few


def draft_recipe(
    named: NamedPaths,
    *,
    vocab_size: int,
    rules: ReadingRules = ReadingRules(),  # noqa: B008 - immutable
    excludes_unusable: bool = True,
    on_look: OnLook = ignore_looks,
) -> Draft:
    """Open files and draft a recipe for them.

    Args:
        named: the files, from `find_paths`.
        vocab_size: the vocabulary size of the recipe.
        rules: the rules by which the files are read; a format and a column are otherwise chosen.
        excludes_unusable: whether the recipe excludes the files that cannot be used, by name.
        on_look: called with a name for all files, the number of opened files, and the number of
            files.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    draft = draft_sources(named, rules=rules, on_look=on_look)
    if not draft.sources:
        return draft
    text = recipe_text(
        draft.sources,
        output=named.output,
        vocab_size=vocab_size,
        excludes_unusable=excludes_unusable,
    )
    return replace(draft, text=text)


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedRecipe:
    """The recipe that an earlier run saved in an output, with the files that it names now."""

    name: str
    """Its path or URL."""
    text: str
    is_edited: bool
    """Whether it is not as it was drafted, or this is unknown."""
    recipe: Recipe
    sources: tuple[KnownSource, ...]

    @classmethod
    def of(cls, text: str, *, name: str, is_edited: bool) -> "SavedRecipe":
        """List the files of the sources of a recipe.

        Raises:
            RecipeError: The recipe is invalid.
            SourceError: A folder cannot be listed, or a source would read the output.
            TransientIOError: A remote store failed in a way that a retry can solve.
        """
        recipe = parse_recipe(text, name=name)
        written = recipe.output.folders
        return cls(
            name=name,
            text=text,
            is_edited=is_edited,
            recipe=recipe,
            sources=tuple(
                KnownSource(
                    recipe=source, listing=list_source(source, written=written, may_miss=True)
                )
                for source in recipe.sources
            ),
        )

    def reading(self, named: NamedPaths) -> list[KnownSource]:
        """Return the sources that read or exclude some of the named files."""
        files = named.files.keys()
        return [source for source in self.sources if not files.isdisjoint(source.decided)]

    def check_reading(self, named: NamedPaths) -> None:
        """Raise an error if the recipe reads files, and none of those that are named.

        Raises:
            RecipeError: As above.
        """
        if not self.reading(named) and any(source.listing.files for source in self.sources):
            others = few([path for source in self.recipe.sources for path in source.paths])
            raise RecipeError(
                f"{self.name} is the recipe of other files ({others}), and reads none of those "
                "that are named: pass another --output, name the files of both, or pass --replace "
                "to replace the recipe and the output"
            )

    def without_missing(self, recipe: Recipe) -> Recipe:
        """Return a recipe without the paths of this one that match no file any more.

        A path is kept if the root of its source would change without it, and so is the recipe if
        no source would be left: planning reports them.
        """
        known = {source.recipe.name: source.listing for source in self.sources}
        left = [_present(source, known.get(source.name)) for source in recipe.sources]
        sources = tuple(source for source in left if source is not None)
        return recipe.model_copy(update={"sources": sources}) if sources else recipe


def _present(source: SourceRecipe, listing: Listing | None) -> SourceRecipe | None:
    if listing is None or not listing.missing:
        return source
    paths = tuple(path for path in source.paths if path not in listing.missing)
    if not paths:
        return None
    changed = source.model_copy(update={"paths": paths})
    return changed if list_source(changed, may_miss=True).root == listing.root else source


def extend_recipe(
    saved: SavedRecipe,
    named: NamedPaths,
    *,
    rules: ReadingRules,
    is_late: bool,
    on_look: OnLook = ignore_looks,
) -> Draft:
    """Open the files that no source of a saved recipe reads, and add sources or paths for them.

    Args:
        saved: the recipe.
        named: the files.
        rules: the rules by which files are read for which the recipe has no source.
        is_late: whether the tokenizer exists and is kept: new sources are not counted. Otherwise,
            all sources of text are counted.
        on_look: as for `draft_recipe`.

    Raises:
        RecipeError: The recipe was edited and has no source for some files, or lacks the special
            tokens of images.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    draft = draft_sources(named, rules=rules, known=saved.sources, on_look=on_look)
    text = saved.text
    if draft.sources:
        _check_extension(saved, draft)
        names = [source.name for source in saved.recipe.sources]
        text = extended_text(text, names, draft.sources, is_late=is_late)
    if not is_late and not saved.is_edited:
        text = text.replace(NOT_COUNTED, "")
    return replace(draft, text=text)


def _check_extension(saved: SavedRecipe, draft: Draft) -> None:
    """Raise an error if the sources of new files cannot be added to a recipe."""
    has_images = any(source.shape.kind == "vision" for source in draft.sources)
    lacks_tokens = has_images and not saved.recipe.tokenizer.extend
    if not saved.is_edited and not lacks_tokens:
        return
    files = [item.file.path for source in draft.sources for item in source.members]
    why = "was edited" if saved.is_edited else "has no special tokens for images"
    tokens = f"\n\n[tokenizer]\n{IMAGES.rstrip()}" if lacks_tokens else ""
    raise RecipeError(
        f"{saved.name} {why}, and no source of it reads {few(files)}: add the lines below, or name "
        f"the files in exclude; `nanotok prepare {saved.name}` runs it as it is\n\n"
        + "\n".join(_addition(source) for source in draft.sources)
        + tokens
    )


def _addition(source: DraftedSource) -> str:
    if source.extends is None:
        return source_text(source).rstrip()
    return f"paths = {toml([*source.paths])}  # in addition, for source {source.name!r}"
