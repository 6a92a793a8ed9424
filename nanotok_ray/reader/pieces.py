"""Where stretches of many documents lie: in mapped files, or in copies of what is wanted of them.

Takes one shard after the other, and stretches of its ids. Does not know how documents are numbered.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nanotok_ray.reader.files import Bytes, Stored
from nanotok_ray.reader.shard import Ids, Mask, Numbers, OpenShard

Places = npt.NDArray[np.intp] | slice


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pieces:
    """Where stretches of documents lie."""

    ids: list[Ids] = field(default_factory=list)
    """Arrays that the stretches are parts of."""
    masks: list[Mask | None] | None
    """The mask of each of these arrays, None where its source has none; None: not asked for."""
    which: Numbers
    """The array of each stretch."""
    offsets: Numbers
    """Where each begins in its array."""

    def add(
        self, shard: OpenShard, chosen: Places, first: Numbers, lengths: Numbers, *, copy: bool
    ) -> None:
        """Add stretches of one shard, which become parts of one array.

        Args:
            shard: the shard.
            chosen: which of all stretches these are.
            first: place in the shard of the first id of each.
            lengths: ids of each.
            copy: copy the ids even of a mapped file, which then need not stay open.
        """
        self.which[chosen] = len(self.ids)
        whole, mask = _plain(shard.ids), shard.masks
        if whole is not None and not copy:
            self.offsets[chosen] = first
            self.ids.append(whole.view(f"<u{shard.item_bytes}"))
            if self.masks is not None:
                self.masks.append(None if mask is None else _plain(mask))
            return
        order = np.argsort(first, kind="stable")  # neighbours are fetched together
        starts, own = first[order], lengths[order]
        places = np.empty_like(own)
        places[order] = np.cumsum(own) - own
        self.offsets[chosen] = places
        size = shard.item_bytes
        self.ids.append(_copied(shard.ids, starts * size, own * size).view(f"<u{size}"))
        if self.masks is not None:
            self.masks.append(None if mask is None else _copied(mask, starts, own))


def _plain(stored: Stored) -> Bytes | None:
    """Give all of a mapped file as a plain view: those of numpy's own class are slow to cut."""
    return None if stored.whole is None else np.asarray(stored.whole)


def _copied(stored: Stored, starts: Numbers, lengths: Numbers) -> Bytes:
    """Give parts of a file back to back."""
    whole = _plain(stored)
    bounds = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
    if whole is None:
        return np.concatenate([stored.part(start, stop) for start, stop in bounds])
    return np.concatenate([whole[start:stop] for start, stop in bounds])
