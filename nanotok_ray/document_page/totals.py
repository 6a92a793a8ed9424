"""Totals of a document: what its heading says, in numbers.

Takes a document and the spelling of its ids. Tokens of images are counted apart: an image has no
bytes.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.document_page.items import Image, items_of
from nanotok_ray.document_page.model import Document, Spelling

UNTRAINED, TRAINED, IMAGE, TEXT = range(4)
"""What a token is in a strip."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Numbers of a document, or of several, added up."""

    tokens: int
    num_bytes: int
    """Of the text: images and special tokens have none."""
    trained: int | None
    """Tokens that are trained on; None where there is no mask."""
    images: int
    image_tokens: int

    @property
    def bytes_per_token(self) -> float:
        """Bytes of text per token, special tokens among them, images not."""
        return self.num_bytes / max(self.tokens - self.image_tokens, 1)

    @property
    def trained_share(self) -> float:
        """Share of the tokens that is trained on; 1 where there is no mask."""
        return 1.0 if self.trained is None else self.trained / max(self.tokens, 1)


def totals_of(document: Document, spelling: Spelling) -> Totals:
    """Count a document.

    Raises:
        CorruptOutputError: An id is no token.
    """
    num_bytes = image_tokens = 0
    for item in items_of(document, spelling):
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


def strip_of(document: Document, *, most: int) -> list[tuple[int, int]]:
    """Give what the tokens are, from the first to the last: (kind, how many) in turn.

    A long document is cut into at most `most` stretches; each stands for what most of it is, the
    trained where two are as many.

    >>> strip_of(Document(title="", place="", ids=np.zeros(3, np.uint16),
    ...                   mask=np.array([0, 1, 1], np.uint8)), most=9)
    [(0, 1), (1, 2)]
    """
    kinds = _kinds(document)
    bounds = np.linspace(0, len(kinds), min(len(kinds), most) + 1).astype(int).tolist()
    strip: list[tuple[int, int]] = []
    for start, end in pairwise(bounds):
        counts = np.bincount(kinds[start:end], minlength=4)
        kind = max((TRAINED, IMAGE, TEXT, UNTRAINED), key=counts.tolist().__getitem__)
        if strip and strip[-1][0] == kind:
            strip[-1] = (kind, strip[-1][1] + end - start)
        else:
            strip.append((kind, end - start))
    return strip


def _kinds(document: Document) -> NDArray[np.uint8]:
    if document.mask is None:
        kinds = np.full(len(document.ids), TEXT, dtype=np.uint8)
    else:
        kinds = np.where(document.mask != 0, TRAINED, UNTRAINED).astype(np.uint8)
    for start, end, _ in document.image_rows():
        kinds[start:end] = IMAGE
    return kinds
