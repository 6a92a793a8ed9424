"""Decoding many rows at once equals decoding row by row."""

from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer import Model, Tokenizer

MERGES = ((97, 98), (256, 256), (257, 257), (258, 258), (259, 256), (0xC3, 0xA9), (0xF0, 0x9F))
SPECIAL = {"<|bos|>": 263, "<é>": 264, "<|far|>": 300, "<|farther|>": 65_000}
TOKENS = [*range(265), 300, 65_000]

# Bytes of complete, truncated and overlong characters, surrogates and values beyond the last.
hard = st.sampled_from([0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xED, 0xA0, 0x80, 0xF0, 0x9F, 0xF4, 0x90])
ids_of_rows = st.lists(st.lists(st.sampled_from(TOKENS) | hard, max_size=8), max_size=8)
widths = st.sampled_from([np.uint16, np.uint32])


@pytest.fixture(scope="module")
def tokenizer():
    version = _core.UNICODE_VERSION
    model = Model(pattern=".", unicode_version=version, merges=MERGES, special_tokens=SPECIAL)
    return Tokenizer(model)


def packed(rows, dtype=np.uint16):
    offsets = np.array([0, *accumulate(map(len, rows))], np.int64)
    return np.array([number for row in rows for number in row], dtype), offsets


@given(ids_of_rows, widths)
def test_each_row_equals_the_result_of_decode(tokenizer, rows, dtype):
    ids, offsets = packed(rows, dtype)
    text = tokenizer.decode_batch(ids, offsets)
    assert text.type == pa.large_string()
    text.validate(full=True)
    assert text.to_pylist() == [tokenizer.decode(row) for row in rows]
    data = tokenizer.decode_batch(ids, offsets, as_bytes=True)
    assert data.type == pa.large_binary()
    assert data.to_pylist() == [tokenizer.decode_bytes(row) for row in rows]


@given(st.lists(st.lists(hard, max_size=12), max_size=8))
def test_invalid_utf8_is_replaced_as_in_python(tokenizer, rows):
    found = tokenizer.decode_batch(*packed(rows)).to_pylist()
    assert found == [bytes(row).decode(errors="replace") for row in rows]


@pytest.mark.parametrize("number", [265, 301, 65_535])
def test_an_unknown_id_is_named_with_its_row(tokenizer, number):
    rows = [[97], [], [98, number, number + 1 & 0xFFFF]]
    message = f"Invalid token for decoding: {number}"
    for dtype in (np.uint16, np.uint32):
        with pytest.raises(KeyError, match=f"{message}, in row 2"):
            tokenizer.decode_batch(*packed(rows, dtype))
        for length in (3, 100):
            with pytest.raises(KeyError, match=f"^'{message}'$"):
                tokenizer.decode(np.array([*[97] * length, number], dtype))


IDS = np.array([97, 98], np.uint16)
WRONG = [
    (IDS, np.array([0, 3]), TokenizerError, "offset 1 is 3, outside the 2 ids"),
    (IDS, np.array([-1, 2]), TokenizerError, "offset 0 is -1, outside the 2 ids"),
    (IDS, np.array([0, 2, 1]), TokenizerError, "offset 2 is smaller than the one before"),
    (IDS, np.array([], np.int64), TokenizerError, "offsets are empty"),
    (IDS.astype(np.int64), np.array([0, 2]), TypeError, "ids must be .* uint16 or uint32, got 1-d"),
    ([97], np.array([0, 1]), TypeError, "ids must be .*, got <class 'list'>"),
    (IDS.reshape(1, 2), np.array([0, 1]), TypeError, "got 2-d uint16"),
    (IDS, np.array([0, 2], np.int32), TypeError, "offsets must be a 1-d array of int64, got 1-d"),
]


@pytest.mark.parametrize(("ids", "offsets", "error", "message"), WRONG, ids=range(len(WRONG)))
def test_arrays_that_do_not_match_are_refused(tokenizer, ids, offsets, error, message):
    with pytest.raises(error, match=message):
        tokenizer.decode_batch(ids, offsets)
