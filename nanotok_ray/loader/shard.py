"""An open shard, and ranges of tokens ("stretches") of its documents."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nanotok_ray.formats import Ids, Mask, ShardTables, StoredShard
from nanotok_ray.loader.files import Bytes, Files, Stored

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenShard:
    """A shard whose tables have been checked. A mapped index is not copied into memory."""

    ids: Stored
    masks: Stored | None
    tables: ShardTables
    item_bytes: int
    num_files: int

    @property
    def lengths(self) -> npt.NDArray[np.int32]:
        """Number of tokens of each document."""
        return self.tables.index.lengths

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the position of the first token of a document, and the position after its last."""
        start = int(self.tables.index.starts[number]) // self.item_bytes
        return start, start + int(self.lengths[number])

    def first_tokens(self, numbers: Numbers) -> Numbers:
        """Return the position of the first token of each document."""
        return self.tables.index.starts[numbers] // self.item_bytes

    def ids_between(self, start: int, stop: int) -> Ids:
        """Return the ids at the positions `start` to `stop` (half-open) of the shard."""
        size = self.item_bytes
        return self.ids.part(start * size, stop * size).view(f"<u{size}")


def open_shard(files: Files, shard: StoredShard) -> OpenShard:
    """Open the files of a shard.

    Raises:
        CorruptOutputError: a file is missing, or disagrees with the other files or shards.idx.
    """
    stored = stored_files(files, shard)

    def read(suffix: str) -> Bytes:
        """Return all bytes as a plain array, because slicing a memory map is slow."""
        file = stored[suffix]
        mapped = _plain(file)
        return np.asarray(file.part(0, shard.sizes[suffix])) if mapped is None else mapped

    return OpenShard(
        ids=stored[".bin"],
        masks=stored.get(".mask"),
        tables=ShardTables.of(shard, read, folder=files.url),
        item_bytes=shard.item_bytes,
        num_files=len(stored),
    )


def stored_files(files: Files, shard: StoredShard) -> dict[str, Stored]:
    """Open the files of a shard and return them by suffix; an empty mask is not opened."""
    return {
        suffix: files.open(shard, suffix)
        for suffix, num_bytes in shard.sizes.items()
        if num_bytes or suffix != ".mask"
    }


Positions = npt.NDArray[np.intp] | slice


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pieces:
    """The locations of stretches of documents in arrays."""

    ids: list[Ids] = field(default_factory=list)
    """The arrays that contain the stretches."""
    masks: list[Mask | None] | None
    """The mask of each array, None for a source without masks; None: masks were not requested."""
    which: Numbers
    """For each stretch, the index of its array."""
    offsets: Numbers
    """For each stretch, the position of its first id in its array."""

    def add(
        self, shard: OpenShard, chosen: Positions, first: Numbers, lengths: Numbers, *, copy: bool
    ) -> None:
        """Add stretches of one shard, which become parts of one array.

        Args:
            shard: the shard.
            chosen: the indices of these stretches among all stretches.
            first: the position in the shard of the first id of each stretch.
            lengths: the number of ids of each stretch.
            copy: copy the ids even of a mapped file, so that the file need not stay open.
        """
        self.which[chosen] = len(self.ids)
        mapped, mask = _plain(shard.ids), shard.masks
        if mapped is not None and not copy:
            self.offsets[chosen] = first
            self.ids.append(mapped.view(f"<u{shard.item_bytes}"))
            if self.masks is not None:
                self.masks.append(None if mask is None else _plain(mask))
            return
        order = np.argsort(first, kind="stable")  # adjacent parts are fetched together
        starts, chosen_lengths = first[order], lengths[order]
        offsets = np.empty_like(chosen_lengths)
        offsets[order] = np.cumsum(chosen_lengths) - chosen_lengths
        self.offsets[chosen] = offsets
        size = shard.item_bytes
        self.ids.append(_copied(shard.ids, starts * size, chosen_lengths * size).view(f"<u{size}"))
        if self.masks is not None:
            self.masks.append(None if mask is None else _copied(mask, starts, chosen_lengths))


def _plain(stored: Stored) -> Bytes | None:
    """Return a mapped file as a plain array, or None; slicing numpy's memmap is slow."""
    return None if stored.mapped is None else np.asarray(stored.mapped)


def _copied(stored: Stored, starts: Numbers, lengths: Numbers) -> Bytes:
    """Return parts of a file, concatenated."""
    mapped = _plain(stored)
    bounds = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
    if mapped is None:
        return np.concatenate([stored.part(start, stop) for start, stop in bounds])
    return np.concatenate([mapped[start:stop] for start, stop in bounds])
