"""The documents of chosen shards, by global index. Files are opened when first touched.

Takes the rows of shards.idx; gives ids, masks and images of documents, one at a time or many. Does
not know where files lie, nor in which order documents are wanted.
"""

import hashlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.manifest import ShardsIndex
from nanotok_ray.reader.files import Files
from nanotok_ray.reader.shard import Ids, OpenShard, open_shard
from nanotok_ray.shard_rows import shard_name

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.uint8]

MOST_OPEN = 8192
"""Shards that are open at a time: each maps up to five files, of which Linux gives 65,530."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pieces:
    """Where stretches of documents lie."""

    ids: list[Ids]
    """Arrays that the stretches are parts of."""
    masks: list[Mask | None] | None
    """The mask of each of these arrays, None where its source has none; None: not asked for."""
    which: Numbers
    """The array of each stretch."""
    offsets: Numbers
    """Where each begins in its array."""


@dataclass(slots=True, kw_only=True, eq=False)
class Shards:
    """The documents of chosen shards, by global index."""

    files: Files
    index: ShardsIndex
    rows: npt.NDArray[np.intp]
    """Which rows of shards.idx, in order."""
    manifest: Mapping[str, Any]
    _starts: Numbers = field(init=False)
    _start_list: list[int] = field(init=False)
    _open: "OrderedDict[int, OpenShard]" = field(init=False, default_factory=OrderedDict)

    def __post_init__(self) -> None:
        """Find the first global index of each shard."""
        counts = self.index.rows["documents"][self.rows].astype(np.int64)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._start_list = self._starts.tolist()

    @property
    def sources(self) -> list[str]:
        """The names of all sources of the output, in the order of the recipe."""
        return list(self.manifest["sources"])

    @property
    def item_bytes(self) -> int:
        """Bytes of an id: 2 or 4."""
        return int(self.manifest["item_bytes"])

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all documents."""
        return int(self.index.rows["tokens"][self.rows].sum())

    @property
    def fingerprint(self) -> str:
        """A sha256 (hex) that stands for these documents in this order, wherever they lie."""
        digest = hashlib.sha256()
        for column in ("source", "documents", "tokens", "item_bytes", "record_sha256"):
            digest.update(np.ascontiguousarray(self.index.rows[column][self.rows]).tobytes())
        return digest.hexdigest()

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._start_list[-1]

    def __getitem__(self, document: int) -> Ids:
        """Return the ids of a document (uint16 or uint32), of a local file as a view of it.

        Raises:
            IndexError: there is no such document.
        """
        shard, number = self._find(document)
        return shard.ids_between(*shard.bounds(number))

    def __iter__(self) -> Iterator[Ids]:
        """Give the ids of each document in order."""
        return (self[document] for document in range(len(self)))

    def mask(self, document: int) -> Mask | None:
        """Return the mask of a document (1 = train on this token), None if its source has none."""
        shard, number = self._find(document)
        return None if shard.masks is None else shard.masks.part(*shard.bounds(number))

    def images(self, document: int) -> npt.NDArray[np.int32] | None:
        """Return the images of a document, None if its source has none.

        A row for each, in order: where its tokens start and end in the ids of the document
        (half-open), and its number, from 0 on.
        """
        shard, number = self._find(document)
        return None if shard.images is None else shard.images[number]

    def document_id(self, document: int) -> str | None:
        """Return what the `id_column` of its source says of a document, None if it has none."""
        shard, number = self._find(document)
        return (shard.document_ids[number] or None) if shard.document_ids is not None else None

    def shard_of(self, document: int) -> tuple[str, int]:
        """Return the name of the shard that holds a document, and the document's place in it."""
        place, number = self._place(document)
        return self.name(place), number

    def name(self, place: int) -> str:
        """Return the name of a chosen shard, by its place among them: its path without suffix."""
        return shard_name(self.index, int(self.rows[place]), sources=self.sources)

    def ranges(self) -> dict[str, range]:
        """Return which documents are of which source; sources without any are left out."""
        source = self.index.rows["source"][self.rows]
        names = self.sources
        cuts = [0, *(np.flatnonzero(np.diff(source)) + 1).tolist(), len(source)]
        found = {
            names[int(source[first])]: range(self._start_list[first], self._start_list[last])
            for first, last in pairwise(cuts)
            if first < last
        }
        return {name: own for name, own in found.items() if own}

    def lengths(self, documents: Numbers) -> Numbers:
        """Return the number of tokens of each of these documents, which may come in any order.

        Raises:
            IndexError: there is no such document.
        """
        lengths = np.zeros(len(documents), dtype=np.int64)
        for place, chosen, numbers in self._by_shard(documents):
            positions = self._shard(place).positions
            lengths[chosen] = positions[numbers + 1] - positions[numbers]
        return lengths

    def pieces(
        self, documents: Numbers, starts: Numbers, lengths: Numbers, *, masks: bool = False
    ) -> Pieces:
        """Find stretches of documents: of each its document, first token and number of tokens.

        Raises:
            IndexError: there is no such document.
        """
        found = Pieces(
            ids=[],
            masks=[] if masks else None,
            which=np.zeros(len(documents), dtype=np.int64),
            offsets=np.zeros(len(documents), dtype=np.int64),
        )
        for place, chosen, numbers in self._by_shard(documents):
            shard = self._shard(place)
            first = shard.positions[numbers] + starts[chosen]
            _add(found, shard, chosen, first, lengths[chosen])
        return found

    def _by_shard(self, documents: Numbers) -> Iterator[tuple[int, Any, Numbers]]:
        """Give the place of each shard, which of the documents are its own, their numbers in it."""
        if not len(documents):
            return
        if int(documents.min()) < 0 or int(documents.max()) >= len(self):
            wrong = documents[(documents < 0) | (documents >= len(self))][0]
            raise IndexError(f"document {wrong} of {len(self)}")
        places = np.searchsorted(self._starts, documents, side="right") - 1
        if places[0] == places[-1] and (places == places[0]).all():
            yield int(places[0]), slice(None), documents - self._starts[places[0]]
            return
        order = np.argsort(places, kind="stable")
        sorted_places = places[order]
        cuts = np.flatnonzero(np.diff(sorted_places)) + 1
        for chosen in np.split(order, cuts):
            place = int(places[chosen[0]])
            yield place, chosen, documents[chosen] - self._starts[place]

    def _place(self, document: int) -> tuple[int, int]:
        count = len(self)
        if not -count <= document < count:
            raise IndexError(f"document {document} of {count}")
        document %= count
        place = bisect_right(self._start_list, document) - 1
        return place, document - self._start_list[place]

    def _find(self, document: int) -> tuple[OpenShard, int]:
        place, number = self._place(document)
        return self._shard(place), number

    def _shard(self, place: int) -> OpenShard:
        found = self._open.get(place)
        if found is None:
            row = self.index.rows[int(self.rows[place])]
            found = self._open[place] = open_shard(self.files, self.name(place), row)
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(place)
        return found


def _add(found: Pieces, shard: OpenShard, chosen: Any, first: Numbers, lengths: Numbers) -> None:  # noqa: ANN401 - an index of numpy's
    """Add stretches of one shard: of a mapped file all in one array, else each in its own."""
    whole = shard.ids.whole
    if whole is not None:
        found.which[chosen] = len(found.ids)
        found.offsets[chosen] = first
        found.ids.append(np.asarray(whole).view(f"<u{shard.item_bytes}"))
        if found.masks is not None:
            mask = shard.masks
            found.masks.append(None if mask is None else np.asarray(mask.whole))
        return
    found.which[chosen] = np.arange(len(found.ids), len(found.ids) + len(first))
    for start, length in zip(first.tolist(), lengths.tolist(), strict=True):
        found.ids.append(shard.ids_between(start, start + length))
        if found.masks is not None:
            mask = shard.masks
            found.masks.append(None if mask is None else mask.part(start, start + length))
