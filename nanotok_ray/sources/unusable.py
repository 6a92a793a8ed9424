"""Finds the files of a recipe that cannot be used, to leave them out of a job."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from glob import escape

from nanotok_ray.errors import SourceError
from nanotok_ray.recipe import LimitsRecipe, Recipe, SourceRecipe
from nanotok_ray.sources.listing import list_source
from nanotok_ray.sources.resolve import Look, OnLook, ignore_looks, listed_problems, open_files
from nanotok_ray.sources.sample import check_sample
from nanotok_ray.sources.start import in_threads
from nanotok_ray.units import masked_url, quantity


@dataclass(frozen=True, kw_only=True, slots=True)
class UnusableFile:
    """A file that cannot be opened, or of which none of the first documents can be used."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path.rpartition('/')[2]}: {self.reason}"


def without_unusable(
    recipe: Recipe, *, on_look: OnLook = ignore_looks
) -> tuple[Recipe, tuple[UnusableFile, ...]]:
    """Return a recipe that excludes the files that cannot be used, and these files.

    Raises:
        SourceError: No file of a source can be used, or as for `resolve`, like other errors.
    """
    sources: list[SourceRecipe] = []
    unusable: list[UnusableFile] = []
    for source in recipe.sources:
        on_look(source.name, 0, 0)
        listing = list_source(source, written=recipe.output.folders)
        looks = open_files(listing, source=source, on_look=on_look)
        refused = list(_unusable(looks, source=source, limits=recipe.limits))
        if refused and len(refused) == len(looks):
            head = f"source {source.name!r}: none of its {quantity(len(looks), 'file')} can be used"
            raise SourceError(listed_problems(head, [*map(str, refused)]))
        exclude = (*source.exclude, *(escape(file.path) for file in refused))
        sources.append(source.model_copy(update={"exclude": exclude}) if refused else source)
        unusable += refused
    return recipe.model_copy(update={"sources": tuple(sources)}), tuple(unusable)


def _unusable(
    looks: list[Look], *, source: SourceRecipe, limits: LimitsRecipe
) -> Iterator[UnusableFile]:
    default = LimitsRecipe(max_document_bytes=limits.max_document_bytes)
    reasons = in_threads(partial(_reason, source=source, limits=default), looks)
    for look, reason in zip(looks, reasons, strict=True):
        if reason:
            yield UnusableFile(path=masked_url(look.file.url), reason=reason)


def _reason(look: Look, *, source: SourceRecipe, limits: LimitsRecipe) -> str:
    reason = look.problem or look.oddity
    if reason is None:
        try:
            check_sample(source, [look.file], limits=limits)
        except SourceError as error:
            reason = str(error)
    text, sep, command = (reason or "").partition("convert it with")
    text = text.removeprefix(f"source {source.name!r}: ").removeprefix(f"{look.file.path}: ")
    text = text.replace(look.file.url, "it")
    return f"{text}{sep}{command}"
