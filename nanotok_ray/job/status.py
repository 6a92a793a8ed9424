"""The run status of an output, from its lease and journal alone: running, dead, done.

Changes nothing and starts no Ray. Clocks of two machines may differ: a time by this machine's
clock is marked as such. Whatever is in the files, nothing is raised but what storage raises.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nanotok_ray.formats.manifest import MANIFEST_NAME, PLAN_NAME
from nanotok_ray.job.journal import DONE, FAILED, INTERRUPTED, TERMINATED, RunJournal, read_journal
from nanotok_ray.job.lease import EXPIRY_SECONDS, Holder, Seen, lease_in_force
from nanotok_ray.storage import Folder

NOTHING, PLANNED = "nothing", "never run"
RUNNING, DEAD = "running", "dead"
FINISHED, TRAINED, UNFINISHED = "finished", "trained", "unfinished"

WELL = (RUNNING, FINISHED, TRAINED)
"""All others want something to be done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStatus:
    """The run status of an output."""

    state: str
    why: str
    """What shows it, in words; empty where the state says all."""
    is_published: bool
    """Whether the manifest is there."""
    lease: Seen | None = None
    journal: RunJournal | None = None
    silent: float | None = None
    """Seconds since the run was last heard of, by this machine's clock; None: it has ended."""


def run_status(out: Folder, *, now: float, me: Holder | None = None) -> RunStatus:
    """Return the status of the last run of an output.

    Args:
        out: the output folder.
        now: seconds since 1970 by this machine's clock.
        me: who looks; None: this process.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    lease = lease_in_force(out)
    journal = read_journal(out)
    is_published = out.exists(MANIFEST_NAME)
    if lease is None and journal is None:
        return _without_a_run(out, is_published=is_published)
    if lease is not None and not _is_of(journal, lease):
        journal = None
    heard = max(journal.last_at if journal else 0.0, _renewed(lease))
    silent = max(0.0, now - heard) if heard else None
    state, why = _state(lease, journal, me, silent=silent, is_published=is_published)
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
    me: Holder | None,
    *,
    silent: float | None,
    is_published: bool,
) -> tuple[str, str]:
    """Return the state, and what shows it."""
    end = None if journal is None else journal.end
    if lease is not None and not lease.is_released:
        state, why = _of_holder(lease.holder, me or Holder.this_process(), silent)
        if state == RUNNING or end is None:
            return state, why
    elif end is None and silent is not None and silent <= EXPIRY_SECONDS:
        return RUNNING, "it was heard a moment ago, though it holds no lease on the output now"
    if journal is not None and end is not None:
        return _of_end(journal, end, is_published=is_published)
    if is_published:
        return FINISHED, ""
    return UNFINISHED, "the last run did not write down how it ended"


def _without_a_run(out: Folder, *, is_published: bool) -> RunStatus:
    if is_published:
        return RunStatus(state=FINISHED, why="nothing is known of the run", is_published=True)
    state = PLANNED if out.exists(PLAN_NAME) else NOTHING
    return RunStatus(state=state, why="", is_published=False)


def _is_of(journal: RunJournal | None, lease: Seen) -> bool:
    """Return whether the journal is of the run that holds the lease, or of a later one."""
    if journal is None or journal.run == lease.number or lease.is_released:
        return True
    holder = lease.holder
    is_same = (journal.head.get("host"), journal.head.get("pid")) == (holder.host, holder.pid)
    return is_same and journal.end is None


def _of_holder(holder: Holder, me: Holder, silent: float | None) -> tuple[str, str]:
    if holder.is_dead(me):
        return DEAD, "its process is gone for sure"
    if holder.lives(me):
        return RUNNING, "its process is there"
    if silent is not None and silent <= EXPIRY_SECONDS:
        return RUNNING, ""
    silence = "" if silent is None else f" of for {silent:,.0f} s by this machine's clock"
    return DEAD, f"it was not heard{silence}: a run that lives is every {EXPIRY_SECONDS / 4:.0f} s"


def _of_end(journal: RunJournal, end: Mapping[str, Any], *, is_published: bool) -> tuple[str, str]:
    status = end.get("status")
    if status == DONE and is_published:
        return FINISHED, ""
    if status == DONE and journal.head.get("command") == "train":
        return TRAINED, "the tokenizer is learned; the corpus was not to be tokenized"
    if status in (FAILED, INTERRUPTED, TERMINATED):
        error = end.get("error")
        return str(status), error if isinstance(error, str) else ""
    return UNFINISHED, "the manifest is gone" if status == DONE else "how it ended is not known"


def _renewed(lease: Seen | None) -> float:
    """Return when the lease was last written, by its holder's clock; 0: let go, or not known."""
    return 0.0 if lease is None or lease.is_released else lease.renewed_at
