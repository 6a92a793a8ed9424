"""What listens to a run: its journal, metrics, and how long each stage took, for its summary.

All events go on to the listener of the caller.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nanotok_ray.cluster.events import Event, OnEvent, StageEnded, ignore
from nanotok_ray.cluster.executor import current_executor
from nanotok_ray.cluster.journaling import Journaling
from nanotok_ray.recipe import Recipe


@dataclass(slots=True)
class StageTimes:
    """Passes events on and remembers how long each stage took."""

    on_event: OnEvent
    stages: dict[str, tuple[float, int]] = field(default_factory=dict)
    check: OnEvent = ignore
    """Raises where the run must not go on; asked last, just before it does."""
    journaling: Journaling = field(default_factory=Journaling)
    metrics: OnEvent = field(default_factory=lambda: current_executor().metrics())

    def __call__(self, event: Event) -> None:
        """Pass one event on."""
        if isinstance(event, StageEnded):
            seconds, size = self.stages.get(event.stage, (0.0, 0))
            self.stages[event.stage] = (seconds + event.seconds, size + event.num_bytes)
        self.journaling(event)
        self.metrics(event)
        self.on_event(event)
        self.check(event)

    @contextmanager
    def journalled(self, recipe: Recipe, command: str) -> Iterator[None]:
        """Keep a journal of the run in the block, from its first lease on, and of how it ends."""
        self.journaling = Journaling(recipe, command, tell=self.on_event, stages=self.stages)
        try:
            yield
        except BaseException as error:
            self.journaling.failed(error)
            raise
        self.journaling.done()
