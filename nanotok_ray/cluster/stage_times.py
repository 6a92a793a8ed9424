"""How long each stage of a run took, for its summary; all events go on to the listener."""

from dataclasses import dataclass, field

from nanotok_ray.cluster.events import Event, OnEvent, StageEnded, ignore


@dataclass(slots=True)
class StageTimes:
    """Passes events on and remembers how long each stage took."""

    on_event: OnEvent
    stages: dict[str, tuple[float, int]] = field(default_factory=dict)
    check: OnEvent = ignore
    """Raises where the run must not go on; asked last, just before it does."""

    def __call__(self, event: Event) -> None:
        """Pass one event on."""
        if isinstance(event, StageEnded):
            seconds, size = self.stages.get(event.stage, (0.0, 0))
            self.stages[event.stage] = (seconds + event.seconds, size + event.num_bytes)
        self.on_event(event)
        self.check(event)
