"""The client of the job server, and following a job until its end."""

import itertools
import json
import os
import re
import zipfile
from dataclasses import dataclass, field
from io import BytesIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanotok_ray.cli import main
from nanotok_ray.cluster.cluster_check import check_address
from nanotok_ray.cluster.submit import following, job_server
from nanotok_ray.cluster.submit.following import LAST_PAUSE, LAST_SECONDS, JobLog, follow
from nanotok_ray.cluster.submit.job_server import PAUSE, JobServer
from nanotok_ray.cluster.submit.shipping import Submission
from nanotok_ray.errors import RefusedError, UnreachableError
from nanotok_ray.job.doctor.ray_settings import check_transport
from nanotok_ray.job.summary import read_summary
from tests.support.job_server import job_details, serve_jobs

SUBMISSION = Submission(
    base_id="web",
    entrypoint="python -m jobs.prepare web.toml",
    files={"web.toml": b"# a recipe"},
    variables={"DATA": "/data"},
    digest="d1",
)
RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["/data/web/*.parquet"]
[output]
path = "{out}"
"""
DONE = 'count: 1 of 1 slices\n{"status": "done"}\n'


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:9")  # Ray's client prefers this value
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS", raising=False)
    with serve_jobs() as own:
        yield own


def connected(server):
    return JobServer(address=server.address, first_patience=0.0, patience=0.0, on_message=print)


def test_a_job_is_started_once_with_only_its_recipe(server):
    started = job_server.start(connected(server), SUBMISSION, None)
    assert (started.submission_id, started.was_there) == ("web", None)
    again = job_server.start(connected(server), SUBMISSION, "web")
    assert again.was_there.status == "PENDING"
    (request,) = server.submitted
    assert request["entrypoint"] == SUBMISSION.entrypoint
    assert request["runtime_env"]["env_vars"] == {"DATA": "/data"}
    assert request["metadata"] == {"nanotok_submission": "d1"}
    (package,) = server.packages.values()
    with zipfile.ZipFile(BytesIO(package)) as packed:
        assert packed.namelist() == ["web.toml"]
        assert packed.read("web.toml") == b"# a recipe"
    assert os.environ["RAY_ADDRESS"] == "http://127.0.0.1:9"
    assert "RAY_API_SERVER_ADDRESS" not in os.environ


def list_jobs(client):
    return client.list_jobs()


@pytest.mark.parametrize("fault", ["close", "hang", "lost", 200, 404, 500, 502])
def test_every_failed_response_raises_the_same_class_of_error(server, fault, monkeypatch):
    monkeypatch.setattr(job_server, "ANSWER_SECONDS", 0.3)
    for place in (0, 2):  # the first request, which opens the connection, and the following one
        server.script = [None] * place + [fault]
        with pytest.raises(UnreachableError, match=server.address) as raised:
            connected(server).ask_once(list_jobs)
        assert not isinstance(raised.value, RefusedError)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 400


def test_a_wrong_token_and_a_bad_request_are_refused(server, monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "f" * 64)
    refusal = r"the token \(from RAY_AUTH_TOKEN\): .*; export RAY_AUTH_MODE=token"
    for status in (401, 403):
        server.script = [status]
        with pytest.raises(RefusedError, match=refusal):
            connected(server).ask(list_jobs)
    # The job is refused after requests for the versions, the job, the package and its upload.
    server.script = [None] * 5 + [400]
    with pytest.raises(RefusedError, match=r"refuses the job: .* trouble"):
        job_server.start(connected(server), SUBMISSION, "web")


def test_the_doctor_asks_the_job_server_of_its_address(server):
    server.add("web", "RUNNING")
    reported = {each.name: each for each in check_address(server.address)}
    assert reported["job server"].status == "ok"
    assert f"{server.address} answers, with 2 jobs" in reported["job server"].found
    server.script = [401]
    (refused,) = check_address(server.address)
    assert refused.status == "fail"
    assert "export RAY_AUTH_MODE=token" in refused.found


@pytest.fixture
def quick(monkeypatch):
    """Remove the pauses between requests."""
    monkeypatch.setattr(job_server, "PAUSE", 0.001)
    for name in ("PAUSE", "LAST_PAUSE"):
        monkeypatch.setattr(following, name, 0.001)


@pytest.fixture
def submit(server, tmp_path, capsys, quick):
    """Return the exit code, the last line of stdout, and stderr."""
    recipe, out = tmp_path / "web.toml", tmp_path / "out"
    recipe.write_text(RECIPE.format(out=out))

    def own(*arguments):
        code = main(["submit", str(recipe), "--address", server.address, *arguments])
        reported, err = capsys.readouterr()
        return code, json.loads(reported.splitlines()[-1]), err

    return own


def test_a_success_counts_if_its_output_exists(server, submit, tmp_path):
    values = {"status": "done", "output": str(tmp_path / "out"), "vocab_size": 300, "stages": {}}
    values["tokenizer_sha256"] = "0" * 64
    log = f"count: 1 of 2 slices\nan arbitrary line\n{json.dumps(values)}\n"
    server.add("web", "SUCCEEDED", exit_code=0, log=log)
    server.script = ["close", None, 502, None, None, None, "close", "lost", 500]  # changes nothing
    code, reported, err = submit("--submission-id", "web")
    assert (code, reported["status"]) == (0, "done")
    assert "the job's own result is used" in err
    (tmp_path / "out").mkdir()
    code, reported, err = submit("--submission-id", "web")
    assert (code, reported["status"]) == (4, "unfinished")
    assert f"there is no {tmp_path / 'out'}/manifest.json" in err
    (tmp_path / "out/manifest.json").write_text("{}")
    code, reported, err = submit("--submission-id", "web")
    assert (code, reported["status"], reported["summary"]) == (0, "done", values)
    assert f"{read_summary(values, name='').text()}\nnanotok: the job succeeded" in err
    assert "an arbitrary line" not in err
    server.add("other", "SUCCEEDED", exit_code=0, log=DONE)
    code, reported, err = submit("--submission-id", "other")  # a version with another summary
    assert (code, reported["summary"]) == (0, {"status": "done"})
    assert "count: 1 of 1 slices\nnanotok: the job succeeded" in err
    assert server.submitted == []


def test_the_summary_of_a_job_has_the_order_of_the_recipe(server, submit, tmp_path):
    source = '[[source]]\nname = "{}"\nkind = "text"\npaths = ["s3://bucket/{}/*.parquet"]\n'
    (tmp_path / "web.toml").write_text(
        "".join(source.format(name, name) for name in ("web", "code", "books"))
        + f'[output]\npath = "{tmp_path}/out"\n'
    )
    numbers = {"documents": 1, "text_bytes": 6, "tokens": 2, "bytes_per_token": 3.0}
    numbers |= {"quarantined": 0, "trainable_tokens": None}
    sources = {f"{name}/train": numbers for name in ("books", "code", "web")}
    values = {"status": "done", "output": str(tmp_path / "out"), "vocab_size": 300, "stages": {}}
    values |= {"tokenizer_sha256": "0" * 64, "sources": sources, "slices": 3, "shards": 3}
    values |= {"text_bytes": 18, "tokens": 6, "bytes_per_token": 3.0, "trainable_tokens": 6}
    flow = {"in": 3, "out": 3, "quarantined": 0}
    proof = {"documents": 0, "bytes": 0, "encoded_again": 0, "not_encoded_again": {}}
    values |= {"documents": flow, "bytes": flow, "proof": proof}
    values |= {"quarantined": {}, "roles": {}, "special_tokens": {}}
    values |= dict.fromkeys(("special_text", "over_max_tokens", "truncated", "blank_lines"), 0)
    values |= {"without_trainable_token": 0, "images": 0}
    values["rules"] = {"max_tokens": None, "too_long": "keep", "untrainable": "keep"}
    server.add("web", "SUCCEEDED", exit_code=0, log=f"{json.dumps(values)}\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/manifest.json").write_text("{}")
    _, _, err = submit("--submission-id", "web")
    assert re.findall(r"^  (\w+)/train ", err, re.MULTILINE) == ["web", "code", "books"]


def test_a_stopped_job_exits_7_and_a_failed_one_with_the_code_of_its_driver(server, submit):
    server.add("stopped", "STOPPED", log=DONE)
    server.add("failed", "FAILED", exit_code=3, log="error: too many were quarantined\n")
    assert submit("--submission-id", "stopped")[0] == 7
    code, reported, err = submit("--submission-id", "failed")
    assert (code, reported["job_status"]) == (3, "FAILED")
    assert "  | error: too many were quarantined" in err


@pytest.mark.parametrize(
    ("option", "status", "words"),
    [
        ("--patience=0.1", "lost", "may still be running"),
        ("--timeout=0", "timeout", "keeps running"),
    ],
)
def test_a_lost_server_exits_5_and_says_that_the_job_may_continue(
    server, submit, option, status, words
):
    server.add("web", "RUNNING")
    if status == "lost":
        server.script = [None] * 5 + ["close"] * 100_000
    code, reported, err = submit("--submission-id", "web", option)
    assert (code, reported["status"]) == (5, status)
    assert f"ray job stop web --address {server.address}" in err
    assert f"the job {words}" in err


def test_a_job_that_the_server_does_not_know_any_more_exits_5_at_once(server, submit):
    server.add("web", "RUNNING")
    answer = server.answer

    def restarted_after_the_first_questions(method, path, body):
        if path == "/api/jobs/web/logs":
            server.jobs.clear()
        return answer(method, path, body)

    server.answer = restarted_after_the_first_questions
    code, reported, err = submit("--submission-id", "web")
    assert (code, reported["status"], reported["job_status"]) == (5, "gone", None)
    assert "the job server answers and has no job of this id" in err
    assert "the same command submits it again, and it resumes" in err
    assert "may still be running" not in err
    assert "ray job stop" not in err


def test_a_token_that_would_cross_a_network_in_clear_is_noted(server, submit, monkeypatch):
    server.add("web", "STOPPED")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert "in clear" not in submit("--submission-id", "web")[2]
    for address, mode, is_noted in (
        ("http://10.0.0.7:8265", "token", True),
        ("http://head.internal:8265", "token", True),
        ("https://head.internal", "token", False),
        ("http://localhost:8265", "token", False),
        ("http://[::1]:8265", "token", False),
        ("http://10.0.0.7:8265", "disabled", False),
    ):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        finding = check_transport(address)
        assert (finding is not None) == is_noted, address
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    other = server.address.replace("127.0.0.1", "0.0.0.0")  # Linux connects to this machine
    code, _, err = submit("--submission-id", "web", "--address", other)
    assert code == 7
    assert "note: the token is sent to 0.0.0.0 over http, in clear" in err


def test_a_request_whose_response_was_lost_is_not_repeated(server, submit):
    server.script = [None] * 5 + ["lost"]  # after versions, the list, and the package
    code, reported, err = submit("--no-wait")
    assert (code, reported["status"]) == (0, "submitted")
    assert "trying again" in err
    assert f"submitted {reported['submission_id']} to" in err
    assert [each["submission_id"] for each in server.submitted] == [reported["submission_id"]]


@pytest.mark.parametrize("status", ["RUNNING", "STOPPED", "SUCCEEDED"])
def test_another_recipe_with_the_same_id_is_refused(server, submit, status):
    server.add("web", status, digest="of another")
    code, reported, err = submit("--submission-id", "web")
    assert (code, reported["status"]) == (2, "failed")
    assert "was submitted with another recipe" in err
    assert f"its status is {status}; pass another --submission-id" in err
    assert server.submitted == []


AWAY, UNKNOWN = "away", "unknown"
ENDED = ("FAILED", "STOPPED", "SUCCEEDED")
OWN_END = st.sampled_from(ENDED)


@dataclass
class FakeClock:
    time: float = 0.0

    def now(self):
        return self.time

    def sleep(self, seconds):
        assert seconds > 0
        self.time += seconds


@dataclass
class FakeLog:
    """Lines, one per answer of the server; `faults` are the reads that fail."""

    lines: list = field(default_factory=list)
    faults: list = field(default_factory=list)

    def fetch(self):
        if self.faults and self.faults.pop(0):
            raise ConnectionError("no log")
        return "".join(f"{line}\n" for line in self.lines)


@dataclass
class ScriptedClient:
    """Returns the states of a job from a script, one per request; the last one forever."""

    script: list
    log: FakeLog
    asked: int = 0

    def get_job_logs(self, submission_id):
        assert submission_id == "web"
        return self.log.fetch()

    def get_job_info(self, submission_id):
        assert submission_id == "web"
        word = self.script[min(self.asked, len(self.script) - 1)]
        self.asked += 1
        if word == AWAY:
            raise ConnectionError("no answer")
        if word == UNKNOWN:
            raise RuntimeError(f"Request failed with {UNKNOWN_ID}")
        self.log.lines.append(f"line {self.asked}")
        if word in ENDED:
            self.log.lines.append("the last line")
        return job_details(word, exit_code=3 if word == "FAILED" else None)


@dataclass
class Followed:
    """The ending of a job, and what was asked and shown until then."""

    ending: following.Ending
    server: JobServer
    asked: int
    reported: list
    shown: list

    @property
    def status(self):
        return self.ending.job.status.value if self.ending.job else None


def followed_job(script, *, patience=300.0, timeout=None, faults=()):
    reported, shown = [], []
    client = ScriptedClient(script, FakeLog(faults=[*faults]))
    server = JobServer(
        address="http://head",
        first_patience=patience,
        patience=patience,
        on_message=reported.append,
        connect=lambda _: client,
        clock=FakeClock(),
    )
    server.ask(lambda _: None)  # it has answered once
    ending = follow(server, "web", SUBMISSION, JobLog(shown.append), timeout=timeout)
    return Followed(ending, server, client.asked, reported, shown)


@given(
    st.lists(st.sampled_from(["PENDING", "RUNNING", AWAY, UNKNOWN]), max_size=200),
    OWN_END,
    st.lists(st.booleans(), max_size=200),
)
@example([AWAY] * 61, "SUCCEEDED", [])
@example(["RUNNING"], "FAILED", [True] * 4)
def test_the_end_is_reported_after_outages_shorter_than_the_patience(words, end, faults):
    pairs = zip(words, [None, *words], strict=False)
    words = [word for word, before in pairs if (word, before) != (UNKNOWN, UNKNOWN)]
    silences = "".join("x" if word in {AWAY, UNKNOWN} else " " for word in words).split()
    longest = max(map(len, silences), default=0) * PAUSE
    heard = [n for n, word in enumerate([*words, end], 1) if word not in {AWAY, UNKNOWN}]
    faults[
        len(heard) - 1 + int(LAST_SECONDS / LAST_PAUSE) :
    ] = []  # the last lines can be read in time
    followed = followed_job([*words, end], patience=longest + 1, faults=faults)
    assert followed.status == end
    assert followed.ending.exit_code == {"FAILED": 3, "STOPPED": 7, "SUCCEEDED": 4}[end]
    assert followed.shown == [*(f"line {n}" for n in heard), "the last line"]


@given(st.lists(st.sampled_from(["PENDING", "RUNNING"]), max_size=30), st.floats(0, 1000))
def test_a_lost_server_is_given_up_exactly_when_the_patience_ends(words, patience):
    followed = followed_job([*words, AWAY], patience=patience)
    assert (followed.ending.status, followed.ending.exit_code) == ("lost", 5)
    assert followed.status == (words[-1] if words else None)
    silent = followed.server.clock.now() - followed.server.answered_at
    assert patience <= silent <= patience + 2 * PAUSE
    assert len(followed.reported) <= 1


@given(st.lists(st.sampled_from(["PENDING", "RUNNING", AWAY]), max_size=30))
def test_an_unknown_job_is_given_up_after_two_answers(words):
    followed = followed_job([*words, UNKNOWN], patience=3000.0)
    assert (followed.ending.status, followed.ending.exit_code) == ("gone", 5)
    assert followed.status is None
    assert followed.asked == len(words) + 2
    assert followed.reported.count("the job server answers again") == sum(
        word == AWAY != after for word, after in itertools.pairwise([*words, UNKNOWN])
    )


@given(st.floats(0, 500), st.sampled_from(["PENDING", "RUNNING", AWAY]))
def test_the_time_limit_ends_following_with_a_message(timeout, word):
    followed = followed_job([word], patience=1e9, timeout=timeout)
    assert (followed.ending.status, followed.ending.exit_code) == ("timeout", 5)
    assert "--timeout" in followed.ending.message
    assert followed.server.clock.now() == pytest.approx(timeout)


def test_an_unreadable_log_loses_only_its_last_seconds():
    followed = followed_job(["FAILED"], faults=[True] * 1000)
    assert (followed.status, followed.ending.exit_code) == ("FAILED", 3)
    assert LAST_SECONDS <= followed.server.clock.now() <= LAST_SECONDS + LAST_PAUSE
    assert (followed.reported, followed.shown) == ([], [])


def test_an_outage_and_its_end_are_each_reported_once():
    script = ["RUNNING", AWAY, AWAY, "RUNNING", AWAY, UNKNOWN, "SUCCEEDED"]
    once = [
        "no answer from the job server at http://head: no answer",
        "the job server answers again",
    ]
    assert [each.partition(";")[0] for each in followed_job(script).reported] == once * 2


UNKNOWN_ID, TAKEN_ID = "status code 404: no job.", "status code 500: it already exists."


@dataclass
class FakeClient:
    """Jobs by id. Each answer can be lost before or after the request was executed."""

    faults: list
    jobs: dict = field(default_factory=dict)
    started: list = field(default_factory=list)
    begins_as: str = "PENDING"
    """The state of a started job, which may have failed at once."""

    def _ask(self, action):
        fault = self.faults.pop(0) if self.faults else None
        if fault == "before":
            raise ConnectionError("refused")
        result = action()
        if fault == "after":
            raise ConnectionError("the answer got lost")
        if result in (UNKNOWN_ID, TAKEN_ID):
            raise RuntimeError(f"Request failed with {result}")
        return result

    def list_jobs(self):
        return self._ask(lambda: list(self.jobs.values()))

    def get_job_info(self, submission_id):
        return self._ask(lambda: self.jobs.get(submission_id, UNKNOWN_ID))

    def submit_job(self, *, submission_id, **request):
        assert request["entrypoint"] == SUBMISSION.entrypoint
        return self._ask(lambda: self._start(submission_id))

    def _start(self, submission_id):
        if submission_id in self.jobs:
            return TAKEN_ID
        self.jobs[submission_id] = job_details(self.begins_as, submission_id=submission_id)
        self.started.append(submission_id)
        return None


def start(client, *, chosen_id=None, patience=1e6):
    reported = []
    server = JobServer(
        address="http://head",
        first_patience=patience,
        patience=0.0,
        on_message=reported.append,
        connect=lambda _: client,
        clock=FakeClock(),
    )
    return job_server.start(server, SUBMISSION, chosen_id), reported


STATUSES = st.sampled_from([*ENDED, "RUNNING"])
IDS = st.sampled_from(["web", "web-2", "web-3", "web-9", "web-x", "other", "web-02", "web-1"])
FAULTS = st.lists(st.sampled_from(["before", "after", None]), max_size=12)


@given(
    FAULTS,
    st.dictionaries(IDS, STATUSES),
    st.sampled_from([None, "web-9", "today"]),
    st.sampled_from(["PENDING", "FAILED"]),
)
@example(["after", "after", None], {}, None, "PENDING")
@example([None, "after", None], {}, None, "FAILED")
def test_one_command_starts_at_most_one_job_and_follows_a_running_one(
    faults, statuses, chosen_id, begins_as
):
    jobs = {name: job_details(status, submission_id=name) for name, status in statuses.items()}
    server = FakeClient(list(faults), dict(jobs), begins_as=begins_as)
    started, reported = start(server, chosen_id=chosen_id)
    own = started.submission_id
    if chosen_id is None:
        own_ids = {"web", "web-2", "web-3", "web-9"}
        running = {each for each in own_ids & jobs.keys() if not jobs[each].status.is_terminal()}
        assert own in running if running else own not in jobs
        assert server.started == ([] if running else [own])
    else:
        assert own == chosen_id
        assert server.started == ([] if chosen_id in jobs else [own])
    assert own in server.jobs
    assert len(reported) <= 1


def test_the_loser_of_a_creation_race_follows_the_winner():
    server = FakeClient([], {"web": job_details("RUNNING")})
    server.list_jobs = list  # the list was empty, and then another client was first
    started, _ = start(server)
    assert started.submission_id == "web"
    assert started.was_there.status == "RUNNING"
    assert server.started == []


@pytest.mark.parametrize("error", [ConnectionError("refused"), RefusedError("token")])
def test_an_absent_server_is_given_up_and_a_wrong_token_fails_at_once(error):
    asked, server = [], FakeClient([])

    def refuse():
        asked.append(1)
        raise error

    server.list_jobs = refuse
    with pytest.raises(UnreachableError, match=str(error)):
        start(server, patience=20)
    assert (len(asked) == 1) == isinstance(error, RefusedError)
    assert server.started == []
