"""Checks of a recipe: its folders, its sources, its tokenizer. Nothing is counted."""

from collections.abc import Iterator

from nanotok_ray.doctor.disk import check_space
from nanotok_ray.doctor.finding import Finding
from nanotok_ray.errors import NanotokError
from nanotok_ray.recipe import Recipe, SourceRecipe, load_recipe


def opened_recipe(path: str) -> tuple[Finding, Recipe | None]:
    """Read a recipe; None if it is wrong."""
    name = "recipe"
    try:
        recipe = load_recipe(path)
    except NanotokError as error:
        advice = "mend it; docs/recipes.md tells every key"
        return Finding(name=name, status="fail", found=str(error), advice=advice), None
    told = f"{path}: {len(recipe.sources)} sources, {recipe.tokenizer.vocab_size:,} ids"
    return Finding(name=name, status="ok", found=told), recipe


def check_inputs(recipe: Recipe) -> Iterator[Finding]:
    """Open every input of a recipe and read its first documents, as `nanotok plan` does."""
    sizes: dict[str, int] = {}
    for source in recipe.sources:
        yield _check_source(source, recipe, sizes)
    if len(sizes) == len(recipe.sources):
        yield from check_space(recipe, sizes)
    if recipe.tokenizer.path is not None:
        yield _check_tokenizer(recipe.tokenizer.path)


def _check_source(source: SourceRecipe, recipe: Recipe, sizes: dict[str, int]) -> Finding:
    """Check one source, and add its bytes of text to `sizes`."""
    from nanotok_ray.sources import (  # noqa: PLC0415 - as above
        check_sample,
        decoded_bytes,  # noqa: PLC0415 - slow to import
        resolve,
    )

    name = f"source {source.name}"
    try:
        files = resolve(source, written=recipe.output.folders).files
        notes = check_sample(source, files, limits=recipe.limits)
    except (NanotokError, OSError) as error:
        advice = "correct the source in the recipe, or the credentials here"
        return Finding(name=name, status="fail", found=str(error), advice=advice)
    sizes[source.name] = decoded_bytes(files)
    num_bytes = sum(file.size for file in files)
    noun = "file" if len(files) == 1 else "files"
    found = f"{len(files):,} {noun} can be opened, {num_bytes / 1e6:,.1f} MB"
    if notes:
        return Finding(name=name, status="warn", found=found, advice="; ".join(notes))
    return Finding(name=name, status="ok", found=found)


def _check_tokenizer(path: str) -> Finding:
    from nanotok_ray.tokenizer import open_tokenizer  # noqa: PLC0415 - slow to import

    name = "tokenizer"
    try:
        tokenizer = open_tokenizer(path)
    except (NanotokError, OSError) as error:
        advice = "mend tokenizer.path in the recipe"
        return Finding(name=name, status="fail", found=str(error), advice=advice)
    return Finding(name=name, status="ok", found=f"{path}: {tokenizer.get_vocab_size():,} ids")
