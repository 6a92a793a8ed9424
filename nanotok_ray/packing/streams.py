"""A stream: the documents of one source, epoch after epoch, each epoch in its own order.

Takes positions that go on rising; gives documents. Does not know other streams.
"""

from dataclasses import dataclass

import numpy as np

from nanotok_ray.packing.batch import Numbers
from nanotok_ray.packing.settings import RowSettings
from nanotok_ray.reader.order import DocumentOrder


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """Neighbouring documents, all of which an epoch takes once."""

    name: str
    """Tells its order from those of other streams."""
    documents: range
    """Their global indices."""
    settings: RowSettings

    def take(self, position: int, count: int) -> Numbers:
        """Give the documents at so many positions; position // documents is the epoch."""
        size, parts = len(self.documents), []
        while count:
            epoch, place = divmod(position, size)
            own = min(count, size - place)
            places = np.arange(place, place + own, dtype=np.int64)
            parts.append(self._order.at(places, epoch) + self.documents.start)
            position, count = position + own, count - own
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    @property
    def _order(self) -> DocumentOrder:
        return DocumentOrder(
            len(self.documents),
            shuffle=self.settings.shuffle,
            seed=self.settings.seed,
            block_documents=self.settings.block_documents,
            name=self.name,
        )
