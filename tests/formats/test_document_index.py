"""NAME.idx: its format, and damaged files."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError, SourceError
from nanotok_ray.formats import MAX_DOCUMENT_TOKENS, index_parts, unpack_index


def pack_index(lengths, *, item_bytes):
    return b"".join(index_parts([lengths], item_bytes=item_bytes))


def as_bytes(data):
    return np.frombuffer(data, dtype=np.uint8)


def test_the_bytes_equal_the_index_of_megatron():
    data = pack_index(np.array([3, 0, 2]), item_bytes=2)
    assert data == b"".join(
        [
            b"MMIDIDX\x00\x00",
            struct.pack("<QBQQ", 1, 8, 3, 4),
            struct.pack("<3i", 3, 0, 2),
            struct.pack("<3q", 0, 6, 6),
            struct.pack("<4q", 0, 1, 2, 3),
        ]
    )


@given(st.data())
def test_a_changed_byte_is_detected_or_harmless(data):
    packed = bytearray(pack_index(np.array([3, 5, 2]), item_bytes=2))
    place = data.draw(st.integers(0, len(packed) - 4 * 8 - 1))
    packed[place] ^= data.draw(st.integers(1, 255))
    try:
        positions, _ = unpack_index(as_bytes(bytes(packed)), name="x.idx")
    except CorruptOutputError:
        return
    # Only the length of the last document cannot be compared with another value.
    assert positions[:3].tolist() == [0, 3, 8]


@pytest.mark.parametrize("size", [0, 10, 33, 61])
def test_a_truncated_index_is_refused(size):
    data = pack_index(np.array([3]), item_bytes=2)
    with pytest.raises(CorruptOutputError):
        unpack_index(as_bytes(data[:size]), name="x.idx")


def test_a_document_too_long_for_the_layout_is_refused():
    with pytest.raises(SourceError, match=str(MAX_DOCUMENT_TOKENS)):
        pack_index(np.array([MAX_DOCUMENT_TOKENS + 1]), item_bytes=2)


@given(st.lists(st.lists(st.integers(0, 100_000), max_size=9), max_size=5), st.sampled_from([2, 4]))
def test_an_index_written_in_parts_equals_that_of_all_documents(parts, item_bytes):
    arrays = [np.array(part, dtype=np.int32) for part in parts]
    lengths = [length for part in parts for length in part]
    whole = pack_index(np.array(lengths, dtype=np.int64), item_bytes=item_bytes)
    assert b"".join(index_parts(arrays, item_bytes=item_bytes)) == whole
    positions, own_bytes = unpack_index(as_bytes(whole), name="a")
    assert np.diff(positions).tolist() == lengths
    assert own_bytes == item_bytes
