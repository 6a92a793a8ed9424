"""A sample of documents, decoded, encoded again, and compared with the source they came from.

The source is read again through the same readers; the row of each document is in the source map of
its record. The sample is chosen by a fixed seed, so it is the same for the same output.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.formats.document_images import DocumentImages
from nanotok_ray.formats.document_index import unpack_index
from nanotok_ray.shards.check.sample import DocumentChecker
from nanotok_ray.shards.check.written import Compared
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.sink import ILLUSTRATED, MASKED
from nanotok_ray.shards.writer import mapped_rows
from nanotok_ray.sources import Slice, read_piece
from nanotok_ray.storage import Folder, open_input
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.rendering import Ids

SEED = 20
MAX_SLICES = 16
DOCUMENTS_PER_SLICE = 8

SourceRow = tuple[str, int | None, int]
"""File, row group (or None), row."""

T = TypeVar("T")


def choose(filled: Sequence[T]) -> list[T]:
    """Choose up to 16 of the slices that have documents."""
    return random.Random(SEED).sample(filled, min(MAX_SLICES, len(filled)))


def compare_some(
    folder: Folder,
    slice_: Slice,
    values: Mapping[str, Any],
    *,
    tokenizer: Tokenizer,
    settings: ShardSettings,
) -> Compared:
    """Compare up to 8 documents of a slice, whose files were checked, with its source.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    found = Compared()
    wanted = dict(_choose_documents(values["shards"]))
    checker = DocumentChecker(kind=slice_.kind, settings=settings, tokenizer=tokenizer)
    written = _Written(folder, item_bytes=tokenizer.model.id_bytes, kind=slice_.kind)
    dialects = {piece.path: piece.dialect for piece in slice_.pieces}
    try:
        for row, document in _source_documents(
            slice_, set(wanted), found, settings.max_document_bytes
        ):
            name, number = wanted[row]
            found.documents += 1
            problem = checker.problem(
                document, *written.document(name, number), dialect=dialects[row[0]]
            )
            if problem is not None:
                where = f"{name}: document {number} is not row {row[2]} of {row[0]}"
                found.add(f"{where}: {problem}")
    except TransientIOError:
        raise
    except (SourceError, OSError) as error:
        found.add(f"a source cannot be read again: {error}")
        return found
    if found.documents != len(wanted):
        missing = len(wanted) - found.documents
        found.add(f"{slice_.source}: {missing} sampled rows are no longer in the source")
    return found


def _choose_documents(
    shards: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[SourceRow, tuple[str, int]]]:
    """Yield (place in the source, (shard, document in it)) of the sampled documents."""
    numbered = [(shard, number) for shard in shards for number in _spread(shard["documents"])]
    chosen = random.Random(SEED).sample(numbered, min(DOCUMENTS_PER_SLICE, len(numbered)))
    for shard, number in chosen:
        yield _source_row(shard["source_map"], number), (shard["name"], number)


def _spread(count: int) -> list[int]:
    """Return the first, the last and some documents in between."""
    inner = random.Random(SEED).sample(range(count), min(DOCUMENTS_PER_SLICE, count))
    return sorted({0, count - 1, *inner})


def _source_row(source_map: list[dict[str, Any]], number: int) -> SourceRow:
    for entry in source_map:
        if number < entry["rows"]:
            return entry["file"], entry.get("row_group"), int(mapped_rows(entry)[number])
        number -= entry["rows"]
    raise AssertionError("a source map is as long as its shard, which was checked before")


def _source_documents(
    slice_: Slice, wanted: set[SourceRow], found: Compared, max_document_bytes: int
) -> Iterator[tuple[SourceRow, bytes]]:
    left = Counter(file for file, _, _ in wanted)
    for piece in slice_.pieces:
        if not left[piece.path]:
            continue
        reader = read_piece(
            piece, kind=slice_.kind, column=slice_.column, max_document_bytes=max_document_bytes
        )
        for batch in reader:
            found.source_bytes += batch.documents.num_bytes
            for index, number in enumerate(batch.numbers.tolist()):
                row = (piece.path, batch.group, number)
                if row in wanted:
                    left[piece.path] -= 1
                    yield row, batch.documents[index]
            if not left[piece.path]:
                break


class _Written:
    """Single documents of shards; the index of each shard is read once."""

    def __init__(self, folder: Folder, *, item_bytes: int, kind: str) -> None:
        self._folder, self._item_bytes, self._kind = folder, item_bytes, kind
        self._positions: dict[str, npt.NDArray[np.int64]] = {}
        self._images: dict[str, DocumentImages] = {}

    def document(
        self, name: str, number: int
    ) -> tuple[Ids, npt.NDArray[np.uint8] | None, npt.NDArray[np.int32] | None]:
        """Return ids, mask and images of a document of a shard."""
        if name not in self._positions:
            self._positions[name], _ = unpack_index(self._bytes(f"{name}.idx"), name=name)
        first, last = self._positions[name][number : number + 2].tolist()
        ids = self._read(f"{name}.bin", first, last, self._item_bytes)
        mask = self._read(f"{name}.mask", first, last, 1) if self._kind in MASKED else None
        return ids, mask, self._images_of(name, number) if self._kind in ILLUSTRATED else None

    def _images_of(self, name: str, number: int) -> npt.NDArray[np.int32]:
        if name not in self._images:
            data, documents = self._bytes(f"{name}.images"), len(self._positions[name]) - 1
            self._images[name] = DocumentImages(data, name=name, documents=documents)
        return self._images[name][number][:, :2]

    def _bytes(self, name: str) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self._folder.read_bytes(name), dtype=np.uint8)

    def _read(self, name: str, first: int, last: int, item_bytes: int) -> np.ndarray[Any, Any]:
        with open_input(self._folder.join(name)) as file:
            file.seek(first * item_bytes)
            data = file.read((last - first) * item_bytes)
        return np.frombuffer(data, dtype=f"<u{item_bytes}")
