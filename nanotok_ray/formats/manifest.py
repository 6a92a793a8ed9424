"""Keys, records, shards.idx and the manifest: the metadata of an output.

Inputs and outputs are plain values and bytes. The module requires only numpy and the standard
library.

A *key* is the sha256 of all values on which a result depends. A *record* is a JSON file with the
inputs and the outputs of one stage for one slice. `shards.idx` lists the shards in order, in rows
of fixed width. The *manifest* is written last and contains the sha256 of the other files.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, other_format

MANIFEST_NAME = "manifest.json"
SHARDS_INDEX_NAME = "shards.idx"
PLAN_NAME = "plan.json"
RECIPE_NAME = "recipe.toml"
"""The drafted recipe of an output that was prepared from files."""

TOKENIZER_FOLDER = "tokenizer"
TOKENIZER_FILE = "tokenizer/tokenizer.txt"
"""The file whose sha256 identifies the tokenizer of an output."""

SUMMARY_NAME = "run/summary.json"
REPORT_PAGE_NAME = "run/report.html"
RECORDS = "records/tokenize/"
"""The folder of the records of shards in the output folder."""

LEARN_RECORD = "records/learn.json"
"""The record of the learned tokenizer in the output folder."""

MANIFEST_FORMAT = "nanotok-manifest 1"
PLAN_FORMAT = "nanotok-plan 1"
RECORD_FORMAT = "nanotok-record 1"
SPLITS = ("train", "val")

RESERVED_NAMES = (
    *("export", "quarantine", "records", "run", "work", TOKENIZER_FOLDER),
    *(MANIFEST_NAME, PLAN_NAME, SHARDS_INDEX_NAME),
)
"""Names in the output folder that no source can have."""

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


def key_of(values: object) -> str:
    """Return the sha256 (hex) of plain values, independent of the order of keys in dictionaries.

    >>> key_of({"b": 1, "a": 2}) == key_of({"a": 2, "b": 1})
    True
    """
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRow:
    """The row of one shard in shards.idx."""

    source: str
    split: str
    name: str
    """Path in the output folder without suffix."""
    item_bytes: int
    first_document: int
    documents: int
    tokens: int
    bin_bytes: int
    idx_bytes: int
    mask_bytes: int
    ids_bytes: int
    images_bytes: int
    record_sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardsIndex:
    """The content of shards.idx: the rows as a numpy array, and the names."""

    rows: npt.NDArray[np.void]
    strings: bytes

    def name(self, row: int) -> str:
        """Return the path of a shard in the output folder without suffix."""
        start = int(self.rows["name_offset"][row])
        return self.strings[start : self.strings.index(b"\0", start)].decode()


def pack_shards_index(rows: Sequence[ShardRow], *, sources: Sequence[str]) -> bytes:
    """Return the bytes of shards.idx: a header of 32 bytes, one `ROW` per shard, and the names."""
    table = np.zeros(len(rows), dtype=ROW)
    strings = bytearray()
    numbers = {name: number for number, name in enumerate(sources)}
    for position, row in enumerate(rows):
        entry = table[position]
        entry["source"] = numbers[row.source]
        entry["split"] = SPLITS.index(row.split)
        entry["record_sha256"] = np.frombuffer(bytes.fromhex(row.record_sha256), dtype=np.uint8)
        entry["name_offset"] = len(strings)
        strings += row.name.encode() + b"\0"
        for field in NUMBERS:
            entry[field] = getattr(row, field)
    header = np.array(
        [(_MAGIC, _INDEX_VERSION, ROW.itemsize, len(rows), len(strings))], dtype=_HEADER
    )
    return header.tobytes() + table.tobytes() + bytes(strings)


NUMBERS = (
    "item_bytes",
    "first_document",
    "documents",
    "tokens",
    "bin_bytes",
    "idx_bytes",
    "mask_bytes",
    "ids_bytes",
    "images_bytes",
)
"""The columns of `ROW` with the same value as in a `ShardRow`."""


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


def digest_of(parts: Iterable[str]) -> str:
    """Return the sha256 (hex) of hex digests, each followed by a newline."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() + b"\n")
    return total.hexdigest()
