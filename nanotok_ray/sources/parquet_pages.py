"""The pages of parquet column chunks, which are hashed and checked as they are read."""

import hashlib
import io
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from nanotok_ray.sources.stored import ReadAccount
from nanotok_ray.storage import InputFile, SeekableFile, open_input, version_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


_MAX_HEADER_BYTES = 16 << 20  # Arrow's own limit
_MIN_VALUE_BYTES = 4  # a string has at least its length
_PAGE_SLACK_BYTES = 64 << 20
_MAX_RATIOS = {"UNCOMPRESSED": 1, "SNAPPY": 32, "GZIP": 1100, "LZ4": 256, "LZO": 256}
_MAX_RATIO = 50_000  # zstd and brotli: a run of 128 KiB is 4 bytes
_RATIO_SLACK_BYTES = 1 << 20
_BATCH_BYTES = 256 << 20

# Types of Thrift's compact protocol.
_STOP, _TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 6, 7, 8, 12
_DICTIONARY_PAGE = 2
_VALUES = {0: "5.1", _DICTIONARY_PAGE: "7.1", 3: "8.1"}
"""The field with the number of values in the header of a page; data pages have two versions."""
_ROWS = "8.3"  # only in data pages of version 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """The header of a page."""

    is_dictionary: bool
    values: int
    num_bytes: int
    """Uncompressed size."""
    stored_bytes: int
    rows: int = 1
    """Number of rows that begin in the page, as stated in the header for columns in lists; else at
    least 1.
    """

    def problem(self, codec: str, *, max_document_bytes: int) -> str | None:
        """Return the reason why the page must not be decoded, or None."""
        if min(self.values, self.num_bytes, self.stored_bytes) < 0:
            return "a page with a negative size"
        ratio = _MAX_RATIOS.get(codec, _MAX_RATIO)
        if self.num_bytes > self.stored_bytes * ratio + _RATIO_SLACK_BYTES:
            return f"{self.stored_bytes} stored bytes cannot be a page of {self.num_bytes}"
        limit = 2 * max_document_bytes + _PAGE_SLACK_BYTES
        if self.num_bytes > limit:
            return f"a page of {self.num_bytes} bytes, for which limits.max_document_bytes is small"
        if self.is_dictionary and self.values * _MIN_VALUE_BYTES > self.num_bytes:
            return f"{self.values} values cannot be in a page of {self.num_bytes} bytes"
        return None


class PageHeaders:
    """The page headers of a chunk, parsed from its bytes in parts of any size.

    Parsing ends at the first invalid header, after which Arrow does not read either.
    """

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self._header = b""
        """The beginning of a header that is not complete yet."""
        self._skip = 0
        self._is_over = False

    def update(self, data: bytes | memoryview) -> None:
        """Parse the next stored bytes."""
        if self._header:
            data, self._header = self._header + bytes(data), b""
        position, self._skip = self._skip, 0
        while position < len(data) and not self._is_over:
            try:
                page, position = _parse_page(data, position)
            except IndexError:  # the header continues in the next bytes
                self._header = bytes(data[position:])
                self._is_over = len(self._header) > _MAX_HEADER_BYTES
                return
            except (KeyError, ValueError):
                self._is_over = True
                return
            self.pages.append(page)
            self._is_over = page.stored_bytes < 0
            position += max(0, page.stored_bytes)
        self._skip = position - len(data)

    @property
    def num_values(self) -> int:
        """The number of values of all pages according to their headers."""
        return sum(page.values for page in self.pages if not page.is_dictionary)

    def problem(self, codec: str, *, max_document_bytes: int) -> str | None:
        """Return the reason why the chunk must not be decoded, or None."""
        problems = (
            page.problem(codec, max_document_bytes=max_document_bytes) for page in self.pages
        )
        return next(filter(None, problems), None)

    def batch_rows(self, *, max_rows: int, in_lists: int | None = None) -> int:
        """Return the number of rows to decode at a time such that no batch is too large.

        Each value can be the largest of the dictionary, of which only the total size is known;
        other values are not larger than their pages. For a column in lists, `in_lists` is its
        number of rows; a page can contain many values of one row.
        """
        dictionary = max((page.num_bytes for page in self.pages if page.is_dictionary), default=0)
        if in_lists:
            dictionary = dictionary * max(1, self.num_values // in_lists)
        rows = max(1, min(max_rows, _BATCH_BYTES // max(1, dictionary)))
        data = [
            (page.values if in_lists is None else page.rows, page.num_bytes)
            for page in self.pages
            if not page.is_dictionary
        ]
        while rows > 1 and _max_window_bytes(data, rows) > _BATCH_BYTES:
            rows //= 2
        return rows


def _max_window_bytes(pages: list[tuple[int, int]], rows: int) -> int:
    """Return the maximum size of the pages that `rows` consecutive rows can be in."""
    row_ends, byte_ends = [0], [0]
    for values, num_bytes in pages:
        row_ends.append(row_ends[-1] + values)
        byte_ends.append(byte_ends[-1] + num_bytes)
    max_bytes, last = 0, 0
    for first, (_, end) in enumerate(pairwise(row_ends)):
        while last < len(pages) and row_ends[last] < end - 1 + rows:
            last += 1
        max_bytes = max(max_bytes, byte_ends[last] - byte_ends[first])
    return max_bytes


def _parse_page(data: bytes | memoryview, position: int) -> tuple[Page, int]:
    """Return the page whose header begins at a position, and the end of the header.

    Raises:
        IndexError: The header is longer than the data.
        KeyError, ValueError: The bytes are not a header.
    """
    fields, end = _read_struct(data, position, path="", depth=0)
    values = fields.get(_VALUES.get(fields["1"], ""), 0)  # Arrow skips pages of other types
    page = Page(
        is_dictionary=fields["1"] == _DICTIONARY_PAGE,
        values=values,
        num_bytes=fields["2"],
        stored_bytes=fields["3"],
        rows=max(1, min(values, fields.get(_ROWS, 1))),
    )
    return page, end


def _read_struct(
    data: bytes | memoryview, position: int, *, path: str, depth: int
) -> tuple[dict[str, int], int]:
    """Return the numbers of a Thrift struct (compact) by their path, and its end."""
    fields: dict[str, int] = {}
    number = 0
    while True:
        head = data[position]
        position += 1
        kind = head & 15
        if kind == _STOP:
            return fields, position
        if head >> 4:
            number += head >> 4
        else:
            number, position = _read_number(data, position)
        name = f"{path}{number}"
        if kind in {_TRUE, _FALSE}:
            continue
        if kind == _STRUCT and depth < 8:  # noqa: PLR2004 - pages have three levels
            inner, position = _read_struct(data, position, path=f"{name}.", depth=depth + 1)
            fields |= inner
        elif _BYTE < kind <= _I64:
            fields[name], position = _read_number(data, position)
        else:
            position = _skip(data, position, kind)


def _skip(data: bytes | memoryview, position: int, kind: int) -> int:
    """Return the end of a value that is skipped."""
    if kind == _BINARY:
        length, position = _read_varint(data, position)
    elif kind in {_BYTE, _DOUBLE}:
        length = 1 if kind == _BYTE else 8
    else:
        raise ValueError(f"no page header holds the type {kind}")
    if position + length > len(data):
        raise IndexError
    return position + length


def _read_number(data: bytes | memoryview, position: int) -> tuple[int, int]:
    value, position = _read_varint(data, position)
    return (value >> 1) ^ -(value & 1), position


def _read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return value, position
        if shift > 63:  # noqa: PLR2004 - no number has more bits
            raise ValueError("a number of more than 64 bits")


_MAX_WINDOW_BYTES = 64 << 20
_BLOCK_BYTES = 2 << 20  # more than the buffer of an open file, so that reads bypass it
_END_BYTES = 8  # length of the footer, and the magic


class ChunkFile(SeekableFile):
    """A parquet file that reads and hashes column chunks ahead.

    The hash is that of the stored bytes, which Arrow does not provide. Chunks are kept in one
    window, up to 64 MiB, until Arrow reads them, so that a remote file is read once; chunks that do
    not fit are read twice.
    """

    def __init__(self, url: str, *, block_bytes: int | None = None) -> None:
        self._file = open_input(url, block_bytes=block_bytes, at=-1)
        super().__init__(size=self._file.seek(0, io.SEEK_END))
        self._window = memoryview(b"")
        self._used = 0
        self._cached: list[tuple[int, memoryview]] = []

    @property
    def size(self) -> int:
        """Stored bytes of the file."""
        return self._size

    def load(self, start: int, length: int, *, account: ReadAccount) -> PageHeaders:
        """Read a chunk, account for it, cache it if it fits, and return its page headers."""
        headers = PageHeaders()
        is_cached = self._used + length <= len(self._window)
        room = self._window[self._used :] if is_cached else memoryview(bytearray(_BLOCK_BYTES))
        filled = 0
        self._file.seek(start)
        while filled < length:
            offset = filled if is_cached else 0
            block = room[offset : offset + min(_BLOCK_BYTES, length - filled)]
            size = self._file.readinto(block)  # type: ignore[attr-defined]
            if not size:
                break
            account.update(block[:size])
            headers.update(block[:size])
            filled += size
        if is_cached:
            self._cached.append((start, room[:filled]))
            self._used += filled
        return headers

    def release(self, num_bytes: int) -> None:
        """Remove all cached chunks, and make room for the next ones; memory is reused.

        New memory is as slow as reading, so there is no more than the chunks need.
        """
        self._used, self._cached = 0, []
        num_bytes = min(num_bytes, self._size, _MAX_WINDOW_BYTES)
        if num_bytes > len(self._window):
            self._window = memoryview(b"")
            self._window = memoryview(bytearray(num_bytes))

    def version(self, *, again: bool = False) -> InputFile:
        """Return the version of the content when the file was opened, or now with `again`."""
        return version_of(self._file, again=again)

    def footer_sha256(self) -> str:
        """Return the sha256 (hex) of the footer, including its length and the magic."""
        self._file.seek(self._size - _END_BYTES)
        length = int.from_bytes(self._file.read(4), "little")
        self._file.seek(self._size - _END_BYTES - length)
        return hashlib.sha256(self._file.read()).hexdigest()

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, from a cached chunk if it contains all of them."""
        size = max(0, self._size - self._position) if size < 0 else size
        data = self._from_cache(size)
        if data is None:
            self._file.seek(self._position)
            data = self._file.read(size)
        self._position += len(data)
        return data

    def _from_cache(self, size: int) -> bytes | None:
        for chunk_start, chunk in self._cached:
            start = self._position - chunk_start
            if start >= 0 and start + size <= len(chunk):
                return bytes(chunk[start : start + size])
        return None

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill a buffer with the next bytes."""
        view = memoryview(buffer).cast("B")
        data = self.read(view.nbytes)
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file; Python also closes an object whose file could not be opened."""
        if hasattr(self, "_file"):
            self._file.close()
        super().close()
