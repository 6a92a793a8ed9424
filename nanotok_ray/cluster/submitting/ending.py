"""What the end of a job means: the exit code that tells the truth.

Takes the last state of a job and what it printed of itself; looks into the output. Does not know
how it was submitted or followed.
"""

import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nanotok_ray.cluster.submitting.model import FAILED, STOPPED, JobState
from nanotok_ray.formats.manifest import MANIFEST_NAME, TOKENIZER_FOLDER
from nanotok_ray.formats.paths import local_path
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.folder import READABLE_NAME

STOPPED_CODE = 7
"""The exit code for a job that was stopped."""

UNFINISHED_CODE = 4
_OWN_CODES = frozenset({1, 2, 3, 4, 5, 6, 130, 143})
"""Exit codes of a driver that say why; any other is 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """What a job came to."""

    status: str
    """`done` or `unchanged`, else `failed`, `stopped` or `unfinished`."""
    exit_code: int
    told: str
    """One sentence for people."""


def ending_of(
    state: JobState, *, summary: Mapping[str, Any] | None, job: str, output: str
) -> Ending:
    """Say what a job came to.

    Args:
        state: its last state, which has ended.
        summary: the last line of its stdout, if it was seen.
        job: prepare, train or tokenize.
        output: its output folder, a path or URL, as far as that is known here.
    """
    if state.status == STOPPED:
        return Ending(status="stopped", exit_code=STOPPED_CODE, told="the job was stopped")
    if state.status == FAILED:
        code = state.exit_code if state.exit_code in _OWN_CODES else 1
        told = f"the job failed{_of_driver(state)}"
        return Ending(status="failed", exit_code=code or 1, told=told)
    output = str((summary or {}).get("output", output))
    return _succeeded(output, last_file(job), (summary or {}).get("status"))


def _of_driver(state: JobState) -> str:
    """Say how the driver ended.

    >>> _of_driver(JobState(status="FAILED", exit_code=3))
    "; its driver's exit code 3"
    >>> _of_driver(JobState(status="FAILED", exit_code=-9))
    '; its driver was killed by SIGKILL: the same command goes on from there'
    """
    if state.exit_code is None:
        return ""
    if state.exit_code >= 0:
        return f"; its driver's exit code {state.exit_code}"
    with suppress(ValueError):
        name = signal.Signals(-state.exit_code).name
        return f"; its driver was killed by {name}: the same command goes on from there"
    return f"; its driver was killed by signal {-state.exit_code}"


def _succeeded(output: str, name: str, own_status: object) -> Ending:
    says_done = own_status in {"done", "unchanged"}
    status = str(own_status) if says_done else "done"
    try:
        is_there = _is_there(output, name)
        told = f"{output} is no folder of this machine"
    except Exception as error:  # of any store's own kind: it only says that we see nothing
        is_there, told = None, f"{output} cannot be read from here ({error})"
    if is_there:
        return Ending(status=status, exit_code=0, told=f"the job succeeded: {output}")
    if is_there is None and says_done:
        return Ending(
            status=status, exit_code=0, told=f"the job succeeded; {told}, so its own word counts"
        )
    reason = f"there is no {output}/{name}" if is_there is False else f"{told}, its log neither"
    return Ending(
        status="unfinished",
        exit_code=UNFINISHED_CODE,
        told=f"the job says that it succeeded, but {reason}: run `nanotok verify {output}` where "
        "the output is",
    )


def last_file(job: str) -> str:
    """Give the name of the file that a job writes last in its output.

    >>> last_file("prepare"), last_file("train")
    ('manifest.json', 'tokenizer/tokenizer.txt')
    """
    return f"{TOKENIZER_FOLDER}/{READABLE_NAME}" if job == "train" else MANIFEST_NAME


def _is_there(output: str, name: str) -> bool | None:
    """Tell whether a file is there; None where this machine does not have the folder."""
    path = local_path(output)
    if path is not None and not Path(path).is_dir():
        return None
    return Folder(output).exists(name)
