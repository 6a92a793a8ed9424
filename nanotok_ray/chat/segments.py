"""Segments of conversations and vision documents, and the reference implementation of their ids.

A document is a list of segments: a special token, some copies of one, or a text that is encoded
separately.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nanotok_ray.formats import ROLES


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A stretch of a document."""

    text: str
    """The name of a special token, or a text that is encoded on its own."""
    is_special: bool
    mask: int
    """1: train on these tokens."""
    role: str
    """One of `ROLES`."""
    count: int = 1
    """Copies of a special token: an image's tokens."""

    @property
    def label(self) -> int:
        """The number of the role, and the mask as the lowest bit: a byte that says both.

        >>> Segment(text="hi", is_special=False, mask=1, role="assistant").label
        5
        """
        return ROLES.index(self.role) << 1 | self.mask


@dataclass(frozen=True, kw_only=True, slots=True)
class Composed:
    """A document's ids, and what each of them is."""

    ids: list[int]
    labels: list[int]
    """One for each id."""
    images: list[tuple[int, int]]
    """Where the tokens of each image begin and end, as positions in the ids."""

    @property
    def mask(self) -> list[int]:
        """1 for each id that is trained on, else 0."""
        return [label & 1 for label in self.labels]


def compose(
    encode: Callable[[str], Sequence[int]],
    special_id: Callable[[str], int],
    segments: Iterable[Segment],
) -> Composed:
    """Return the ids of segments, each text encoded by itself, in the order of the segments.

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
