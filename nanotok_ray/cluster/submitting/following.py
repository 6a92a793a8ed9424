"""Following a job to its end: ask for its status until it has ended, or until patience ends.

Takes a job server, a log and a clock; gives the last state, or why there is none. The log decides
nothing: it may break off, or say nothing at all. Does not know Ray, nor what the end means.
"""

from collections.abc import Callable
from dataclasses import dataclass

from nanotok_ray.cluster.submitting.model import Clock, Jobs, JobState, Log
from nanotok_ray.errors import UnreachableError

TICK = 1.0
"""Seconds from one look at the log to the next."""

FIRST_PAUSES, FIRST_SECONDS, PAUSE = 1.0, 60.0, 5.0
"""Seconds from one question to the next: in the first seconds of following, and later."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """How following ended."""

    state: JobState | None
    """The last that was heard of the job; None if nothing ever was."""
    given_up: str | None = None
    """Why following ended before the job did, if so."""
    is_late: bool = False
    """Whether that was the time limit."""


@dataclass(kw_only=True, slots=True)
class Follower:
    """Asks for one job."""

    jobs: Jobs
    submission_id: str
    log: Log
    clock: Clock
    patience: float
    timeout: float | None
    show: Callable[[str], None]
    """Takes each line of the log."""
    tell: Callable[[str], None]
    """Takes what there is to say of the connection."""

    _started: float = 0.0
    _last_news: float = 0.0
    _state: JobState | None = None
    _is_silent: bool = False

    def follow(self) -> Followed:
        """Ask until there is an end of one kind or the other."""
        self._started = self._last_news = next_question = self.clock.now()
        while True:
            self._show_log()
            if self.clock.now() >= next_question:
                ending = self._ask()
                if ending is not None:
                    return ending
                next_question = self.clock.now() + self._pause()
            if self.timeout is not None and self.clock.now() - self._started >= self.timeout:
                told = f"the time limit of {self.timeout:g} s (--timeout) has passed"
                return Followed(state=self._state, given_up=told, is_late=True)
            self.clock.wait(TICK)

    def _ask(self) -> Followed | None:
        try:
            state = self.jobs.state(self.submission_id)
            trouble = "the cluster knows no job of this id"
        except UnreachableError as error:
            state, trouble = None, str(error)
        if state is None:
            return self._no_news(trouble)
        if self._is_silent:
            self.tell("the job server answers again")
        self._is_silent = False
        self._state, self._last_news = state, self.clock.now()
        if not state.has_ended:
            return None
        self.log.finish()
        self._show_log()
        return Followed(state=state)

    def _no_news(self, trouble: str) -> Followed | None:
        if self.clock.now() - self._last_news >= self.patience:
            told = f"no news of the job for {self.patience:g} s (--patience): {trouble}"
            return Followed(state=self._state, given_up=told)
        if not self._is_silent:
            self.tell(f"no news of the job: {trouble}; asking again for {self.patience:g} s")
        self._is_silent = True
        return None

    def _pause(self) -> float:
        return FIRST_PAUSES if self.clock.now() - self._started < FIRST_SECONDS else PAUSE

    def _show_log(self) -> None:
        for line in self.log.take():
            self.show(line)
