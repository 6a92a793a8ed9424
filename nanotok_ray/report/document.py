"""A document for display: tokens, images, turns of speakers, totals."""

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.loader.shards import Shards
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.units import quantity


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document to show.

    Raises:
        CorruptOutputError: Mask or images contradict the ids; the message has the reason.
    """

    title: str
    """A short description of the document."""
    location: str
    """The location of the document."""
    ids: NDArray[np.unsignedinteger]
    mask: NDArray[np.uint8] | None = None
    """1 for each id that is trained on, otherwise 0; None for text, which is trained on
    completely.
    """
    images: NDArray[np.int32] | None = None
    """Start, end and number of each image; start and end are positions in the ids."""
    document_id: str | None = None
    """The value of the id_column of its source."""

    def __post_init__(self) -> None:
        if self.mask is not None and len(self.mask) != len(self.ids):
            raise CorruptOutputError(
                f"{self.title}: {len(self.mask)} bytes of mask for {len(self.ids)} ids; "
                "`nanotok verify` says more"
            )
        reached = 0
        for start, end, _ in self.image_rows():
            if not reached <= start <= end <= len(self.ids):
                raise CorruptOutputError(
                    f"{self.title}: an image from {start} to {end}, after position {reached} of "
                    f"{len(self.ids)} ids; `nanotok verify` says more"
                )
            reached = end

    def image_rows(self) -> list[tuple[int, int, int]]:
        """Return start, end and number of each image."""
        return [] if self.images is None else [(a, b, n) for a, b, n in self.images.tolist()]


def stored_document(shards: Shards, number: int) -> Document:
    """Return a document of an output."""
    shard, position = shards.shard_of(number)
    return Document(
        title=f"document {number} of {len(shards)}",
        location=f"document {position} of {shard}",
        ids=shards[number],
        mask=shards.mask(number),
        images=shards.images(number),
        document_id=shards.document_id(number),
    )


_KINDS: Final = ("n", "y", "g", "t")
"""Classes of the style for tokens: not trained on, trained on, of an image, of a text."""

_UNTRAINED, _TRAINED, _IMAGE, _TEXT = range(4)


def legend_of(documents: Sequence[Document]) -> dict[str, str]:
    """Return the class of each color of some documents by its meaning."""
    has_mask = any(document.mask is not None for document in documents)
    kinds = {
        ("trained on", _TRAINED): has_mask,
        ("not trained on", _UNTRAINED): has_mask,
        ("text, token by token", _TEXT): any(document.mask is None for document in documents),
        ("image", _IMAGE): any(document.image_rows() for document in documents),
    }
    return {name: _KINDS[kind] for (name, kind), is_there in kinds.items() if is_there}


_MASKED: Final = {None: "", 0: ", not trained on", 1: ", trained on"}
_MAX_BYTES: Final = 32
"""Limit of listed bytes of a token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One token."""

    position: int
    number: int
    """The id of the token."""
    data: bytes
    text: str
    """The characters that end in the token; joined for all tokens, they are the decoded document.
    """
    is_special: bool
    mask: int | None

    is_image: ClassVar = False

    @property
    def is_part(self) -> bool:
        """Whether the token ends inside a character, which a later token completes."""
        return not self.text and bool(self.data)

    @property
    def kind(self) -> str:
        """The class of the token on a page."""
        return _KINDS[_TEXT if self.mask is None else self.mask]

    @property
    def hexadecimal(self) -> str:
        """The bytes in hexadecimal."""
        return self.data.hex(" ").upper()

    @property
    def title(self) -> str:
        """A description in one line."""
        if self.is_special:
            spelled = "special token"
        else:
            count = len(self.data)
            more = " ..." if count > _MAX_BYTES else ""
            data = self.data[:_MAX_BYTES].hex(" ").upper()
            spelled = f"{quantity(count, 'byte')} {data}{more}"
        return f"id {self.number}, position {self.position}, {spelled}{_MASKED[self.mask]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """The tokens of one image."""

    number: int
    start: int
    end: int
    token: int | None
    """The id that is repeated; None if there is no token."""

    is_image: ClassVar = True

    @property
    def count(self) -> int:
        """The number of tokens."""
        return self.end - self.start

    @property
    def count_text(self) -> str:
        """The number of tokens in words."""
        return quantity(self.count, "token")

    @property
    def title(self) -> str:
        """A description in one line."""
        if not self.count:
            return f"no tokens, before position {self.start}"
        times = quantity(self.count, "time")
        return f"{times} id {self.token}, positions {self.start} to {self.end - 1}"


Item = Token | Image


def items_of(document: Document, tokenizer: Tokenizer) -> Iterator[Item]:
    """Yield tokens and images in order.

    Raises:
        CorruptOutputError: An id is not a token.
    """
    reached = 0
    for start, end, number in document.image_rows():
        yield from _completed(_tokens(document, tokenizer, reached, start))
        token = int(document.ids[start]) if end > start else None
        yield Image(number=number, start=start, end=end, token=token)
        reached = end
    yield from _completed(_tokens(document, tokenizer, reached, len(document.ids)))


def first_items(
    document: Document, tokenizer: Tokenizer, *, limit: int | None
) -> tuple[list[Item], int]:
    """Return the first items, and the number of tokens after them."""
    items = list(islice(items_of(document, tokenizer), limit))
    reached = 0
    if items:
        last = items[-1]
        reached = last.end if isinstance(last, Image) else last.position + 1
    return items, len(document.ids) - reached


def _tokens(document: Document, tokenizer: Tokenizer, start: int, end: int) -> Iterator[Token]:
    """Yield tokens without their text."""
    mask, special = document.mask, frozenset(tokenizer.special_tokens.values())
    for position, number in enumerate(document.ids[start:end].tolist(), start):
        try:
            data = tokenizer.decode_single_token_bytes(number)
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
            is_special=number in special,
            mask=None if mask is None else int(mask[position] != 0),
        )


def _completed(tokens: Iterable[Token]) -> Iterator[Token]:
    """Add to each token the text that it completes; incomplete characters become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    held: Token | None = None  # delayed, since it may be the last token before a break
    for token in tokens:
        if held is not None:
            yield _ended(held, decoder) if token.is_special else held
        held = replace(token, text=decoder.decode(token.data))
    if held is not None:
        yield _ended(held, decoder)


def _ended(token: Token, decoder: codecs.IncrementalDecoder) -> Token:
    return replace(token, text=token.text + decoder.decode(b"", final=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Totals of a document, or of several."""

    tokens: int
    num_bytes: int
    """Bytes of the text, without images and special tokens."""
    trained: int | None
    """Number of tokens that are trained on; None without a mask."""
    images: int
    image_tokens: int

    @property
    def bytes_per_token(self) -> float:
        """Bytes of text per token, including special tokens but not images."""
        return self.num_bytes / max(self.tokens - self.image_tokens, 1)

    @property
    def trained_share(self) -> float:
        """Share of the tokens that are trained on; 1 without a mask."""
        return 1.0 if self.trained is None else self.trained / max(self.tokens, 1)

    def fields(self) -> dict[str, str]:
        """Return the totals for people, by name."""
        values = {
            "tokens": f"{self.tokens:,}",
            "bytes": f"{self.num_bytes:,}",
            "bytes per token": f"{self.bytes_per_token:.2f}",
        }
        if self.trained is not None:
            values["trained on"] = f"{self.trained:,} ({self.trained_share:.1%})"
        if self.images:
            values["images"] = f"{self.images:,} ({quantity(self.image_tokens, 'token')})"
        return values


def totals_of(document: Document, tokenizer: Tokenizer) -> Totals:
    """Return the totals of a document.

    Raises:
        CorruptOutputError: An id is not a token.
    """
    num_bytes = image_tokens = 0
    for item in items_of(document, tokenizer):
        if isinstance(item, Image):
            image_tokens += item.count
        elif not item.is_special:
            num_bytes += len(item.data)
    return Totals(
        tokens=len(document.ids),
        num_bytes=num_bytes,
        trained=None if document.mask is None else int(np.count_nonzero(document.mask)),
        images=len(document.image_rows()),
        image_tokens=image_tokens,
    )


def strip_of(document: Document, *, limit: int) -> list[tuple[str, int]]:
    """Return the classes of the tokens in order as runs (class, number).

    A long document is divided into at most `limit` parts; each has the kind of most of its tokens,
    and of equal kinds the trained one.

    >>> strip_of(Document(title="", location="", ids=np.zeros(3, np.uint16),
    ...                   mask=np.array([0, 1, 1], np.uint8)), limit=9)
    [('n', 1), ('y', 2)]
    """
    kinds = _kinds(document)
    bounds = np.linspace(0, len(kinds), min(len(kinds), limit) + 1).astype(int).tolist()
    strip: list[tuple[str, int]] = []
    for start, end in pairwise(bounds):
        counts = np.bincount(kinds[start:end], minlength=4)
        kind = _KINDS[max((_TRAINED, _IMAGE, _TEXT, _UNTRAINED), key=counts.tolist().__getitem__)]
        if strip and strip[-1][0] == kind:
            strip[-1] = (kind, strip[-1][1] + end - start)
        else:
            strip.append((kind, end - start))
    return strip


def _kinds(document: Document) -> NDArray[np.uint8]:
    if document.mask is None:
        kinds = np.full(len(document.ids), _TEXT, dtype=np.uint8)
    else:
        kinds = np.where(document.mask != 0, _TRAINED, _UNTRAINED).astype(np.uint8)
    for start, end, _ in document.image_rows():
        kinds[start:end] = _IMAGE
    return kinds


NOBODY: Final = ""
"""The role outside all turns: <|bos|>, text, vision documents."""

_SPEAKERS: Final[Mapping[str | None, str]] = {
    "<|user_start|>": "user",
    "<|assistant_start|>": "assistant",
}
_TOOLS: Final[Mapping[str | None, str]] = {
    "<|python_start|>": "python",
    "<|output_start|>": "python output",
}
_ENDS_OF_SPEAKERS: Final = ("<|user_end|>", "<|assistant_end|>")
_ENDS_OF_TOOLS: Final = ("<|python_end|>", "<|output_end|>")


_PARAGRAPH, _MAX_ITEMS = 300, 3000
"""Items after which a line break ends an element of text, and after which it ends in any case.
Browsers are slow for larger elements, and lay out only visible ones.
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a turn: text, a tool call, its output."""

    role: str
    items: list[Item] = field(default_factory=list)

    def texts(self) -> Iterator[list[Item]]:
        """Yield the items of each element of text; a short text is one element."""
        held: list[Item] = []
        for item in self.items:
            held.append(item)
            ends_line = isinstance(item, Token) and item.text.endswith("\n")
            if len(held) >= (_PARAGRAPH if ends_line else _MAX_ITEMS):
                yield held
                held = []
        if held:
            yield held


@dataclass(frozen=True, slots=True)
class Turn:
    """The consecutive text of one speaker."""

    role: str
    blocks: list[Block] = field(default_factory=list)


def turns_of(items: Iterable[Item]) -> list[Turn]:
    """Return the turns of a document, even if no chat has tokens in that order."""
    turns: list[Turn] = []
    turn: Turn | None = None
    block: Block | None = None
    for item in items:
        name = item.text if isinstance(item, Token) and item.is_special else None
        tool, role = _TOOLS.get(name), _SPEAKERS.get(name)
        if tool is not None:
            block, role = None, None if turn is not None and turn.role == "assistant" else tool
        if role is not None or turn is None:
            turn, block = Turn(NOBODY if role is None else role), None
            turns.append(turn)
        if block is None:
            block = Block(turn.role if tool is None else tool)
            turn.blocks.append(block)
        block.items.append(item)
        if name in _ENDS_OF_SPEAKERS or (name in _ENDS_OF_TOOLS and turn.role in _TOOLS.values()):
            turn = block = None
        elif name in _ENDS_OF_TOOLS:
            block = None
    return turns
