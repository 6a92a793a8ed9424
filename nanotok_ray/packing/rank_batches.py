"""Which documents a rank reads, batch after batch, exactly as nanochat's loader reads them.

Takes the row groups of a split; gives neighbouring documents of one row group, without end: rank r
of W takes row groups r, r + W, ... of each file, and after the last file begins anew. Does not know
what documents hold.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from nanotok_ray.errors import PackingError
from nanotok_ray.formats.schema import number, shown
from nanotok_ray.packing.row_groups import RowGroups

_FIELDS = ("pq_idx", "rg_idx", "epoch")


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """A row group that has been read from, as nanochat's state names it."""

    pq_idx: int = 0
    """The file, by its number in the split."""
    rg_idx: int = 0
    """The row group of that file."""
    epoch: int = 1
    """The pass over all files, from 1 on."""

    def to_dict(self) -> dict[str, int]:
        """Give nanochat's state."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Take nanochat's state; one of its older versions has no epoch.

        >>> Position.from_dict({"pq_idx": 3, "rg_idx": 1})
        Position(pq_idx=3, rg_idx=1, epoch=1)

        Raises:
            PackingError: It is none.
        """
        if not isinstance(values, Mapping):
            raise PackingError(f"{shown(values)} is no state of a loader, which is a dictionary")
        found = {name: values.get(name, 1 if name == "epoch" else None) for name in _FIELDS}
        if not all(map(number, found.values())):
            told = ", ".join(f"{name} {shown(value)}" for name, value in found.items())
            raise PackingError(
                f"{told}: no state of a loader; pq_idx and rg_idx are needed, and whole numbers"
            )
        return cls(**{name: int(value) for name, value in found.items() if value is not None})


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentBatch:
    """Neighbouring documents of one row group."""

    first: int
    """Global index of the first."""
    documents: int
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class RankBatches:
    """What one rank of several reads."""

    groups: RowGroups
    rank: int
    world_size: int
    size: int
    """Most documents of a batch."""

    def after(self, start: Position | None) -> Iterator[DocumentBatch]:
        """Give all batches after the row group `start`, which is skipped whole; None: all.

        Raises:
            PackingError: A pass over all files had no document for this rank.
        """
        for first, stop, position in self._groups(start):
            for at in range(first, stop, self.size):
                documents = min(self.size, stop - at)
                yield DocumentBatch(first=at, documents=documents, position=position)

    def _groups(self, start: Position | None) -> Iterator[tuple[int, int, Position]]:
        """Give first document, end and place of each row group that has documents."""
        epoch = 1 if start is None else start.epoch
        if start is not None:
            yield from self._after_in_pass(start)
            epoch += 1
        while True:
            found = False
            for file in range(len(self.groups.files)):
                for each in self._of_file(file, self.rank, epoch):
                    found = True
                    yield each
            if not found:
                raise PackingError(self._nothing())
            epoch += 1

    def _after_in_pass(self, start: Position) -> Iterator[tuple[int, int, Position]]:
        """Give the rest of the pass that a former loader was in."""
        # Whoever stopped, all ranks go on behind the W row groups that were read at that time.
        following = (start.rg_idx // self.world_size + 1) * self.world_size + self.rank
        yield from self._of_file(start.pq_idx, following, start.epoch)
        for file in range(start.pq_idx + 1, len(self.groups.files)):
            yield from self._of_file(file, self.rank, start.epoch)

    def _of_file(self, file: int, begin: int, epoch: int) -> Iterator[tuple[int, int, Position]]:
        row_groups = self.groups.files[file].row_groups
        if begin >= row_groups:
            return
        bounds = self.groups.bounds(file).tolist()
        for group in range(begin, row_groups, self.world_size):
            if bounds[group] < bounds[group + 1]:
                position = Position(pq_idx=file, rg_idx=group, epoch=epoch)
                yield bounds[group], bounds[group + 1], position

    def _nothing(self) -> str:
        most = max((file.row_groups for file in self.groups.files), default=0)
        return (
            f"rank {self.rank} of {self.world_size} has no document in a whole pass: it takes row "
            f"groups {self.rank}, {self.rank + self.world_size}, ... of each file, and none of the "
            f"{len(self.groups.files)} files has more than {most} row groups, or those are empty; "
            "use fewer ranks, or `nanotok_ray.packing.Loader`, which shares rows"
        )
