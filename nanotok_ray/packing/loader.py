"""The loader: rows of shards, dealt out to ranks in batches, to be left and resumed anywhere.

Takes shards and settings; gives arrays. The rows are one global stream that no rank, batch size or
world size changes: batch n of all ranks is rows [n * B * W, (n + 1) * B * W), of which rank r takes
the r-th B. So a position in the stream is all of a state, the same on every rank.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import PackingError
from nanotok_ray.packing.batch import Batch, Segments
from nanotok_ray.packing.mixture import Mixture
from nanotok_ray.packing.report import PackingReport, StreamUse
from nanotok_ray.packing.row_stream import Position, RowStream, Stretch
from nanotok_ray.packing.rows import (
    Arrays,
    arrays_for,
    check_arrays,
    check_shards,
    fill,
    padding_id,
)
from nanotok_ray.packing.settings import BatchSettings, Packing, RowSettings, TooLong
from nanotok_ray.packing.state import StateFrame
from nanotok_ray.reader import Shards
from nanotok_ray.reader.order import Shuffle


class Loader:
    """Batches of packed rows.

    Planning reads the lengths of documents; ids are read for the rows of this rank alone. A loader
    is an iterator: `iter` goes on where it is. It is not for several threads at a time.
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
        """Check the settings; nothing is read but how many documents and tokens there are.

        Args:
            shards: the documents.
            batch_size: rows that one rank takes at a time, B.
            length: inputs of a row, T.
            packing: how rows are made of documents: best-fit and windows lose no token and train
                on all; conversations keeps documents whole and trains where masks say so.
            shuffle: in which order an epoch takes documents: as they lie, or shuffled each by
                itself ("document"), or blocks of neighbours ("block"), anew in each epoch.
            seed: of the shuffle, and of the order of rows in a group (but of windows).
            block_documents: documents of a block.
            weights: by source, shares of tokens, which need not sum to 1. Other sources are left
                out. Shares are of the tokens of documents, also of those that are cropped.
            group_documents: documents that are packed together. More of them fit rows better.
            epochs: how often all documents are taken, None for no end.
            drop_last: leave out the last batch if it has no full share for every rank; else ranks
                take what there is of theirs, which may be fewer rows, or no batch.
            too_long: what becomes of conversations longer than length + 1 tokens.
            rank: which share of each batch is taken.
            world_size: how many ranks there are, W.
            dtype: of arrays that the loader makes, int32 or int64.

        Raises:
            PackingError: a setting is none of what it may be, or there is nothing to pack.
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
        if weights is not None and epochs is not None:
            raise PackingError("epochs with weights: a mixture has no end; leave out one of them")
        self._shards = shards
        self._pad = padding_id(shards)
        mixture = Mixture.of(shards, self._settings)
        self._stream = RowStream(
            shards=shards, settings=self._settings, mixture=mixture, epochs=self._dealt.epochs
        )
        self._frame = StateFrame(
            fingerprint=shards.fingerprint,
            settings=self._settings.to_dict(),
            streams=[stream.name for stream in mixture.streams],
        )
        self._position = self._stream.start()

    def __iter__(self) -> Iterator[Batch]:
        """Give the batches from here on."""
        while (batch := self.next_batch()) is not None:
            yield batch

    def next_batch(self, into: Arrays | None = None) -> Batch | None:
        """Give the next batch, None at the end.

        Args:
            into: inputs and targets to fill, both int32 or both int64, C-contiguous, (B, T). Of a
                short last batch their first rows are filled, and the batch holds views of those.

        Raises:
            PackingError: `into` cannot take a batch; no document makes a row.
            CorruptOutputError: a shard is not what its index says.
        """
        size, length = self._dealt.batch_size, self._settings.length
        if into is not None:
            check_arrays(into, rows=size, length=length)
        found, position = self._next()
        segments = self._own(found)
        if not segments.num_rows:
            self._position = position
            return None
        if into is None:
            into = arrays_for(segments.num_rows, length, self._dealt.dtype)
        inputs, targets = (array[: segments.num_rows] for array in into)
        masked = self._settings.packing == "conversations"
        fill(self._shards, segments, inputs, targets, pad=self._pad, masked=masked)
        self._position = position
        state = self.state_dict()
        epoch = found[-1].epoch
        return Batch(inputs=inputs, targets=targets, segments=segments, state=state, epoch=epoch)

    def skip_batches(self, count: int) -> int:
        """Go on as `next_batch` would, so many times, but read no ids; give how many there were."""
        for skipped in range(count):
            found, self._position = self._next()
            if not found:
                return skipped
        return count

    def state_dict(self) -> dict[str, Any]:
        """Give the state after the last batch, JSON-able, the same on every rank."""
        return self._frame.pack(self._position)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of the same shards and settings; nothing is replayed.

        Batch size, rank, world size, epochs and dtype may be others than those of the state.

        Raises:
            PackingError: the state is none, or of other shards or settings.
        """
        self._position = self._stream.at(*self._frame.unpack(state))

    def plan(self, tokens: int) -> tuple[PackingReport, list[StreamUse]]:
        """Return what packing the first documents that hold so many tokens costs; take none.

        The last of them may bring it a little above `tokens`, and ends the last packing group. Also
        returned is what these documents are of each source of `weights`.

        Raises:
            PackingError: none of them makes a row.
        """
        return self._stream.plan(tokens)

    def report(self) -> PackingReport:
        """Give what packing cost, of all groups of which a row was taken or which have none."""
        return self._position.totals

    def _next(self) -> tuple[list[Stretch], Position]:
        """Give the next rows of all ranks and the position after them; no rows at the end."""
        wanted = self._dealt.global_rows
        found, position = self._stream.advance(self._position, wanted)
        if self._dealt.drop_last and sum(each.stop - each.start for each in found) < wanted:
            return [], self._position
        return found, position

    def _own(self, found: list[Stretch]) -> Segments:
        """Give the segments of this rank's rows."""
        start = self._dealt.rank * self._dealt.batch_size
        parts = []
        for each in found:
            part = each.part(start, start + self._dealt.batch_size)
            start -= each.stop - each.start  # counted from the next stretch on
            if part.num_rows:
                parts.append(part)
        return Segments.joined(parts)
