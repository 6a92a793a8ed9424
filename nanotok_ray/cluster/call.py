"""What a worker runs: the slices of one call, one after the other, each with its own outcome.

A slice that raises does not stop the others. Does not know what the slices do, nor how many
attempts they had.
"""

import os
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nanotok_ray.cluster.outcome import Cause, Failure, Outcome
from nanotok_ray.cluster.probes import Probe, see
from nanotok_ray.errors import (
    OF_THE_MACHINE,
    NanotokError,
    TransientIOError,
    os_error_message,
)

Step = tuple[Callable[[Any], Any], Any]
"""What a slice is to a worker: a function and its argument."""

SHOWN_FRAMES = -8


def run_call(steps: Sequence[Step], probes: Sequence[Probe]) -> list[Outcome]:
    """Run slices in turn and give their outcomes.

    Raises:
        SharedFolderError: this node does not see a folder that the job writes to; nothing was run.
        TransientIOError: whether it does cannot be told for now.
    """
    for probe in probes:
        see(probe)
    worker = f"{socket.gethostname()}/{os.getpid()}"
    return [_run(work, argument, worker) for work, argument in steps]


def _run(work: Callable[[Any], Any], argument: object, worker: str) -> Outcome:
    began = time.time()
    return replace(_outcome(work, argument), began=began, worker=worker)


def _outcome(work: Callable[[Any], Any], argument: object) -> Outcome:
    start = time.perf_counter()
    try:
        result = work(argument)
    except TransientIOError as error:
        return _failed(Cause.STORAGE, str(error), start)
    except NanotokError as error:
        return _failed(Cause.ERROR, str(error), start, raised=error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in native code is no Exception
        if isinstance(error, OSError) and error.filename and error.errno in OF_THE_MACHINE:
            return _failed(Cause.ERROR, os_error_message(error), start)
        told = "".join(traceback.format_exception(error, limit=SHOWN_FRAMES)).rstrip()
        return _failed(Cause.ERROR, told, start)
    return Outcome(result=result, seconds=time.perf_counter() - start)


def _failed(
    cause: Cause, text: str, start: float, *, raised: NanotokError | None = None
) -> Outcome:
    return Outcome(seconds=time.perf_counter() - start, failure=Failure(cause, text, raised))
