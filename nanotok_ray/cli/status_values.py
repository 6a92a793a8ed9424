"""How an output stands, as the plain values that `nanotok status` prints.

Takes a `Standing`; looks into the output folder for what a finished run left. Does not know how the
values are printed. Whatever the files hold, nothing is raised but what storage raises.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from nanotok_ray.errors import NanotokError
from nanotok_ray.formats.manifest import MANIFEST_NAME, REPORT_PAGE_NAME
from nanotok_ray.job.journal import FailedAttempt, JournalledSlice, RunJournal, Stage
from nanotok_ray.job.status import FINISHED, RUNNING, Standing
from nanotok_ray.storage import Folder

SHOWN_FAILURES = 3

_HEAD = ("command", "host", "pid", "ray_job", "started", "version", "ray", "cpus", "nodes")


def status_values(out: Folder, standing: Standing, *, now: float) -> dict[str, Any]:
    """Give the values of one look."""
    journal = standing.journal
    values: dict[str, Any] = {
        "state": standing.state,
        "why": standing.why,
        "output": out.url,
        "published": standing.is_published,
        "run": None if journal is None else journal.run,
        **_head(standing),
        "silent_seconds": None if standing.silent is None else round(standing.silent, 1),
        "stages": [],
        "failed_attempts": {},
        "last_failed": [],
        "missing_segments": 0 if journal is None else journal.missing_segments,
        "report": out.join(REPORT_PAGE_NAME) if out.exists(REPORT_PAGE_NAME) else None,
    }
    if journal is not None:
        values |= _of_journal(journal, now=now, is_running=standing.state == RUNNING)
    if standing.state == FINISHED:
        values |= _published(out)
    return values


def _head(standing: Standing) -> dict[str, Any]:
    """Say who runs or ran: the holder of the lease, as long as it is held, else the journal."""
    head = dict(standing.journal.head) if standing.journal is not None else {}
    lease = standing.lease
    if lease is not None and not lease.is_released:
        own = {"command": lease.values.get("command"), "started": lease.values.get("taken")}
        holder = lease.holder
        own |= {"host": holder.host, "pid": holder.pid, "ray_job": holder.ray_job}
        head = {**own, **head}
    given = {name: head.get(name) for name in _HEAD}
    return {name: own if isinstance(own, str | int) else None for name, own in given.items()}


def _of_journal(journal: RunJournal, *, now: float, is_running: bool) -> dict[str, Any]:
    causes: Counter[str] = Counter()
    for each in journal.failed_attempts:
        causes[each.cause] += each.slices
    counted = (journal.end or {}).get("failed_attempts")
    last = [each for each in journal.slices if each.error is not None]
    failed: list[FailedAttempt | JournalledSlice] = [*journal.failed_attempts, *last]
    failed.sort(key=lambda each: each.at)
    return {
        "stages": list(_stages(journal, now=now, is_running=is_running)),
        "failed_attempts": _counts(counted) or dict(sorted(causes.items())),
        "last_failed": [
            {
                "at": each.at,
                "name": each.name,
                "why": each.error if isinstance(each, JournalledSlice) else each.text,
            }
            for each in failed[-SHOWN_FAILURES:]
        ],
    }


def _stages(journal: RunJournal, *, now: float, is_running: bool) -> Iterator[dict[str, Any]]:
    for number, stage in enumerate(journal.stages):
        has_ended = stage.seconds is not None or stage.todo == 0
        is_last = number == len(journal.stages) - 1
        seconds = stage.seconds if has_ended else max(0.0, journal.last_at - stage.at)
        goes_on = is_last and is_running and not has_ended
        yield {
            "name": stage.name,
            "state": "done" if has_ended else "running" if goes_on else "stopped",
            "todo": stage.todo,
            "kept": stage.kept,
            "done": stage.done if stage.seconds is None else stage.done or stage.todo,
            "failed": stage.failed,
            "bytes": stage.done_bytes,
            "seconds": None if seconds is None else round(seconds, 1),
            "megabytes_per_second": _rate(stage.done_bytes, seconds),
            "seconds_left": _left(journal, stage, now=now) if goes_on else None,
        }


def _rate(size: int, seconds: float | None) -> float | None:
    return round(size / 1e6 / seconds, 3) if size and seconds else None


def _left(journal: RunJournal, stage: Stage, *, now: float) -> float | None:
    """Estimate what is left of a stage: by bytes where it has slices; None without a basis.

    The journal is written now and then: an estimate that has run out meanwhile says nothing.
    """
    if stage.progress:
        at, done, todo = stage.progress[-1]
    else:
        own = [each for each in journal.slices if each.stage == stage.name and each.at >= stage.at]
        at = max((each.at for each in own), default=0.0)
        done, todo = sum(each.estimate for each in own), stage.num_bytes
        cpus = journal.head.get("cpus")
        if isinstance(cpus, int) and stage.done < min(cpus, stage.todo / 2):
            return None  # not even one slice of each CPU
    if done <= 0 or at <= stage.at:
        return None
    left = (at - stage.at) * max(0, todo - done) / done - max(0.0, now - at)
    return round(left, 1) if left > 0 else None


def _published(out: Folder) -> dict[str, Any]:
    """Give the totals of a published output; nothing if its manifest says none."""
    try:
        totals = json.loads(out.read_bytes(MANIFEST_NAME))["totals"]["all"]
        documents, tokens = totals["documents"], totals["tokens"]
        quarantined = totals["quarantined"]
    except (OSError, NanotokError, ValueError, RecursionError, KeyError, TypeError):
        return {}
    return {
        "documents": _counts(documents),
        "tokens": tokens if isinstance(tokens, int) else None,
        "quarantined": _counts(quarantined),
    }


def _counts(values: object) -> dict[str, int]:
    if not isinstance(values, dict):
        return {}
    return {str(name): own for name, own in values.items() if isinstance(own, int)}
