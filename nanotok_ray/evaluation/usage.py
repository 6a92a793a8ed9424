"""How often each id of a tokenizer occurs in texts.

Takes ids; gives counts, and what follows from them. Does not know the texts.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents.batch import Documents
from nanotok_ray.evaluation.vocabulary import Vocabulary
from nanotok_ray.tokenizer.id_array import Ids


@dataclass(slots=True)
class Usage:
    """Counts of ids over some texts.

    >>> vocabulary = Vocabulary(tokens=(b"a", b"b", b"ab"), num_bytes=2)
    >>> usage = Usage(vocabulary)
    >>> usage.add(np.array([2, 2, 0], dtype=np.uint16), Documents.from_strings(["ab", "aba"]))
    >>> usage.most_used(5), usage.unused
    ([2, 0], [1])
    """

    vocabulary: Vocabulary
    counts: NDArray[np.int64] = field(init=False)
    """Of each id of text."""
    texts: int = 0
    num_bytes: int = 0
    """Of the texts."""

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.vocabulary.tokens), dtype=np.int64)

    def add(self, ids: Ids, texts: Documents) -> None:
        """Count the ids of some texts, none of which is a special token's."""
        self.counts += np.bincount(ids, minlength=len(self.counts))
        self.texts += len(texts)
        self.num_bytes += texts.num_bytes

    @property
    def total(self) -> int:
        """How many ids were counted."""
        return int(self.counts.sum())

    @property
    def bytes_per_token(self) -> float | None:
        """None: there are no tokens."""
        return self.num_bytes / self.total if self.total else None

    def most_used(self, most: int) -> list[int]:
        """Give the ids that occur most often, the lowest first among equals; none that do not."""
        order = np.argsort(-self.counts, kind="stable")[:most]
        return [int(number) for number in order if self.counts[number]]

    @property
    def unused(self) -> list[int]:
        """The ids that do not occur, single bytes included."""
        numbers: list[int] = np.flatnonzero(self.counts == 0).tolist()
        return numbers

    @property
    def unused_merged(self) -> list[int]:
        """The ids of merged tokens that do not occur."""
        return [number for number in self.unused if number >= self.vocabulary.num_bytes]

    def by_rank(self) -> NDArray[np.int64]:
        """Give the counts that are not 0, the highest first."""
        return -np.sort(-self.counts[self.counts > 0])
