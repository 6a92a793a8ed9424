"""docs/failures.md and sizing.md: quoted messages exist; the estimate equals its code."""

import ast
import errno
import importlib.util
import inspect
import io
import os
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from nanotok_ray.cli import EXIT_CODES
from nanotok_ray.job import Cause, RetryPolicy
from nanotok_ray.sources import DROPPED, SKIPPED, TAIL, json_lines

ROOT = Path(__file__).parents[2]
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
RELEASED_LATER = {"7"}
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


def rows(title):
    """Return the cells of the rows of a table, without its head."""
    text = FAILURES.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


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
    for row in rows(title)
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
    assert {row[0] for row in rows("Exit codes")} == codes | RELEASED_LATER


def test_the_page_lists_every_cause_with_its_attempts():
    reported = {quoted(row[0])[0]: row[2] for row in rows("Failed attempts")}
    for cause in Cause:
        tries = RetryPolicy().limits[cause]
        assert int(re.match(r"\d+", reported[cause.value])[0]) == tries


def test_the_page_lists_every_kind_of_quarantine_and_every_reason_of_a_source():
    shown = [quote for row in rows("Quarantined documents") for quote in quoted(row[0])]
    assert {f"{kind}: ..." for kind in (TAIL, SKIPPED, DROPPED)} <= {*shown}
    said = re.findall(r'Rejected\(f?"([a-z A-Z]+):', inspect.getsource(json_lines))
    assert {*said} <= {quote.partition(":")[0] for quote in shown}


def test_the_estimate_equals_the_output_of_its_code():
    code = re.search(r"^```python\n(.*?)^```", SIZING, re.MULTILINE | re.DOTALL)[1]
    reported = io.StringIO()
    with redirect_stdout(reported):
        exec(compile(code, "docs/sizing.md", "exec"), {"__name__": "docs"})
    shown = re.search(r"((?:^\| [\d,]+ GB \|.*\n)+)", SIZING, re.MULTILINE)[1]
    assert shown == reported.getvalue()
    assert len(shown.splitlines()) == 8
