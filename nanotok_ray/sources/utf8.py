"""Whether bytes are UTF-8, found without a copy of them as text.

Takes bytes. Does not know what they mean.
"""

import codecs

_BLOCK_BYTES = 1 << 18


def invalid_at(data: bytes | bytearray) -> int | None:
    r"""Give the place of the first byte that is not UTF-8, None if all is.

    Python's text takes up to four bytes a character, so no more than a block of it is made.

    >>> invalid_at(b"ab\xff"), invalid_at(b"ab")
    (2, None)
    """
    with memoryview(data) as view:
        position = 0
        while position < len(view):
            block = view[position : position + _BLOCK_BYTES]
            is_last = position + len(block) == len(view)
            try:
                position += codecs.utf_8_decode(block, "strict", is_last)[1]
            except UnicodeDecodeError as error:
                return position + error.start
    return None
