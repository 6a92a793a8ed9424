"""The batches of nanochat's own loader, from shards: the same rows in the same order on every rank.

nanochat's `tokenizing_distributed_data_loader_with_state_bos_bestfit` reads text, encodes it and
packs it into rows. Here the ids already exist, and rows are planned from lengths alone. Therefore
resuming is exact: the plan is repeated up to the position of the state.
"""

import warnings
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.errors import PackingError
from nanotok_ray.formats import format_value, number
from nanotok_ray.loader.batch import Batch, PackingReport, SavedState, Segments, State
from nanotok_ray.loader.rank_batches import Position, RankBatches, RowGroups
from nanotok_ray.loader.settings import (
    Arrays,
    BatchSettings,
    arrays_for,
    check_arrays,
    check_shards,
    fill,
    integer,
)
from nanotok_ray.loader.shards import Shards

Numbers = npt.NDArray[np.int64]

STATE_FORMAT = "nanotok-nanochat 1"


class ApproximateResumeWarning(UserWarning):
    """A state does not match the loader, which resumes approximately, as nanochat does."""


class NanochatLoader:
    """An endless sequence of the batches of nanochat's loader.

    Rows have `length` + 1 tokens and no padding. Each place in a row gets the largest buffered
    document that fits. If none fits, the shortest document is cropped and its rest is discarded.
    """

    def __init__(
        self,
        shards: Shards,
        *,
        batch_size: int,
        length: int,
        tokenizer_batch_size: int = 128,
        buffer_size: int = 1000,
        rank: int = 0,
        world_size: int = 1,
        state: SavedState | None = None,
        dtype: npt.DTypeLike = np.int64,
    ) -> None:
        """Start at the first document, or resume from `state`.

        Args:
            shards: documents of one split, all of text from parquet, with `<|bos|>` before each.
            batch_size: number of rows of a batch of this rank; nanochat's B.
            length: number of inputs of a row, in tokens; nanochat's T.
            tokenizer_batch_size: number of documents that are read at a time.
            buffer_size: number of documents to choose from.
            rank: the rank of this process.
            world_size: the number of processes.
            state: see `load_state_dict`.
            dtype: of inputs and targets, int32 or int64.

        Raises:
            PackingError: A setting is out of range, or nanochat could not read such documents.
            CorruptOutputError: The plan or a record is not the one that the manifest names.
        """
        check_shards(shards)
        self._dealt = BatchSettings(
            batch_size=batch_size, rank=rank, world_size=world_size, dtype=dtype
        )
        counts = {
            "length": length,
            "tokenizer_batch_size": tokenizer_batch_size,
            "buffer_size": buffer_size,
            "world_size": world_size,
        }
        self._of_rows = {name: integer(name, value, minimum=1) for name, value in counts.items()}
        self._shards = shards
        self._fingerprint = shards.fingerprint
        self._reading = RankBatches(
            groups=RowGroups(shards), rank=rank, world_size=world_size, size=tokenizer_batch_size
        )
        self._begin(None)
        if state is not None:
            self.load_state_dict(state)

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches endlessly."""
        while True:
            yield self.next_batch()

    def next_batch(self, into: Arrays | None = None) -> Batch:
        """Return the next batch.

        Args:
            into: the inputs and targets to fill, each of shape (batch_size, length), int32 or
                int64; None: new arrays.

        Raises:
            PackingError: The arrays have another shape or dtype, or a whole pass over the files
                has no document for this rank.
        """
        rows, length = self._dealt.batch_size, self._of_rows["length"]
        if into is not None:
            check_arrays(into, rows=rows, length=length)
        arrays = into or arrays_for(rows, length, self._dealt.dtype)
        segments = self._pack(rows)
        fill(self._shards, segments, arrays)
        return Batch(
            inputs=arrays[0],
            targets=arrays[1],
            segments=segments,
            state=self.state_dict(),
            epoch=self._position.epoch - 1,
        )

    def __repr__(self) -> str:
        length = self._of_rows["length"]
        return f"<NanochatLoader: batches of {self._dealt.batch_size} x {length}, {self._shards!r}>"

    def skip_batches(self, count: int) -> int:
        """Skip `count` batches, reading only lengths of documents, and return `count`."""
        self._skip(count * self._dealt.batch_size)
        return count

    def state_dict(self) -> State:
        """Return the position of the loader.

        The state has the keys of nanochat's own state, so that nanochat's loader accepts it. With
        the other keys, every rank resumes exactly from the state of any rank, even with another
        `batch_size`.
        """
        return {
            "format": STATE_FORMAT,
            **self._position.to_dict(),
            "rows": self._rows,
            "start": None if self._start is None else self._start.to_dict(),
            **self._of_rows,
            "fingerprint": self._fingerprint,
        }

    def load_state_dict(self, state: SavedState) -> None:
        """Resume from a state.

        A state of `state_dict` resumes exactly: the rows are planned again from its start, for
        which only lengths are read. A state of other settings, ranks or documents, and a state of
        nanochat (`pq_idx`, `rg_idx`, `epoch`), resumes as in nanochat: after the row groups that
        were read last; documents in the buffer at that time are lost.

        Therefore a run can resume after files were added. `pq_idx` is the index of the file in the
        order of names, of which the last is val: files with later names than those read so far are
        read in this pass. As in nanochat, a file with an earlier name increases the index of the
        following ones, so that some documents are read twice. From then on, batches depend only on
        that position and the documents, on every rank, and later states resume exactly.

        Warns:
            ApproximateResumeWarning: The state belongs to other settings or other documents.

        Raises:
            PackingError: The value is not a state, or its row group does not exist in these
                documents.
        """
        if not _names_format(state):
            self._begin(self._checked(Position.from_dict(state)))
            return
        self._check_state(state)
        position = self._checked(Position.from_dict(state))
        differing = [
            f"with {name} {state[name]}, here {value}"
            for name, value in self._of_rows.items()
            if state[name] != value
        ]
        if state["fingerprint"] != self._fingerprint:
            differing.append("of other documents, as after files were added")
        if differing:
            _warn(differing)
            self._begin(position)
            return
        start = state["start"]
        begun = None if start is None else self._checked(Position.from_dict(start))
        self._check_rows(state["rows"], begun or Position(), position)
        self._begin(begun)
        self._skip(state["rows"])

    def report(self) -> PackingReport:
        """Return the packing report since the beginning or the `start` of the loaded state."""
        buffer = self._buffer
        return PackingReport(
            rows=buffer.num_rows,
            tokens=buffer.num_rows * (self._of_rows["length"] + 1),
            cropped_tokens=buffer.cropped_tokens,
            documents=self._numbering.documents,
            cut_documents=buffer.cropped_documents,
            groups=self._row_groups,
        )

    def _begin(self, start: Position | None) -> None:
        self._start = start
        self._position = Position() if start is None else start
        self._batches = self._reading.after(start)
        self._buffer = _core.BestFitBuffer(
            self._of_rows["length"] + 1, self._of_rows["buffer_size"]
        )
        self._numbering = _Numbering()
        self._row_groups = 0
        self._rows = 0

    def _refill(self) -> None:
        """Read documents into the buffer until it holds enough to choose from."""
        while self._buffer.needs_documents:
            batch = next(self._batches)
            documents = np.arange(batch.first, batch.first + batch.documents, dtype=np.int64)
            self._buffer.push(self._shards.lengths(documents))
            self._numbering.add(batch.first, batch.documents)
            self._row_groups += batch.position is not self._position
            self._position = batch.position

    def _pack(self, rows: int) -> Segments:
        """Plan the next rows."""
        parts = []
        missing = rows
        while missing:
            self._refill()
            numbers, lengths, ends = self._buffer.pack(missing)
            missing -= len(ends) - 1
            parts.append(self._segments(numbers, lengths, ends))
        self._rows += rows
        return Segments.joined(parts)

    def _segments(
        self, numbers: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint32], rows: Numbers
    ) -> Segments:
        return Segments(
            documents=self._numbering.of(numbers.astype(np.int64)),
            starts=np.zeros(len(lengths), dtype=np.int64),
            lengths=lengths.astype(np.int64),
            rows=rows,
        )

    def _skip(self, rows: int) -> None:
        missing = rows
        while missing:
            self._refill()
            missing -= self._buffer.skip(missing)
        self._rows += rows

    def _checked(self, position: Position) -> Position:
        """Raise an error if no loader of these shards can reach a position."""
        files = self._reading.groups.files
        if position.pq_idx >= len(files) or (
            position.rg_idx >= max(1, files[position.pq_idx].row_groups)
        ):
            raise PackingError(
                f"the state is at row group {position.rg_idx} of file {position.pq_idx}; these "
                f"shards have {len(files)} files, so it belongs to others"
            )
        return position

    def _check_state(self, state: SavedState) -> None:
        if state["format"] != STATE_FORMAT:
            raise PackingError(
                f"the state has format {format_value(state['format'])}, this loader reads "
                f"{STATE_FORMAT!r}; load it with the kind and the version of the loader that saved "
                "it"
            )
        missing = self.state_dict().keys() - state.keys()
        if missing or not all(number(state[name]) for name in ("rows", *self._of_rows)):
            raise PackingError(
                f"the state lacks {', '.join(sorted(missing)) or 'whole numbers'}: it is damaged"
            )

    def _check_rows(self, rows: int, start: Position, end: Position) -> None:
        """Raise an error if there are not enough tokens for the rows: planning would not end."""
        passes = max(0, end.epoch - start.epoch + 1)
        limit = passes * self._shards.num_tokens // (self._of_rows["length"] + 1)
        if rows > limit:
            raise PackingError(
                f"the state is of {rows} rows in {passes} passes, of which these documents fill at "
                f"most {limit}: it was modified"
            )


class _Numbering:
    """The document of each number in the buffer, as runs of documents in the order of reading."""

    def __init__(self) -> None:
        self.documents = 0
        self._firsts = np.zeros((2, 64), dtype=np.int64)
        self._runs = 0
        self._end = -1

    def add(self, first: int, documents: int) -> None:
        """Assign the next numbers to documents that were added to the buffer."""
        if first != self._end:
            if self._runs == self._firsts.shape[1]:
                self._firsts = np.concatenate([self._firsts, np.zeros_like(self._firsts)], axis=1)
            self._firsts[:, self._runs] = self.documents, first
            self._runs += 1
        self._end = first + documents
        self.documents += documents

    def of(self, numbers: Numbers) -> Numbers:
        """Return the documents that have the given numbers."""
        firsts = self._firsts[:, : self._runs]
        runs = np.searchsorted(firsts[0], numbers, side="right") - 1
        shifts: Numbers = firsts[1] - firsts[0]
        return numbers + shifts[runs]


def _names_format(state: object) -> bool:
    """Return whether a state comes from `state_dict`, not from nanochat's own loader."""
    return isinstance(state, Mapping) and "format" in state


def _warn(differing: list[str]) -> None:
    warnings.warn(
        f"the state was saved by a loader {', '.join(differing)}: resuming as nanochat does, after "
        "the row groups that were read last; up to one buffer of documents is skipped, and some "
        "may be repeated",
        ApproximateResumeWarning,
        stacklevel=3,
    )
