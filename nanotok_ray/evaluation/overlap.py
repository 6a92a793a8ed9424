"""What two vocabularies have in common, and where they part.

Takes two vocabularies; gives plain values. Does not know texts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nanotok_ray.evaluation.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """Two vocabularies beside each other; special tokens are not looked at."""

    shared: int
    """Byte strings that both have as a token, single bytes included."""
    only_left: int
    only_right: int
    equal_merges: int
    """So many merges are equal before the first that differs, or before one ends."""
    left: bytes | None
    """The token of the first merge that differs; None: there are no more merges."""
    right: bytes | None

    @property
    def is_prefix(self) -> bool:
        """Whether the merges of one are the first of the other, or all are equal."""
        return self.left is None or self.right is None


def overlap_of(left: Vocabulary, right: Vocabulary) -> Overlap:
    """Compare two vocabularies.

    Merges are compared as pairs of bytes where both say these, else by their tokens.

    >>> first = Vocabulary(tokens=(b"a", b"b", b"ab", b"abb"), num_bytes=2)
    >>> second = Vocabulary(tokens=(b"b", b"a", b"ab", b"ba"), num_bytes=2)
    >>> overlap_of(first, second)
    Overlap(shared=3, only_left=1, only_right=1, equal_merges=1, left=b'abb', right=b'ba')
    """
    own, other = set(left.tokens), set(right.tokens)
    mine, theirs = left.tokens[left.num_bytes :], right.tokens[right.num_bytes :]
    if left.pairs is None or right.pairs is None:
        equal = _equal_start(mine, theirs)
    else:
        equal = _equal_start([*_bytes_of_pairs(left)], [*_bytes_of_pairs(right)])
    return Overlap(
        shared=len(own & other),
        only_left=len(own - other),
        only_right=len(other - own),
        equal_merges=equal,
        left=mine[equal] if equal < len(mine) else None,
        right=theirs[equal] if equal < len(theirs) else None,
    )


def _bytes_of_pairs(own: Vocabulary) -> Iterator[tuple[bytes, bytes]]:
    """Give both parts of each merge: the ids of single bytes may differ."""
    for first, second in own.pairs or ():
        yield own.tokens[first], own.tokens[second]


def _equal_start(left: Sequence[object], right: Sequence[object]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (own, other) in pairs if own != other), min(len(left), len(right)))
