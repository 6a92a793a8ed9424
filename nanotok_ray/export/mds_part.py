"""One part of an mds dataset, made of samples and read back: the bytes that `mds` describes.

Takes columns as bytes, gives a file and what the index says of it. Does not know units, nor when a
part is full.
"""

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.export.layout import Document
from nanotok_ray.export.target import Target

HASH: Final = "sha1"
"""The one that `validate_hash="sha1"` asks for: it tells damage, not tampering."""


@dataclass(kw_only=True, slots=True)
class Part:
    """A part in the making: its samples, back to back."""

    config: bytes
    sizes: list[int] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)

    def size_with(self, sample: bytes) -> int:
        """Give the bytes that it would have with one more sample."""
        head = 4 + 4 * (len(self.sizes) + 2) + len(self.config)
        return head + len(self.body) + len(sample)

    def add(self, sample: bytes) -> None:
        """Take one more sample."""
        self.sizes.append(len(sample))
        self.body += sample

    def write(self, name: str, target: Target) -> dict[str, Any]:
        """Publish it, and give what the index says of it."""
        start = 4 + 4 * (len(self.sizes) + 1) + len(self.config)
        positions = np.cumsum([start, *self.sizes]).astype("<u4").tobytes()
        head = struct.pack("<I", len(self.sizes)) + positions + self.config
        digest = hashlib.sha1(head, usedforsecurity=False)
        digest.update(self.body)
        with target.create(name) as file:
            file.write(head)
            file.write(self.body)
        return {
            "basename": name.rpartition("/")[2],
            "bytes": len(head) + len(self.body),
            "samples": len(self.sizes),
            HASH: digest.hexdigest(),
        }


def sample_of(columns: Sequence[bytes]) -> bytes:
    """Give the columns of a document behind their sizes."""
    return struct.pack(f"<{len(columns)}I", *map(len, columns)) + b"".join(columns)


def array_of(values: npt.NDArray[Any]) -> bytes:
    """Give an array behind its shape.

    >>> array_of(np.array([7, 258], "<u2")).hex()
    '040207000201'
    """
    k = 0 if len(values) < 1 << 8 else 1 if len(values) < 1 << 16 else 2
    return bytes([4 | k]) + len(values).to_bytes(1 << k, "little") + values.tobytes()


def config_bytes(config: Mapping[str, Any]) -> bytes:
    """Give what a part says of its columns and options."""
    return json.dumps(config, sort_keys=True).encode()


def documents_of(
    data: bytes, config: Mapping[str, Any], *, samples: int, name: str
) -> Iterator[Document]:
    """Give the documents of a part."""
    start = 4 + 4 * (samples + 1)
    positions = np.frombuffer(data, dtype="<u4", offset=4, count=samples + 1).tolist()
    if (struct.unpack_from("<I", data)[0], positions[-1]) != (samples, len(data)):
        raise CorruptOutputError(f"{name} does not begin as {samples} samples do")
    if data[start : positions[0]] != config_bytes(config):
        raise CorruptOutputError(f"{name} has other columns or options than its source")
    names = config["column_names"]
    for begin, end in pairwise(positions):
        columns = dict(zip(names, _column_values(data[begin:end], len(names), name), strict=True))
        mask = columns.get("loss_mask")
        dtype = config["column_encodings"][-1].partition(":")[2]
        ids = _values(columns["tokens"], np.dtype(dtype), name)
        yield ids, None if mask is None else _values(mask, np.dtype(np.uint8), name)


def _column_values(sample: bytes, columns: int, name: str) -> Iterator[bytes]:
    sizes = struct.unpack_from(f"<{columns}I", sample)
    if 4 * columns + sum(sizes) != len(sample):
        raise CorruptOutputError(f"{name}: the columns of a sample are not as long as it says")
    start = 4 * columns
    for size in sizes:
        yield sample[start : start + size]
        start += size


def _values(column: bytes, dtype: np.dtype[Any], name: str) -> npt.NDArray[Any]:
    """Give the values of an array behind its shape."""
    k = column[0] - 4
    if k not in (0, 1, 2):
        raise CorruptOutputError(f"{name}: an array has not one dimension")
    start = 1 + (1 << k)
    values = np.frombuffer(column, dtype=dtype.newbyteorder("<"), offset=start)
    if len(values) != int.from_bytes(column[1:start], "little"):
        raise CorruptOutputError(f"{name}: an array is not as long as it says")
    return values
