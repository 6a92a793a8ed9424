"""Documents as lines for a terminal, with or without colors."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from nanotok_ray.report.document import (
    Document,
    Image,
    Item,
    totals_of,
    turns_of,
)
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.units import printable, quantity

_GREEN, _RED, _GRAY, _RESET = "\x1b[92m", "\x1b[91m", "\x1b[90m", "\x1b[0m"
_IMAGE: Final = "\x1b[95m"
_TINTS: Final = ("\x1b[48;5;24m\x1b[97m", "\x1b[48;5;58m\x1b[97m")
"""Two alternating backgrounds for the tokens of a text."""

_MAX_ID_CHARS = 200


def heading_of(document: Document, tokenizer: Tokenizer) -> list[str]:
    """Return the description of a document and its totals.

    Raises:
        CorruptOutputError: An id is not a token.
    """
    document_id = document.document_id
    text = "" if document_id is None else f", id {document_id[:_MAX_ID_CHARS]!r}"
    fields = totals_of(document, tokenizer).fields()
    totals = ", ".join(f"{value} {name}" for name, value in fields.items())
    return [printable(f"{document.title}, {document.location}{text}"), totals]


def plain_lines(items: Sequence[Item], *, with_ids: bool) -> Iterator[str]:
    """Yield the tokens without colors; [[ ]] encloses a run of tokens with mask 1."""
    flags = [False, *map(_is_trained, items), False]
    parts = []
    for item, (before, flag), (_, after) in zip(
        items, pairwise(flags[:-1]), pairwise(flags[1:]), strict=True
    ):
        text = _text(item) + (f"({_number(item)})" if with_ids else "")
        opens, closes = flag and not before, flag and not after
        parts.append(f"{'[[' if opens else ''}{text}{']]' if closes else ''}")
    yield "|".join(parts)


def colored_lines(document: Document, items: Sequence[Item], *, with_ids: bool) -> Iterator[str]:
    """Yield the tokens in color, one line per turn, and the meaning of the colors."""
    masked = document.mask is not None
    for turn in turns_of(items):
        for block in turn.blocks:
            yield _masked(block.items, with_ids) if masked else _tinted(block.items, with_ids)
    legend = [f"{_GREEN}trained on{_RESET} {_RED}not trained on{_RESET}"] if masked else []
    if document.image_rows():
        legend.append(f"{_IMAGE}image{_RESET}")
    if legend:
        yield " ".join(legend)


def _masked(items: Sequence[Item], with_ids: bool) -> str:
    parts = []
    for item in items:
        parts.append(f"{_color(item)}{_text(item)}{_RESET}")
        if with_ids:
            parts.append(f"{_GRAY}({_number(item)}){_RESET}")
    return "|".join(parts)


def _tinted(items: Sequence[Item], with_ids: bool) -> str:
    parts = []
    for number, item in enumerate(items):
        text = _text(item) + (f"({_number(item)})" if with_ids else "")
        # A background must not continue past the end of a line.
        tint = _IMAGE if isinstance(item, Image) else _TINTS[number % 2]
        parts.append(tint + text.replace("\n", f"↵{_RESET}\n{tint}") + _RESET)
    return "".join(parts)


def _color(item: Item) -> str:
    if isinstance(item, Image):
        return _IMAGE
    return _GREEN if item.mask else _RED


def _is_trained(item: Item) -> bool:
    return not isinstance(item, Image) and bool(item.mask)


def _number(item: Item) -> int | None:
    return item.token if isinstance(item, Image) else item.number


def _text(item: Item) -> str:
    if isinstance(item, Image):
        return f"[image {item.number + 1}: {quantity(item.count, 'token')}]"
    if item.is_part:
        return "".join(f"\\x{byte:02x}" for byte in item.data)
    return printable(item.text, lines=True)
