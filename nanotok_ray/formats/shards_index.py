"""shards.idx: the shards of an output in order, in rows of fixed width."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, other_format
from nanotok_ray.formats.document_images import images_bytes
from nanotok_ray.formats.document_index import index_bytes
from nanotok_ray.formats.names import SHARDS_INDEX_NAME, SPLITS
from nanotok_ray.formats.paths import is_inner_name
from nanotok_ray.formats.records import Manifest
from nanotok_ray.formats.stored_shard import MASKED, StoredShard

_MAGIC = b"NANOTOKX"
_INDEX_VERSION = 2
_HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("row_bytes", "<u4"),
        ("rows", "<u8"),
        ("string_bytes", "<u8"),
    ]
)

ROW = np.dtype(
    [
        ("source", "<u4"),  # index in the manifest's list of sources
        ("split", "<u2"),  # index in SPLITS
        ("item_bytes", "<u2"),  # bytes of a token id: 2 or 4
        ("first_document", "<u8"),  # number in its source and split
        ("documents", "<u8"),
        ("tokens", "<u8"),
        ("bin_bytes", "<u8"),
        ("idx_bytes", "<u8"),
        ("mask_bytes", "<u8"),  # 0: no mask
        ("ids_bytes", "<u8"),  # 0: no document ids
        ("images_bytes", "<u8"),  # 0: no image positions
        ("record_sha256", "u1", (32,)),
        ("name_offset", "<u8"),  # offset of the NUL-terminated name in the string table
    ]
)
"""One row of shards.idx, little-endian."""


_SIZES = {
    ".bin": "bin_bytes",
    ".idx": "idx_bytes",
    ".mask": "mask_bytes",
    ".ids": "ids_bytes",
    ".images": "images_bytes",
}
"""The columns with the sizes of the files of a shard, by suffix; 0 for an absent file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardsIndex:
    """The content of shards.idx: the rows as a numpy array, and the names."""

    rows: npt.NDArray[np.void]
    strings: bytes

    def shard(self, row: int, manifest: Manifest) -> StoredShard:
        """Return a shard of the output of a manifest.

        Raises:
            CorruptOutputError: Its name is not that of a file in the folder of its source and
                split.
        """
        entry = self.rows[row]
        source = manifest.sources[int(entry["source"])]
        split = SPLITS[int(entry["split"])]
        required = {".bin", ".idx"}
        if manifest.kinds[source] in MASKED:  # 0 bytes if there is no token
            required.add(".mask")
        sizes = {suffix: int(entry[column]) for suffix, column in _SIZES.items()}
        return StoredShard(
            name=self._name(row, f"{source}/{split}"),
            source=source,
            split=split,
            item_bytes=int(entry["item_bytes"]),
            documents=int(entry["documents"]),
            tokens=int(entry["tokens"]),
            sizes={name: size for name, size in sizes.items() if size or name in required},
            record_sha256=entry["record_sha256"].tobytes().hex(),
        )

    def _name(self, row: int, folder: str) -> str:
        start = int(self.rows["name_offset"][row])
        end = self.strings.find(b"\0", start)
        name = self.strings[start:end].decode(errors="replace")
        if end < 0 or name.rpartition("/")[0] != folder or not is_inner_name(name):
            raise CorruptOutputError(
                f"{SHARDS_INDEX_NAME}, row {row}: {name[:80]!r} is not the name of a shard in "
                f"{folder}"
            )
        return name


def pack_shards_index(shards: Sequence[StoredShard], *, sources: Sequence[str]) -> bytes:
    """Return the bytes of shards.idx: a header of 32 bytes, one `ROW` per shard, and the names.

    The shards of each source and split are in order.
    """
    table = np.zeros(len(shards), dtype=ROW)
    strings = bytearray()
    numbers = {name: number for number, name in enumerate(sources)}
    first: dict[tuple[str, str], int] = defaultdict(int)
    for entry, shard in zip(table, shards, strict=True):
        entry["source"] = numbers[shard.source]
        entry["split"] = SPLITS.index(shard.split)
        entry["record_sha256"] = np.frombuffer(bytes.fromhex(shard.record_sha256), dtype=np.uint8)
        entry["name_offset"] = len(strings)
        strings += shard.name.encode() + b"\0"
        for field in ("item_bytes", "documents", "tokens"):
            entry[field] = getattr(shard, field)
        for suffix, size in shard.sizes.items():
            entry[_SIZES[suffix]] = size
        group = (shard.source, shard.split)
        entry["first_document"] = first[group]
        first[group] += shard.documents
    header = np.array(
        [(_MAGIC, _INDEX_VERSION, ROW.itemsize, len(shards), len(strings))], dtype=_HEADER
    )
    return header.tobytes() + table.tobytes() + bytes(strings)


def unpack_shards_index(data: bytes) -> ShardsIndex:
    """Parse shards.idx.

    Raises:
        CorruptOutputError: The magic, the version or the length is wrong.
    """
    if len(data) < _HEADER.itemsize:
        raise CorruptOutputError(
            f"{SHARDS_INDEX_NAME} has {len(data)} bytes, its header alone has 32"
        )
    header = np.frombuffer(data, dtype=_HEADER, count=1)[0]
    if bytes(header["magic"]) != _MAGIC:
        raise CorruptOutputError(f"{SHARDS_INDEX_NAME} does not begin with {_MAGIC.decode()}")
    if (version := int(header["version"])) != _INDEX_VERSION:
        raise CorruptOutputError(
            other_format(SHARDS_INDEX_NAME, f"version {version}", f"version {_INDEX_VERSION}")
        )
    num_rows, string_bytes = int(header["rows"]), int(header["string_bytes"])
    end = _HEADER.itemsize + num_rows * ROW.itemsize
    if int(header["row_bytes"]) != ROW.itemsize or end + string_bytes != len(data):
        raise CorruptOutputError(
            f"{SHARDS_INDEX_NAME} has {len(data)} bytes, its header says {end + string_bytes}"
        )
    rows = np.frombuffer(data, dtype=ROW, count=num_rows, offset=_HEADER.itemsize)
    return ShardsIndex(rows=rows, strings=data[end:])


MAX_SHARD_NUMBER = 1 << 40
"""Limit of documents, tokens or bytes of one shard: beyond any disk, while sums fit 64 bits."""

_NUMBERS = ("first_document", "documents", "tokens", *_SIZES.values())
_INDEX_BYTES = index_bytes(0)
_DOCUMENT_BYTES = index_bytes(1) - index_bytes(0)
_IMAGES_BYTES = images_bytes(documents=0, images=0)
_PER_DOCUMENT = images_bytes(documents=1, images=0) - _IMAGES_BYTES
_PER_IMAGE = images_bytes(documents=0, images=1) - _IMAGES_BYTES


def check_rows(index: ShardsIndex, *, sources: int) -> None:
    """Refuse inconsistent rows.

    Raises:
        CorruptOutputError: The message names the first such row and the problem.
    """
    rows = index.rows
    wide = np.isin(rows["item_bytes"], (2, 4))
    checks = {
        "a source that does not exist": rows["source"] < sources,
        "a split that does not exist": rows["split"] < len(SPLITS),
        "ids that have neither 2 nor 4 bytes": wide,
        "a name outside of the table of names": rows["name_offset"] < len(index.strings),
        "a size above the limit of a shard": np.all(
            [rows[name] <= MAX_SHARD_NUMBER for name in _NUMBERS], axis=0
        ),
    }
    _refuse(checks)
    documents, tokens, images = rows["documents"], rows["tokens"], rows["images_bytes"]
    min_bytes = _IMAGES_BYTES + documents * _PER_DOCUMENT
    _refuse(
        {
            "a size that contradicts its tokens": rows["bin_bytes"] == tokens * rows["item_bytes"],
            "an index whose size contradicts its documents": rows["idx_bytes"]
            == _INDEX_BYTES + documents * _DOCUMENT_BYTES,
            "a mask whose length is not that of the ids": (rows["mask_bytes"] == 0)
            | (rows["mask_bytes"] == tokens),
            "image positions whose size contradicts its documents": (images == 0)
            | ((images >= min_bytes) & ((images - min_bytes) % _PER_IMAGE == 0)),
        }
    )


def _refuse(checks: dict[str, npt.NDArray[np.bool_]]) -> None:
    for what, is_right in checks.items():
        if not is_right.all():
            row = int(np.argmin(is_right))
            raise CorruptOutputError(f"{SHARDS_INDEX_NAME}, row {row} has {what}")
