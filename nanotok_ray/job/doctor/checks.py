"""All checks without Ray, in their order, and those of a recipe."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from nanotok_ray.errors import NanotokError
from nanotok_ray.formats import local_path
from nanotok_ray.job.doctor.disk import check_disk, check_space
from nanotok_ray.job.doctor.folder import check_folder
from nanotok_ray.job.doctor.ray_settings import check_ray_settings
from nanotok_ray.job.doctor.result import CheckResult, failure, passed, warning
from nanotok_ray.job.doctor.software import check_core, check_ray
from nanotok_ray.recipe import Recipe, SourceRecipe, load_recipe
from nanotok_ray.recipe.superwords import learner_bytes
from nanotok_ray.units import format_bytes, quantity


def opened_recipe(path: str, overrides: Sequence[str]) -> tuple[CheckResult, Recipe | None]:
    """Read a recipe and apply overrides; the recipe is None if it is invalid."""
    name = "recipe"
    try:
        recipe = load_recipe(path, overrides=overrides)
    except NanotokError as error:
        advice = "fix it; docs/recipes.md lists every key"
        return failure(name, str(error), advice), None
    size = recipe.tokenizer.vocab_size if recipe.tokenizer.add is None else recipe.tokenizer.add
    ids = "ids" if recipe.tokenizer.add is None else "new ids"
    text = f"{path}: {quantity(len(recipe.sources), 'source')}, {size:,} {ids}"
    return passed(name, text), recipe


def check_inputs(recipe: Recipe) -> Iterator[CheckResult]:
    """Open every input of a recipe and read its first documents, as `nanotok plan` does."""
    sizes: dict[str, int] = {}
    for source in recipe.sources:
        yield _check_source(source, recipe, sizes)
    if len(sizes) == len(recipe.sources):
        yield from check_space(recipe, sizes)
        if recipe.tokenizer.superwords is not None:
            counted = sum(sizes[source.name] for source in recipe.sources if source.count)
            memory = format_bytes(learner_bytes(counted))
            yield passed(
                "learner", f"tokens of several words take at most about {memory} of memory"
            )
    for key, path in (("path", recipe.tokenizer.path), ("base", recipe.tokenizer.base)):
        if path is not None:
            yield _check_tokenizer(path, key=key)


def _check_source(source: SourceRecipe, recipe: Recipe, sizes: dict[str, int]) -> CheckResult:
    """Check one source, and add its bytes of text to `sizes`."""
    from nanotok_ray.sources import (  # noqa: PLC0415 - as above
        check_sample,
        decoded_bytes,
        resolve,
    )

    name = f"source {source.name}"
    try:
        files = resolve(source, written=recipe.output.folders).files
        notes = check_sample(source, files, limits=recipe.limits)
    except (NanotokError, OSError) as error:
        advice = "correct the source in the recipe, or the credentials here"
        return failure(name, str(error), advice)
    sizes[source.name] = decoded_bytes(files)
    num_bytes = sum(file.size for file in files)
    text = f"{quantity(len(files), 'file')} can be opened, {num_bytes / 1e6:,.1f} MB"
    if notes:
        return warning(name, text, "; ".join(notes))
    return passed(name, text)


def _check_tokenizer(path: str, *, key: str) -> CheckResult:
    from nanotok_ray.tokenizer import open_tokenizer  # noqa: PLC0415 - slow to import

    name = "tokenizer"
    try:
        tokenizer = open_tokenizer(path)
    except (NanotokError, OSError) as error:
        advice = f"fix tokenizer.{key} in the recipe"
        return failure(name, str(error), advice)
    found = f"{path}: {tokenizer.get_vocab_size():,} ids"
    if tokenizer.engine_version is None:
        return passed(name, found)
    advice = (
        f"{tokenizer.engine_version} encodes, which is slower than the core and has no limit of "
        "steps: limits.slice_deadline ends a slice that takes too long"
    )
    return warning(name, found, advice)


def libraries_of(recipes: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return the libraries that encode for recipes, with their versions, such as tokenizers 0.23.3.

    What cannot be read is left out: `run_checks` reports it.
    """
    from nanotok_ray.tokenizer import open_tokenizer  # noqa: PLC0415 - as above

    versions: dict[str, None] = {}
    for path in recipes:
        _, recipe = opened_recipe(path, overrides)
        if recipe is not None and recipe.tokenizer.path is not None:
            with suppress(NanotokError, OSError):
                version = open_tokenizer(recipe.tokenizer.path).engine_version
                versions |= {} if version is None else {version: None}
    return [*versions]


def run_checks(
    recipes: Sequence[str],
    folders: Sequence[str],
    *,
    overrides: Sequence[str] = (),
    address: str | None = None,
) -> Iterator[CheckResult]:
    """Check versions, settings of Ray, recipes and folders; yield each result as it is made.

    Args:
        recipes: files of recipes, of which the folders are checked too.
        folders: folders or URLs of folders.
        overrides: keys and values that override those of the recipes, as KEY=VALUE.
        address: the cluster or job server; the caller makes its own checks.
    """
    yield check_core()
    yield check_ray()
    yield from check_ray_settings(address=address)
    valid: list[Recipe] = []
    for path in recipes:
        finding, recipe = opened_recipe(path, overrides)
        yield finding
        valid += [] if recipe is None else [recipe]
    of_recipes = [folder for recipe in valid for folder in recipe.output.folders.values()]
    yield from _check_places([*folders, *of_recipes], valid)


def apart(folders: Sequence[str]) -> list[str]:
    """Return the folders without duplicates and folders inside other ones.

    >>> apart(["/data/out", "/data/out/work", "/data/other", "/data/out/"])
    ['/data/out', '/data/other']
    """
    chosen = list(dict.fromkeys(folder.rstrip("/") or "/" for folder in folders))
    return [
        folder for folder in chosen if not any(folder.startswith(f"{other}/") for other in chosen)
    ]


def _check_places(folders: Sequence[str], recipes: Sequence[Recipe]) -> Iterator[CheckResult]:
    unsafe = [recipe.output.path for recipe in recipes if recipe.output.unsafe_store]
    unsafe = apart([*unsafe, *(recipe.output.work for recipe in recipes)])  # it has no lease
    for folder in apart(folders):
        yield from check_folder(folder, unsafe_store=folder in unsafe)
    yield from map(check_disk, filter(None, map(local_path, apart(folders))))
    for recipe in recipes:
        yield from check_inputs(recipe)
