"""Refused arguments of the core's packing, and edge cases that other tests do not cover."""

import re

import numpy as np
import pytest

from nanotok_ray import _core
from nanotok_ray.errors import NanotokError, PackingError

MOST = 2**32 - 1


def int64(values):
    return np.array(values, np.int64)


def test_ids_of_32_bits_fit_int64_and_are_refused_for_int32():
    ids = [np.array([1, MOST, 2], np.uint32)]
    columns = int64([0]), int64([0]), int64([3]), int64([0, 1])
    inputs, targets = np.zeros((1, 2), np.int64), np.zeros((1, 2), np.int64)
    _core.fill_rows(ids, None, *columns, inputs, targets, pad=0)
    assert (inputs.tolist(), targets.tolist()) == ([[1, MOST]], [[MOST, 2]])
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
    f"document 1 has {MOST + 1} tokens: it must be 0 to {MOST}": (
        lambda: _core.window_rows(int64([1, MOST + 1]), 4)
    ),
    f"document 1 has 5 tokens and a row holds 4: {LEFT_OUT}": (
        lambda: _core.best_fit_rows(int64([4, 5, 6]), 4, keep_rest=False)
    ),
    f"length is -3: {RANGE}": lambda: _core.window_rows(int64([1]), -3),
    f"capacity is 4294967296: {RANGE}": lambda: _core.BestFitBuffer(MOST + 1, 1),
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
