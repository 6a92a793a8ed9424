"""Reads an object of S3 in ranges; the first range also opens it, so no other request is needed.

s3fs requests an object's size and version before it reads, which costs as much as a read.
"""

from http import HTTPStatus
from typing import TYPE_CHECKING

from nanotok_ray.storage.connect import Details, RemoteTree
from nanotok_ray.storage.retries import has_status
from nanotok_ray.storage.tree import Entry

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_FIRST_BYTES = 1 << 20
"""Bytes that opening fetches: the whole of a small object."""


class ObjectChangedError(Exception):
    """A store that ignores `If-Match` returned bytes of another version of an object."""


def s3_entry(file_system: "AbstractFileSystem", path: str) -> Entry:
    """Return the entry of an object; a missing object is not searched as a folder.

    Raises:
        FileNotFoundError: The object does not exist.
    """
    answer = _head(file_system, path)
    return _entry(path, answer, size=answer["ContentLength"])


def _head(file_system: "AbstractFileSystem", path: str) -> Details:
    answer: Details = file_system.call_s3("head_object", **_target(file_system, path))
    return answer


def _target(file_system: "AbstractFileSystem", path: str) -> Details:
    bucket, key, version = file_system.split_path(path)
    named = {"VersionId": version} if version else {}
    return {"Bucket": bucket, "Key": key, **named, **file_system.req_kw}


def _entry(path: str, answer: Details, *, size: int) -> Entry:
    return RemoteTree.entry({**answer, "name": path, "type": "file", "size": size})


class S3Object:
    """One version of an object, with a position; reads ahead by a block."""

    def __init__(
        self, file_system: "AbstractFileSystem", path: str, *, block_bytes: int | None, at: int
    ) -> None:
        """Open the object and fetch bytes at a position; a negative one is relative to the end."""
        self._file_system, self._path = file_system, path
        self._block_bytes = block_bytes or file_system.default_block_size
        self._condition: dict[str, str] = {}
        self._position = 0
        first = min(self._block_bytes, _FIRST_BYTES)
        self.entry, self._start, self._data = self._open(at, max(first, -at))

    def seek(self, position: int) -> None:
        """Set the position of the next read."""
        self._position = position

    def read(self, size: int) -> bytes | memoryview:
        """Return the next bytes; fewer only at the end of the object."""
        start = self._position
        stop = min(start + size, self.entry.size or 0)
        end = self._start + len(self._data)
        if not self._start <= start <= stop <= end:
            first = end if self._start <= start <= end else start
            rest = self._data[start - self._start :] if first == end else b""
            ahead = self._fetch(first, min(stop + self._block_bytes, self.entry.size or 0))
            self._start, self._data = start, memoryview(b"".join((rest, ahead)))
        data = self._data[start - self._start : stop - self._start]
        self._position += len(data)
        return data

    def close(self) -> None:
        """Release the fetched data."""
        self._data = memoryview(b"")

    def _open(self, at: int, length: int) -> tuple[Entry, int, memoryview]:
        wanted = f"{at}-{at + length - 1}" if at >= 0 else f"-{length}"
        try:
            data, answer = self._ask(wanted)
        except Exception as error:
            # The range is valid only if the object contains its first byte.
            if not has_status(error, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
                raise
            answer = _head(self._file_system, self._path)
            return self._pin(answer, size=answer["ContentLength"]), 0, memoryview(b"")
        start, size = 0, len(data)
        if stored := answer.get("ContentRange"):  # bytes 0-99/1000
            ends, _, total = stored.split()[1].partition("/")
            start, size = int(ends.partition("-")[0]), int(total)
        return self._pin(answer, size=size), start, memoryview(data)

    def _pin(self, answer: Details, *, size: int) -> Entry:
        """Request only this version from now on."""
        if etag := answer.get("ETag"):
            self._condition = {"IfMatch": etag}
        return _entry(self._path, answer, size=size)

    def _fetch(self, start: int, stop: int) -> bytes:
        return self._ask(f"{start}-{stop - 1}")[0] if start < stop else b""

    def _ask(self, wanted: str) -> tuple[bytes, Details]:
        from fsspec.asyn import sync  # noqa: PLC0415 - remote stores alone need it

        options = _target(self._file_system, self._path) | self._condition
        answer = self._file_system.call_s3("get_object", Range=f"bytes={wanted}", **options)
        try:
            data: bytes = sync(self._file_system.loop, answer["Body"].read)
        finally:
            answer["Body"].close()
        etag = answer.get("ETag")
        if etag and etag != self._condition.get("IfMatch", etag):
            raise ObjectChangedError
        return data, answer
