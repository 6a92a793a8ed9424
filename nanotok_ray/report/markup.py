"""Pieces of the page: sections, tables, bars, and the meaning of colours."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nanotok_ray.report.document_page import attribute

_MAX_CHARS = 400
"""Of a cell: names and reasons may be of any length."""


class Markup(str):
    """A text that is HTML already."""

    __slots__ = ()


def html_of(value: object) -> str:
    """Return a value as HTML: markup as it is, all else escaped, what is not seen made visible.

    >>> html_of("a<b>"), html_of(Markup("<b>"))
    ('a&lt;b&gt;', '<b>')
    """
    return str(value) if isinstance(value, Markup) else attribute(str(value))


def escaped(text: object, limit: int = _MAX_CHARS) -> Markup:
    """Return a text of the data: cut if it is long, and set apart from the direction of the rest.

    >>> escaped("abcdef", 4)
    '<bdi>abcd…</bdi>'
    """
    value = str(text)
    return Markup(f"<bdi>{attribute(value[:limit])}{'…' if len(value) > limit else ''}</bdi>")


def code(text: object, limit: int = _MAX_CHARS) -> Markup:
    """Return a text of the data in type of fixed width."""
    return Markup(f"<code>{escaped(text, limit)}</code>")


def section(name: str, title: str, *parts: str, lead: object = "") -> str:
    """Return a section with its heading and a line below it; nothing if it has no parts."""
    inside = "".join(parts)
    if not inside:
        return ""
    text = f'<p class="lead">{html_of(lead)}</p>\n' if lead else ""
    return (
        f'<section id="{name}">\n<h2><a href="#{name}">{html_of(title)}</a></h2>\n'
        f"{text}{inside}</section>\n"
    )


def heading(title: object, text: object = "") -> str:
    """Return the heading of a chart or table, and what it says beside it."""
    beside = f' <span class="quiet">{html_of(text)}</span>' if text else ""
    return f"<h3>{html_of(title)}{beside}</h3>\n"


def note(text: object) -> str:
    """Return a line below a chart or table."""
    return f'<p class="quiet">{html_of(text)}</p>\n'


def warning(text: object) -> str:
    """Return a line that must be seen."""
    return f'<p class="warn" role="alert">{html_of(text)}</p>\n'


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1) -> str:
    """Return a table; the first `texts` columns are set to the left, numbers to the right."""
    kinds = ["left" if index < texts else "" for index in range(len(heads))]
    top = "".join(
        f'<th scope="col"{_kind(kind)}>{html_of(head)}</th>'
        for kind, head in zip(kinds, heads, strict=True)
    )
    lines = [
        "<tr>"
        + "".join(
            f"<td{_kind(kind)}>{html_of(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)
        )
        + "</tr>\n"
        for row in rows
    ]
    return (
        f'<div class="wide" tabindex="0"><table>\n<thead><tr>{top}</tr></thead>\n'
        f"<tbody>\n{''.join(lines)}</tbody></table></div>\n"
    )


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def folded(title: object, inside: str) -> str:
    """Return something that is shown when asked for; nothing if there is nothing in it."""
    if not inside:
        return ""
    return f"<details><summary>{html_of(title)}</summary>\n{inside}</details>\n"


def pairs(values: Mapping[str, object]) -> str:
    """Return names with their values, a line each."""
    lines = [
        f"<div><dt>{html_of(name)}</dt><dd>{html_of(value)}</dd></div>\n"
        for name, value in values.items()
    ]
    return f'<dl class="pairs">\n{"".join(lines)}</dl>\n' if lines else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a bar."""

    kind: str
    """Class of its colour."""
    value: float
    title: str


def bar(parts: Sequence[Part], *, of: float) -> Markup:
    """Return a bar whose parts are as long as their shares of `of`; one of 0 is left out."""
    inside = "".join(
        f'<i class="{part.kind}" style="width:{100 * part.value / of:.3f}%" '
        f'title="{attribute(part.title)}"></i>'
        for part in parts
        if part.value > 0 and of > 0
    )
    return Markup(f'<span class="bar">{inside}</span>')


def legend(kinds: Mapping[str, str]) -> str:
    """Return what colours stand for: class of the colour by name."""
    keys = [f'<span><i class="{kind}"></i>{html_of(name)}</span>' for name, kind in kinds.items()]
    return f'<p class="legend">{"".join(keys)}</p>\n' if keys else ""


_STAGES: Final = {
    "count": "c1",
    "merge": "c5",
    "reduce": "c5",
    "learn": "c3",
    "tokenize": "c2",
    "verify": "c6",
}
_OTHER_STAGE: Final = "c4"
"""Exports."""

ROLE_KINDS: Final = {
    "assistant": "c2",
    "python": "c7",
    "user": "c1",
    "python_output": "c3",
    "image": "c4",
    "bos": "c6",
}


def stage_kind(name: str) -> str:
    """Return the class of a stage.

    >>> stage_kind("count"), stage_kind("export llmc")
    ('c1', 'c4')
    """
    return _STAGES.get(name, _OTHER_STAGE)
