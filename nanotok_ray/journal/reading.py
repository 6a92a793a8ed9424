"""From the segments of a journal to a `RunJournal`.

Events of a kind that is not known are passed over, as later versions may write them; so is a
segment that is gone or is not JSON lines, which is counted.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nanotok_ray.journal.model import (
    FailedAttempt,
    Happened,
    JournalledSlice,
    RunJournal,
    Stage,
)
from nanotok_ray.journal.names import runs_in, segment_name
from nanotok_ray.storage import Folder


def read_journal(out: Folder, run: int | None = None) -> RunJournal | None:
    """Read the journal of a run.

    Args:
        out: the output folder.
        run: its number; None: the last one that there is.

    Returns:
        None if there is no such journal.
    """
    found = runs_in(out)
    number = max(found, default=0) if run is None else run
    if number not in found:
        return None
    reading = _Reading(number)
    for segment in range(max(found[number]) + 1):
        reading.take(_lines(out, segment_name(number, segment)))
    return reading.journal()


def _lines(out: Folder, name: str) -> list[dict[str, Any]] | None:
    """Give the events of a segment, None if it cannot be read."""
    try:
        text = out.read_bytes(name).decode("utf-8")
        found = [json.loads(line) for line in text.splitlines()]
    except (FileNotFoundError, ValueError):
        return None
    return found if all(isinstance(each, dict) for each in found) else None


class _Reading:
    """A journal, as far as it has been read."""

    def __init__(self, run: int) -> None:
        self._run = run
        self._head: dict[str, Any] = {}
        self._last_at = 0.0
        self._missing = 0
        self._notes: list[Happened] = []
        self._stages: list[Stage] = []
        self._slices: list[JournalledSlice] = []
        self._failed: list[FailedAttempt] = []
        self._end: dict[str, Any] | None = None

    def take(self, lines: list[dict[str, Any]] | None) -> None:
        """Read one segment."""
        if lines is None:
            self._missing += 1
            return
        for line in lines:
            own = dict(line)
            kind = own.pop("event", None)
            try:
                self._take(kind, own)
            except (KeyError, TypeError, IndexError):  # an event of another version
                continue
            self._last_at = max(self._last_at, float(own.get("at", 0.0)))

    def journal(self) -> RunJournal:
        """Give what was read."""
        return RunJournal(
            run=self._run,
            head=self._head,
            last_at=self._last_at,
            notes=tuple(self._notes),
            stages=tuple(self._counted_stages()),
            slices=tuple(self._slices),
            failed_attempts=tuple(self._failed),
            end=self._end,
            missing_segments=self._missing,
        )

    def _take(self, kind: object, own: dict[str, Any]) -> None:
        match kind:
            case "run":
                self._head = own
            case "end":
                self._end = own
            case "note":
                self._notes.append(Happened(**own))
            case "slice":
                self._slices.append(JournalledSlice(**own))
            case "attempt":
                self._failed.append(FailedAttempt(**own))
            case _:
                self._take_stage(kind, own)

    def _take_stage(self, kind: object, own: dict[str, Any]) -> None:
        match kind:
            case "stage":
                self._stages.append(Stage(**own))
            case "progress":
                point = own["at"], own["done"], own["todo"]
                last = self._stages[-1]
                points = (*last.progress, point)
                self._stages[-1] = replace(
                    last, done=own["done"], todo=own["todo"], progress=points
                )
            case "stage end":
                seconds, size = own["seconds"], own["num_bytes"]
                self._stages[-1] = replace(self._stages[-1], seconds=seconds, done_bytes=size)

    def _counted_stages(self) -> Iterator[Stage]:
        """Give the stages with the slices that ended in each."""
        for number, stage in enumerate(self._stages):
            later = self._stages[number + 1 :]
            until = next((each.at for each in later), float("inf"))
            own = [
                each
                for each in self._slices
                if each.stage == stage.name and stage.at <= each.at <= until
            ]
            if not own:
                yield stage
                continue
            failed = sum(each.error is not None for each in own)
            done_bytes = sum(each.num_bytes for each in own)
            yield replace(stage, done=len(own), failed=failed, done_bytes=done_bytes)
