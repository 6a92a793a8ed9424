"""How many threads to take where the caller names no number.

Looks at the cores of this process and at Ray, if it is imported. Imports nothing of either.
"""

import os
import sys


def default_threads() -> int:
    """Give the cores this process may use; one inside a Ray worker, as Ray gave out the others."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        worker = getattr(ray.get_runtime_context(), "worker", None)
        if getattr(worker, "mode", None) == ray.WORKER_MODE:
            return 1
    return len(os.sched_getaffinity(0))
