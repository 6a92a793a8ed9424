"""A document as people see it: its tokens in turns of speakers, and all of that as an HTML page.

Takes documents as values and the spelling of ids; gives items, turns, totals and one page. Reads
and writes nothing.
"""

from nanotok_ray.document_page.items import Image, Item, Token, items_of
from nanotok_ray.document_page.model import Document, Spelling
from nanotok_ray.document_page.page import MAX_TOKENS, page_of
from nanotok_ray.document_page.totals import Totals, totals_of
from nanotok_ray.document_page.turns import NOBODY, Block, Turn, turns_of

__all__ = [
    "MAX_TOKENS",
    "NOBODY",
    "Block",
    "Document",
    "Image",
    "Item",
    "Spelling",
    "Token",
    "Totals",
    "Turn",
    "items_of",
    "page_of",
    "totals_of",
    "turns_of",
]
