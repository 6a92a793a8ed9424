"""The sample of a slice: the selection of documents, and their check while the slice is written."""

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.errors import SampleCheckError
from nanotok_ray.formats import Shard, ShardSettings
from nanotok_ray.shards.check.document import WINDOW_BYTES, DocumentCheck
from nanotok_ray.shards.settings import CheckedCount
from nanotok_ray.shards.writer import RenderedDocuments
from nanotok_ray.sources import Batch, Slice
from nanotok_ray.tokenizer import Tokenizer

MIN_DOCUMENTS = 3
MIN_PER_MILLE = 3
"""Minimum share of bytes in the sample, in thousandths; both minimums apply."""

SEED = 20
MAX_SLICES = 16
DOCUMENTS_PER_SLICE = 8

T = TypeVar("T")


class Sample:
    """The sample of one slice, chosen batch by batch."""

    def __init__(self, seed: str) -> None:
        """Create an empty sample."""
        self._seed = seed
        self._picks = 0
        self._seen = 0
        self.documents = 0
        """Number of documents in the sample."""
        self.bytes = 0
        """Bytes of these documents that are checked."""

    def choose(self, sizes: npt.NDArray[np.int64]) -> Iterator[int]:
        """Yield the indexes of the documents of the next batch that belong to the sample.

        >>> sample = Sample("seed")
        >>> len(list(sample.choose(np.array([5, 0, 7, 1])))), sample.documents
        (3, 3)
        """
        self._seen += int(sizes.sum())
        taken: set[int] = set()
        while self._wants_more() and len(taken) < len(sizes):
            number = self._pick(len(sizes), taken)
            taken.add(number)
            self.documents += 1
            self.bytes += min(int(sizes[number]), WINDOW_BYTES)
            yield number

    def _wants_more(self) -> bool:
        return self.documents < MIN_DOCUMENTS or self.bytes * 1000 < MIN_PER_MILLE * self._seen

    def _pick(self, count: int, taken: set[int]) -> int:
        """Return the first free index at or after a pseudorandom one."""
        self._picks += 1
        number = _core.hash64(f"{self._seed} {self._picks}".encode()) % count
        while number in taken:
            number = (number + 1) % count
        return number


class SampleCheck:
    """The check of a sample of one slice while it is written, batch by batch."""

    def __init__(self, slice_: Slice, settings: ShardSettings, *, tokenizer: Tokenizer) -> None:
        """Create an empty check; the same slice always has the same sample."""
        self._slice = slice_
        # Independent of the key, which includes times of files: copies of files have the same
        # sample.
        self._sample = Sample(f"{slice_.source}/{slice_.split}/{slice_.stem}-{slice_.number}")
        self._check = DocumentCheck(kind=slice_.kind, settings=settings, tokenizer=tokenizer)

    @property
    def count(self) -> CheckedCount:
        """The counts of the documents checked so far."""
        return self._check.count

    def check(self, batch: Batch, rendered: RenderedDocuments) -> None:
        """Compare the sample's documents of a batch with their ids.

        Raises:
            SampleCheckError: The ids are not those of a document; the message names its row.
        """
        chosen = sorted(self._sample.choose(rendered.sizes))
        if not chosen:
            return
        documents = batch.documents
        piece = self._slice.pieces[rendered.piece]
        for number in chosen:
            at = int(rendered.selected[number])
            document = documents.data[documents.offsets[at] : documents.offsets[at + 1]]
            problem = self._check.problem(
                document, *rendered.documents[number], dialect=piece.file.dialect
            )
            if problem is not None:
                raise SampleCheckError(
                    f"{piece.file.path}, row {rendered.rows[number]}: {problem}; nothing of this "
                    "slice is recorded. Is the memory of this node sound? If it comes again, this "
                    "is a bug"
                )


def choose_slices(filled: Sequence[T]) -> list[T]:
    """Return up to 16 of the slices that have documents, selected with a fixed seed."""
    return random.Random(SEED).sample(filled, min(MAX_SLICES, len(filled)))


def choose_documents(shards: Sequence[Shard]) -> dict[str, npt.NDArray[np.int64]]:
    """Return the indexes, by shard, of up to 8 documents of a slice, selected with a fixed seed."""
    numbered = [(shard.name, number) for shard in shards for number in _spread(shard)]
    chosen = random.Random(SEED).sample(numbered, min(DOCUMENTS_PER_SLICE, len(numbered)))
    return {
        name: np.array(sorted(number for other, number in chosen if other == name), np.int64)
        for name in {name for name, _ in chosen}
    }


def _spread(shard: Shard) -> list[int]:
    """Return the indexes of the first, the last and some documents between."""
    count = shard.documents
    inner = random.Random(SEED).sample(range(count), min(DOCUMENTS_PER_SLICE, count))
    return sorted({0, count - 1, *inner})
