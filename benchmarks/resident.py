"""Resident memory of this process: how much there is, and the most there was since a reset.

Reads /proc/self/status; the reset is the 5 written to /proc/self/clear_refs. Both are exact to a
few pages, and count what is resident: untouched memory is not, freed memory that the allocator
keeps is. A reset gives back what was freed before it, so that it hides no growth.
"""

import ctypes
import gc
from pathlib import Path


def now() -> int:
    """Give the resident bytes."""
    return _status("VmRSS")


def peak() -> int:
    """Give the most resident bytes since the last reset."""
    return _status("VmHWM")


def reset_peak() -> int:
    """Forget the peak so far; give the resident bytes, from which growth is counted."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return now()


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
