"""The first bytes of an input: that it can be read, and whether it is compressed as its name says.

Takes paths and URLs; fetches these bytes and no others. Does not know what comes after them.
"""

from pathlib import Path

from nanotok_ray.storage.remote_tree import connect
from nanotok_ray.storage.transient import transient_errors
from nanotok_ray.storage.urls import local_path

FIRST_BYTES = 4

_GZIP = b"\x1f\x8b"
_ZSTD = (0xFD2FB528, 0xFFFFFFFF)
_ZSTD_SKIPPABLE = (0x184D2A50, 0xFFFFFFF0)


def read_first(url: str) -> bytes:
    """Give the first four bytes of a file that has at least one.

    Raises:
        OSError: it cannot be read, or is not there.
        TransientIOError: a remote store failed in a way that may pass.
    """
    local = local_path(url)
    if local is not None:
        with Path(local).open("rb", buffering=0) as file:
            return file.read(FIRST_BYTES)
    with transient_errors("read", url):
        file_system, path = connect(url)
        # Opening and reading would fetch what the file system reads ahead: 50 MB of S3.
        data = file_system.cat_file(path, start=0, end=FIRST_BYTES)
    return bytes(data[:FIRST_BYTES])  # some servers know no ranges and send all of it


def is_compressed(first: bytes, compression: str) -> bool:
    r"""Tell whether a file that begins so can be of a compression, gzip or zstd.

    >>> is_compressed(b"\x1f\x8b\x08\x00", "gzip"), is_compressed(b'{"te', "zstd")
    (True, False)
    """
    if compression == "gzip":
        return first.startswith(_GZIP)
    start = int.from_bytes(first, "little")
    return any(start & mask == magic for magic, mask in (_ZSTD, _ZSTD_SKIPPABLE))
