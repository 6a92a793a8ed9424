"""Documents of one slice to as many shards as their limit asks for.

Opens a shard with its first document, starts the next one when the limit would be passed, and keeps
the source map of each. Takes the layouts as a list of sinks, the native one first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.documents.batch import Documents
from nanotok_ray.formats.document_images import Images, images_of
from nanotok_ray.shards.sink import Ids, Sink
from nanotok_ray.shards.source_map import SourceMap
from nanotok_ray.sources import Piece


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    """Documents ready to be written, all from one row group (or byte range) of one piece."""

    ids: Ids
    lengths: npt.NDArray[np.int64]
    mask: npt.NDArray[np.uint8] | None
    """A byte for each id; None where the kind has none."""
    images: Images | None
    """Document among these, start and end of each image, in order; None where the kind has none."""
    sizes: npt.NDArray[np.int64]
    """Bytes of each document as it was read."""
    piece: int
    group: int | None
    kept: npt.NDArray[np.int64]
    """Which documents of the batch they are."""
    rows: npt.NDArray[np.int64]
    document_ids: Documents | None
    """What their `id_column` says, as UTF-8; empty where it says nothing."""


class ShardWriter:
    """Writes the shards of one slice; `finish` publishes the last one, `discard` drops it."""

    def __init__(
        self,
        open_sinks: Callable[[int], Sequence[Sink]],
        *,
        pieces: tuple[Piece, ...],
        max_shard_tokens: int,
    ) -> None:
        """Take the opener of the sinks of shard number n, and the limit in tokens."""
        self._open_sinks = open_sinks
        self._pieces = pieces
        self._limit = max_shard_tokens
        self._sinks: Sequence[Sink] = ()
        self._map = SourceMap(pieces)
        self._documents = self._tokens = self._bytes = 0
        self.shards: list[dict[str, Any]] = []
        """Per published shard: documents, their bytes, tokens, source map and files."""

    def write(self, documents: Rendered) -> None:
        """Append documents, cut between shards where the limit says so."""
        ends = np.cumsum(documents.lengths)
        first = 0
        while first < len(ends):
            start = int(ends[first - 1]) if first else 0
            room = self._limit - self._tokens
            last = int(np.searchsorted(ends, start + room, side="right"))
            if last <= first and self._documents:
                self.finish()
                continue
            last = max(last, first + 1)
            self._append(documents, slice(first, last), slice(start, int(ends[last - 1])))
            first = last

    def _append(self, documents: Rendered, chosen: slice, tokens: slice) -> None:
        if not self._sinks:
            self._sinks = self._open_sinks(len(self.shards))
        mask = None if documents.mask is None else documents.mask[tokens]
        images = None if documents.images is None else images_of(documents.images, chosen)
        document_ids = documents.document_ids
        if document_ids is not None:
            document_ids = document_ids.part(chosen.start, chosen.stop)
        for sink in self._sinks:
            sink.write(documents.ids[tokens], documents.lengths[chosen], mask, images, document_ids)
        self._map.add(documents.piece, documents.group, documents.rows[chosen])
        self._documents += chosen.stop - chosen.start
        self._tokens += tokens.stop - tokens.start
        self._bytes += int(documents.sizes[chosen].sum())

    def finish(self) -> None:
        """Publish the shard that is open, if any."""
        if not self._sinks:
            return
        files = [file for sink in self._sinks for file in sink.close()]
        self.shards.append(
            {
                "documents": self._documents,
                "bytes": self._bytes,
                "tokens": self._tokens,
                "source_map": self._map.entries(),
                "files": files,
            }
        )
        self._sinks, self._documents, self._tokens, self._bytes = (), 0, 0, 0
        self._map = SourceMap(self._pieces)

    def discard(self) -> None:
        """Drop the shard that is open, if any."""
        for sink in self._sinks:
            sink.discard()
        self._sinks = ()
