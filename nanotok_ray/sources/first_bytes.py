"""The first bytes of an input: whether it is compressed as its name says.

Takes bytes. Does not know where they come from, nor what comes after them.
"""

FIRST_BYTES = 4

_GZIP = b"\x1f\x8b"
_ZSTD = (0xFD2FB528, 0xFFFFFFFF)
_ZSTD_SKIPPABLE = (0x184D2A50, 0xFFFFFFF0)


def is_compressed(first: bytes, compression: str) -> bool:
    r"""Tell whether a file that begins so can be of a compression, gzip or zstd.

    >>> is_compressed(b"\x1f\x8b\x08\x00", "gzip"), is_compressed(b'{"te', "zstd")
    (True, False)
    """
    if compression == "gzip":
        return first.startswith(_GZIP)
    start = int.from_bytes(first, "little")
    return any(start & mask == magic for magic, mask in (_ZSTD, _ZSTD_SKIPPABLE))
