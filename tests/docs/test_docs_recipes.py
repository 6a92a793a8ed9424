"""docs/recipes.md and docs/failures.md: keys, limits, messages are those of the code."""

import ast
import errno
import importlib.util
import inspect
import io
import os
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

import pytest

from nanotok_ray.cli import EXIT_CODES
from nanotok_ray.errors import RecipeError
from nanotok_ray.formats import RESERVED_NAMES
from nanotok_ray.job.task import Cause, RetryPolicy
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
from nanotok_ray.sources import DROPPED, SKIPPED, TAIL, json_lines
from tests.support.doc_commands import ROOT, code_of

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
TYPE_OF = {"template_args": "table", "superword": "table"}
"""The types of keys that are stored in another one."""
KINDS = ("text", "chat", "vision")
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


def section(page, title):
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def table(page, title):
    """Return the cells of the rows of a section's table, without its head."""
    lines = [line for line in section(page, title).splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def rows(title):
    """Return the other cells of each row of a table of keys, by key."""
    return {key.strip("`"): cells for key, *cells in table(PAGE, title) if key.startswith("`")}


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
    assert cells[0] == TYPE_OF.get(key, TYPES[plain_type(field.annotation)])
    shown = cells[1]
    if field.is_required():
        assert shown == "required"
    elif key == "work":
        assert shown == "`work` in `path`"
        assert OutputRecipe(path="/x").work == "/x/work"
    elif key == "special_tokens":
        assert shown == "nanochat's nine"
        assert field.default == SPECIAL_TOKENS
        assert all(f"`{name}`" in section(PAGE, title) for name in SPECIAL_TOKENS)
    elif key == "special_text":  # the default of chats is not for other kinds
        of_kind = {
            kind: getattr(SourceRecipe(name="a", kind=kind, paths="/a"), key) for kind in KINDS
        }
        assert re.findall(r'`"(\w+)"`', shown) == [of_kind["text"], of_kind["chat"]]
        assert of_kind["vision"] == of_kind["text"]
    elif title == "[[source]]" and key in BY_KIND:
        assert field.default_factory is not None
        check_default_by_kind(key, shown_values(shown, TABLES[title], key))
    else:
        assert shown_values(shown, TABLES[title], key) == [field.default]


def check_default_by_kind(key, shown):
    made = [getattr(SourceRecipe(name="a", kind=kind, paths=("/a",)), key) for kind in KINDS]
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
    "tokenizer.add": ["tokenizer.base=/data/tokenizer"],
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
    assert sizes == {key for key, _ in NUMBERS}


def test_every_toml_block_loads(tmp_path, monkeypatch):
    blocks = code_of(PAGE, "toml")
    assert len(blocks) >= 5
    for name in ("CODE", "DATA", "RUN"):
        monkeypatch.delenv(name, raising=False)
    for place, block in enumerate(blocks):
        path = tmp_path / f"{place}.toml"
        path.write_text(block, "utf-8")
        assert load_recipe(str(path)).output.path


def test_all_presets_and_choices_are_named():
    for name, preset in PRESETS.items():
        assert f'"preset:{name}"' in PAGE
        assert all(f"`{token}`" in PAGE for token in preset.special_tokens)
    assert set(re.findall(r"not `(\w+)`", rows("[[source]]")["name"][2])) <= set(RESERVED_NAMES)


FAILURES = (ROOT / "docs/failures.md").read_text("utf-8")
SIZING = (ROOT / "docs/sizing.md").read_text("utf-8")
FROM_ELSEWHERE = (
    os.strerror(errno.ENOSPC),
    "TooManyRequests",  # HTTP 429
)
"""Messages of the system and of the stores."""
PACKAGES = {
    "ray": "_private/authentication/authentication_constants.py",
    "s3fs": "errors.py",
}
"""Files of others whose messages the page quotes."""
OF_SUBMIT = {"7"}
"""Exit codes that only `nanotok submit` has."""


def literals(source):
    """Return string literals of Python code without docstrings; a NUL replaces an expression."""
    found = []
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
            found.append("".join(map(str, parts)))
    return found


@pytest.fixture(scope="module")
def messages():
    files = [*(ROOT / "nanotok_ray").rglob("*.py")]
    for package, path in PACKAGES.items():
        files.append(Path(importlib.util.find_spec(package).origin).parent / path)
    return [text for file in files for text in literals(file.read_text("utf-8"))]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def is_said(quote, messages):
    """Return whether a message has the words of a quote in their order; `...` is anything."""
    if quote in FROM_ELSEWHERE:
        return True
    parts = [part.strip() for part in quote.removesuffix(": ...").split("...")]
    wanted = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    return any(wanted.search(message) for message in messages)


QUOTES = [
    quote
    for title, columns in {
        "Exit codes": [1],
        "Failed attempts": [0, 3],
        "Quarantined documents": [0],
        "Ray, stores and machines": [0],
    }.items()
    for row in table(FAILURES, title)
    for column in columns
    for quote in quoted(row[column])
    if " " in quote.strip(". ") or column == 0
    if not quote.startswith(("nanotok ", "tokenizer.", "make ", "pip "))
]


@pytest.mark.parametrize("quote", QUOTES)
def test_quoted_messages_exist_in_the_code(quote, messages):
    assert is_said(quote, messages)


def test_an_unknown_message_is_detected(messages):
    assert len(QUOTES) > 40
    assert not is_said("the moon is ... made of cheese", messages)


def test_the_page_lists_exactly_the_exit_codes():
    codes = set(re.findall(r"^  (\d+)  ", EXIT_CODES, re.MULTILINE))
    assert {row[0] for row in table(FAILURES, "Exit codes")} == codes | OF_SUBMIT


def test_the_page_lists_every_cause_with_its_attempts():
    reported = {quoted(row[0])[0]: row[2] for row in table(FAILURES, "Failed attempts")}
    for cause in Cause:
        tries = RetryPolicy().limits[cause]
        assert int(re.match(r"\d+", reported[cause.value])[0]) == tries


def test_the_page_lists_every_kind_of_quarantine_and_every_reason_of_a_source():
    shown = [quote for row in table(FAILURES, "Quarantined documents") for quote in quoted(row[0])]
    assert {f"{kind}: ..." for kind in (TAIL, SKIPPED, DROPPED)} <= {*shown}
    said = re.findall(r'Rejected\(f?"([a-z A-Z]+):', inspect.getsource(json_lines))
    assert {*said} <= {quote.partition(":")[0] for quote in shown}


def test_the_comparison_of_chat_templates_adds_up():
    text = (ROOT / "docs/chats.md").read_text("utf-8")
    shown = text.partition("### Compared with transformers\n")[2].partition("\n### ")[0]
    cells = [re.findall(r" ([\d,]+) (?=\|)", line) for line in shown.splitlines()]
    *parts, total = [[int(one.replace(",", "")) for one in row[-5:]] for row in cells if row]
    assert all(sum(row) % (43 * 2) == 0 for row in parts)
    assert [*map(sum, zip(*parts, strict=True))] == total
    assert sum(total) == 72 * 43 * 2


def test_the_estimate_equals_the_output_of_its_code():
    code = code_of(SIZING, "python")[0]
    reported = io.StringIO()
    with redirect_stdout(reported):
        exec(compile(code, "docs/sizing.md", "exec"), {"__name__": "docs"})
    shown = re.search(r"((?:^\| [\d,]+ GB \|.*\n)+)", SIZING, re.MULTILINE)[1]
    assert shown == reported.getvalue()
    assert len(shown.splitlines()) == 8
