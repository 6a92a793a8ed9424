"""Resident memory of a process: how much there is, and the most there was since a reset.

Takes the id of a process of the same user, or `self`. Reads /proc/ID/status; the reset is the 5
written to /proc/ID/clear_refs. Both are exact to a
few pages, and count what is resident: untouched memory is not, freed memory that the allocator
keeps is. A reset gives back what was freed before it, so that it hides no growth.
"""

import ctypes
import gc
from pathlib import Path


def now(process: str = "self") -> int:
    """Return the resident bytes."""
    return _status(process, "VmRSS")


def peak(process: str = "self") -> int:
    """Return the most resident bytes since the last reset."""
    return _status(process, "VmHWM")


def reset_peak(process: str = "self") -> int:
    """Forget the peak so far; give the resident bytes, from which growth is counted.

    Of another process what it has freed is not given back before.
    """
    if process == "self":
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    Path(f"/proc/{process}/clear_refs").write_text("5")
    return now(process)


def _status(process: str, name: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
