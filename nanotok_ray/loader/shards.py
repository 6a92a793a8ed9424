"""The documents of chosen shards, by global index. Files are opened when first used."""

import hashlib
import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, PackingError
from nanotok_ray.formats import (
    TOKENIZER_FOLDER,
    Ids,
    Manifest,
    Mask,
    ShardsIndex,
    StoredShard,
    file_values,
    read_digests,
    read_shard_record,
    record_name,
)
from nanotok_ray.loader.files import Files, Stored
from nanotok_ray.loader.order import DocumentOrder
from nanotok_ray.loader.shard import (
    Numbers,
    OpenShard,
    Pieces,
    Positions,
    open_shard,
    stored_files,
)
from nanotok_ray.system import file_limits
from nanotok_ray.units import quantity

if TYPE_CHECKING:
    from nanotok_ray.tokenizer import Tokenizer

MAX_FILES = 40_000
"""Maximum number of mapped files of one object; Linux allows 65,530 maps per process."""

_LOCK = threading.Lock()
"""Shared by all objects: a fork acquires it too, so that a child never inherits it locked."""
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )


@dataclass(slots=True, kw_only=True, eq=False)
class OpenShardCache:
    """Open shards by position; the least recently used ones are dropped."""

    max_files: int
    _shards: "OrderedDict[int, OpenShard]" = field(init=False, default_factory=OrderedDict)
    _files: int = field(init=False, default=0)

    def get(self, position: int) -> OpenShard | None:
        """Return an open shard, or None."""
        with _LOCK:
            shard = self._shards.get(position)
            if shard is not None:
                self._shards.move_to_end(position)
        return shard

    def add(self, position: int, shard: OpenShard) -> None:
        """Cache an open shard, and drop the least recently used ones beyond the limit."""
        with _LOCK:
            if position in self._shards:  # another thread was faster
                return
            self._shards[position] = shard
            self._files += shard.num_files
            while self._files > self.max_files and len(self._shards) > 1:
                self._files -= self._shards.popitem(last=False)[1].num_files

    def __len__(self) -> int:
        return len(self._shards)


def max_files() -> int:
    """Return how many files can be mapped: half of the number that the process can open."""
    limits = file_limits()
    if limits is None or limits.now is None:
        return MAX_FILES
    return min(MAX_FILES, limits.now // 2)


_BLOCK_BYTES = 4 << 20


def check_files(files: Files, shard: StoredShard) -> None:
    """Read all bytes of a shard and compare them with its record.

    Raises:
        CorruptOutputError: a file has other bytes; the error names the first such file.
    """
    digests = read_digests(files, shard)
    for suffix, stored in stored_files(files, shard).items():
        if _sha256(stored, shard.sizes[suffix]) != digests[suffix]:
            raise CorruptOutputError(
                f"{files.url}/{shard.name}{suffix} has another sha256 than its record says: its "
                f"bytes were changed; `nanotok verify {files.url}` lists all problems; remove "
                "those files and run the job again, which writes them again"
            )


def _sha256(stored: Stored, num_bytes: int) -> str:
    digest = hashlib.sha256()
    for start in range(0, num_bytes, _BLOCK_BYTES):
        digest.update(stored.part(start, min(start + _BLOCK_BYTES, num_bytes)).data)
    return digest.hexdigest()


MAX_VIEWED = 64
"""Maximum number of shards whose pieces are views, which keep files open; above it they are
copies.
"""

_NAMES = 3  # limit of sources in a repr
_DOCUMENTS = 4096  # documents whose order is computed at a time


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Shards:
    """The documents of chosen shards, by global index.

    `shards[3]` is the ids of a document, `shards[-1]` of the last, `shards[:10]` a list of the
    first ten, `shards.text(3)` is its text; `len` counts documents, and iterating yields their ids.
    """

    files: Files
    index: ShardsIndex
    rows: npt.NDArray[np.intp]
    """The selected rows of shards.idx, in order."""
    manifest: Manifest
    again: "Callable[[], Shards]"
    """Opens the same shards again in another process; can be pickled."""
    check_files: bool = False
    """Whether all bytes of a shard are compared with its record when it is first opened."""
    starts: Numbers = field(init=False)
    """Global index of the first document of each shard, and the number of documents: int64, with
    one more element than there are shards."""
    _start_list: list[int] = field(init=False)
    _checked: npt.NDArray[np.bool_] = field(init=False)
    _open: OpenShardCache = field(init=False)

    def __post_init__(self) -> None:
        """Find the first global index of each shard."""
        counts = self.index.rows["documents"][self.rows].astype(np.int64)
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._start_list = self.starts.tolist()
        self._checked = np.zeros(len(self.rows), dtype=bool)
        self._open = OpenShardCache(max_files=max_files())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function that opens the same shards; open files are not pickled."""
        return _opened_again, (self.again, self.fingerprint)

    @property
    def sources(self) -> list[str]:
        """The names of all sources of the output, in the order of the recipe."""
        return list(self.manifest.sources)

    @property
    def item_bytes(self) -> int:
        """Bytes of an id: 2 or 4."""
        return self.manifest.item_bytes

    @property
    def num_ids(self) -> int:
        """The number of ids of the tokenizer: every id is below it."""
        return self.manifest.num_ids

    @property
    def special_tokens(self) -> dict[str, int]:
        """The ids of the special tokens by name."""
        return dict(self.manifest.special_tokens)

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all documents."""
        return int(self.index.rows["tokens"][self.rows].sum())

    @property
    def fingerprint(self) -> str:
        """A sha256 (hex) of these documents in this order, independent of their location."""
        digest = hashlib.sha256()
        for column in ("source", "documents", "tokens", "item_bytes", "record_sha256"):
            digest.update(np.ascontiguousarray(self.index.rows[column][self.rows]).tobytes())
        return digest.hexdigest()

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._start_list[-1]

    @overload
    def __getitem__(self, document: int) -> Ids: ...

    @overload
    def __getitem__(self, document: slice) -> list[Ids]: ...

    def __getitem__(self, document: int | slice) -> Ids | list[Ids]:
        """Return the ids of a document (uint16 or uint32), for a local file as a view of the file.

        For a slice, return a list of the ids of each document.

        Raises:
            IndexError: the index is out of range.
        """
        if isinstance(document, slice):
            return [self[number] for number in range(*document.indices(len(self)))]
        shard, number = self._find(document)
        return shard.ids_between(*shard.bounds(number))

    def __iter__(self) -> Iterator[Ids]:
        """Return the ids of each document in order."""
        return (self[document] for document in range(len(self)))

    def text(self, document: int) -> str:
        """Return the text of a document, with the names of special tokens.

        Raises:
            IndexError: the index is out of range.
            CorruptOutputError: as for `tokenizer`.
        """
        return self.tokenizer.decode(np.asarray(self[document]))

    @property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer that made the shards, read from the output folder.

        It requires the compiled core, unlike reading ids. Raises CorruptOutputError if the folder
        has no tokenizer or a different one.
        """
        from nanotok_ray.tokenizer import expected_tokenizer  # noqa: PLC0415 - reading ids needs numpy alone

        folder = f"{self.files.url}/{TOKENIZER_FOLDER}"
        return expected_tokenizer(folder, self.manifest.tokenizer_sha256)

    def __repr__(self) -> str:
        sources = list(self.ranges())
        names = ", ".join(sources[:_NAMES]) + (", ..." if len(sources) > _NAMES else "")
        documents, tokens = quantity(len(self), "document"), quantity(self.num_tokens, "token")
        of_sources = f" of {names}" if names else ""
        return f"<Shards of {self.files.url}: {documents}, {tokens}{of_sources}>"

    def mask(self, document: int) -> Mask | None:
        """Return the mask of a document (1 = train on the token), or None if it has no mask."""
        shard, number = self._find(document)
        return None if shard.masks is None else shard.masks.part(*shard.bounds(number))

    def images(self, document: int) -> npt.NDArray[np.int32] | None:
        """Return the images of a document, or None if its source has no images.

        The result has a row for each image, in order: the start and the end of its tokens in the
        ids of the document (half-open), and its number, from 0 on.
        """
        shard, number = self._find(document)
        return None if shard.tables.images is None else shard.tables.images[number]

    def document_id(self, document: int) -> str | None:
        """Return the value of `id_column` for a document, or None if it has none."""
        shard, number = self._find(document)
        ids = shard.tables.document_ids
        return None if ids is None else ids[number] or None

    def find(self, document_id: str) -> list[int]:
        """Return the documents with this value of `id_column`, in order.

        All ids of the chosen shards are read.
        """
        documents: list[int] = []
        for position, first in enumerate(self._start_list[:-1]):
            ids = self._shard(position).tables.document_ids
            documents += [] if ids is None else (ids.find(document_id) + first).tolist()
        return documents

    def shard_of(self, document: int) -> tuple[str, int]:
        """Return the name of the shard that holds a document, and its number in the shard."""
        position, number = self._locate(document)
        return self.name(position), number

    def name(self, position: int) -> str:
        """Return the name, the path without suffix, of the chosen shard at a position."""
        return stored_shard(self, position).name

    def record(self, position: int) -> dict[str, Any]:
        """Read the record of the chosen shard at a position. The record is not cached.

        Raises:
            CorruptOutputError: the record is missing, or is not the one that shards.idx names.
        """
        record = read_shard_record(self.files, stored_shard(self, position))
        return file_values(record)

    def read_file(self, name: str, *, limit: int) -> bytes:
        """Read a file of the output folder.

        Raises:
            FileNotFoundError: the file does not exist.
            CorruptOutputError: the file has more than `limit` bytes, or is outside of the folder.
        """
        return self.files.read_bytes(name, limit=limit)

    def documents_of(
        self,
        rank: int,
        world_size: int,
        order: DocumentOrder | None = None,
        epoch: int = 0,
        start: int = 0,
    ) -> Iterator[tuple[int, Ids]]:
        """Return the documents, with their indices, of one of several readers that share an epoch.

        Args:
            rank: the rank of this reader, from 0 on. It reads every `world_size`th position.
            world_size: the number of readers.
            order: the order of the documents; None: the order of the shards.
            epoch: the epoch, which matters for an order that shuffles.
            start: the first position: the number of documents that all readers together have read.

        Raises:
            PackingError: an argument is out of range.
        """
        order = DocumentOrder(len(self)) if order is None else order
        if order.documents != len(self):
            raise PackingError(f"an order of {order.documents} documents for {len(self)}")
        if not 0 <= rank < world_size:
            raise PackingError(f"rank {rank} of {world_size}; ranks go from 0 to world_size - 1")
        if start < 0:
            raise PackingError(f"start is {start}; it must be at least 0")
        return self._in_order(order, epoch, range(start + rank, len(self), world_size))

    def _in_order(
        self, order: DocumentOrder, epoch: int, positions: range
    ) -> Iterator[tuple[int, Ids]]:
        for first in range(0, len(positions), _DOCUMENTS):
            part = positions[first : first + _DOCUMENTS]
            for document in order.at(np.array(part, dtype=np.int64), epoch).tolist():
                yield document, self[document]

    def record_name(self, position: int) -> str:
        """Return the name of the record of a chosen shard, in the output folder."""
        return record_name(self.name(position))

    def ranges(self) -> dict[str, range]:
        """Return the range of documents of each source that has documents."""
        source = self.index.rows["source"][self.rows]
        names = self.sources
        cuts = [0, *(np.flatnonzero(np.diff(source)) + 1).tolist(), len(source)]
        ranges = {
            names[int(source[first])]: range(self._start_list[first], self._start_list[last])
            for first, last in pairwise(cuts)
            if first < last
        }
        return {name: documents for name, documents in ranges.items() if documents}

    def lengths(self, documents: Numbers) -> Numbers:
        """Return the number of tokens of each of these documents, which can be in any order.

        Raises:
            IndexError: an index is out of range.
        """
        lengths = np.zeros(len(documents), dtype=np.int64)
        for position, chosen, numbers in self._by_shard(documents):
            lengths[chosen] = self._shard(position).lengths[numbers]
        return lengths

    def pieces(
        self,
        documents: Numbers,
        starts: Numbers,
        lengths: Numbers,
        *,
        masks: bool = False,
        max_viewed: int = MAX_VIEWED,
    ) -> Pieces:
        """Return stretches of documents, each given by document, first token and number of tokens.

        The arrays are views of mapped files, which stay open as long as the views exist. They are
        copies if more than `max_viewed` shards hold the documents, or if the output is at a URL.

        Raises:
            IndexError: a document or a stretch is out of range.
        """
        pieces = Pieces(
            masks=[] if masks else None,
            which=np.zeros(len(documents), dtype=np.int64),
            offsets=np.zeros(len(documents), dtype=np.int64),
        )
        parts = list(self._by_shard(documents))
        for position, chosen, numbers in parts:
            shard = self._shard(position)
            first, chosen_lengths = starts[chosen], lengths[chosen]
            if (
                (first < 0)
                | (chosen_lengths < 0)
                | (first + chosen_lengths > shard.lengths[numbers])
            ).any():
                raise IndexError(
                    f"a stretch that ends after its document, of {self.name(position)}"
                )
            first_tokens = shard.first_tokens(numbers) + first
            pieces.add(shard, chosen, first_tokens, chosen_lengths, copy=len(parts) > max_viewed)
        return pieces

    def _by_shard(self, documents: Numbers) -> Iterator[tuple[int, Positions, Numbers]]:
        """Yield each shard's position, the indices of its documents, and their numbers in it."""
        if not len(documents):
            return
        if int(documents.min()) < 0 or int(documents.max()) >= len(self):
            wrong = documents[(documents < 0) | (documents >= len(self))][0]
            raise IndexError(f"document {wrong} of {len(self)}")
        positions = np.searchsorted(self.starts, documents, side="right") - 1
        if positions[0] == positions[-1] and (positions == positions[0]).all():
            yield int(positions[0]), slice(None), documents - self.starts[positions[0]]
            return
        order = np.argsort(positions, kind="stable")
        sorted_positions = positions[order]
        cuts = np.flatnonzero(np.diff(sorted_positions)) + 1
        for chosen in np.split(order, cuts):
            position = int(positions[chosen[0]])
            yield position, chosen, documents[chosen] - self.starts[position]

    def _locate(self, document: int) -> tuple[int, int]:
        count = len(self)
        if not -count <= document < count:
            raise IndexError(f"document {document} of {count}")
        document %= count
        position = bisect_right(self._start_list, document) - 1
        return position, document - self._start_list[position]

    def _find(self, document: int) -> tuple[OpenShard, int]:
        position, number = self._locate(document)
        return self._shard(position), number

    def _shard(self, position: int) -> OpenShard:
        shard = self._open.get(position)
        if shard is None:
            shard = self._open_shard(position)
            self._open.add(position, shard)
        return shard

    def _open_shard(self, position: int) -> OpenShard:
        shard = stored_shard(self, position)
        if self.check_files and not self._checked[position]:
            check_files(self.files, shard)
            self._checked[position] = True
        return open_shard(self.files, shard)


def stored_shard(shards: Shards, position: int) -> StoredShard:
    """Return the chosen shard at a position, as shards.idx describes it."""
    return shards.index.shard(int(shards.rows[position]), shards.manifest)


def _opened_again(again: "Callable[[], Shards]", fingerprint: str) -> Shards:
    shards = again()
    if shards.fingerprint != fingerprint:
        raise CorruptOutputError(
            f"{shards.files.url} has other documents than when it was opened; open it again"
        )
    return shards
