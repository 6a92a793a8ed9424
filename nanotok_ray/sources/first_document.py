r"""The first document of a JSON lines file, from the file's first bytes.

Takes stored bytes; decodes what can be decoded of them. Does not know dialects.
"""

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nanotok_ray.sources.stored import is_damage
from nanotok_ray.sources.value_shape import BOM, Shape, shape_of

_STEP_BYTES = 1 << 14
_DECODER = json.JSONDecoder(parse_int=float)  # as floats, numbers parse whatever their length


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstDocument:
    """What was found: a parsed line, or that there is none."""

    value: Any = None
    is_there: bool = False
    is_blank: bool = False
    """Whether there is nothing but blank lines."""
    shape: Shape | None = None
    """What is odd about how the values of the file lie in its lines."""


def first_document(
    stored: bytes, *, compression: str | None, most: int, is_whole: bool
) -> FirstDocument:
    r"""Give the first line that is JSON, of the first `most` decoded bytes.

    >>> first_document(b'\n{"a": 1}\n{"b', compression=None, most=99, is_whole=False).value
    {'a': 1.0}
    """
    start, has_ended = decoded_start(stored, compression, most=most)
    is_whole = is_whole and has_ended
    shape = shape_of(start, is_whole=is_whole)
    lines = start.removeprefix(BOM).split(b"\n")
    for line in lines if is_whole else lines[:-1]:
        try:
            value = _DECODER.decode(line.decode())
        except (ValueError, RecursionError):
            continue
        return FirstDocument(value=value, is_there=True, shape=shape)
    is_blank = is_whole and not any(line.strip() for line in lines)
    return FirstDocument(is_blank=is_blank, shape=shape)


def decoded_start(stored: bytes, compression: str | None, *, most: int) -> tuple[bytes, bool]:
    """Return up to `most` decoded bytes of stored ones, and whether that is all they hold.

    A compressed start is decoded in steps: one that fails gives nothing.
    """
    if compression is None:
        return stored[:most], len(stored) < most
    decoded, has_ended = bytearray(), False
    with pa.CompressedInputStream(pa.BufferReader(stored), compression) as stream:
        try:
            while len(decoded) < most and (part := stream.read(_STEP_BYTES)):
                decoded += part
            has_ended = len(decoded) < most
        except (OSError, pa.ArrowInvalid) as error:
            if not is_damage(error):
                raise
    return bytes(decoded[:most]), has_ended
