"""Values for templates: parts of pages, and texts made safe.

All HTML is in templates/. They escape every value, and `readable` replaces characters that are
invisible or change the appearance of others, so that texts of corpora and tokenizers cannot affect
the page.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nanotok_ray.report.charts import Chart
from nanotok_ray.report.document import Turn

if TYPE_CHECKING:
    from jinja2 import Environment

_MAX_CHARS: Final = 2000
"""Limit of the characters of a value, since names, reasons and errors can have any length."""


@dataclass(frozen=True, slots=True)
class Code:
    """A cell in a monospaced font."""

    code: str


@dataclass(frozen=True, slots=True)
class Link:
    """A cell with a link to an element of the page."""

    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """A cell with a box for each token."""

    tokens: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A part of a bar."""

    kind: str
    """The class of its color."""
    value: float
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A cell with a bar whose segments are proportional to their shares of `total`."""

    segments: Sequence[Segment]
    total: float


Cell = str | int | Code | Link | Tokens | Bar
Row = Mapping[str, Cell]
"""A row of a table: its cells by the heads of their columns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A number with its name."""

    name: str
    value: str
    exact: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a section; a template renders the values that exist, in this order."""

    title: str = ""
    beside: str = ""
    """Text beside the title."""
    warning: str = ""
    text: str = ""
    legend: Mapping[str, str] = field(default_factory=dict)
    """The class of each color by name."""
    chart: Chart | None = None
    turns: Sequence[Turn] = ()
    """The turns of a document."""
    pairs: Mapping[str, Cell] = field(default_factory=dict)
    rows: Sequence[Row] = ()
    """The rows of a table, which have the same heads."""
    texts: int = 1
    """The number of left-aligned columns of the table; numbers are right-aligned."""
    is_folded: bool = False
    """Whether the table is collapsed, since it repeats the chart."""
    note: str = ""
    command: str = ""
    """A command at the end of the note."""


_INVISIBLE: Final = (
    "[\0-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\ufdd0-\ufdef\ud800-\udfff\ufffe\uffff\U000e0000-\U000e0fff]"
    "|[\u200c\u200d\ufe0e\ufe0f](?![^ \n\t])(?<![^ \n\t].)"
)
"""Characters that are invisible or change the appearance of others; joiners only if they are
alone.
"""

_REPLACED: Final = re.compile(_INVISIBLE)
_MARKED: Final = re.compile(f"(?<![^ \n]) | (?![^ \n])|[\t\n<>&]|{_INVISIBLE}")
"""Also spaces that are easily overlooked: at the edge of a token, or adjacent to others."""

_MARKS: Final = {
    " ": '<i class="w"> </i>',
    "\t": '<i class="h"></i>\t',
    "\n": '<i class="l"></i>\n',
    **{character: html.escape(character) for character in "<>&"},
}


def readable(text: str) -> str:
    r"""Return a text with the code points of invisible characters.

    >>> readable('"\x07')
    '"U+0007'
    """
    if text.isascii() and text.isprintable():
        return text
    return _REPLACED.sub(lambda match: _code_point(match.group()), text)


def text_markup(text: str) -> str:
    r"""Return a text as HTML, with invisible characters made visible.

    >>> text_markup(" <b>\n")
    '<i class="w"> </i>&lt;b&gt;<i class="l"></i>\n'
    >>> text_markup("a\x00")
    'a<i data-u="U+0000"></i>'
    """
    return _MARKED.sub(_mark, text)


def _mark(match: re.Match[str]) -> str:
    character = match.group()
    return _MARKS.get(character) or f'<i data-u="{_code_point(character)}"></i>'


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def render(template: str, **values: object) -> str:
    """Return a page.

    Raises:
        ImportError: Jinja2 is not installed.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - for pages
    from markupsafe import Markup  # noqa: PLC0415 - as above

    def finalize(value: object) -> object:
        """Cut every text, and replace invisible characters; Jinja2 escapes the result."""
        if type(value) is not str:
            return value
        return readable(value if len(value) <= _MAX_CHARS else f"{value[:_MAX_CHARS]}…")

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked"] = lambda text: Markup(text_markup(text))  # noqa: S704 - it escapes
    return environment
