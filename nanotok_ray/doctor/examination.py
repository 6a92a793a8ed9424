"""All checks that need no Ray, in their order. Does not know how one is done."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from nanotok_ray.doctor.disk import check_disk
from nanotok_ray.doctor.finding import Finding
from nanotok_ray.doctor.machine import check_machine
from nanotok_ray.doctor.probe import check_folder
from nanotok_ray.doctor.ray_settings import check_ray_settings
from nanotok_ray.doctor.recipe_check import check_inputs, opened_recipe
from nanotok_ray.doctor.software import check_packages, check_software
from nanotok_ray.formats.paths import local_path
from nanotok_ray.recipe import Recipe


def examine(places: Sequence[str], *, address: str | None = None) -> Iterator[Finding]:
    """Check this machine and some places, giving each finding as it is made.

    Args:
        places: folders or URLs of them, and files of recipes.
        address: the cluster or job server that is meant; its own checks are the caller's.
    """
    yield from check_software()
    yield from check_ray_settings(address=address)
    yield from check_machine()
    recipes: list[Recipe] = []
    folders: list[str] = []
    for place in places:
        if not is_recipe(place):
            folders.append(place)
            continue
        finding, recipe = opened_recipe(place)
        yield finding
        if recipe is not None:
            recipes.append(recipe)
            folders += [recipe.output.path, recipe.output.work]
    yield from _check_places(folders, recipes)


def is_recipe(place: str) -> bool:
    """Tell whether an argument means a recipe: by its ending, or as it is a file.

    >>> is_recipe("jobs.toml"), is_recipe("s3://bucket/out")
    (True, False)
    """
    path = local_path(place)
    return path is not None and (place.endswith(".toml") or Path(path).is_file())


def apart(folders: Sequence[str]) -> list[str]:
    """Leave out folders that are named twice, or lie in another one.

    >>> apart(["/data/out", "/data/out/work", "/data/other", "/data/out/"])
    ['/data/out', '/data/other']
    """
    chosen = list(dict.fromkeys(folder.rstrip("/") or "/" for folder in folders))
    return [each for each in chosen if not any(each.startswith(f"{other}/") for other in chosen)]


def _check_places(folders: Sequence[str], recipes: Sequence[Recipe]) -> Iterator[Finding]:
    inputs = [path for recipe in recipes for source in recipe.sources for path in source.paths]
    yield from check_packages([*folders, *inputs])
    for folder in apart(folders):
        yield from check_folder(folder)
    yield from map(check_disk, filter(None, map(local_path, apart(folders))))
    for recipe in recipes:
        yield from check_inputs(recipe)
