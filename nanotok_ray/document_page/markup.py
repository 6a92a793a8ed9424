"""Items as HTML: one element for a token, one box for an image.

Takes items and gives markup in which nothing of a document can be taken for markup. An element's
text is the token's text; what the eye sees beside it (line breaks, escapes, ids) is made by the
style from attributes, so that copied text is the document's.
"""

import html
import re
from collections.abc import Iterable, Iterator
from typing import Final

from nanotok_ray.document_page.items import Image, Item, Token

_SHOWN_BYTES = 32
"""More bytes of a token are not listed."""

_TRAINED: Final = {None: "", 0: ", not trained on", 1: ", trained on"}
_CLASSES: Final = {None: "t", 0: "n", 1: "y"}
"""Text, not trained on, trained on."""

_INVISIBLE: Final = (
    "[\0-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\ufdd0-\ufdef\ud800-\udfff\ufffe\uffff\U000e0000-\U000e0fff]"
    "|[\u200c\u200d\ufe0e\ufe0f](?![^ \n\t])(?<![^ \n\t].)"
)
"""Characters that change how others look or cannot be seen; joiners only where they stand alone."""

_ESCAPED: Final = re.compile(_INVISIBLE)
_MARKED: Final = re.compile(f"(?<![^ \n]) | (?![^ \n])|[\t\n<>&]|{_INVISIBLE}")
"""Also spaces where they are easily overlooked: at the edge of a token, or beside others."""

_MARKS: Final = {
    " ": '<i class="w"> </i>',
    "\t": '<i class="h"></i>\t',
    "\n": '<i class="l"></i>\n',
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
}


_PARAGRAPH, _LONGEST = 300, 3000
"""Items after which a line break ends an element of text, and after which it ends anyway: browsers
take long over elements with far more, and lay out only those that are in sight."""


def text_blocks(items: Iterable[Item]) -> Iterator[str]:
    """Give the elements of a text: one if it is short."""
    held: list[str] = []
    for item in items:
        held.append(item_markup(item))
        ends_line = isinstance(item, Token) and item.text.endswith("\n")
        if len(held) >= (_PARAGRAPH if ends_line else _LONGEST):
            yield _text_block(held)
            held = []
    if held:
        yield _text_block(held)


def _text_block(markup: list[str]) -> str:
    return f'<div class="b" dir="auto">{"".join(markup)}</div>'


def item_markup(item: Item) -> str:
    """Give the element of an item."""
    return _image(item) if isinstance(item, Image) else _token(item)


def text_markup(text: str) -> str:
    r"""Give a text with what is not seen made visible.

    >>> text_markup(" <b>\n")
    '<i class="w"> </i>&lt;b&gt;<i class="l"></i>\n'
    >>> text_markup("a\x00")
    'a<i data-u="U+0000"></i>'
    """
    return _MARKED.sub(lambda found: _mark(found.group()), text)


def attribute(text: str) -> str:
    r"""Give a text as the value of an attribute in double quotes, or as text of an element.

    >>> attribute('"<\x07')
    '&quot;&lt;U+0007'
    """
    return html.escape(_ESCAPED.sub(lambda found: _code_point(found.group()), text))


def _mark(character: str) -> str:
    return _MARKS.get(character) or f'<i data-u="{_code_point(character)}"></i>'


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def _token(token: Token) -> str:
    kind = _CLASSES[token.mask]
    told = attribute(token_title(token))
    part = f' data-x="{token.data.hex(" ").upper()}"' if token.is_part else ""
    name, kind = ("bdi", f"s {kind}") if token.is_special else ("span", kind)
    return (
        f'<{name} class="{kind}" data-i="{token.number}"{part} title="{told}">'
        f"{text_markup(token.text)}</{name}>"
    )


def token_title(token: Token) -> str:
    """Say what a token is, in one line."""
    if token.is_special:
        spelled = "special token"
    else:
        count = len(token.data)
        spelled = f"{count} byte{'s'[: count != 1]} {token.data[:_SHOWN_BYTES].hex(' ').upper()}"
        spelled += " ..." if count > _SHOWN_BYTES else ""
    return f"id {token.number}, position {token.position}, {spelled}{_TRAINED[token.mask]}"


def _image(image: Image) -> str:
    last = image.end - 1
    told = f"{image.count} times id {image.token}, positions {image.start} to {last}"
    if not image.count:
        told = f"no tokens, before position {image.start}"
    return (
        f'<span class="g" data-g="{image.number}" data-n="{image.count}" title="{told}">'
        f"<b>image {image.number + 1}</b> {image.count:,} token{'s'[: image.count != 1]}</span>"
    )
