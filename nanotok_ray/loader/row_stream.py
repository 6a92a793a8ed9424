"""The global stream of rows: a sequence of packing groups, each with its rows.

Rows are planned from lengths; no ids are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from nanotok_ray.errors import PackingError
from nanotok_ray.loader.batch import Numbers, PackingReport, Segments, StreamUse
from nanotok_ray.loader.groups import Group, pack
from nanotok_ray.loader.mixture import Mixture, Taken
from nanotok_ray.loader.settings import RowSettings
from nanotok_ray.loader.shards import Shards


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Position:
    """The position in the stream of the next row."""

    taken: Taken
    """Number of documents of each stream before the group."""
    row: int
    """Number of used rows of the group; 0 only if the group is None."""
    totals: PackingReport
    """Totals of all groups so far, including this one."""
    group: Group | None
    after: Taken
    """Number of documents of each stream including the group."""

    @property
    def rows_left(self) -> int:
        """The number of rows that remain in the group."""
        return 0 if self.group is None else self.group.segments.num_rows - self.row


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Stretch:
    """Consecutive rows of one group."""

    group: Group
    epoch: int | None
    start: int
    stop: int

    def part(self, start: int, stop: int) -> Segments:
        """Return the segments of the rows from `start` up to `stop` that the stretch contains."""
        size = self.stop - self.start
        first, last = min(max(start, 0), size), min(max(stop, 0), size)
        return self.group.segments.part(self.start + first, self.start + last)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowStream:
    """All rows of a loader's shards and settings."""

    shards: Shards
    settings: RowSettings
    epochs: int | None
    mixture: Mixture = field(init=False)

    def __post_init__(self) -> None:
        """Choose the documents, and check that the stream has an end if it has a number of epochs.

        Raises:
            PackingError: there is nothing to pack, or it is a mixture, which has no end.
        """
        object.__setattr__(self, "mixture", Mixture.of(self.shards, self.settings))
        if self.settings.weights is not None and self.epochs is not None:
            raise PackingError(
                "epochs and weights cannot be combined, because a mixture has no end; remove one "
                "of them"
            )

    def start(self) -> Position:
        """Return the position before the first row."""
        none = (0,) * len(self.mixture.streams)
        return Position(taken=none, row=0, totals=PackingReport(), group=None, after=none)

    def at(self, taken: Taken, row: int, totals: PackingReport) -> Position:
        """Return the position with the given values, which were saved from an earlier position.

        Raises:
            PackingError: the stream has no such position.
        """
        position = Position(taken=taken, row=0, totals=totals, group=None, after=taken)
        if not self.mixture.is_start_of_group(taken):
            raise PackingError(
                f"no packing group begins after {_format_taken(taken)} documents; the state was "
                "modified"
            )
        if not row:
            return position
        documents, after = self.mixture.next_group(taken)
        group = self._pack(documents, taken)
        if row > group.segments.num_rows:
            raise PackingError(
                f"the state is of row {row} of a packing group that has {group.segments.num_rows}; "
                "the state was modified"
            )
        return replace(position, row=row, group=group, after=after)

    def advance(self, position: Position, rows: int) -> tuple[list[Stretch], Position]:
        """Return the next rows, fewer at the end, and the position after them.

        Raises:
            PackingError: all documents were used without yielding a row.
        """
        stretches: list[Stretch] = []
        while rows:
            if not position.rows_left:
                position = self._next_group(position)
            if (group := position.group) is None:
                break
            count = min(rows, position.rows_left)
            stop = position.row + count
            epoch = self.mixture.epoch(position.taken)
            stretches.append(Stretch(group=group, epoch=epoch, start=position.row, stop=stop))
            position, rows = replace(position, row=stop), rows - count
        return stretches, position

    def plan(self, tokens: int) -> tuple[PackingReport, list[StreamUse]]:
        """Return the report of packing the first `tokens` tokens, and the use of each stream.

        Raises:
            PackingError: none of their documents yields a row.
        """
        streams = self.mixture.streams
        report, uses = PackingReport(), np.zeros((len(streams), 2), dtype=np.int64)
        for documents, taken in self._first_groups(tokens):
            report += self._pack(documents, taken).report
            lengths = self.shards.lengths(documents)
            for number, stream in enumerate(streams):
                first, stop = stream.documents.start, stream.documents.stop
                is_of_stream = (first <= documents) & (documents < stop)
                uses[number] += is_of_stream.sum(), lengths[is_of_stream].sum()
        if not report.rows:
            raise self._no_rows()
        return report, [
            StreamUse(
                name=stream.name,
                documents=documents,
                tokens=stream_tokens,
                epochs=documents / len(stream.documents),
            )
            for stream, (documents, stream_tokens) in zip(streams, uses.tolist(), strict=True)
        ]

    def _first_groups(self, tokens: int) -> Iterator[tuple[Numbers, Taken]]:
        """Yield groups, with their starts, up to the document that reaches `tokens` tokens."""
        taken = self.start().taken
        while tokens > 0:
            documents, after = self.mixture.next_group(taken, epochs=self.epochs)
            if not len(documents):
                return
            ends = np.cumsum(self.shards.lengths(documents))
            count = min(len(documents), 1 + int(np.searchsorted(ends, tokens)))
            yield documents[:count], taken
            tokens, taken = tokens - int(ends[count - 1]), after

    def _next_group(self, position: Position) -> Position:
        """Return the start of the next group with rows; it has no group at the end."""
        taken, totals = position.after, position.totals
        while True:
            documents, after = self.mixture.next_group(taken, epochs=self.epochs)
            group = self._pack(documents, taken) if len(documents) else None
            if group is None:
                if not totals.rows:
                    raise self._no_rows()
                return Position(taken=taken, row=0, totals=totals, group=None, after=taken)
            totals += group.report
            if group.segments.num_rows:
                return Position(taken=taken, row=0, totals=totals, group=group, after=after)
            taken = after
            if self.mixture.is_epoch(position.after, taken):
                raise self._no_rows()

    def _no_rows(self) -> PackingError:
        return PackingError(
            "all documents were taken and none made a row: they are longer than "
            f"length + 1 = {self.settings.capacity} tokens and dropped, or are empty; "
            'use a larger length or too_long="crop"'
        )

    def _pack(self, documents: Numbers, taken: Taken) -> Group:
        name = " ".join(map(str, taken))
        return pack(self.shards, documents, self.settings, name=name)


def _format_taken(taken: Taken) -> str:
    return " and ".join(map(str, taken))
