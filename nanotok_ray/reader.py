"""Shards back to documents: memory-mapped, by global index.

Needs a finished output folder on a local file system, numpy and the standard library; not the
compiled core, Arrow, fsspec or Ray. Trusts the manifest alone: an output without one is refused.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.document_ids import DocumentIds
from nanotok_ray.document_images import DocumentImages
from nanotok_ray.document_index import unpack_index
from nanotok_ray.errors import CorruptOutputError, SourceError
from nanotok_ray.manifest import (
    MANIFEST_NAME,
    SHARDS_INDEX_NAME,
    SPLITS,
    ShardsIndex,
    unpack_shards_index,
)
from nanotok_ray.output_shapes import (
    MAX_MANIFEST_BYTES,
    MAX_SHARDS_INDEX_BYTES,
    check_size,
    no_manifest,
    parse_manifest,
)
from nanotok_ray.shard_paths import path_inside
from nanotok_ray.shard_rows import check_rows, shard_name

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


def open_shards(folder: str, split: str = "train", source: str | None = None) -> "Shards":
    """Open the documents of a finished output folder.

    Args:
        folder: a local folder, as written by the job.
        split: train or val.
        source: one source; None for all, in the order of the recipe.

    Raises:
        IncompleteOutputError: no manifest: the job has not finished, or this is another folder.
        CorruptOutputError: a file is not what the manifest says.
        SourceError: no such split or source.
    """
    root = Path(folder)
    manifest = _read_manifest(root)
    data = _read(root, SHARDS_INDEX_NAME, most=MAX_SHARDS_INDEX_BYTES)
    if hashlib.sha256(data).hexdigest() != manifest["shards_index_sha256"]:
        raise CorruptOutputError(f"{root / SHARDS_INDEX_NAME} is not the one the manifest names")
    index = unpack_shards_index(data)
    names = manifest["sources"]
    check_rows(index, sources=len(names))
    chosen = index.rows["split"] == _split_number(split)
    if source is not None:
        if source not in names:
            raise SourceError(f"no source {source!r} in {folder}; there are {', '.join(names)}")
        chosen &= index.rows["source"] == names.index(source)
    return Shards(root=root, index=index, rows=np.flatnonzero(chosen), sources=names)


def _read_manifest(root: Path) -> dict[str, Any]:
    path = root / MANIFEST_NAME
    if not path.exists():
        raise no_manifest(str(path))
    return parse_manifest(_read(root, MANIFEST_NAME, most=MAX_MANIFEST_BYTES), name=str(path))


def _read(root: Path, name: str, *, most: int) -> bytes:
    """Give the bytes of a file of the folder, unless it is far larger than a job writes."""
    path = path_inside(root, name)
    try:
        check_size(path.stat().st_size, most=most, name=str(path))
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise CorruptOutputError(f"{path} is missing, though the manifest names it") from error


def _split_number(split: str) -> int:
    if split not in SPLITS:
        raise SourceError(f"no split {split!r}; there are {' and '.join(SPLITS)}")
    return SPLITS.index(split)


@dataclass(slots=True)
class Shards:
    """The documents of chosen shards, by global index. Files are mapped when first touched."""

    root: Path
    index: ShardsIndex
    rows: npt.NDArray[np.intp]
    """Which rows of shards.idx, in order."""
    sources: list[str]
    """Their names, as the rows number them."""
    _starts: list[int] = field(init=False)
    _open: "dict[int, _Shard]" = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Find the first global index of each shard."""
        counts = self.index.rows["documents"][self.rows].astype(np.int64)
        self._starts = [0, *np.cumsum(counts).tolist()]

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._starts[-1]

    def __getitem__(self, document: int) -> Ids:
        """Return the ids of a document as a view of the mapped file (uint16 or uint32).

        Raises:
            IndexError: there is no such document.
        """
        shard, number = self._find(document)
        return shard.ids[shard.positions[number] : shard.positions[number + 1]]

    def __iter__(self) -> Iterator[Ids]:
        """Give the ids of each document in order."""
        return (self[document] for document in range(len(self)))

    def mask(self, document: int) -> npt.NDArray[np.uint8] | None:
        """Return the mask of a document (1 = train on this token), None if its source has none."""
        shard, number = self._find(document)
        if shard.masks is None:
            return None
        return shard.masks[shard.positions[number] : shard.positions[number + 1]]

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
        return self._name(int(self.rows[place])), number

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all documents."""
        return int(self.index.rows["tokens"][self.rows].sum())

    def _place(self, document: int) -> tuple[int, int]:
        count = len(self)
        if not -count <= document < count:
            raise IndexError(f"document {document} of {count}")
        document %= count
        place = bisect_right(self._starts, document) - 1
        return place, document - self._starts[place]

    def _find(self, document: int) -> "tuple[_Shard, int]":
        place, number = self._place(document)
        if place not in self._open:
            row = int(self.rows[place])
            self._open[place] = _open_shard(self.root, self._name(row), self.index.rows[row])
        return self._open[place], number

    def _name(self, row: int) -> str:
        return shard_name(self.index, row, sources=self.sources)


@dataclass(frozen=True, slots=True)
class _Shard:
    ids: Ids
    positions: npt.NDArray[np.int64]
    masks: npt.NDArray[np.uint8] | None
    images: DocumentImages | None
    document_ids: DocumentIds | None


def _open_shard(root: Path, name: str, row: np.void) -> _Shard:
    item_bytes = int(row["item_bytes"])
    index_path = root / f"{name}.idx"
    positions, own_bytes = unpack_index(
        _mapped(root, f"{name}.idx", int(row["idx_bytes"])), name=str(index_path)
    )
    if own_bytes != item_bytes or len(positions) != int(row["documents"]) + 1:
        raise CorruptOutputError(f"{index_path} does not agree with {SHARDS_INDEX_NAME}")
    ids = _mapped(root, f"{name}.bin", int(row["bin_bytes"])).view(f"<u{item_bytes}")
    if len(ids) != positions[-1]:
        raise CorruptOutputError(
            f"{name}.bin holds {len(ids)} tokens, its index says {positions[-1]}"
        )
    mask_bytes = int(row["mask_bytes"])
    return _Shard(
        ids=ids,
        positions=positions,
        masks=_mapped(root, f"{name}.mask", mask_bytes) if mask_bytes else None,
        images=_images(root, f"{name}.images", int(row["images_bytes"]), positions),
        document_ids=_document_ids(root, f"{name}.ids", int(row["ids_bytes"]), positions),
    )


def _images(
    root: Path, name: str, expected_bytes: int, positions: npt.NDArray[np.int64]
) -> DocumentImages | None:
    if not expected_bytes:
        return None
    mapped = _mapped(root, name, expected_bytes)
    images = DocumentImages(mapped, name=str(root / name), documents=len(positions) - 1)
    images.check_within(np.diff(positions))
    return images


def _document_ids(
    root: Path, name: str, expected_bytes: int, positions: npt.NDArray[np.int64]
) -> DocumentIds | None:
    if not expected_bytes:
        return None
    mapped = _mapped(root, name, expected_bytes)
    return DocumentIds(mapped, name=str(root / name), documents=len(positions) - 1)


def _mapped(root: Path, name: str, expected_bytes: int) -> npt.NDArray[np.uint8]:
    path = path_inside(root, name)
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise CorruptOutputError(f"{path} is missing; `nanotok verify {root}` says more") from error
    if not path.is_file():
        raise CorruptOutputError(f"{path} is not a file")
    if size != expected_bytes:
        raise CorruptOutputError(
            f"{path} has {size} bytes, {SHARDS_INDEX_NAME} says {expected_bytes}"
        )
    if size == 0:
        return np.zeros(0, dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r")
