"""docs/recipes.md has every key of the model with its default and limits; its TOML is valid."""

import re
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

import pytest

from nanotok_ray.errors import RecipeError
from nanotok_ray.formats import RESERVED_NAMES
from nanotok_ray.recipe import (
    PRESETS,
    SPECIAL_TOKENS,
    LearnerRecipe,
    LimitsRecipe,
    OutputRecipe,
    SourceRecipe,
    TokenizerRecipe,
    load_recipe,
    parse_recipe,
)
from nanotok_ray.recipe.text import tomllib  # tomli on Python 3.10

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/recipes.md").read_text("utf-8")

TABLES = {
    "[[source]]": SourceRecipe,
    "[tokenizer]": TokenizerRecipe,
    "[output]": OutputRecipe,
    "[limits]": LimitsRecipe,
    "[learner]": LearnerRecipe,
}
TYPES = {
    str: "text",
    tuple[str, ...]: "texts",
    bool: "true or false",
    float: "number",
    int: "size",
    tuple[int, ...]: "sizes",
}
"""The names of types on the page; a choice of texts is a text."""
BY_KIND = ("column", "split", "count", "prepend")
"""Keys of a source whose default depends on its kind."""

SMALL = """
[[source]]
name = "web"
kind = "text"
paths = ["/data/web"]
[output]
path = "/data/out"
"""


def section(title):
    return re.split(r"^## ", PAGE.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


def rows(title):
    """Return the cells of each row of a section's table, by key."""
    found = {}
    for line in section(title).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and cells[0].startswith("`"):
            found[cells[0].strip("`")] = cells[1:]
    return found


CELLS = [(title, key, cells) for title in TABLES for key, cells in rows(title).items()]


REQUIRED = {
    SourceRecipe: {"name": "a", "kind": "text", "paths": "/a"},
    OutputRecipe: {"path": "/x"},
}


def shown_values(cell, model, key):
    """Return the values in a cell's code in the form of a recipe."""
    texts = [text.replace("\\|", "|") for text in re.findall(r"`([^`]+)`", cell)]
    values = [tomllib.loads(f"value = {text}")["value"] for text in texts]
    return [getattr(model(**REQUIRED.get(model, {}) | {key: value}), key) for value in values]


def plain_type(annotation):
    """Return the type of a value without pydantic's checks."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is Annotated or type(None) in get_args(annotation):
        return plain_type(parts[0])
    return str if get_origin(annotation) is Literal else annotation


@pytest.mark.parametrize("title", TABLES)
def test_the_page_lists_exactly_the_keys(title):
    assert sorted(rows(title)) == sorted(TABLES[title].model_fields)


@pytest.mark.parametrize(("title", "key", "cells"), CELLS)
def test_type_and_default_on_the_page_are_those_of_the_key(title, key, cells):
    field = TABLES[title].model_fields[key]
    assert cells[0] == TYPES[plain_type(field.annotation)]
    shown = cells[1]
    if field.is_required():
        assert shown == "required"
    elif key == "work":
        assert shown == "`work` in `path`"
        assert OutputRecipe(path="/x").work == "/x/work"
    elif key == "special_tokens":
        assert shown == "nanochat's nine"
        assert field.default == SPECIAL_TOKENS
        assert all(f"`{name}`" in section(title) for name in SPECIAL_TOKENS)
    elif title == "[[source]]" and key in BY_KIND:
        assert field.default_factory is not None
        check_default_by_kind(key, shown_values(shown, TABLES[title], key))
    else:
        assert shown_values(shown, TABLES[title], key) == [field.default]


def check_default_by_kind(key, shown):
    made = [
        getattr(SourceRecipe(name="a", kind=kind, paths=("/a",)), key)
        for kind in ("text", "chat", "vision")
    ]
    if key == "column":  # conversations have none
        assert made[1:] == ["", ""]
        assert shown == made[:1]
    else:
        assert made[1] == made[2]
        assert shown == made[:2]


def number(text):
    base, _, rest = text.partition("^")
    power, _, less = rest.partition(" - ")
    return int(base) ** int(power or 1) - int(less or 0)


NUMBERS = [
    (f"{title.strip('[]')}.{key}", found)
    for title, key, cells in CELLS
    if cells[0] == "size"
    and (found := re.match(r"(\d[\d^]*) to (\d+(?:\^\d+(?: - 1)?)?)", cells[2]))
]
BESIDE = {
    "learner.cpus": ["learner.memory=1GiB"],
    "source.image_tokens": ["source.web.kind=vision", "source.web.count=true"],
}


@pytest.mark.parametrize(("key", "found"), NUMBERS, ids=lambda each: str(each)[:40])
def test_the_limits_on_the_page_are_those_of_the_key(key, found):
    least, most = number(found[1]), number(found[2])
    own = key.replace("source.", "source.web.")
    beside = BESIDE.get(key, [])
    for value in (least, most):
        parse_recipe(SMALL, overrides=[*beside, f"{own}={value}"])
    for value in (least - 1, most + 1):
        with pytest.raises(RecipeError, match=re.escape(own)):
            parse_recipe(SMALL, overrides=[*beside, f"{own}={value}"])


def test_every_number_has_its_limits_on_the_page():
    sizes = {f"{title.strip('[]')}.{key}" for title, key, cells in CELLS if cells[0] == "size"}
    assert sizes == {key for key, _ in NUMBERS} | {"tokenizer.span_table"}  # it has no effect


def test_every_toml_block_loads(tmp_path, monkeypatch):
    blocks = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    for name in ("CODE", "DATA", "RUN"):
        monkeypatch.delenv(name, raising=False)
    for number_, block in enumerate(blocks):
        path = tmp_path / f"{number_}.toml"
        path.write_text(block, "utf-8")
        assert load_recipe(str(path)).output.path


def test_all_presets_and_choices_are_named():
    for name, preset in PRESETS.items():
        assert f'"preset:{name}"' in PAGE
        assert all(f"`{token}`" in PAGE for token in preset.special_tokens)
    assert set(re.findall(r"not `(\w+)`", rows("[[source]]")["name"][2])) <= set(RESERVED_NAMES)
