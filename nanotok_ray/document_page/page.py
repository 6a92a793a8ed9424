"""The page: documents to one HTML file that needs nothing else, no script and no network.

Takes documents and the spelling of their ids, gives the file's text. The same documents give the
same page. Does not know where documents come from, nor where the page goes.
"""

from collections.abc import Sequence
from typing import Final

from nanotok_ray.document_page.items import first_items
from nanotok_ray.document_page.markup import attribute, text_blocks
from nanotok_ray.document_page.model import Document, Spelling
from nanotok_ray.document_page.style import STYLE
from nanotok_ray.document_page.totals import (
    IMAGE,
    TEXT,
    TRAINED,
    UNTRAINED,
    Totals,
    strip_of,
    totals_of,
)
from nanotok_ray.document_page.turns import NOBODY, Block, Turn, turns_of

MAX_TOKENS: Final = 20_000
"""Tokens of a document that are shown, an image as one, unless told otherwise: a page of several
such documents still scrolls."""

_STRETCHES = 240
"""Of the strip: about what a phone can show."""

_STRIP_CLASSES = {UNTRAINED: "n", TRAINED: "y", IMAGE: "g", TEXT: "t"}
_LEGEND = {
    "y": "trained on",
    "n": "not trained on",
    "t": "text, token by token",
    "g": "image",
}
_TURN_CLASSES = {"user": "u", "assistant": "a"}
_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
"""
_FOOT = """\
</main>
<footer class="q">Point at a token for its id, position, bytes and mask.</footer>
</body>
</html>
"""


def page_of(
    documents: Sequence[Document],
    spelling: Spelling,
    *,
    title: str,
    note: str = "",
    most: int | None = MAX_TOKENS,
    with_ids: bool = False,
) -> str:
    """Give the page of some documents.

    Args:
        documents: in the order of the page; with more than one there is a table of contents.
        spelling: of their ids.
        title: what the page shows, for its heading.
        note: a line below it.
        most: tokens shown of each document, an image counted as one; None for all.
        with_ids: whether ids are shown when the page is opened; a switch on it changes that.

    Raises:
        CorruptOutputError: An id is no token.
    """
    totals = [totals_of(document, spelling) for document in documents]
    checked = " checked" if with_ids else ""
    return "".join(
        [
            f"{_HEAD}<title>{attribute(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
            f'<input type="checkbox" id="ids"{checked} aria-label="show ids">\n',
            f'<header class="p">\n<h1>{attribute(title)}</h1>\n',
            f'<p class="q">{attribute(note)}</p>\n' if note else "",
            _contents(documents, totals) if len(documents) > 1 else "",
            "</header>\n",
            _legend(totals),
            "<main>\n",
            *(
                _section(number, document, own, spelling, most=most)
                for number, (document, own) in enumerate(zip(documents, totals, strict=True))
            ),
            _FOOT,
        ]
    )


def _contents(documents: Sequence[Document], totals: Sequence[Totals]) -> str:
    images = any(own.images for own in totals)
    head = (
        '<tr><th>document</th><th>tokens</th><th class="v">bytes</th>'
        '<th class="v">bytes per token</th><th>trained on</th>'
    )
    rows = [
        f'<tr><td><a href="#d{number}">{attribute(document.title)}</a></td>'
        f'<td>{own.tokens:,}</td><td class="v">{own.num_bytes:,}</td>'
        f'<td class="v">{own.bytes_per_token:.2f}</td><td>{own.trained_share:.1%}</td>'
        + (f"<td>{own.images:,}</td></tr>\n" if images else "</tr>\n")
        for number, (document, own) in enumerate(zip(documents, totals, strict=True))
    ]
    head += "<th>images</th></tr>\n" if images else "</tr>\n"
    return f"<table>\n{head}{''.join(rows)}</table>\n"


def _legend(totals: Sequence[Totals]) -> str:
    masked = any(own.trained is not None for own in totals)
    texts = any(own.trained is None for own in totals)
    images = any(own.images for own in totals)
    wanted = {"y": masked, "n": masked, "t": texts, "g": images}
    keys = [
        f'<span><i class="e {kind}"></i>{_LEGEND[kind]}</span>'
        for kind, is_wanted in wanted.items()
        if is_wanted
    ]
    return f'<div class="k">{"".join(keys)}<label for="ids">ids</label></div>\n'


def _section(
    number: int, document: Document, totals: Totals, spelling: Spelling, *, most: int | None
) -> str:
    items, left_out = first_items(document, spelling, most=most)
    told = document.place
    if document.document_id is not None:
        told += f", id {document.document_id}"
    return "".join(
        [
            f'<section id="d{number}">\n<h2>{attribute(document.title)}</h2>\n',
            f'<p class="q">{attribute(told)}</p>\n{_numbers(totals)}{_strip(document)}',
            *(_turn(turn) for turn in turns_of(items)),
            _left_out(left_out, of=totals.tokens),
            "</section>\n",
        ]
    )


def _numbers(totals: Totals) -> str:
    told = {
        "tokens": f"{totals.tokens:,}",
        "bytes": f"{totals.num_bytes:,}",
        "bytes per token": f"{totals.bytes_per_token:.2f}",
    }
    if totals.trained is not None:
        told["trained on"] = f"{totals.trained:,} ({totals.trained_share:.1%})"
    if totals.images:
        told["images"] = f"{totals.images:,} ({totals.image_tokens:,} tokens)"
    pairs = [f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in told.items()]
    return f"<dl>{''.join(pairs)}</dl>\n"


def _strip(document: Document) -> str:
    parts = [
        f'<i class="{_STRIP_CLASSES[kind]}" style="flex-grow:{count}"></i>'
        for kind, count in strip_of(document, most=_STRETCHES)
    ]
    return f'<div class="m" title="from the first token to the last">{"".join(parts)}</div>\n'


def _turn(turn: Turn) -> str:
    blocks = "".join(_block(block, turn) for block in turn.blocks)
    if turn.role == NOBODY:
        return f'<div class="d">{blocks}</div>\n'
    kind = _TURN_CLASSES.get(turn.role, "a")
    return f'<div class="d {kind}"><h3>{turn.role}</h3><div class="c">{blocks}</div></div>\n'


def _block(block: Block, turn: Turn) -> str:
    text = "".join(text_blocks(block.items))
    if block.role == turn.role:
        return text
    kind = "o" if block.role == "python" else "o r"
    return f'<div class="{kind}"><h4>{block.role}</h4>{text}</div>'


def _left_out(count: int, *, of: int) -> str:
    if not count:
        return ""
    return (
        f'<p class="z q">{count:,} of {of:,} tokens are not shown. '
        "<code>nanotok inspect --html FILE --all</code> shows them.</p>\n"
    )
