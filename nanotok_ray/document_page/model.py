"""A document as it is shown, and how its ids are spelled: plain values.

Takes what a reader of shards gives, or what a rendering gave. Knows neither shards nor tokenizers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.errors import CorruptOutputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Spelling:
    """What ids stand for."""

    bytes_of: Callable[[int], bytes]
    """Bytes of an id, the name if it is a special token; KeyError if it is none."""
    special_tokens: Mapping[str, int]
    """Id of each special token by name."""
    names: dict[int, str] = field(init=False)
    """Name of each special token by id."""

    def __post_init__(self) -> None:
        names = {number: name for name, number in self.special_tokens.items()}
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document to show.

    Raises:
        CorruptOutputError: Mask or images do not fit the ids; the message says how.
    """

    title: str
    """Which document this is, in a few words."""
    place: str
    """Where it lies."""
    ids: NDArray[np.unsignedinteger]
    mask: NDArray[np.uint8] | None = None
    """1 for each id that is trained on, else 0; None for text, all of which is."""
    images: NDArray[np.int32] | None = None
    """Of each image in turn: start, end, number; start and end are positions in the ids."""
    document_id: str | None = None
    """What the id_column of its source says."""

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
        """Give start, end and number of each image."""
        return [] if self.images is None else [(a, b, n) for a, b, n in self.images.tolist()]
