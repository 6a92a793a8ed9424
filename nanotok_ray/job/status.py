"""The run status of an output, determined from its lease, journal, plan and manifest.

Reading the status changes nothing and does not start Ray. Clocks of two machines can differ: a
time by this machine's clock is marked as such. Malformed files raise no error; only storage does.
"""

from dataclasses import dataclass

from nanotok_ray.formats import MANIFEST_NAME, PLAN_NAME
from nanotok_ray.job.holder import Holder
from nanotok_ray.job.journal import (
    DONE,
    FAILED,
    INTERRUPTED,
    TERMINATED,
    RunEnd,
    RunJournal,
    read_journal,
)
from nanotok_ray.job.lease import EXPIRY_SECONDS, RENEW_SECONDS, Seen, lease_in_force
from nanotok_ray.storage import Folder

NOTHING, PLANNED = "nothing", "never run"
RUNNING, DEAD = "running", "dead"
FINISHED, TRAINED, UNFINISHED = "finished", "trained", "unfinished"

SILENT_SECONDS = RENEW_SECONDS * 4 / 3
"""Seconds without a sign of life after which nothing is estimated of a run."""

WELL = (RUNNING, FINISHED, TRAINED)
"""States that need no action; all other states do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStatus:
    """The run status of an output."""

    state: str
    why: str
    """The reason for the state as text; empty if the state needs no explanation."""
    is_published: bool
    """Whether the manifest exists."""
    lease: Seen | None = None
    journal: RunJournal | None = None
    silent: float | None = None
    """Seconds since the run last wrote its lease or journal, by this machine's clock; None if the
    run has ended or the time is unknown."""

    @property
    def is_silent(self) -> bool:
        """Whether a run that has not ended missed a renewal of its lease."""
        return self.silent is not None and self.silent > SILENT_SECONDS


def run_status(out: Folder, *, now: float) -> RunStatus:
    """Return the status of the last run of an output.

    Args:
        out: the output folder.
        now: seconds since 1970 by this machine's clock.

    Raises:
        TransientIOError: a remote store failed temporarily.
    """
    lease = lease_in_force(out)
    journal = read_journal(out)
    is_published = out.exists(MANIFEST_NAME)
    if lease is None and journal is None:
        return _without_a_run(out, is_published=is_published)
    if lease is not None and not _is_of(journal, lease):
        journal = None
    updated = max(journal.last_at if journal else 0.0, _renewed(lease))
    silent = max(0.0, now - updated) if updated else None
    state, why = _state(lease, journal, silent=silent, is_published=is_published)
    return RunStatus(
        state=state,
        why=why,
        is_published=is_published,
        lease=lease,
        journal=journal,
        silent=silent if state in {RUNNING, DEAD} else None,
    )


def _state(
    lease: Seen | None,
    journal: RunJournal | None,
    *,
    silent: float | None,
    is_published: bool,
) -> tuple[str, str]:
    """Return the state and the reason for it."""
    end = None if journal is None else journal.end
    if lease is not None and not lease.is_released:
        state, why = _of_holder(lease.holder, silent)
        if state == RUNNING or end is None:
            return state, why
    elif end is None and silent is not None and silent <= EXPIRY_SECONDS:
        return RUNNING, "it wrote to its journal a moment ago, though it no longer holds the lease"
    if journal is not None and end is not None:
        return _of_end(journal, end, is_published=is_published)
    if is_published:
        return FINISHED, ""
    return UNFINISHED, "the last run did not record how it ended"


def _without_a_run(out: Folder, *, is_published: bool) -> RunStatus:
    if is_published:
        return RunStatus(state=FINISHED, why="there is no record of the run", is_published=True)
    state = PLANNED if out.exists(PLAN_NAME) else NOTHING
    return RunStatus(state=state, why="", is_published=False)


def _is_of(journal: RunJournal | None, lease: Seen) -> bool:
    """Return whether the journal belongs to the run that holds the lease, or to a later run."""
    if journal is None or journal.run == lease.number or lease.is_released:
        return True
    holder = lease.holder
    is_same = (journal.head.host, journal.head.pid) == (holder.host, holder.pid)
    return is_same and journal.end is None


def _of_holder(holder: Holder, silent: float | None) -> tuple[str, str]:
    me = Holder.this_process()
    if holder.is_dead(me):
        return DEAD, "its process has ended without releasing the output"
    if holder.lives(me):
        return RUNNING, "its process is alive on this machine"
    if silent is not None and silent <= SILENT_SECONDS:
        return RUNNING, ""
    silence = "" if silent is None else f" for {silent:,.0f} s by this machine's clock"
    every = f"a running job renews it every {RENEW_SECONDS:.0f} s"
    if silent is not None and silent <= EXPIRY_SECONDS:
        return RUNNING, f"its lease was not renewed{silence}, and it may be dead; {every}"
    return DEAD, f"its lease was not renewed{silence}; {every}"


def _of_end(journal: RunJournal, end: RunEnd, *, is_published: bool) -> tuple[str, str]:
    status = end.status
    if status == DONE and is_published:
        return FINISHED, ""
    if status == DONE and journal.head.command == "train":
        return TRAINED, "the run learned the tokenizer and was not asked to tokenize the corpus"
    if status in (FAILED, INTERRUPTED, TERMINATED):
        return status, end.error or ""
    missing = "the manifest is missing"
    return UNFINISHED, missing if status == DONE else "the run did not record how it ended"


def _renewed(lease: Seen | None) -> float:
    """Return the time of the last write of the lease, by its holder's clock.

    The time is 0 if the lease was released or names no time, or if the output has no lease.
    """
    return 0.0 if lease is None or lease.is_released else lease.renewed_at
