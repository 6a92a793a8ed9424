"""The compiled core: counting, learning, encoding, decoding, packing."""

import pickle
import re
import threading
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS, SPLIT_PATTERN
from nanotok_ray.errors import (
    CountOverflowError,
    NanotokError,
    PackingError,
    PatternError,
    SplitError,
    TokenizerError,
)
from nanotok_ray.tokenizer import Model, Tokenizer
from tests.support.count_runs import run_of

NANOCHAT = SPLIT_PATTERN
TEXT = "Hello hello 12345 world's\n\n   the theme, there; it's naïve 世界 世界!\r\n"


def batch(documents):
    documents = [d.encode() if isinstance(d, str) else d for d in documents]
    ends = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return np.frombuffer(b"".join(documents), np.uint8), ends


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_document_hashes_equal_xxhash(documents):
    expected = [xxhash.xxh3_64_intdigest(document) for document in documents]
    assert _core.hash_documents(*batch(documents)).tolist() == expected
    assert [_core.hash64(document) for document in documents] == expected


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@given(document=st.binary() | st.text().map(str.encode))
def test_joined_spans_equal_the_document(pattern, document):
    spans = _core.Splitter(pattern).split(document)
    assert b"".join(spans) == document
    assert all(spans)
    assert _core.Splitter(pattern).count_gaps(document) == 0


def test_errors_in_sums_of_runs_name_the_cause():
    hashes, data, offsets, counts = run_of({b"a": 1, b"b": 2, b"c": 3})
    backwards = (hashes[::-1].copy(), data, offsets, counts)
    twice = (hashes[[0, 0]], data[[0, 0]], np.array([0, 1, 2]), counts[[0, 0]])
    for run, weights, message in (
        (backwards, [1], "two: rows are not sorted"),
        (twice, [1], "two: rows are not sorted .*, or a span is repeated"),
        ((hashes, data ^ 4, offsets, counts), [1], "two: the hash64 of span"),
        ((hashes ^ 1, data, offsets, counts), [1], "two: the hash64 of span"),
        ((hashes, data, offsets, counts * 0), [1], "two: the count of span .* is 0"),
        ((hashes, data, offsets, counts[:2]), [1], "two: there are 3 spans but 2 counts"),
        ((hashes, data, offsets[::-1].copy(), counts), [1], "two: offset"),
        ((hashes, data, offsets, counts), [], "weights"),
    ):
        with pytest.raises(TokenizerError, match=message):
            _core.RunSums().add([run_of({b"a": 1}), run], ["one", "two"], [1, *weights])
    with pytest.raises(TokenizerError, match="1 runs, 0 names"):
        _core.RunSums().add([backwards], [], [1])
    parts = [(hashes[at], data, offsets[[at[0], at[-1] + 1]], counts[at]) for at in ([0], [0])]
    with pytest.raises(TokenizerError, match="two: rows are not sorted"):
        _core.RunSums().add([run_of({b"a": 1}), *parts], ["one", "two", "two"], [1, 1, 1])
    with pytest.raises(CountOverflowError, match=r'"b" would pass 2\*\*64 - 1'):
        _core.RunSums().add([(hashes, data, offsets, counts)], ["one"], [2**63])


def merges_of(*pairs):
    return lambda: _core.Encoder("a", np.array(pairs, np.uint32))


def split_badly():
    """Encode documents of which the third has a gap at byte 4."""
    encoder = _core.Encoder("a+", np.empty((0, 2), np.uint32), gaps="error")
    encoder.encode_batch(*batch(["a", "", "aaaabaa", "b"]))


def documents_of(offsets):
    return lambda: _core.hash_documents(np.zeros(4, np.uint8), np.array(offsets, np.int64))


ERRORS = [
    (lambda: _core.Splitter("(?<"), PatternError, "cannot compile the split pattern"),
    (split_badly, SplitError, "document 2 cannot be split at byte 4"),
    (merges_of((97, 256)), TokenizerError, "merge 0 uses id 256"),
    (merges_of((97, 98), (97, 98)), TokenizerError, "merge 1 merges the same pair as merge 0"),
    (merges_of((97, 98, 99)), TokenizerError, r"\(m, 2\) array, not \[1, 3\]"),
    (documents_of([]), TokenizerError, "offsets are empty"),
    (documents_of([0, 5]), TokenizerError, "offset 1 is 5, outside the 4 bytes"),
    (documents_of([-1, 2]), TokenizerError, "offset 0 is -1"),
    (documents_of([0, 3, 2]), TokenizerError, "offset 2 is smaller than the one before"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors_belong_to_the_package_and_pickle(call, error, message):
    with pytest.raises(error, match=message) as raised:
        call()
    assert isinstance(raised.value, NanotokError)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert type(copy) is error
    assert str(copy) == str(raised.value)


def test_arrays_of_another_layout_are_refused():
    encoder = _core.Encoder(NANOCHAT, np.empty((0, 2), np.uint32))
    data, offsets = batch(["abcd"])
    with pytest.raises(TokenizerError, match="data must be a contiguous"):
        encoder.encode_batch(np.frombuffer(b"abcdefgh", np.uint8)[::2], offsets)
    with pytest.raises(TypeError):
        encoder.encode_batch(data, offsets.astype(np.int32))
    with pytest.raises(TokenizerError, match="C-contiguous"):
        _core.Encoder(NANOCHAT, np.asfortranarray([[97, 98], [256, 99]], np.uint32))


def test_other_threads_run_while_the_core_works():
    """The main thread computes while another one splits, which is impossible with the GIL held."""
    splitter = _core.Splitter(r"(a)\1|b")  # the slow engine
    done = threading.Event()

    def split():
        splitter.count_gaps(b"c" * 3_000_000)
        done.set()

    worker = threading.Thread(target=split)
    worker.start()
    steps = 0
    while not done.is_set():
        steps += 1
    worker.join()
    assert steps > 100


MAX_COUNT = 2**32 - 1


def int64(values):
    return np.array(values, np.int64)


def test_ids_of_32_bits_fit_int64_and_are_refused_for_int32():
    ids = [np.array([1, MAX_COUNT, 2], np.uint32)]
    columns = int64([0]), int64([0]), int64([3]), int64([0, 1])
    inputs, targets = np.zeros((1, 2), np.int64), np.zeros((1, 2), np.int64)
    _core.fill_rows(ids, None, *columns, inputs, targets, pad=0)
    assert (inputs.tolist(), targets.tolist()) == ([[1, MAX_COUNT]], [[MAX_COUNT, 2]])
    narrow = np.zeros((1, 2), np.int32)
    with pytest.raises(PackingError, match=r"^segment 0 has the id 4294967295: rows of int32 hold"):
        _core.fill_rows(ids, None, *columns, narrow, narrow.copy(), pad=0)
    assert narrow.tolist() == [[0, 0]]


def test_views_of_one_array_can_be_filled():
    batch = np.zeros((2, 3, 4), np.int32)
    ids = np.arange(9, dtype=np.uint16)
    ids.flags.writeable = False
    columns = int64([0, 0, 0]), int64([0, 2, 1]), int64([5, 5, 5]), int64([0, 1, 2, 3])
    _core.fill_rows([ids], None, *columns, batch[0], batch[1], pad=0)
    assert batch[0].tolist() == [[0, 1, 2, 3], [2, 3, 4, 5], [1, 2, 3, 4]]
    assert batch[1].tolist() == [[1, 2, 3, 4], [3, 4, 5, 6], [2, 3, 4, 5]]


def right_fill():
    """Valid arguments of a fill."""
    return {
        "ids": [np.arange(3, dtype=np.uint16)],
        "masks": None,
        "which": int64([0, 0]),
        "offsets": int64([0, 1]),
        "lengths": int64([3, 2]),
        "rows": int64([0, 1, 2]),
        "inputs": np.full((2, 2), 7, np.int64),
        "targets": np.full((2, 2), 7, np.int64),
        "pad": 0,
    }


BOTH, EMPTY = np.zeros((2, 2), np.int64), np.zeros((2, 0), np.int64)
NARROW = np.zeros((2, 2), np.int32)
FIXED = BOTH.copy()
FIXED.flags.writeable = False
ROWS = "must be an array of rows, int32 or int64, and of two dimensions"
ALIGNED = "must be a C-contiguous, aligned array"
PARTS = np.zeros((2, 4), np.int64)[:, ::2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lengths": int64([3, 3])}, "segment 1 is 3 ids from 1 on: array 0 has 3"),
        ({"masks": []}, "0 masks and 1 arrays of ids"),
        ({"masks": [np.ones(4, np.uint8)]}, "the mask of array 0 has 4 entries: the array has 3"),
        (
            {"inputs": EMPTY, "targets": EMPTY.copy()},
            "length is 0: it must be from 1 to 9223372036854775807",
        ),
        ({"targets": BOTH[:1]}, "inputs are of shape [2, 2], targets of shape [1, 2]"),
        ({"targets": NARROW}, "inputs and targets must be of one type, int32 or int64"),
        ({"inputs": np.zeros((2, 2), np.int16)}, f"inputs {ROWS}"),
        ({"targets": np.zeros(4, np.int64)}, f"targets {ROWS}"),
        ({"targets": PARTS}, f"targets {ALIGNED}"),
        ({"inputs": np.asfortranarray(BOTH)}, f"inputs {ALIGNED}"),
        ({"inputs": FIXED}, "inputs cannot be written to"),
        ({"inputs": BOTH, "targets": BOTH}, "targets share memory with another array in use"),
        ({"which": int64([0, 0, 0, 0])[::2]}, "which must be a contiguous, aligned array"),
        (
            {"inputs": NARROW, "targets": NARROW.copy(), "pad": 2**31},
            f"pad is {2**31}: rows are int32",
        ),
    ],
)
def test_an_invalid_fill_is_refused_and_writes_nothing(changed, message):
    arguments = right_fill() | changed
    before = [arguments[name].copy() for name in ("inputs", "targets")]
    with pytest.raises(PackingError, match=f"^{re.escape(message)}$"):
        _core.fill_rows(**arguments)
    for name, values in zip(("inputs", "targets"), before, strict=True):
        assert np.array_equal(arguments[name], values)


RANGE = "it must be from 1 to 4294967295"
LEFT_OUT = "leave it out, cut it before, or keep the rest of what is cut"
WRONG = {
    f"document 1 has {MAX_COUNT + 1} tokens: it must be 0 to {MAX_COUNT}": (
        lambda: _core.window_rows(int64([1, MAX_COUNT + 1]), 4)
    ),
    f"document 1 has 5 tokens and a row holds 4: {LEFT_OUT}": (
        lambda: _core.best_fit_rows(int64([4, 5, 6]), 4, keep_rest=False)
    ),
    f"length is -3: {RANGE}": lambda: _core.window_rows(int64([1]), -3),
    f"capacity is 4294967296: {RANGE}": lambda: _core.BestFitBuffer(MAX_COUNT + 1, 1),
    "max_rows is -1: it must be 0 or more": lambda: _core.BestFitBuffer(4, 1).pack(-1),
    "max_rows is -2: it must be 0 or more": lambda: _core.BestFitBuffer(4, 1).skip(-2),
    f"buffer_size is 0: {RANGE}": lambda: _core.BestFitBuffer(1, 0),
    "lengths must be a contiguous, aligned array": (
        lambda: _core.window_rows(int64([1, 2, 3, 4])[::2], 4)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_lengths_are_refused_by_name(message):
    with pytest.raises(PackingError, match=f"^{re.escape(message)}$") as caught:
        WRONG[message]()
    assert isinstance(caught.value, NanotokError)
    assert isinstance(caught.value, ValueError)


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
    for dtype in (np.uint16, np.uint32):
        with pytest.raises(KeyError, match=f"Invalid token for decoding: {number}, in row 2"):
            tokenizer.decode_batch(*packed(rows, dtype))


IDS = np.array([97, 98], np.uint16)
REFUSED_BATCHES = [
    (IDS, np.array([0, 3]), TokenizerError, "offset 1 is 3, outside the 2 ids"),
    (IDS, np.array([-1, 2]), TokenizerError, "offset 0 is -1, outside the 2 ids"),
    (IDS, np.array([0, 2, 1]), TokenizerError, "offset 2 is smaller than the one before"),
    (IDS, np.array([], np.int64), TokenizerError, "offsets are empty"),
    (IDS.astype(np.int64), np.array([0, 2]), TypeError, "ids must be .* uint16 or uint32, got 1-d"),
    ([97], np.array([0, 1]), TypeError, "ids must be .*, got <class 'list'>"),
    (IDS.reshape(1, 2), np.array([0, 1]), TypeError, "got 2-d uint16"),
    (IDS, np.array([0, 2], np.int32), TypeError, "offsets must be a 1-d array of int64, got 1-d"),
]


@pytest.mark.parametrize(
    ("ids", "offsets", "error", "message"), REFUSED_BATCHES, ids=range(len(REFUSED_BATCHES))
)
def test_arrays_that_do_not_match_are_refused(tokenizer, ids, offsets, error, message):
    with pytest.raises(error, match=message):
        tokenizer.decode_batch(ids, offsets)
