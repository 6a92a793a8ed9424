"""A job's events to its journal, and how the run ended to the journal and OUT/run/summary.json.

The journal begins when the run has its first lease, whose number is that of the run; what was told
before is held until then. A run that takes no lease changes nothing and writes nothing. Nothing
that happens here fails a job. Does not know which rows a journal has, nor how it is stored.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nanotok_ray.cluster.events import Event, Note, OnEvent, StageStarted, ignore
from nanotok_ray.cluster.journal_rows import JournalRows, head_row, iso, told
from nanotok_ray.errors import LeaseLostError, NanotokError
from nanotok_ray.formats.manifest import SUMMARY_NAME, to_json
from nanotok_ray.journal import (
    DONE,
    FAILED,
    INTERRUPTED,
    TERMINATED,
    Journal,
)
from nanotok_ray.recipe import Recipe
from nanotok_ray.storage import Folder

_TIMES = {"seconds", "bytes"}

LEAVE_SECONDS = 1.0
"""How long a run that is told to end waits for its journal: `ray job stop` kills after 3."""

FAIL_SECONDS = 5.0


@dataclass(slots=True)
class Journaling:
    """Writes down what a run tells."""

    recipe: Recipe | None = None
    """None: nothing is written down."""
    command: str = ""
    tell: OnEvent = ignore
    """Told if the journal could not be written."""
    now: Callable[[], float] = time.time
    stages: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    """Seconds and bytes of each stage that has ended, kept by the caller."""
    _journal: Journal | None = None
    _waiting: list[dict[str, Any]] = field(default_factory=list)
    _began: float = 0.0
    _seconds: float | None = None
    """How long the run took, once somebody has asked."""
    _rows: JournalRows = field(default_factory=JournalRows)
    _earlier: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        """Write an event down."""
        row = None if self.recipe is None else self._rows.of(event, self._at())
        if row is not None:
            self._add(row, soon=isinstance(event, StageStarted))

    @property
    def has_begun(self) -> bool:
        """Whether the run had a lease, and so has a journal."""
        return self._journal is not None

    def leased(self, run: int) -> None:
        """Begin the journal, as the run has its first lease; or say what it has since, as Ray."""
        if self.recipe is None:
            return
        if self._journal is None:
            self._began = self.now()
            out = Folder(self.recipe.output.path)
            self._earlier = stages_of_last_run(out)
            self._journal = Journal(out, run)
            self._journal.add(self._head(self.recipe, run))
            for row in self._waiting:
                self._journal.add(row)
            self._waiting.clear()
            self._journal.begin()
        else:
            self._journal.add(self._head(self.recipe, self._journal.run))

    def failed(self, error: BaseException) -> None:
        """Write down that the run ended with an error; call it while the lease is held."""
        if self._journal is None or self.recipe is None:
            return
        self._seconds = None  # it went on after what was asked before
        status, why = _status(error)
        end = {"status": status, "error": told(why)}
        files = {} if isinstance(error, LeaseLostError) else {SUMMARY_NAME: self._summary(end)}
        self._end(end, seconds=FAIL_SECONDS if status == FAILED else LEAVE_SECONDS, files=files)

    def done(self) -> None:
        """Write down that the run is done."""
        if self._journal is not None:
            self._end({"status": DONE})

    def facts(self) -> dict[str, Any]:
        """Give number, start (ISO, UTC) and seconds of the run, and failed attempts by cause.

        The seconds are those of the first time that somebody asks: summary and journal agree.
        """
        if self._journal is None:
            return {}
        if self._seconds is None:
            self._seconds = round(self.now() - self._began, 3)
        return {
            "run": self._journal.run,
            "started": iso(self._began),
            "seconds": self._seconds,
            "failed_attempts": dict(sorted(self._rows.attempts.items())),
        }

    def _end(
        self, end: Mapping[str, Any], *, seconds: float = 10.0, files: Mapping[str, bytes] = {}
    ) -> None:
        assert self._journal is not None
        own = self.facts()
        told = {name: own[name] for name in ("seconds", "failed_attempts")}
        self._add({"event": "end", "at": self._at(), **end, **told})
        problem = self._journal.close(seconds=seconds, last_files=files)
        if problem is not None:
            self.tell(Note(text=problem))

    def _summary(self, end: Mapping[str, Any]) -> bytes:
        """Give what a run that failed leaves as its summary."""
        assert self.recipe is not None
        out = Folder(self.recipe.output.path)
        stages = {
            name: {"seconds": round(seconds, 3), "bytes": size}
            for name, (seconds, size) in self.stages.items()
        }
        own = {**self.facts(), "stages": stages, "earlier_stages": dict(self._earlier)}
        return to_json({**end, "output": out.url, **own})

    def _add(self, row: dict[str, Any], *, soon: bool = False) -> None:
        if self._journal is None:
            self._waiting.append(row)
        else:
            self._journal.add(row, soon=soon)

    def _head(self, recipe: Recipe, run: int) -> dict[str, Any]:
        return head_row(recipe, self.command, run=run, began=self._began, at=self._at())

    def _at(self) -> float:
        return round(self.now(), 3)


def stages_of_last_run(out: Folder) -> dict[str, Any]:
    """Give seconds and bytes of each stage when it was last run to its end; empty if not known.

    A run that failed leaves those of the runs before it in its summary, so that they are not lost.
    """
    try:
        values = json.loads(out.read_bytes(SUMMARY_NAME))
    except (OSError, NanotokError, ValueError, RecursionError):  # it is for people
        return {}
    if not isinstance(values, dict):
        return {}
    found = [values.get(name, {}) for name in ("earlier_stages", "stages")]
    rows = [row for own in found if isinstance(own, dict) for row in own.items()]
    return {name: own for name, own in rows if isinstance(own, dict) and own.keys() >= _TIMES}


def _status(error: BaseException) -> tuple[str, str]:
    """Give how a run ended, in a word, and why."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "by Ctrl-C"
    if isinstance(error, SystemExit):  # Terminated is one, and Ray makes others of SIGTERM
        return TERMINATED, "by SIGTERM"
    return FAILED, str(error) or type(error).__name__
