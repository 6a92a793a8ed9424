"""Generated journals: plausible runs with stragglers and failures, from a seed."""

import json
import random
from pathlib import Path
from typing import Any

from nanotok_ray.job.journal import segment_name

START = 1_790_000_000.0
FAILURE = {
    "slices": 1,
    "cause": "the node was lost",
    "text": "its worker died: node-1 was preempted",
}


def head(**own: Any) -> dict[str, Any]:
    """Return the first event of a journal."""
    return {
        "event": "run",
        "at": START,
        "command": "python -m jobs.prepare jobs/recipes/demo.toml",
        "started": "2026-09-21T14:13:20+00:00",
        "host": "head-0",
        "pid": 4321,
        "ray_job": "02000000",
        "version": "0.1.0",
        "core": "0.1.0 (avx2)",
        "python": "3.11.2",
        "ray": "2.60.0",
        "cpus": 8,
        "nodes": 2,
        "recipe": '[output]\npath = "build/demo/out"\n',
    } | own


def end(at: float, status: str = "done", error: str | None = None) -> dict[str, Any]:
    """Return the last event."""
    return {"event": "end", "at": at, "status": status, "error": error, "seconds": at - START}


class Run:
    """The events of a run, added stage by stage."""

    def __init__(self, *, workers: int = 8, hosts: int = 2, seed: int = 0) -> None:
        self.events: list[dict[str, Any]] = [head()]
        self.now = START + 1.5
        self._rng = random.Random(seed)
        self._workers = [f"node-{n % hosts}/{3000 + 7 * n}" for n in range(workers)]

    def plain(self, name: str, seconds: float, size: int = 0) -> None:
        """Add a stage without slices."""
        self._begin(name, 1, size)
        self.now += seconds
        self._end(name, seconds, size)

    def sliced(self, name: str, count: int, *, size: int = 1_000_000, rate: float = 8e6) -> None:
        """Add a stage with slices, of which some are slow or fail first."""
        rng, began = self._rng, self.now
        self._begin(name, count, count * size)
        free = [began + rng.random() * 0.05 for _ in self._workers]
        reported = []
        for number in range(count):
            worker = min(range(len(free)), key=free.__getitem__)
            own = int(size * rng.uniform(0.7, 1.1))
            slow = 5.0 if rng.random() < 0.03 else 1.0
            seconds = own / rate * rng.uniform(0.9, 1.2) * slow
            each = {"stage": name, "name": f"{name} web/train/part-{number:05d}"}
            attempts = 1
            if rng.random() < 0.05:
                attempts = 2
                free[worker] += seconds / 2
                reported.append({"event": "attempt", "at": free[worker], **each, **FAILURE})
            begun = {"began": free[worker], "seconds": seconds, "num_bytes": own}
            done = {"worker": self._workers[worker], "attempts": attempts, "estimate": size}
            at = free[worker] + seconds
            reported.append({"event": "slice", "at": at, **each, **begun, **done})
            free[worker] += seconds + 0.01
        self.events += sorted(reported, key=lambda each: each["at"])
        self.now = max(free)
        self._end(name, self.now - began, sum(each.get("num_bytes", 0) for each in reported))

    def note(self, text: str) -> None:
        """Add a note."""
        self._add("note", text=text)

    def _begin(self, name: str, todo: int, size: int) -> None:
        self._add("stage", name=name, todo=todo, kept=0, num_bytes=size)

    def _end(self, name: str, seconds: float, size: int) -> None:
        self._add("stage end", name=name, seconds=seconds, num_bytes=size)

    def _add(self, event: str, **values: Any) -> None:
        self.events.append({"event": event, "at": self.now, **values})


def demo_run(slices: int = 120, **own: Any) -> list[dict[str, Any]]:
    """Return the events of a whole run."""
    run = Run(**own)
    run.note("source web: 2 files were added since the plan was frozen")
    run.sliced("count", slices)
    run.plain("reduce", 0.4)
    run.plain("learn", 2.2, 90_000_000)
    run.sliced("tokenize", slices, rate=12e6)
    run.plain("verify", 0.2)
    return [*run.events, end(run.now + 0.1)]


def write_journal(out: Path, events: list[dict[str, Any]], *, run: int = 1, parts: int = 1) -> None:
    """Write events as the segments of a journal, in place of those of the run."""
    for path in out.glob(f"run/journal/{run:06d}-*.jsonl"):
        path.unlink()
    size = -(-len(events) // parts)
    for part in range(parts):
        own = events[part * size : (part + 1) * size]
        path = out / segment_name(run, part)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(each)}\n" for each in own))
