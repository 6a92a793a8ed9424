"""Segments of conversations and vision documents, and the reference implementation of their ids.

A document is a list of segments: a special token, some copies of one, or a text that is encoded
separately.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nanotok_ray.formats import ROLES


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A segment of a document."""

    text: str
    """The name of a special token, or a text that is encoded on its own."""
    is_special: bool
    mask: int
    """1: train on these tokens."""
    role: str
    """One of `ROLES`."""
    count: int = 1
    """Number of copies of a special token, for the tokens of an image."""

    @property
    def label(self) -> int:
        """One byte with the mask as its lowest bit and the number of the role above it.

        >>> Segment(text="hi", is_special=False, mask=1, role="assistant").label
        5
        """
        return ROLES.index(self.role) << 1 | self.mask


@dataclass(frozen=True, kw_only=True, slots=True)
class Composed:
    """The ids of a document, and the label of each id."""

    ids: list[int]
    labels: list[int]
    """The label of each id."""
    images: list[tuple[int, int]]
    """The positions in the ids where the tokens of each image begin and end (half-open)."""

    @property
    def mask(self) -> list[int]:
        """1 for each id that is trained on, else 0."""
        return [label & 1 for label in self.labels]


def compose(
    encode: Callable[[str], Sequence[int]],
    special_id: Callable[[str], int],
    segments: Iterable[Segment],
) -> Composed:
    """Return the ids of segments in order; each text is encoded separately.

    >>> segments = [
    ...     Segment(text="<image>", is_special=True, mask=0, role="image", count=2),
    ...     Segment(text="hi", is_special=False, mask=1, role="user"),
    ... ]
    >>> compose(lambda text: list(text.encode()), {"<image>": 256}.__getitem__, segments)
    Composed(ids=[256, 256, 104, 105], labels=[10, 10, 3, 3], images=[(0, 2)])
    """
    ids: list[int] = []
    labels: list[int] = []
    images: list[tuple[int, int]] = []
    for segment in segments:
        if segment.is_special:
            segment_ids: Sequence[int] = [special_id(segment.text)] * segment.count
        else:
            segment_ids = encode(segment.text)
        if segment.role == "image":
            images.append((len(ids), len(ids) + len(segment_ids)))
        ids.extend(segment_ids)
        labels.extend([segment.label] * len(segment_ids))
    return Composed(ids=ids, labels=labels, images=images)
