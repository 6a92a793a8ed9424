"""Time limits of tests, as multiples of the speed of a quiet development machine.

A slow machine is measured once, with a fixed piece of work. A busy one is measured at each use,
from the processes that wait for a CPU.
"""

import functools
import os
import time

PIECE_SECONDS = 0.02
"""CPU seconds in which a development machine runs `_piece`, which takes about 0.011 s."""

PIECES = 5
MAX_FACTOR = 20.0
"""A hanging test must end, even on a machine whose load cannot be read correctly."""


def _piece() -> int:
    return sum(number * number for number in range(200_000))


@functools.cache
def _measured() -> tuple[float, float]:
    """Return the slowness of the CPU, and the share of time for which this process had to wait."""
    began, began_cpu = time.perf_counter(), time.process_time()
    for _ in range(PIECES):
        _piece()
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    return cpu_seconds / PIECES / PIECE_SECONDS, seconds / cpu_seconds


def slowness() -> float:
    """Return the current slowness relative to a quiet development machine, at least 1."""
    cpu, waiting = _measured()
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(max(cpu, 1.0) * max(waiting if waiting > 1.25 else 1.0, load, 1.0), MAX_FACTOR)


def scaled(seconds: float) -> float:
    """Return a time limit of a quiet development machine for this machine now."""
    return seconds * slowness()
