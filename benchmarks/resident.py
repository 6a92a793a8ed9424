"""Resident memory of a process: its current value, and its peak since a reset.

The argument is the id of a process of the same user, or `self`. The values are those of
/proc/ID/status; a reset writes 5 to /proc/ID/clear_refs. Both are exact to a few pages and count
resident pages: untouched memory is not included, freed memory that the allocator keeps is. A reset
first returns freed memory to the system, so that it hides no growth.
"""

import ctypes
import gc
from pathlib import Path


def now(process: str = "self") -> int:
    """Return the resident bytes."""
    return _status(process, "VmRSS")


def peak(process: str = "self") -> int:
    """Return the peak of resident bytes since the last reset."""
    return _status(process, "VmHWM")


def reset_peak(process: str = "self") -> int:
    """Reset the peak; return the resident bytes, relative to which growth is measured.

    For another process, freed memory is not returned to the system first.
    """
    if process == "self":
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    Path(f"/proc/{process}/clear_refs").write_text("5")
    return now(process)


def _status(process: str, name: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
