"""Examples of tokens: at round places of the order in which they were learned, and the longest.

Takes a tokenizer; gives tables.
"""

from typing import Final

from nanotok_ray.document_page.markup import text_markup
from nanotok_ray.report_page.markup import Markup, heading, table
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.model import NUM_BYTES

_PLACES: Final = (0, 100, 1_000, 10_000, 100_000)
_AT_A_PLACE = 8
_LONGEST = 8
_SHOWN_BYTES = 200


def example_tokens(tokenizer: Tokenizer) -> str:
    """Give the tables; nothing if no token was learned."""
    tokens = tokenizer.model.tokens
    merged = tokens[NUM_BYTES:]
    if not merged:
        return ""
    rows = [
        (
            f"{first:,}",
            Markup(" ".join(_boxed(each) for each in merged[first : first + _AT_A_PLACE])),
        )
        for first in _PLACES
        if first < len(merged)
    ]
    order = sorted(range(len(merged)), key=lambda each: (-len(merged[each]), each))[:_LONGEST]
    longest = [
        (Markup(_boxed(merged[each])), f"{len(merged[each]):,}", f"{NUM_BYTES + each:,}")
        for each in order
    ]
    return (
        heading("Learned tokens", "from the first merge on")
        + table(("from merge", "tokens"), rows, texts=2)
        + heading("Longest tokens")
        + table(("token", "bytes", "id"), longest)
    )


def _boxed(token: bytes) -> str:
    cut = token[:_SHOWN_BYTES]
    text = cut.decode(errors="backslashreplace")
    more = "\u2026" if len(token) > len(cut) else ""
    on_one_line = text_markup(text).replace("\n", "")  # the mark of its end stays
    return f'<bdi class="tok">{on_one_line}{more}</bdi>'
