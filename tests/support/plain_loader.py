"""A plain loader of lists and loops as the reference of the real one, and outputs to load from.

It yields rows from shards and settings, one at a time. It shares only orders and permutations with
the real loader, which have their own tests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, groupby, islice, pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from nanotok_ray.loader import DocumentOrder, Loader, Permutation, Shards, open_shards
from tests.support.made_output import BOS, MadeSource, made_output

Row = list[tuple[int, int, int]]
"""Document, first token and number of tokens of each segment."""


@dataclass(frozen=True, kw_only=True)
class PlainLoader:
    """All rows of shards, in order."""

    shards: Shards
    length: int
    packing: str = "best-fit"
    shuffle: str | None = None
    seed: int = 0
    block_documents: int = 1024
    weights: dict[str, float] | None = None
    group_documents: int = 4096
    too_long: str = "crop"

    def groups(self, epochs: int | None) -> Iterator[tuple[str, list[int]]]:
        """Yield the counts of each stream before each group, and its documents."""
        if self.weights is not None:
            return self._mixed_groups()
        return self._whole_groups(epochs)

    def _whole_groups(self, epochs: int | None) -> Iterator[tuple[str, list[int]]]:
        size, epoch = len(self.shards), 0
        while epoch != epochs:
            order = self._order("all", size)
            documents = [order(epoch * size + place) for place in range(size)]
            for start in range(0, size, self.group_documents):
                group = documents[start : start + self.group_documents]
                yield str(epoch * size + start), group
            epoch += 1

    def _mixed_groups(self) -> Iterator[tuple[str, list[int]]]:
        ranges = {name: own for name, own in self.shards.ranges().items() if name in self.weights}
        orders = {name: self._order(name, len(own)) for name, own in ranges.items()}
        means = {
            name: Fraction(sum(len(self.shards[n]) for n in own), len(own))
            for name, own in ranges.items()
        }
        shares = {name: Fraction(repr(float(self.weights[name]))) / means[name] for name in ranges}
        steps = {name: round(sum(shares.values()) / shares[name] * 2**32) for name in ranges}
        taken = dict.fromkeys(ranges, 0)
        while True:
            before, group = " ".join(map(str, taken.values())), []
            for _ in range(self.group_documents):
                name = min(ranges, key=lambda name: (2 * taken[name] + 1) * steps[name])
                group.append(ranges[name].start + orders[name](taken[name]))
                taken[name] += 1
            yield before, group

    def _order(self, name: str, size: int):
        order = DocumentOrder(
            size,
            shuffle=self.shuffle,
            seed=self.seed,
            block_documents=self.block_documents,
            name=name,
        )
        return lambda position: int(order.at(np.array([position % size]), position // size)[0])

    def rows(self, epochs: int | None = None) -> Iterator[Row]:
        for before, group in self.groups(epochs):
            rows = list(getattr(self, f"_{self.packing.replace('-', '_')}")(group))
            if self.packing == "windows":
                yield from rows
            else:
                order = Permutation(len(rows), seed=self.seed, name=f"rows {before}")
                yield from (rows[number] for number in order(np.arange(len(rows))).tolist())

    def _best_fit(self, group: list[int]) -> Iterator[Row]:
        whole = [(place, 0, len(self.shards[document])) for place, document in enumerate(group)]
        for row in best_fit(whole, self.length + 1, keep_rest=True):
            yield [(group[place], start, length) for place, start, length in row]

    def _conversations(self, group: list[int]) -> Iterator[Row]:
        whole = []
        for place, document in enumerate(group):
            length = len(self.shards[document])
            if length > self.length + 1:
                length = self.length + 1 if self.too_long == "crop" else 0
            whole.append((place, 0, length))
        for row in best_fit(whole, self.length + 1, keep_rest=False):
            yield [(group[place], start, length) for place, start, length in row]

    def _windows(self, group: list[int]) -> Iterator[Row]:
        stream = [
            (place, n) for place, one in enumerate(group) for n in range(len(self.shards[one]))
        ]
        for start in range(0, len(stream), self.length):
            tokens = stream[start : start + self.length + 1]
            parts = [list(own) for _, own in groupby(tokens, key=lambda token: token[0])]
            yield [(group[own[0][0]], own[0][1], len(own)) for own in parts]

    def arrays(self, row: Row) -> tuple[list[int], list[int]]:
        ids = [n for one, start, length in row for n in self.shards[one][start:][:length].tolist()]
        mask = [n for segment in row for n in self._mask(*segment)]
        spare = self.length + 1 - len(ids)
        learned = [n if own else -1 for n, own in zip(ids, mask, strict=True)]
        padded = ids + [BOS] * spare
        return padded[: self.length], (learned + [-1] * spare)[1:]

    def _mask(self, document: int, start: int, length: int) -> list[int]:
        mask = self.shards.mask(document) if self.packing == "conversations" else None
        return [1] * length if mask is None else mask[start : start + length].tolist()


def best_fit(candidates: Row, capacity: int, *, keep_rest: bool) -> Iterator[Row]:
    left = [one for one in candidates if one[2]]
    while left:
        row: Row = []
        while space := capacity - sum(length for _, _, length in row):
            fitting = [one for one in left if one[2] <= space]
            if not fitting and not (keep_rest and left):
                break
            chosen = max(fitting or left, key=lambda one: (one[2], -one[0]))
            left.remove(chosen)
            number, start, length = chosen
            row.append((number, start, min(length, space)))
            if length > space:
                left.append((number, start + space, length - space))
        yield row


def rows_of(batch: Any) -> list[Row]:
    """Return the segments of a batch, row by row."""
    own = batch.segments
    segments = list(
        zip(own.documents.tolist(), own.starts.tolist(), own.lengths.tolist(), strict=True)
    )
    cuts = own.rows.tolist()
    return [segments[start:stop] for start, stop in pairwise(cuts)]


def all_rows(loader: Loader, *, batches: int | None = None) -> list[tuple[Row, Any, Any]]:
    """Return segments, inputs and targets of the next rows of a loader."""
    return [
        one
        for batch in islice(loader, batches)
        for one in zip(rows_of(batch), batch.inputs.tolist(), batch.targets.tolist(), strict=True)
    ]


FEWER = settings(max_examples=settings().max_examples // 4)  # each example writes an output

LENGTHS = st.lists(
    st.lists(st.one_of(st.integers(0, 12), st.integers(0, 40)), min_size=1, max_size=8),
    min_size=1,
    max_size=2,
)
"""Lengths of the documents of each shard of a source."""


def made_sources(lengths: Sequence[Sequence[Sequence[int]]]) -> list[MadeSource]:
    """Return sources a, b, ... of documents of these lengths; every second one has masks."""
    made, ids = [], count()
    for number, shards in enumerate(lengths):
        documents = [[list(islice(ids, length)) for length in shard] for shard in shards]
        kind = "chat" if number % 2 else "text"
        made.append(MadeSource(name="abcdefgh"[number], shards=documents, kind=kind))
    return made


def made_shards(root: Any, lengths: Sequence[Sequence[Sequence[int]]]) -> Shards:
    """Write sources of documents with consecutive ids, and open them."""
    with patch("os.fsync"):  # a dozen calls in each example; no test simulates a power failure
        made_output(root, *made_sources(lengths))
    return open_shards(str(root))
