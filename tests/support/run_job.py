"""Runs a job to its end and collects its events."""

from collections.abc import Callable
from typing import NamedTuple

from nanotok_ray.api import prepare
from nanotok_ray.job.events import Note, StageStarted
from nanotok_ray.job.summary import Summary
from nanotok_ray.recipe import Recipe


class Ran(NamedTuple):
    """The summary of a job, the numbers of done and kept slices of each stage, and its notes."""

    summary: Summary
    stages: dict[str, tuple[int, int]]
    notes: list[str]


def run(job: Recipe, command: Callable[..., Summary] = prepare) -> Ran:
    """Run a job; return its result."""
    events: list[object] = []
    summary = command(job, on_event=events.append)
    started = [event for event in events if isinstance(event, StageStarted)]
    stages = {event.stage: (event.todo, event.num_done) for event in started}
    return Ran(summary, stages, [event.text for event in events if isinstance(event, Note)])
