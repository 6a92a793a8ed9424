"""A job's events as the rows of its journal: which of them are told, and in which words.

Takes events and the time; gives values for JSON, in whose texts no secret stands. Does not know
when a journal begins or ends, nor how it is stored.
"""

import os
import platform
import shlex
import socket
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import nanotok_ray
from nanotok_ray import _core
from nanotok_ray.cluster.events import (
    Advanced,
    AttemptFailed,
    Event,
    Note,
    SliceEnded,
    StageEnded,
    StageStarted,
)
from nanotok_ray.journal import JOURNAL_FORMAT
from nanotok_ray.recipe import Recipe
from nanotok_ray.units import without_secrets

MOST_ATTEMPTS = 10_000
"""Failed attempts that are told one by one; beyond that they are only counted."""

SHOWN_CHARS = 2000


@dataclass(slots=True)
class JournalRows:
    """Events to rows, and what must be known of earlier ones."""

    attempts: Counter[str] = field(default_factory=Counter)
    """Failed attempts so far, by cause."""
    _sliced: set[str] = field(default_factory=set)
    _percents: dict[str, int] = field(default_factory=dict)
    _done: dict[str, int] = field(default_factory=dict)
    """How far each stage without slices is."""

    def of(self, event: Event, at: float) -> dict[str, Any] | None:
        """Give the row of an event, None if it is left out."""
        match event:
            case SliceEnded():
                self._sliced.add(event.stage)
                return _slice(event, at)
            case Note():
                return {"event": "note", "at": at, "text": told(event.text)}
            case StageStarted():
                self._percents.pop(event.stage, None)
                self._done.pop(event.stage, None)
                return _stage(event, at)
            case StageEnded():
                row = {"event": "stage end", "at": at, "seconds": round(event.seconds, 3)}
                done = self._done.get(event.stage)
                return (
                    row | {"num_bytes": event.num_bytes} | ({} if done is None else {"done": done})
                )
            case Advanced():
                return self._progress(event, at)
            case AttemptFailed():
                return self._attempt(event, at)

    def _progress(self, event: Advanced, at: float) -> dict[str, Any] | None:
        """Give how far a stage without slices is, at most once a percent."""
        if event.running > 0 or event.stage in self._sliced:  # the rows of slices say it
            return None
        self._done[event.stage] = event.done
        percent = 100 * event.done // max(event.todo, 1)
        if percent == self._percents.get(event.stage):
            return None
        self._percents[event.stage] = percent
        return {"event": "progress", "at": at, "done": event.done, "todo": event.todo}

    def _attempt(self, event: AttemptFailed, at: float) -> dict[str, Any] | None:
        is_shown = self.attempts.total() < MOST_ATTEMPTS
        self.attempts[event.cause] += event.slices
        if not is_shown:
            return None
        return {"event": "attempt", "at": at, **asdict(event), "text": told(event.text)}


def told(text: str) -> str:
    """Give a text as a journal has it: without secrets, and of no more than SHOWN_CHARS."""
    return without_secrets(text)[:SHOWN_CHARS]


def _stage(event: StageStarted, at: float) -> dict[str, Any]:
    return {
        "event": "stage",
        "at": at,
        "name": event.stage,
        "todo": event.todo,
        "kept": event.kept,
        "num_bytes": event.num_bytes,
    }


def _slice(event: SliceEnded, at: float) -> dict[str, Any]:
    row = {
        "event": "slice",
        "at": at,
        "stage": event.stage,
        "name": event.name,
        "began": round(event.began, 3),
        "seconds": round(event.seconds, 3),
        "num_bytes": event.num_bytes,
        "worker": event.worker,
        "attempts": event.attempts,
        "estimate": event.estimate,
    }
    if event.slices != 1:
        row["slices"] = event.slices
    return row if event.error is None else {**row, "error": told(event.error)}


def head_row(recipe: Recipe, command: str, *, run: int, began: float, at: float) -> dict[str, Any]:
    """Give the row that says what runs, on what, and since when."""
    return {
        "event": "run",
        "at": at,
        "format": JOURNAL_FORMAT,
        "run": run,
        "command": command,
        "arguments": without_secrets(shlex.join(sys.argv)),
        "started": iso(began),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": nanotok_ray.__version__,
        "core": _core.cpu_level(),
        "python": platform.python_version(),
        **_ray(),
        "recipe": without_secrets(recipe.text),
        "work": without_secrets(recipe.output.work),
    }


def iso(at: float) -> str:
    """Give a time in seconds since 1970 as ISO has it, UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _ray() -> dict[str, Any]:
    """Say what Ray is there: its version, this job, CPUs and nodes; none: this machine's CPUs."""
    found = {"ray_job": "", "ray": "", "cpus": len(os.sched_getaffinity(0)), "nodes": 1}
    ray = sys.modules.get("ray")  # importing it is for the session to do
    with suppress(Exception):  # Ray that does not tell is no reason to fail
        if ray is not None and ray.is_initialized():
            alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            found |= {
                "ray_job": ray.get_runtime_context().get_job_id(),
                "ray": ray.__version__,
                "cpus": int(sum(own.get("CPU", 0) for own in alive)),
                "nodes": len(alive),
            }
    return found
