"""Limits of time in tests, as multiples of what this machine needs: 1 on a quiet development one.

A slow machine is measured once, by a fixed piece of work. A busy one is measured at each use, by
the processes that wait for a CPU.
"""

import functools
import os
import time

PIECE_SECONDS = 0.02
"""CPU seconds within which a development machine runs `_piece`; it needs about 0.011."""

PIECES = 5
LARGEST = 20.0
"""A test that hangs must end, even on a machine whose load cannot be read correctly."""


def _piece() -> int:
    return sum(number * number for number in range(200_000))


@functools.cache
def _measured() -> tuple[float, float]:
    """Return how slow the CPU is, and which share of the time this process had to wait for it."""
    began, began_cpu = time.perf_counter(), time.process_time()
    for _ in range(PIECES):
        _piece()
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    return cpu_seconds / PIECES / PIECE_SECONDS, seconds / cpu_seconds


def slowness() -> float:
    """Return how many times slower than a quiet development machine this one is now, at least 1."""
    cpu, waiting = _measured()
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(max(cpu, 1.0) * max(waiting if waiting > 1.25 else 1.0, load, 1.0), LARGEST)


def scaled(seconds: float) -> float:
    """Return a limit of time that a quiet development machine keeps, for this machine now."""
    return seconds * slowness()
