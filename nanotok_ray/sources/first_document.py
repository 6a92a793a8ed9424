r"""The first document of a JSON lines file, from the file's first bytes.

Takes stored bytes; decodes what can be decoded of them. Does not know dialects.
"""

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nanotok_ray.sources.stored import is_damage

_BOM = b"\xef\xbb\xbf"
_STEP_BYTES = 1 << 14
_DECODER = json.JSONDecoder(parse_int=float)  # as floats, numbers parse whatever their length


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstDocument:
    """What was found: a parsed line, or that there is none."""

    value: Any = None
    is_there: bool = False
    is_blank: bool = False
    """Whether there is nothing but blank lines."""


def first_document(
    stored: bytes, *, compression: str | None, most: int, is_whole: bool
) -> FirstDocument:
    r"""Give the first line that is JSON, of the first `most` decoded bytes.

    >>> first_document(b'\n{"a": 1}\n{"b', compression=None, most=99, is_whole=False).value
    {'a': 1.0}
    """
    start = stored[:most] if compression is None else _decoded(stored, compression, most=most)
    is_whole = is_whole and len(start) < most
    lines = start.removeprefix(_BOM).split(b"\n")
    for line in lines if is_whole else lines[:-1]:
        try:
            return FirstDocument(value=_DECODER.decode(line.decode()), is_there=True)
        except (ValueError, RecursionError):
            continue
    return FirstDocument(is_blank=is_whole and not any(line.strip() for line in lines))


def _decoded(stored: bytes, compression: str, *, most: int) -> bytes:
    """Decode the begin of a compressed file, in steps: one that fails gives nothing."""
    decoded = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(stored), compression) as stream:
        try:
            while len(decoded) < most and (part := stream.read(_STEP_BYTES)):
                decoded += part
        except (OSError, pa.ArrowInvalid) as error:
            if not is_damage(error):
                raise
    return bytes(decoded[:most])
