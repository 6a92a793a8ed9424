"""One record against its files, each read once: sizes, sha256, index, ids, masks, images, sums.

Every function yields the problems that it found, each with the file and what was expected. A worker
calls `check_files` before it writes the record, and verification calls it again.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats.document_ids import DocumentIds
from nanotok_ray.formats.document_images import DocumentImages
from nanotok_ray.formats.document_index import check_sequences, unpack_index
from nanotok_ray.shards.check.files import (
    IdScan,
    Lines,
    MaskScan,
    checked_bytes,
    image_problems,
    is_whole,
)
from nanotok_ray.storage import Folder


def check_files(
    folder: Folder,
    values: Mapping[str, Any],
    *,
    item_bytes: int,
    num_ids: int,
    special_tokens: Mapping[str, int] | None = None,
    image_token: str | None = None,
) -> Iterator[str]:
    """Compare the files of a record that is sound by itself with what it says of them.

    Args:
        folder: the output folder.
        values: of the record.
        item_bytes: of a token id.
        num_ids: no id may be as high.
        special_tokens: the tokenizer's, with their ids, which are counted; None: they are not.
        image_token: the one of them that stands for a part of an image, and nowhere else.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    files = {file["name"]: file for file in values["files"]}
    check = _Check(
        folder=folder,
        files=files,
        item_bytes=item_bytes,
        num_ids=num_ids,
        special_tokens=special_tokens or {},
        image_token=image_token,
    )
    for shard in values["shards"]:
        yield from check.shard(shard)
    for name, file in files.items():
        if name.endswith(".jsonl"):
            yield from _check_quarantine(folder, file, values)
    if check.is_sound:
        yield from _sum_problems(values, check, are_counted=special_tokens is not None)


@dataclass(kw_only=True, slots=True)
class _Check:
    """The files of one record, shard by shard, and sums over all of its shards."""

    folder: Folder
    files: Mapping[str, Mapping[str, Any]]
    item_bytes: int
    num_ids: int
    special_tokens: Mapping[str, int]
    image_token: str | None
    special_counts: dict[str, int] = field(default_factory=dict)
    trained: int | None = None
    """Tokens under mask 1; None: no shard has a mask."""
    images: int = 0
    image_tokens: int = 0
    is_sound: bool = True
    """Whether all files were read and had no problem, so that sums can be compared."""

    def shard(self, shard: Mapping[str, Any]) -> Iterator[str]:
        """Yield the problems of the files of a shard."""
        for problem in self._problems(shard):
            self.is_sound = False
            yield problem

    def _problems(self, shard: Mapping[str, Any]) -> Iterator[str]:
        positions = yield from self._index(shard)
        images = yield from self._images(shard, positions)
        scan = yield from self._ids(shard, images)
        yield from self._mask(shard)
        if images is not None and positions is not None and scan is not None and scan.saw_images:
            yield from image_problems(images, positions, scan.image_edges, name=shard["name"])
        file = self.files.get(f"{shard['name']}.ids")
        if file is not None:
            yield from _check_document_ids(self.folder, file, shard)

    def _index(
        self, shard: Mapping[str, Any]
    ) -> Generator[str, None, npt.NDArray[np.int64] | None]:
        """Yield where the documents of a shard begin and the last ends, None after problems."""
        name = f"{shard['name']}.idx"
        data = yield from checked_bytes(self.folder, self.files[name])
        if data is None:
            return None
        try:
            positions, found_bytes = unpack_index(data, name=name)
            check_sequences(data, name=name)
        except CorruptOutputError as error:
            yield str(error)
            return None
        if found_bytes != self.item_bytes or int(positions[-1]) != shard["tokens"]:
            yield (
                f"{name} ends at {positions[-1]} tokens of {found_bytes} bytes, "
                f"the data at {shard['tokens']} of {self.item_bytes}"
            )
            return None
        if len(positions) - 1 != shard["documents"]:
            yield f"{name} has {len(positions) - 1} documents, the record says {shard['documents']}"
            return None
        return positions

    def _images(
        self, shard: Mapping[str, Any], positions: npt.NDArray[np.int64] | None
    ) -> Generator[str, None, DocumentImages | None]:
        """Yield the images of a shard, None after problems or if it has no file of them."""
        file = self.files.get(f"{shard['name']}.images")
        if file is None:
            return None
        data = yield from checked_bytes(self.folder, file)
        if data is None:
            return None
        try:
            images = DocumentImages(data, name=file["name"], documents=shard["documents"])
            if positions is not None:
                images.check_within(np.diff(positions))
        except CorruptOutputError as error:
            yield str(error)
            return None
        self.images += images.num_images
        self.image_tokens += images.num_tokens
        return images

    def _ids(
        self, shard: Mapping[str, Any], images: DocumentImages | None
    ) -> Generator[str, None, IdScan | None]:
        """Yield what was seen of the ids of a shard, None after problems."""
        file = self.files[f"{shard['name']}.bin"]
        by_id = sorted((number, name) for name, number in self.special_tokens.items())
        scan = IdScan(
            self.item_bytes,
            special_ids=[number for number, _ in by_id],
            image_id=None if images is None else self.special_tokens.get(self.image_token or ""),
            max_images=0 if images is None else images.num_images,
        )
        if not (yield from is_whole(self.folder, file, scan)):
            return None
        if scan.largest >= self.num_ids:
            yield f"{file['name']} holds {scan.largest}, values go up to {self.num_ids - 1}"
            return None
        for (_, name), count in zip(by_id, scan.special_counts.tolist(), strict=True):
            self.special_counts[name] = self.special_counts.get(name, 0) + count
        return scan

    def _mask(self, shard: Mapping[str, Any]) -> Iterator[str]:
        file = self.files.get(f"{shard['name']}.mask")
        if file is None:
            return
        scan = MaskScan()
        if not (yield from is_whole(self.folder, file, scan)):
            return
        if scan.largest > 1:
            yield f"{file['name']} holds {scan.largest}, values go up to 1"
        self.trained = (self.trained or 0) + scan.ones


def _sum_problems(values: Mapping[str, Any], check: _Check, *, are_counted: bool) -> Iterator[str]:
    """Compare what was seen in all files of a record with its sums."""
    prefix = f"record {values['key'][:16]}"
    if check.trained is not None and check.trained != values["trainable_tokens"]:
        yield (
            f"{prefix}: its masks train on {check.trained} tokens, it says "
            f"{values['trainable_tokens']}"
        )
    if check.images != values["images"]:
        yield f"{prefix}: its shards have {check.images} images, it says {values['images']}"
    of_images = values["roles"].get("image", 0)
    if check.image_tokens != of_images:
        yield f"{prefix}: its images have {check.image_tokens} tokens, it says {of_images}"
    if are_counted:
        yield from _special_problems(values["special_tokens"], check.special_counts, prefix)


def _special_problems(
    said: Mapping[str, int], found: Mapping[str, int], prefix: str
) -> Iterator[str]:
    for name in sorted(said.keys() | found.keys()):
        if said.get(name, 0) != found.get(name, 0):
            yield (
                f"{prefix}: its shards hold {name!r} {found.get(name, 0)} times, it says "
                f"{said.get(name, 0)}"
            )


def _check_document_ids(
    folder: Folder, file: Mapping[str, Any], shard: Mapping[str, Any]
) -> Iterator[str]:
    data = yield from checked_bytes(folder, file)
    if data is None:
        return
    try:
        DocumentIds(data, name=file["name"], documents=shard["documents"])
    except CorruptOutputError as error:
        yield str(error)


def _check_quarantine(
    folder: Folder, file: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[str]:
    name, seen = file["name"], Lines()
    if not (yield from is_whole(folder, file, seen)):
        return
    if seen.problem or seen.rest:
        yield f"{name}: {seen.problem or 'its last line does not end'}"
        return
    if seen.kinds != values["quarantined"]:
        yield f"{name} holds {dict(seen.kinds)}, its record says {values['quarantined']}"
    recorded = values["bytes"]["quarantined"]
    if seen.num_bytes != recorded:
        yield f"{name} stands for {seen.num_bytes} bytes of documents, its record says {recorded}"
