"""Selection of a packing group's documents, from one stream or from several by weight."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from nanotok_ray.errors import PackingError
from nanotok_ray.loader.batch import Numbers
from nanotok_ray.loader.order import DocumentOrder
from nanotok_ray.loader.settings import RowSettings
from nanotok_ray.loader.shards import Shards


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """Consecutive documents, each of which is used once in an epoch."""

    name: str
    """Distinguishes the order of this stream from the orders of other streams."""
    documents: range
    """The global indices of the documents."""
    settings: RowSettings

    def take(self, position: int, count: int) -> Numbers:
        """Return the documents at `count` positions; position // documents is the epoch."""
        size, parts = len(self.documents), []
        while count:
            epoch, start = divmod(position, size)
            length = min(count, size - start)
            positions = np.arange(start, start + length, dtype=np.int64)
            parts.append(self._order.at(positions, epoch) + self.documents.start)
            position, count = position + length, count - length
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def position_of(self, documents: Numbers, epoch: int) -> Numbers:
        """Return the position of each document in the stream in an epoch: the inverse of `take`."""
        size = len(self.documents)
        return self._order.position_of(documents - self.documents.start, epoch) + epoch * size

    @property
    def _order(self) -> DocumentOrder:
        return DocumentOrder(
            len(self.documents),
            shuffle=self.settings.shuffle,
            seed=self.settings.seed,
            block_documents=self.settings.block_documents,
            name=self.name,
        )


ALL = "all"
"""The name of the only stream if there are no weights."""

_UNIT = 1 << 32
Taken = tuple[int, ...]
"""The number of documents that were taken from each stream."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixture:
    """The streams and the ratio in which they are mixed."""

    streams: tuple[Stream, ...]
    steps: tuple[int, ...] | None
    """Half the time between two documents of each stream; None: a single stream with an end."""
    group_documents: int

    @classmethod
    def of(cls, shards: Shards, settings: RowSettings) -> "Mixture":
        """Return the mixture of the shards that the settings describe.

        Raises:
            PackingError: there are no documents or no tokens, or a weight names something other
                than a source with tokens.
        """
        if not shards.num_tokens:
            raise PackingError(
                f"there is nothing to pack: {len(shards)} documents without a token; open another "
                "split or source"
            )
        size = settings.group_documents
        if settings.weights is None:
            stream = Stream(name=ALL, documents=range(len(shards)), settings=settings)
            return cls(streams=(stream,), steps=None, group_documents=size)
        tokens = _tokens_of(shards)
        _check_known(settings.weights, list(tokens))
        ranges = shards.ranges()
        names = [name for name in tokens if name in settings.weights]
        shares = [
            Fraction(repr(settings.weights[name])) * len(ranges[name]) / tokens[name]
            for name in names
        ]
        return cls(
            streams=tuple(
                Stream(name=name, documents=ranges[name], settings=settings) for name in names
            ),
            steps=tuple(round(sum(shares) / share * _UNIT) for share in shares),
            group_documents=size,
        )

    def next_group(self, taken: Taken, *, epochs: int | None = None) -> tuple[Numbers, Taken]:
        """Return the documents of the next group, none at the end, and the counts after it."""
        if self.steps is not None:
            return self.take(taken, self.group_documents)
        size = len(self.streams[0].documents)
        is_over = epochs is not None and taken[0] >= epochs * size
        count = 0 if is_over else min(self.group_documents, size - taken[0] % size)
        return self.take(taken, count)

    def take(self, taken: Taken, count: int) -> tuple[Numbers, Taken]:
        """Return the next `count` documents, and the counts after them.

        Calls for consecutive parts return the same documents as one call for all of them.
        """
        if self.steps is None:
            return self.streams[0].take(taken[0], count), (taken[0] + count,)
        if not count:
            return np.zeros(0, dtype=np.int64), taken
        due = self._due(taken, self.steps, count)
        documents = np.zeros(len(due), dtype=np.int64)
        after = []
        for number, stream in enumerate(self.streams):
            positions = np.flatnonzero(due == number)
            documents[positions] = stream.take(taken[number], len(positions))
            after.append(taken[number] + len(positions))
        return documents, tuple(after)

    def taken_before(self, position: int) -> Taken:
        """Return the number of documents of each stream among the first `position` documents.

        Times are Python integers, because those of distant documents exceed 64 bits.
        """
        if self.steps is None:
            return (position,)
        low, high = 0, 2 * min(self.steps) * (position + 1)
        while low < high:  # the first time until which at least `position` documents are due
            middle = (low + high) // 2
            if sum(_due_until(middle, self.steps)) < position:
                low = middle + 1
            else:
                high = middle
        taken = _due_until(low - 1, self.steps)
        for number, count in enumerate(_due_until(low, self.steps)):
            if sum(taken) < position:  # documents of one time are in the order of streams
                taken[number] = count
        return tuple(taken)

    def epoch(self, taken: Taken) -> int | None:
        """Return the number of complete epochs before the next group, or None for a mixture."""
        return taken[0] // len(self.streams[0].documents) if self.steps is None else None

    def is_epoch(self, before: Taken, after: Taken) -> bool:
        """Return whether the two positions enclose a whole epoch of each stream."""
        return all(
            stop - start >= 2 * len(stream.documents)
            for start, stop, stream in zip(before, after, self.streams, strict=True)
        )

    def is_start_of_group(self, taken: Taken) -> bool:
        """Return whether a group begins at this position."""
        if self.steps is None:
            return taken[0] % len(self.streams[0].documents) % self.group_documents == 0
        position = sum(taken)
        return position % self.group_documents == 0 and taken == self.taken_before(position)

    def _due(self, taken: Taken, steps: Sequence[int], count: int) -> Numbers:
        """Return the stream of each of the next `count` documents.

        The next document of each stream is due at most two steps after the first due document, so
        all of the documents are due within `span`, and times relative to the first fit in 64 bits.
        """
        dues = _dues(taken, steps)
        first = min(dues)
        span = 2 * _UNIT * (count + len(steps) + 1)
        times, numbers = [], []
        for number, (due, step) in enumerate(zip(dues, steps, strict=True)):
            num_due = min(count, (span - (due - first)) // (2 * step) + 1)
            if num_due > 0:
                apart = min(2 * step, span)  # not used if only one document is due
                times.append(due - first + apart * np.arange(num_due, dtype=np.int64))
                numbers.append(np.full(num_due, number, dtype=np.int64))
        order = np.argsort(np.concatenate(times), kind="stable")
        return np.concatenate(numbers)[order[:count]]


def _dues(taken: Taken, steps: Sequence[int]) -> list[int]:
    """Return the time at which the next document of each stream is due."""
    return [(2 * number + 1) * step for number, step in zip(taken, steps, strict=True)]


def _due_until(time: int, steps: Sequence[int]) -> list[int]:
    """Return the number of documents of each stream that are due up to and including a time."""
    return [max(0, (time + step) // (2 * step)) for step in steps]


def _tokens_of(shards: Shards) -> dict[str, int]:
    """Return the number of tokens of each source that has tokens."""
    rows = shards.index.rows[shards.rows]
    names = shards.sources
    totals = {
        names[number]: int(rows["tokens"][rows["source"] == number].sum())
        for number in np.unique(rows["source"]).tolist()
    }
    return {name: total for name, total in totals.items() if total}


def _check_known(weights: object, known: list[str]) -> None:
    assert isinstance(weights, dict)
    wrong = [name for name in weights if name not in known]
    if wrong:
        raise PackingError(
            f"weights name {wrong[0]!r}, which is not a source with documents; the sources are "
            f"{', '.join(known)}"
        )
