"""The first rows of a file of lines or of one document, of any compression."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

import pyarrow as pa

from nanotok_ray.formats import SourceFile
from nanotok_ray.sources.json_lines import BOM, Shape, shape_of
from nanotok_ray.sources.stored import FIRST_BYTES, invalid_at, is_compressed, is_damage
from nanotok_ray.storage import read_start

START_BYTES: Final = (1 << 16, 1 << 20)
"""Stored bytes that are read of a file: nearly always, the first size is enough."""

MAX_ROWS: Final = 20
"""Documents that are read of each file."""

NOT_JSON: Final = object()
"""Stands for a line that is not JSON."""

_T = TypeVar("_T")
_Result = TypeVar("_Result")

_THREADS = 16  # opening a remote file waits for the network; parsing is fast
_STEP_BYTES = 1 << 14
_CUT_BYTES = 3  # bytes of a character that continues after the start
_DECODER = json.JSONDecoder(parse_int=float)  # parsed as floats, numbers may have any length


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    r"""The first bytes of a file, decoded.

    >>> start = Start(data=b'\n{"a": 1}\n{"b', is_complete=False)
    >>> start.values(), start.is_blank, start.invalid_at
    ([{'a': 1.0}], False, None)
    """

    data: bytes
    is_complete: bool
    """Whether the file has no further bytes."""
    misnamed: bytes = b""
    """The first stored bytes, if they are not of the compression that the name of the file says."""

    def is_cut(self) -> bool:
        """Return whether the file has further bytes."""
        return not self.is_complete

    def values(self, count: int = MAX_ROWS) -> list[object]:
        """Return the values of the first lines that are JSON."""
        lines = self.data.removeprefix(BOM).split(b"\n")
        values = map(json_value, lines if self.is_complete else lines[:-1])
        return [*islice((value for value in values if value is not NOT_JSON), count)]

    @property
    def shape(self) -> Shape | None:
        """The shape of a file of JSON whose values are not one per line."""
        return shape_of(self.data, is_complete=self.is_complete)

    @property
    def is_blank(self) -> bool:
        """Whether the file contains only blank lines."""
        return self.is_complete and not self.data.removeprefix(BOM).strip()

    @property
    def invalid_at(self) -> int | None:
        """The position of the first byte that is not UTF-8, or None."""
        position = invalid_at(self.data)
        is_cut = not self.is_complete and (position or 0) >= len(self.data) - _CUT_BYTES
        return None if is_cut else position


def starts(file: SourceFile, sizes: Sequence[int] = START_BYTES) -> Iterator[Start]:
    """Yield the start of a file in increasing sizes, up to the whole file.

    Raises:
        OSError: The file does not exist or cannot be read.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    for size in sizes:
        stored = read_start(file.url, size) if file.size else b""
        first, compression = stored[:FIRST_BYTES], file.compression
        is_named = not first or compression is None or is_compressed(first, compression)
        data, has_ended = stored, True
        if compression is not None:
            data, has_ended = _decoded(stored, compression)
        is_complete = has_ended and len(stored) >= file.size
        yield Start(data=data, is_complete=is_complete, misnamed=b"" if is_named else first)
        if len(stored) >= file.size:
            return


def _decoded(stored: bytes, compression: str) -> tuple[bytes, bool]:
    """Return up to 1 MiB of decoded bytes, and whether these are all.

    A start is decoded in steps; a step that fails yields nothing.
    """
    decoded, has_ended, max_bytes = bytearray(), False, START_BYTES[-1]
    with pa.CompressedInputStream(pa.BufferReader(stored), compression) as stream:
        try:
            while len(decoded) < max_bytes and (part := stream.read(_STEP_BYTES)):
                decoded += part
            has_ended = len(decoded) < max_bytes
        except (OSError, pa.ArrowInvalid) as error:
            if not is_damage(error):
                raise
    return bytes(decoded[:max_bytes]), has_ended


def json_value(line: bytes) -> object:
    """Return the value of a line, or `NOT_JSON`."""
    try:
        return _DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        return NOT_JSON


def in_threads(work: Callable[[_T], _Result], items: Iterable[_T]) -> Iterator[_Result]:
    """Yield the results of a function of files, in order."""
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        try:
            yield from pool.map(work, items)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
