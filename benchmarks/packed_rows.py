"""The measurement of a process that reads packed rows, the same for every method.

A function opens a method, so that all of its opening is timed, and returns a function that fills
the next batch. The process runs on one CPU. Timed are the first batch and then the batches after
it; a second reading from the start, which is not timed, is hashed.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import resident

ROWS, LENGTH = 32, 2048

Numbers = npt.NDArray[Any]
NextBatch = Callable[[], tuple[Numbers, Numbers]]
"""Returns inputs and targets of the next batch, in the same memory each time."""


def keep_to_one_cpu() -> None:
    """Restrict this process and its threads to one CPU."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def report(
    open_rows: Callable[[], NextBatch], *, batches: int, hashed: int, started: float
) -> None:
    """Read `batches` batches after the first, hash `hashed`, and print one line of JSON.

    Args:
        open_rows: opens everything and returns a function that fills the next batch.
        batches: the number of timed batches.
        hashed: the number of first batches that are hashed.
        started: the start of the process by `time.monotonic`.
    """
    begin = time.monotonic()
    next_batch = open_rows()
    next_batch()
    first = time.monotonic()
    start, used = time.perf_counter(), time.process_time()
    for _ in range(batches):
        next_batch()
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    peak = resident.peak()
    answer, filled = _answer(open_rows(), hashed)
    tokens = batches * ROWS * LENGTH * filled
    figures = {
        "seconds": seconds / tokens,
        "cpu": cpu / tokens,
        "filled": filled,
        "start_to_first": first - started,
        "open_to_first": first - begin,
        "peak_bytes": peak,
        "answer": answer,
    }
    print(json.dumps(figures))


def _answer(next_batch: NextBatch, batches: int) -> tuple[str, float]:
    """Return the hash of the first batches, and the share of their places without padding."""
    digest, filled = hashlib.sha256(), 0
    for _ in range(batches):
        inputs, targets = next_batch()
        digest.update(inputs.astype("<i8").tobytes())
        digest.update(targets.astype("<i8").tobytes())
        filled += num_filled(targets)
    return digest.hexdigest(), filled / (batches * ROWS * LENGTH)


def num_filled(targets: Numbers) -> int:
    """Return the number of places up to the last target of each row; the rest is padding.

    >>> num_filled(np.array([[5, -1, 7, -1], [-1, -1, -1, -1]]))
    3
    """
    has_target = targets[:, ::-1] >= 0
    behind = np.argmax(has_target, axis=1)
    return int((targets.shape[1] - behind)[has_target.any(axis=1)].sum())
