"""The layouts of a recipe: which they are, what workers write of them at once, what is left to do.

Takes a recipe and an output; gives layouts, and exports that are not done. Does not know how a unit
is written.
"""

from nanotok_ray.cluster.exporting import Exporting, export_folder
from nanotok_ray.cluster.tokenize import Tokenizing
from nanotok_ray.errors import ExportError, RecipeError
from nanotok_ray.export import Corpus, Layout, SamePass, check_folder, parse_layout
from nanotok_ray.recipe import Recipe
from nanotok_ray.storage import Folder


def layouts_of(recipe: Recipe) -> list[Layout]:
    """Give the layouts that a recipe names.

    Raises:
        RecipeError: one of them, or an option, is none.
    """
    try:
        return [parse_layout(text) for text in recipe.output.layouts]
    except ExportError as error:
        raise RecipeError(f"output.layouts: {error}") from error


def same_pass(recipe: Recipe, tokenizing: Tokenizing, out: Folder) -> SamePass | None:
    """Give what workers export of the slices that they tokenize; None where that is nothing.

    Raises:
        ExportError: a layout cannot hold what there will be, or its folder holds something else.
    """
    layouts = layouts_of(recipe)
    if not layouts:
        return None
    corpus = Corpus(out=out, manifest=tokenizing.facts, manifest_sha256="")
    for layout in layouts:
        layout.check(corpus)
        check_folder(export_folder(out, layout))
    own = tuple((layout, export_folder(out, layout).url) for layout in layouts)
    return SamePass(corpus=corpus, layouts=own)


def exportings(recipe: Recipe, out: Folder) -> list[Exporting]:
    """Look at a finished output and at each of its exports."""
    return [Exporting.of(out, layout) for layout in layouts_of(recipe)]
