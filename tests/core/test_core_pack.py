"""The core's packing against its plain twins, and nanochat's plain loader against its answers."""

import json
import re
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.errors import NanotokError, PackingError
from nanotok_ray.tokenizer import Tokenizer
from tests.support.plain_nanochat import plain_batches
from tests.support.plain_packing import (
    PlainBestFitBuffer,
    plain_best_fit_rows,
    plain_fill_rows,
    plain_window_rows,
)

VECTORS = Path(__file__).parents[1] / "vectors"
MOST = 2**32 - 1
HUGE = 2**31

# Few different lengths, so that many are equal; some of none, some longer than a row.
short_lists = st.lists(st.integers(0, 12) | st.integers(0, 60), max_size=40)
huge = st.sampled_from([0, 1, HUGE - 1, HUGE, HUGE + 1, MOST - 1, MOST])


def int64(values):
    return np.array(values, np.int64)


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


@given(short_lists, st.integers(1, 50), st.booleans())
def test_best_fit_rows_are_the_plain_twins(lengths, capacity, keep_rest):
    if not keep_rest:
        lengths = [min(length, capacity) for length in lengths]
    found = _core.best_fit_rows(int64(lengths), capacity, keep_rest=keep_rest)
    assert_same(found, plain_best_fit_rows(lengths, capacity, keep_rest=keep_rest))


@given(st.lists(huge, max_size=8), st.sampled_from([HUGE - 1, HUGE, MOST - 1, MOST]))
def test_best_fit_rows_of_huge_documents_are_the_plain_twins(lengths, capacity):
    found = _core.best_fit_rows(int64(lengths), capacity, keep_rest=True)
    assert_same(found, plain_best_fit_rows(lengths, capacity, keep_rest=True))


def test_best_fit_takes_the_first_of_equal_documents_and_cuts_the_longest():
    documents, starts, lengths, rows = _core.best_fit_rows(int64([3, 9, 3, 9]), 7, keep_rest=True)
    # Row 0: 3, 3, then 1 of the first 9. Row 1: nothing fits, 7 of the second 9. Then the rests.
    assert documents.tolist() == [0, 2, 1, 3, 3, 1, 1]
    assert starts.tolist() == [0, 0, 0, 0, 7, 1, 6]
    assert lengths.tolist() == [3, 3, 1, 7, 2, 5, 3]
    assert rows.tolist() == [0, 3, 4, 6, 7]


@given(short_lists, st.integers(1, 50))
def test_window_rows_are_the_plain_twins(lengths, length):
    found = _core.window_rows(int64(lengths), length)
    assert_same(found, plain_window_rows(lengths, length))
    assert len(found[3]) - 1 == -(-sum(lengths) // length)


def test_windows_reach_over_documents_of_over_31_bits():
    documents, starts, lengths, rows = _core.window_rows(int64([HUGE, 0, MOST]), HUGE + 5)
    assert documents.tolist() == [0, 2, 2, 2]
    assert starts.tolist() == [0, 0, 5, HUGE + 10]
    assert lengths.tolist() == [HUGE, 6, HUGE + 6, MOST - HUGE - 10]
    assert rows.tolist() == [0, 2, 3, 4]


steps = st.lists(
    st.tuples(
        st.lists(st.integers(1, 9) | st.integers(1, 60), max_size=25),
        st.integers(0, 6),
        st.booleans(),
    ),
    max_size=12,
)


@given(steps, st.integers(1, 50), st.integers(1, 30))
def test_the_buffer_is_its_plain_twin_whatever_is_pushed_and_asked(steps, capacity, buffer_size):
    buffer = _core.BestFitBuffer(capacity, buffer_size)
    plain = PlainBestFitBuffer(capacity, buffer_size)
    for lengths, max_rows, skips in steps:
        buffer.push(int64(lengths))
        plain.push(lengths)
        if skips:
            assert buffer.skip(max_rows) == plain.skip(max_rows)
        else:
            assert_same(buffer.pack(max_rows), plain.pack(max_rows))
        for name in ("num_rows", "num_tokens", "cropped_tokens", "cropped_documents"):
            assert getattr(buffer, name) == getattr(plain, name)
        assert buffer.needs_documents is plain.needs_documents


@given(st.lists(huge.filter(bool), min_size=1, max_size=8), st.sampled_from([1, HUGE, MOST]))
def test_the_buffer_takes_huge_documents(lengths, capacity):
    buffer, plain = _core.BestFitBuffer(capacity, 1), PlainBestFitBuffer(capacity, 1)
    buffer.push(int64(lengths))
    plain.push(lengths)
    assert_same(buffer.pack(2**62), plain.pack(2**62))
    assert buffer.cropped_tokens == plain.cropped_tokens


def test_a_row_that_waits_for_documents_goes_on_with_them():
    buffer = _core.BestFitBuffer(10, 2)
    buffer.push(int64([4, 3]))
    assert_same(buffer.pack(5), PlainBestFitBuffer(10, 2).pack(5))  # the 4 is placed, no row
    assert (buffer.num_rows, buffer.num_tokens, buffer.needs_documents) == (0, 4, True)
    buffer.push(int64([6]))
    documents, lengths, rows = buffer.pack(5)
    assert (documents.tolist(), lengths.tolist(), rows.tolist()) == ([0, 2], [4, 6], [0, 2])


def test_a_refused_push_leaves_the_buffer_as_it_was():
    buffer = _core.BestFitBuffer(4, 1)
    buffer.push(int64([3]))
    with pytest.raises(PackingError, match=r"^document 2 has 0 tokens: it must be 1 to 4294967295"):
        buffer.push(int64([2, 0]))
    with pytest.raises(PackingError, match=r"^max_rows is -1: it must be 0 or more$"):
        buffer.pack(-1)
    with pytest.raises(PackingError, match=r"^max_rows is -1: it must be 0 or more$"):
        buffer.skip(-1)
    buffer.push(int64([1]))
    documents, lengths, _ = buffer.pack(9)
    assert (documents.tolist(), lengths.tolist()) == ([0, 1], [3, 1])
    assert (buffer.num_tokens, buffer.cropped_tokens, buffer.cropped_documents) == (4, 0, 0)


@st.composite
def filled(draw):
    """Arguments of fill_rows but for what is written."""
    types = st.sampled_from([np.uint16, np.uint32])
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ids, masks = [], []
    for size in draw(st.lists(st.integers(0, 40), min_size=1, max_size=5)):
        kind = draw(types)
        ids.append(rng.integers(0, 2**16 if kind is np.uint16 else 2**31, size).astype(kind))
        masks.append(rng.integers(0, 3, size).astype(np.uint8) if draw(st.booleans()) else None)
    length = draw(st.integers(1, 40))
    columns, rows = [], [draw(st.integers(0, 2))]
    columns += [(0, 0, 0)] * rows[0]  # segments before the first row are left alone
    for _ in range(draw(st.integers(0, 5))):
        room = length + 1
        for _ in range(draw(st.integers(0, 5))):
            array = draw(st.integers(0, len(ids) - 1))
            offset = draw(st.integers(0, len(ids[array])))
            taken = draw(st.integers(0, min(room, len(ids[array]) - offset)))
            columns.append((array, offset, taken))
            room -= taken
        rows.append(len(columns))
    which, offsets, lengths = int64(columns).reshape(-1, 3).T.copy()
    given_masks = draw(st.sampled_from([masks, None]))
    return length, (ids, given_masks, which, offsets, lengths, int64(rows))


@given(filled(), st.sampled_from([np.int32, np.int64]), st.integers(-(2**31), 2**31 - 1))
def test_filled_rows_are_the_plain_twins(arguments, kind, pad):
    length, arguments = arguments
    shape = (len(arguments[-1]) - 1, length)
    found = [np.full(shape, 77, kind) for _ in range(2)]
    expected = [np.full(shape, 78, kind) for _ in range(2)]
    _core.fill_rows(*arguments, *found, pad=pad)
    plain_fill_rows(*arguments, *expected, pad=pad)
    assert_same(found, expected)


def test_masks_are_of_targets_and_a_row_may_be_empty():
    ids, mask = np.array([5, 6, 7, 8], np.uint16), np.array([1, 0, 9, 0], np.uint8)
    inputs, targets = np.zeros((2, 4), np.int64), np.zeros((2, 4), np.int64)
    rows = int64([0, 0, 1])
    _core.fill_rows([ids], [mask], int64([0]), int64([0]), int64([4]), rows, inputs, targets, pad=9)
    assert inputs.tolist() == [[9, 9, 9, 9], [5, 6, 7, 8]]
    assert targets.tolist() == [[-1, -1, -1, -1], [-1, 7, -1, -1]]


def test_ids_of_32_bits_are_kept_in_int64_and_refused_in_int32():
    ids = [np.array([1, MOST, 2], np.uint32)]
    columns = int64([0]), int64([0]), int64([3]), int64([0, 1])
    inputs, targets = np.zeros((1, 2), np.int64), np.zeros((1, 2), np.int64)
    _core.fill_rows(ids, None, *columns, inputs, targets, pad=0)
    assert (inputs.tolist(), targets.tolist()) == ([[1, MOST]], [[MOST, 2]])
    narrow = np.zeros((1, 2), np.int32)
    with pytest.raises(PackingError, match=r"^segment 0 has the id 4294967295: rows of int32 hold"):
        _core.fill_rows(ids, None, *columns, narrow, narrow.copy(), pad=0)
    assert narrow.tolist() == [[0, 0]]


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_ids_that_there_are_not_are_refused(dtype):
    ids = [np.array([1, 700, 699], dtype), np.array([5], dtype)]
    inputs, targets = np.zeros((1, 3), np.int64), np.zeros((1, 3), np.int64)
    columns = int64([1, 0]), int64([0, 0]), int64([1, 3]), int64([0, 2])
    with pytest.raises(PackingError, match=r"^segment 1 has the id 700: there are ids below 700$"):
        _core.fill_rows(ids, None, *columns, inputs, targets, pad=0, num_ids=700)
    assert not inputs.any()
    _core.fill_rows(ids, None, *columns, inputs, targets, pad=0, num_ids=701)
    assert (inputs.tolist(), targets.tolist()) == ([[5, 1, 700]], [[1, 700, 699]])


def test_views_of_one_array_can_be_filled():
    batch = np.zeros((2, 3, 4), np.int32)
    ids = np.arange(9, dtype=np.uint16)
    ids.flags.writeable = False
    columns = int64([0, 0, 0]), int64([0, 2, 1]), int64([5, 5, 5]), int64([0, 1, 2, 3])
    _core.fill_rows([ids], None, *columns, batch[0], batch[1], pad=0)
    assert batch[0].tolist() == [[0, 1, 2, 3], [2, 3, 4, 5], [1, 2, 3, 4]]
    assert batch[1].tolist() == [[1, 2, 3, 4], [3, 4, 5, 6], [2, 3, 4, 5]]


def right_fill():
    """Arguments of a fill that is right."""
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


def test_a_fill_that_is_right_is_not_refused():
    arguments = right_fill()
    _core.fill_rows(**arguments)
    assert arguments["inputs"].tolist() == [[0, 1], [1, 2]]
    assert arguments["targets"].tolist() == [[1, 2], [2, -1]]


BOTH = np.zeros((2, 2), np.int64)
NARROW = np.zeros((2, 2), np.int32)
FIXED = np.zeros((2, 2), np.int64)
FIXED.flags.writeable = False


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lengths": int64([3, 3])}, "segment 1 is 3 ids from 1 on: array 0 has 3"),
        ({"lengths": int64([3, -1])}, "segment 1 is -1 ids from 1 on: array 0 has 3"),
        ({"offsets": int64([-1, 1])}, "segment 0 is 3 ids from -1 on: array 0 has 3"),
        (
            {"offsets": int64([0, 2**63 - 1]), "lengths": int64([3, 2**63 - 1])},
            f"segment 1 is {2**63 - 1} ids from {2**63 - 1} on: array 0 has 3",
        ),
        ({"which": int64([0, 1])}, "segment 1 is in array 1: there are 1 arrays"),
        ({"which": int64([-1, 0])}, "segment 0 is in array -1: there are 1 arrays"),
        (
            {"rows": int64([0, 2, 2])},
            "segment 1 makes row 0 5 tokens long: a row of 2 inputs takes one more at most",
        ),
        (
            {"rows": int64([0, 3, 2])},
            "row 0 has segments 0 to 3: they must rise, and there are 2",
        ),
        (
            {"rows": int64([1, 0, 2])},
            "row 0 has segments 1 to 0: they must rise, and there are 2",
        ),
        (
            {"rows": int64([-1, 0, 2])},
            "row 0 has segments -1 to 0: they must rise, and there are 2",
        ),
        ({"rows": int64([0, 2])}, "2 ends of rows and not 3"),
        ({"rows": int64([])}, "0 ends of rows and not 3"),
        ({"which": int64([0])}, "1 numbers of arrays and not 2"),
        ({"offsets": int64([0])}, "1 offsets and not 2"),
        ({"masks": []}, "0 masks and 1 arrays of ids"),
        (
            {"masks": [np.ones(4, np.uint8)]},
            "the mask of array 0 has 4 entries: the array has 3",
        ),
        (
            {"inputs": np.zeros((2, 0), np.int64), "targets": np.zeros((2, 0), np.int64)},
            "length is 0: it must be from 1 to 9223372036854775807",
        ),
        (
            {"targets": np.zeros((1, 4), np.int64)},
            "inputs are of shape [2, 2], targets of shape [1, 4]",
        ),
        (
            {"targets": np.zeros((2, 2), np.int32)},
            "inputs and targets must be of one type, int32 or int64",
        ),
        (
            {"inputs": np.zeros((2, 2), np.int16)},
            "inputs must be an array of rows, int32 or int64, and of two dimensions",
        ),
        (
            {"targets": np.zeros(4, np.int64)},
            "targets must be an array of rows, int32 or int64, and of two dimensions",
        ),
        (
            {"targets": np.zeros((2, 4), np.int64)[:, ::2]},
            "targets must be a C-contiguous, aligned array",
        ),
        (
            {"inputs": np.asfortranarray(np.zeros((2, 2), np.int64))},
            "inputs must be a C-contiguous, aligned array",
        ),
        ({"inputs": FIXED}, "inputs cannot be written to"),
        (
            {"inputs": BOTH, "targets": BOTH},
            "targets share memory with another array in use",
        ),
        ({"which": int64([0, 0, 0, 0])[::2]}, "which must be a contiguous, aligned array"),
        (
            {"inputs": NARROW, "targets": NARROW.copy(), "pad": 2**31},
            f"pad is {2**31}: rows are int32",
        ),
    ],
)
def test_a_fill_that_does_not_fit_is_refused_and_writes_nothing(changed, message):
    arguments = right_fill() | changed
    before = arguments["inputs"].copy(), arguments["targets"].copy()
    with pytest.raises(PackingError, match=f"^{re.escape(message)}$"):
        _core.fill_rows(**arguments)
    assert_same((arguments["inputs"], arguments["targets"]), before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: _core.best_fit_rows(int64([1, -1]), 4, keep_rest=True),
            "document 1 has -1 tokens: it must be 0 to 4294967295",
        ),
        (
            lambda: _core.window_rows(int64([1, MOST + 1]), 4),
            "document 1 has 4294967296 tokens: it must be 0 to 4294967295",
        ),
        (
            lambda: _core.best_fit_rows(int64([4, 5, 6]), 4, keep_rest=False),
            (
                "document 1 has 5 tokens and a row holds 4: leave it out, cut it before, or keep "
                "the rest of what is cut"
            ),
        ),
        (
            lambda: _core.best_fit_rows(int64([1]), 0, keep_rest=True),
            "capacity is 0: it must be from 1 to 4294967295",
        ),
        (
            lambda: _core.window_rows(int64([1]), -3),
            "length is -3: it must be from 1 to 4294967295",
        ),
        (
            lambda: _core.BestFitBuffer(MOST + 1, 1),
            "capacity is 4294967296: it must be from 1 to 4294967295",
        ),
        (
            lambda: _core.BestFitBuffer(1, 0),
            "buffer_size is 0: it must be from 1 to 4294967295",
        ),
        (
            lambda: _core.window_rows(int64([1, 2, 3, 4])[::2], 4),
            "lengths must be a contiguous, aligned array",
        ),
    ],
)
def test_wrong_lengths_are_refused_by_name(call, message):
    with pytest.raises(PackingError, match=f"^{re.escape(message)}$") as caught:
        call()
    assert isinstance(caught.value, NanotokError)
    assert isinstance(caught.value, ValueError)


LOADER = json.loads((VECTORS / "loader.json").read_text())


@pytest.fixture(scope="module")
def tokenizer():
    training = json.loads((VECTORS / "training.json").read_text())
    return Tokenizer.train_from_iterator(training["corpora"]["mix"], 565)


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in LOADER["bestfit_cases"]])
def test_the_plain_loader_gives_upstreams_batches(tokenizer, case):
    settings, size = case["args"], LOADER["row_group_size"]
    encoded = [
        tokenizer.encode(LOADER["files"][name], prepend="<|bos|>")
        for name in LOADER[settings["split"] + "_files"]
    ]
    batches = plain_batches(
        [[texts[at : at + size] for at in range(0, len(texts), size)] for texts in encoded],
        rank=settings["rank"],
        world_size=settings["ws"],
        batch_size=settings["B"],
        length=settings["T"],
        size=2,
        buffer_size=settings["nb"],
        state={"epoch": 1} | settings["resume"] if "resume" in settings else None,
    )
    for got, expected in zip(islice(batches, settings["n"]), case["batches"], strict=True):
        assert dict(zip(("inputs", "targets", "state"), got, strict=True)) == expected
