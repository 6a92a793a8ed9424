"""The loader, which distributes packed rows to ranks in batches and can resume from a state."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import PackingError
from nanotok_ray.formats import format_value, number
from nanotok_ray.loader.batch import Batch, PackingReport, SavedState, Segments, State, StreamUse
from nanotok_ray.loader.mixture import Taken
from nanotok_ray.loader.order import Shuffle
from nanotok_ray.loader.row_stream import Position, RowStream, Stretch
from nanotok_ray.loader.settings import (
    Arrays,
    BatchSettings,
    Packing,
    RowSettings,
    TooLong,
    arrays_for,
    check_arrays,
    check_shards,
    fill,
)
from nanotok_ray.loader.shards import Shards

STATE_FORMAT = "nanotok-loader 1"

_COUNTS = tuple(field.name for field in fields(PackingReport))


class IgnoredMasksWarning(UserWarning):
    """A packing trains on all tokens of documents that have loss masks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateFrame:
    """The part that all states of a loader have in common."""

    fingerprint: str
    """The fingerprint of the shards."""
    settings: RowSettings
    streams: Sequence[str]
    """The names of the streams."""

    def pack(self, position: Position) -> State:
        """Return the state for a position."""
        return {
            "format": STATE_FORMAT,
            "fingerprint": self.fingerprint,
            "settings": asdict(self.settings),
            "streams": dict(zip(self.streams, position.taken, strict=True)),
            "row": position.row,
            "totals": asdict(position.totals),
        }

    def unpack(self, state: SavedState) -> tuple[Taken, int, PackingReport]:
        """Return the documents used per stream, the rows used of the next group, and totals.

        Raises:
            PackingError: The state is damaged, or belongs to other shards or settings.
        """
        self._check_same(state)
        streams = _counts(state, "streams", self.streams)
        totals = _counts(state, "totals", _COUNTS)
        row = _counts({"state": state}, "state", ["row"], only=False)["row"]
        return tuple(streams[name] for name in self.streams), row, PackingReport(**totals)

    def _check_same(self, state: Any) -> None:  # noqa: ANN401 - whatever was loaded
        state_format = state.get("format") if isinstance(state, Mapping) else None
        if state_format != STATE_FORMAT:
            raise PackingError(
                f"the state has format {format_value(state_format)}, this loader reads "
                f"{STATE_FORMAT!r}; load it with the kind and the version of the loader that saved "
                "it"
            )
        if state.get("fingerprint") != self.fingerprint:
            raise PackingError(
                "the state belongs to other shards: other documents, another split or source; open "
                "the shards with which it was saved, or start without it"
            )
        settings = state.get("settings")
        if not isinstance(settings, Mapping):
            raise PackingError("the state has no settings; it was modified")
        current = asdict(self.settings)
        names = dict.fromkeys([*current, *settings])
        other = [name for name in names if settings.get(name) != current.get(name)]
        if other:
            differences = "; ".join(
                f"{name} was {_setting(settings.get(name))} and is {current.get(name)!r}"
                for name in other
            )
            raise PackingError(
                f"the state belongs to rows that were packed differently: {differences}; use the "
                "settings of the state, or start without it"
            )


def _warn_of_ignored_masks(shards: Shards, settings: RowSettings) -> None:
    """Warn if all tokens of documents with loss masks become targets."""
    if settings.packing == "conversations":
        return
    table = shards.index.rows[shards.rows]
    masked = [
        shards.sources[number] for number in np.unique(table["source"][table["mask_bytes"] > 0])
    ]
    names = [name for name in masked if settings.weights is None or name in settings.weights]
    if names:
        warnings.warn(
            f"packing {settings.packing!r} ignores the loss masks of {', '.join(names)}: all "
            "tokens become targets; pack these sources with packing='conversations', or open "
            "others with open_shards(..., source=NAME)",
            IgnoredMasksWarning,
            stacklevel=3,
        )


def _setting(value: object) -> str:
    """Return a setting of a state, of any type, as text for an error."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {format_value(item)}' for name, item in value.items())}}}"
    return format_value(value)


def _counts(
    state: SavedState, key: str, names: Sequence[str], *, only: bool = True
) -> dict[str, int]:
    """Return the counts of a state by name; raise PackingError if one is not a whole number."""
    counts = state.get(key)
    if not isinstance(counts, Mapping) or (only and set(counts) != set(names)):
        raise PackingError(f"{key} of the state is not {', '.join(names)}; it was modified")
    for name in names:
        value = counts.get(name)
        if not number(value):
            raise PackingError(
                f"{name} of the state is {format_value(value)}, no count; it was modified"
            )
    return {name: counts[name] for name in names}


class Loader:
    """Batches of packed rows.

    Planning reads the lengths of documents; ids are read only for the rows of this rank. `iter`
    continues at the current position. A loader must not be used by several threads at a time.
    """

    def __init__(
        self,
        shards: Shards,
        *,
        batch_size: int,
        length: int,
        packing: Packing = "best-fit",
        shuffle: Shuffle | None = None,
        seed: int = 0,
        block_documents: int = 1024,
        weights: Mapping[str, float] | None = None,
        group_documents: int = 4096,
        epochs: int | None = None,
        drop_last: bool = False,
        too_long: TooLong = "crop",
        rank: int = 0,
        world_size: int = 1,
        dtype: npt.DTypeLike = np.int32,
    ) -> None:
        """Check the settings; only the numbers of documents and tokens are read.

        Args:
            shards: the documents.
            batch_size: number of rows of a batch of one rank, B.
            length: number of inputs of a row, T.
            packing: how documents are packed into rows: "best-fit" and "windows" lose no token and
                train on all tokens, with a warning if documents have masks; "conversations" keeps
                documents whole and trains on the tokens that their masks select.
            shuffle: the order of documents in an epoch: None for the order of the shards,
                "document" to shuffle documents, "block" to shuffle blocks of consecutive
                documents. Each epoch is shuffled anew.
            seed: seed of the shuffle and, except with "windows", of the order of rows in a group.
            block_documents: number of documents of a block.
            weights: the share of tokens of each source; the shares need not sum to 1. Sources
                without a weight are skipped. The tokens of a document that is cropped all count.
            group_documents: number of documents that are packed together. Larger groups fill rows
                better.
            epochs: number of times that all documents are used, None for no end.
            drop_last: skip the last batch if it is not full for every rank; otherwise each rank
                receives its part of the remaining rows, which can be fewer than B rows or none.
            too_long: whether conversations longer than length + 1 tokens are cropped or dropped.
            rank: the rank of this loader, which selects its share of each batch.
            world_size: number of ranks, W.
            dtype: data type of arrays that the loader creates, int32 or int64.

        Raises:
            PackingError: a setting is out of its range, or there is nothing to pack.
        """
        check_shards(shards)
        self._dealt = BatchSettings(
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
            epochs=epochs,
            drop_last=drop_last,
            dtype=dtype,
        )
        self._settings = RowSettings(
            packing=packing,
            length=length,
            shuffle=shuffle,
            seed=seed,
            block_documents=block_documents,
            weights=weights,
            group_documents=group_documents,
            too_long=too_long,
        )
        _warn_of_ignored_masks(shards, self._settings)
        self._shards = shards
        self._stream = RowStream(shards=shards, settings=self._settings, epochs=self._dealt.epochs)
        self._frame = StateFrame(
            fingerprint=shards.fingerprint,
            settings=self._settings,
            streams=[stream.name for stream in self._stream.mixture.streams],
        )
        self._position = self._stream.start()

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches from the current position."""
        while (batch := self.next_batch()) is not None:
            yield batch

    def next_batch(self, into: Arrays | None = None) -> Batch | None:
        """Return the next batch, or None at the end.

        Args:
            into: inputs and targets to fill, both int32 or both int64, C-contiguous, (B, T). A
                short last batch fills only their first rows and holds views of these rows.

        Raises:
            PackingError: `into` cannot hold a batch, or no document yields a row.
            CorruptOutputError: a shard disagrees with its index.
        """
        size, length = self._dealt.batch_size, self._settings.length
        if into is not None:
            check_arrays(into, rows=size, length=length)
        stretches, position = self._next()
        segments = self._rank_segments(stretches)
        if not segments.num_rows:
            self._position = position
            return None
        if into is None:
            into = arrays_for(segments.num_rows, length, self._dealt.dtype)
        inputs, targets = (array[: segments.num_rows] for array in into)
        masked = self._settings.packing == "conversations"
        fill(self._shards, segments, (inputs, targets), masked=masked)
        self._position = position
        return Batch(
            inputs=inputs,
            targets=targets,
            segments=segments,
            state=self.state_dict(),
            epoch=stretches[-1].epoch,
        )

    def skip_batches(self, count: int) -> int:
        """Skip up to `count` batches without reading ids, and return the number skipped."""
        for skipped in range(count):
            stretches, self._position = self._next()
            if not stretches:
                return skipped
        return count

    def state_dict(self) -> State:
        """Return the state after the last batch, JSON-able, the same on every rank."""
        return self._frame.pack(self._position)

    def load_state_dict(self, state: SavedState) -> None:
        """Resume from a state of the same shards and settings, without repeating work.

        Batch size, rank, world size, epochs and dtype may differ from those of the state.

        Raises:
            PackingError: the state is damaged, or belongs to other shards or settings.
        """
        self._position = self._stream.at(*self._frame.unpack(state))

    def plan(self, tokens: int) -> tuple[PackingReport, list[StreamUse]]:
        """Return the report of packing the first documents that hold `tokens` tokens.

        The position of the loader does not change. The last document can exceed `tokens` a little,
        and ends the last packing group. The second result is the use of each source of `weights`
        by these documents.

        Raises:
            PackingError: none of these documents yields a row.
        """
        return self._stream.plan(tokens)

    def report(self) -> PackingReport:
        """Return the packing report of all groups so far, including groups without rows."""
        return self._position.totals

    def __repr__(self) -> str:
        dealt, rows = self._dealt, self._settings
        return (
            f"<Loader, {rows.packing}: batches of {dealt.batch_size} x {rows.length}, rank "
            f"{dealt.rank} of {dealt.world_size}, {self._shards!r}>"
        )

    def _next(self) -> tuple[list[Stretch], Position]:
        """Return the next rows of all ranks and the position after them; no rows at the end."""
        rows = self._dealt.global_rows
        stretches, position = self._stream.advance(self._position, rows)
        is_full = sum(stretch.stop - stretch.start for stretch in stretches) == rows
        if self._dealt.drop_last and not is_full:
            return [], self._position
        return stretches, position

    def _rank_segments(self, stretches: list[Stretch]) -> Segments:
        """Return the segments of the rows of this rank."""
        start = self._dealt.rank * self._dealt.batch_size
        parts = []
        for stretch in stretches:
            part = stretch.part(start, start + self._dealt.batch_size)
            start -= stretch.stop - stretch.start  # relative to the next stretch
            if part.num_rows:
                parts.append(part)
        return Segments.joined(parts)
