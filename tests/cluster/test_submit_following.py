"""Starting and following a job on a job server that disappears, returns, and loses answers."""

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanotok_ray.cluster.submit import Follower, JobState, Starter, Submission
from nanotok_ray.cluster.submit.submission import ENDED, LAST_SECONDS, PAUSE, TICK
from nanotok_ray.errors import RefusedError, UnreachableError

SUBMISSION = Submission(
    base_id="web", entrypoint="run", files={"web.toml": b""}, variables={}, digest="d1"
)
AWAY, UNKNOWN = "away", "unknown"
OWN_END = st.sampled_from(sorted(ENDED))


@dataclass
class FakeClock:
    time: float = 0.0

    def now(self):
        return self.time

    def wait(self, seconds):
        assert seconds > 0
        self.time += seconds


@dataclass
class FakeLog:
    """Lines, one per answer of the server; `faults` are the reads that fail."""

    lines: list = field(default_factory=list)
    faults: list = field(default_factory=list)

    def read(self):
        if self.faults and self.faults.pop(0):
            return None
        taken, self.lines = self.lines, []
        return taken


@dataclass
class ScriptedJobs:
    """Returns the states of a job from a script, one per request; the last one forever."""

    script: list
    log: FakeLog
    asked: int = 0

    def state(self, submission_id):
        assert submission_id == "web"
        word = self.script[min(self.asked, len(self.script) - 1)]
        self.asked += 1
        if word == AWAY:
            raise UnreachableError("no answer")
        if word == UNKNOWN:
            return None
        self.log.lines.append(f"line {self.asked}")
        if word in ENDED:
            self.log.lines.append("the last line")
        return JobState(status=word, exit_code=3 if word == "FAILED" else None)


def follower(script, *, patience=300.0, timeout=None, faults=()):
    log, reported, shown, clock = FakeLog(faults=[*faults]), [], [], FakeClock()
    jobs = ScriptedJobs(script, log)
    own = Follower(
        jobs=jobs,
        submission_id="web",
        log=log,
        clock=clock,
        patience=patience,
        timeout=timeout,
        show=shown.append,
        on_message=reported.append,
    )
    return own, reported, shown


@given(
    st.lists(st.sampled_from(["PENDING", "RUNNING", AWAY, UNKNOWN]), max_size=200),
    OWN_END,
    st.lists(st.booleans(), max_size=200),
)
@example([AWAY] * 61, "SUCCEEDED", [])
@example(["RUNNING"], "FAILED", [True] * 4)
def test_the_end_is_reported_after_outages_shorter_than_the_patience(words, end, faults):
    silences = "".join("x" if word in {AWAY, UNKNOWN} else " " for word in words).split()
    longest = max(map(len, silences), default=0) * (PAUSE + TICK)
    heard = [n for n, word in enumerate([*words, end], 1) if word not in {AWAY, UNKNOWN}]
    faults[len(heard) - 1 + int(LAST_SECONDS / TICK) :] = []  # the last lines can be read in time
    own, _, shown = follower([*words, end], patience=longest + 1, faults=faults)
    followed = own.follow()
    assert followed.given_up is None
    assert followed.state.status == end
    assert followed.state.exit_code == (3 if end == "FAILED" else None)
    assert shown == [*(f"line {n}" for n in heard), "the last line"]


@given(
    st.lists(st.sampled_from(["PENDING", "RUNNING"]), max_size=30),
    st.sampled_from([AWAY, UNKNOWN]),
    st.floats(0, 1000),
)
def test_a_lost_server_is_given_up_exactly_when_the_patience_ends(words, word, patience):
    own, reported, _ = follower([*words, word], patience=patience)
    followed = own.follow()
    assert followed.given_up is not None
    assert not followed.is_late
    assert (followed.state.status if followed.state else None) == (words[-1] if words else None)
    silent = own.clock.now() - own._last_news
    assert patience <= silent <= patience + 2 * PAUSE + TICK
    assert len(reported) <= 1


@given(st.floats(0, 500), st.sampled_from(["PENDING", "RUNNING", AWAY]))
def test_the_time_limit_ends_following_with_a_message(timeout, word):
    own, _, _ = follower([word], patience=1e9, timeout=timeout)
    followed = own.follow()
    assert followed.is_late
    assert "--timeout" in followed.given_up
    assert timeout <= own.clock.now() <= timeout + TICK


def test_an_unreadable_log_loses_only_its_last_seconds():
    own, reported, shown = follower(["FAILED"], faults=[True] * 1000)
    followed = own.follow()
    assert (followed.state.status, followed.given_up) == ("FAILED", None)
    assert LAST_SECONDS <= own.clock.now() <= LAST_SECONDS + TICK
    assert (reported, shown) == ([], [])


def test_an_outage_and_its_end_are_each_reported_once():
    own, reported, _ = follower(["RUNNING", AWAY, AWAY, "RUNNING", UNKNOWN, "SUCCEEDED"])
    own.follow()
    once = ["no answer about the job", "the job server answers again"]
    assert [each.partition(":")[0] for each in reported] == once * 2


@dataclass
class FakeServer:
    """Jobs by id. Each answer can be lost before or after the request was executed."""

    faults: list
    jobs: dict = field(default_factory=dict)
    started: list = field(default_factory=list)
    begins_as: str = "PENDING"
    """The state of a started job, which may have failed at once."""

    def _ask(self, action):
        fault = self.faults.pop(0) if self.faults else None
        if fault == "before":
            raise UnreachableError("refused")
        result = action()
        if fault == "after":
            raise UnreachableError("the answer got lost")
        return result

    def states(self):
        return self._ask(lambda: dict(self.jobs))

    def state(self, submission_id):
        return self._ask(lambda: self.jobs.get(submission_id))

    def submit(self, submission_id, submission):
        assert submission is SUBMISSION
        return self._ask(lambda: self._start(submission_id))

    def _start(self, submission_id):
        if submission_id in self.jobs:
            return False
        self.jobs[submission_id] = JobState(status=self.begins_as)
        self.started.append(submission_id)
        return True


def start(server, *, chosen_id=None, patience=1e6):
    reported = []
    starter = Starter(
        jobs=server,
        submission=SUBMISSION,
        chosen_id=chosen_id,
        clock=FakeClock(),
        patience=patience,
        on_message=reported.append,
    )
    return starter.start(), reported


STATES = st.builds(lambda status: JobState(status=status), st.sampled_from([*ENDED, "RUNNING"]))
IDS = st.sampled_from(["web", "web-2", "web-3", "web-9", "web-x", "other", "web-02", "web-1"])
FAULTS = st.lists(st.sampled_from(["before", "after", None]), max_size=12)


@given(
    FAULTS,
    st.dictionaries(IDS, STATES),
    st.sampled_from([None, "web-9", "today"]),
    st.sampled_from(["PENDING", "FAILED"]),
)
@example(["after", "after", None], {}, None, "PENDING")
@example([None, "after", None], {}, None, "FAILED")
def test_one_command_starts_at_most_one_job_and_follows_a_running_one(
    faults, jobs, chosen_id, begins_as
):
    server = FakeServer(list(faults), dict(jobs), begins_as=begins_as)
    started, reported = start(server, chosen_id=chosen_id)
    own = started.submission_id
    if chosen_id is None:
        own_ids = {"web", "web-2", "web-3", "web-9"}
        running = {each for each in own_ids & jobs.keys() if not jobs[each].has_ended}
        assert own in running if running else own not in jobs
        assert server.started == ([] if running else [own])
    else:
        assert own == chosen_id
        assert server.started == ([] if chosen_id in jobs else [own])
    assert own in server.jobs
    assert len(reported) <= 1


def test_the_loser_of_a_creation_race_follows_the_winner():
    server = FakeServer([], {"web": JobState(status="RUNNING")})
    server.states = dict  # the list was empty, and then another client was first
    started, _ = start(server)
    assert started.submission_id == "web"
    assert started.was_there is not None
    assert server.started == []


@pytest.mark.parametrize("error", [UnreachableError("refused"), RefusedError("token")])
def test_an_absent_server_is_given_up_and_a_wrong_token_fails_at_once(error):
    asked, server = [], FakeServer([])

    def refuse():
        asked.append(1)
        raise error

    server.states = refuse
    with pytest.raises(type(error), match=str(error)):
        start(server, patience=20)
    assert (len(asked) == 1) == isinstance(error, RefusedError)
    assert server.started == []
