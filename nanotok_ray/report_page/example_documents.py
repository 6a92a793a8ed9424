"""Examples of documents: a text and a conversation with the borders of their tokens, and the mask.

Takes the facts; gives markup. Which documents is by a fixed rule: the first of train, of a kind,
that has tokens enough, else the longest of the first few.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from nanotok_ray.document_page import NOBODY, Block, Document, Turn, turns_of
from nanotok_ray.document_page.items import first_items
from nanotok_ray.document_page.markup import text_blocks
from nanotok_ray.loader.shards import Shards
from nanotok_ray.report_page.facts import Facts
from nanotok_ray.report_page.markup import code, heading, html_of, legend, note, shown
from nanotok_ray.report_page.masks import spelling_of
from nanotok_ray.tokenizer import Tokenizer

SHOWN_TOKENS: Final = 300
ENOUGH_TOKENS: Final = 100
LOOKED_AT: Final = 200
"""Tokens that are shown, tokens of a document that is long enough, documents that are tried."""

_SPEAKERS: Final = {"user": "u", "assistant": "a"}


def example_documents(facts: Facts) -> str:
    """Give a text, and a conversation or document with images, where there are any."""
    train, tokenizer = facts.shards.get("train"), facts.tokenizer
    if train is None or tokenizer is None:
        return ""
    parts = [_example(train, own, tokenizer) for own in _sources_to_show(train)]
    if not parts:
        return ""
    rule = (
        f"The first document of train that has {ENOUGH_TOKENS} tokens or more, else the longest of "
        f"the first {LOOKED_AT}; of the first source of texts and of the first with masks. "
    )
    more = code(f"nanotok inspect {facts.out.url} --doc 0-9 --html FILE", 2000)
    return "".join(parts) + f'<p class="quiet">{html_of(rule)}More: {more}</p>\n'


def _sources_to_show(shards: Shards) -> Iterator[range]:
    seen: set[bool] = set()
    for own in shards.ranges().values():
        is_masked = shards.mask(own[0]) is not None
        if is_masked not in seen:
            seen.add(is_masked)
            yield own


def chosen_document(shards: Shards, own: range) -> int:
    """Give the number of the document to show of a source."""
    numbers = np.array(own[:LOOKED_AT], dtype=np.int64)
    lengths = shards.lengths(numbers)
    enough = np.flatnonzero(lengths >= ENOUGH_TOKENS)
    return int(numbers[enough[0] if len(enough) else int(lengths.argmax())])


def _example(shards: Shards, own: range, tokenizer: Tokenizer) -> str:
    number = chosen_document(shards, own)
    shard, place = shards.shard_of(number)
    document = Document(
        title=f"document {number}",
        place=f"document {place:,} of {shard}",
        ids=shards[number],
        mask=shards.mask(number),
        images=shards.images(number),
    )
    items, left_out = first_items(document, spelling_of(tokenizer), most=SHOWN_TOKENS)
    keys = (
        {"a token, and the next": "t"}
        if document.mask is None
        else {"trained on": "yes", "not trained on": "no"}
    )
    title = "A text" if document.mask is None else "A document with its mask"
    cut = f"The first {len(items):,} tokens; {left_out:,} more are not shown." if left_out else ""
    return (
        heading(title, shown(document.place, 200))
        + legend(keys)
        + f'<div class="doc">{"".join(map(_turn, turns_of(items)))}</div>\n'
        + (note(cut) if cut else "")
    )


def _turn(turn: Turn) -> str:
    inside = _blocks(turn.blocks, role=turn.role)
    if turn.role == NOBODY:
        return f'<div class="turn">{inside}</div>\n'
    kind = _SPEAKERS.get(turn.role, "a")
    return f'<div class="turn {kind}"><h4>{turn.role}</h4><div class="said">{inside}</div></div>\n'


def _blocks(blocks: Iterable[Block], *, role: str) -> str:
    parts = []
    for block in blocks:
        text = "".join(text_blocks(block.items))
        is_own = block.role == role
        parts.append(text if is_own else f'<div class="tool"><h5>{block.role}</h5>{text}</div>')
    return "".join(parts)
