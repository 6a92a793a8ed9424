"""What a document consists of for the eye: tokens with the text that each completes, and images.

Takes a document and the spelling of its ids. Does not know how an item looks.
"""

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from nanotok_ray.document_page.model import Document, Spelling
from nanotok_ray.errors import CorruptOutputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One token."""

    position: int
    number: int
    """Its id."""
    data: bytes
    text: str
    """The characters that end in it; those of all tokens, joined, are the decoded document."""
    is_special: bool
    mask: int | None

    @property
    def is_part(self) -> bool:
        """Whether it ends inside a character, so that a later token completes it."""
        return not self.text and bool(self.data)


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """The tokens of one image."""

    number: int
    start: int
    end: int
    token: int | None
    """The id that is repeated; None if there is no token."""

    @property
    def count(self) -> int:
        """How many tokens it has."""
        return self.end - self.start


Item = Token | Image


def items_of(document: Document, spelling: Spelling) -> Iterator[Item]:
    """Give tokens and images in order.

    Raises:
        CorruptOutputError: An id is no token.
    """
    reached = 0
    for start, end, number in document.image_rows():
        yield from _completed(_tokens(document, spelling, reached, start))
        token = int(document.ids[start]) if end > start else None
        yield Image(number=number, start=start, end=end, token=token)
        reached = end
    yield from _completed(_tokens(document, spelling, reached, len(document.ids)))


def first_items(
    document: Document, spelling: Spelling, *, most: int | None
) -> tuple[list[Item], int]:
    """Give the first items, and how many tokens come after them."""
    items = list(islice(items_of(document, spelling), most))
    reached = 0
    if items:
        last = items[-1]
        reached = last.end if isinstance(last, Image) else last.position + 1
    return items, len(document.ids) - reached


def _tokens(document: Document, spelling: Spelling, start: int, end: int) -> Iterator[Token]:
    """Give tokens without their text."""
    mask = document.mask
    for position, number in enumerate(document.ids[start:end].tolist(), start):
        try:
            data = spelling.bytes_of(number)
        except KeyError as error:
            raise CorruptOutputError(
                f"{document.title}: id {number} at position {position} is no token of this "
                "tokenizer; `nanotok verify` says more"
            ) from error
        yield Token(
            position=position,
            number=number,
            data=data,
            text="",
            is_special=number in spelling.names,
            mask=None if mask is None else int(mask[position] != 0),
        )


def _completed(tokens: Iterable[Token]) -> Iterator[Token]:
    """Give each token the text that it completes; what never becomes a character is U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    held: Token | None = None  # given one later, since it may be the last before a break
    for token in tokens:
        if held is not None:
            yield _ended(held, decoder) if token.is_special else held
        held = replace(token, text=decoder.decode(token.data))
    if held is not None:
        yield _ended(held, decoder)


def _ended(token: Token, decoder: codecs.IncrementalDecoder) -> Token:
    return replace(token, text=token.text + decoder.decode(b"", final=True))
