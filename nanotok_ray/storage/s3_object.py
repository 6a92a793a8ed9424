"""Reads an object of S3 in ranges; the first range also opens it, so no other request is needed.

s3fs requests an object's size and version before it reads, which costs as much as a read.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.asyn import sync

from nanotok_ray.storage.connect import RemoteTree
from nanotok_ray.storage.retries import has_status
from nanotok_ray.storage.tree import Entry

_FIRST_BYTES = 1 << 20
"""Bytes that opening fetches: the whole of a small object."""


def s3_details(file_system: AbstractFileSystem, path: str) -> dict[str, Any]:
    """Return the details of an object; a missing object is not searched as a folder.

    Raises:
        FileNotFoundError: The object does not exist.
    """
    found = file_system.call_s3("head_object", **_target(file_system, path))
    return _details(path, found, size=found["ContentLength"])


def _target(file_system: AbstractFileSystem, path: str) -> dict[str, Any]:
    bucket, key, version = file_system.split_path(path)
    named = {"VersionId": version} if version else {}
    return {"Bucket": bucket, "Key": key, **named, **file_system.req_kw}


def _details(path: str, answer: Mapping[str, Any], *, size: int) -> dict[str, Any]:
    return {
        "name": path,
        "type": "file",
        "size": size,
        "ETag": answer.get("ETag"),
        "LastModified": answer.get("LastModified"),
    }


class S3Object:
    """One version of an object, with a position; reads ahead by a block."""

    def __init__(
        self, file_system: AbstractFileSystem, path: str, *, block_bytes: int | None, at: int
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
            kept = self._data[start - self._start :] if first == end else b""
            ahead = self._fetch(first, min(stop + self._block_bytes, self.entry.size or 0))
            self._start, self._data = start, memoryview(b"".join((kept, ahead)))
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
            details = s3_details(self._file_system, self._path)
            return self._pin(details), 0, memoryview(b"")
        start, size = 0, len(data)
        if found := answer.get("ContentRange"):  # bytes 0-99/1000
            ends, _, total = found.split()[1].partition("/")
            start, size = int(ends.partition("-")[0]), int(total)
        details = _details(self._path, answer, size=size)
        return self._pin(details), start, memoryview(data)

    def _pin(self, details: dict[str, Any]) -> Entry:
        """Request only this version from now on."""
        if details["ETag"]:
            self._condition = {"IfMatch": details["ETag"]}
        return RemoteTree.entry(details)

    def _fetch(self, start: int, stop: int) -> bytes:
        return self._ask(f"{start}-{stop - 1}")[0] if start < stop else b""

    def _ask(self, wanted: str) -> tuple[bytes, dict[str, Any]]:
        found: tuple[bytes, dict[str, Any]] = sync(self._file_system.loop, self._get, wanted)
        return found

    async def _get(self, wanted: str) -> tuple[bytes, dict[str, Any]]:
        options = _target(self._file_system, self._path) | self._condition
        answer = await self._file_system._call_s3(  # noqa: SLF001 - for those who await
            "get_object", Range=f"bytes={wanted}", **options
        )
        try:
            return await answer["Body"].read(), answer
        finally:
            answer["Body"].close()
