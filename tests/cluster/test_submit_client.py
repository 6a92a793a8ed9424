"""Ray's client and the whole command with a faulty job server; no cluster."""

import json
import os
import zipfile
from io import BytesIO

import pytest

from nanotok_ray.cli import main
from nanotok_ray.cluster.submit import RayJobs, Submission, ray_jobs, submission
from nanotok_ray.errors import RefusedError, UnreachableError
from nanotok_ray.job import Summary
from tests.support.job_server import job_server

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
    with job_server() as own:
        yield own


def test_a_job_is_started_once_with_only_its_recipe(server):
    jobs = RayJobs(server.address)
    assert jobs.states() == {}
    assert jobs.state("web") is None
    assert jobs.submit("web", SUBMISSION)
    assert not jobs.submit("web", SUBMISSION)
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


@pytest.mark.parametrize("fault", ["close", "hang", "lost", 200, 404, 500, 502])
def test_every_failed_response_raises_the_same_class_of_error(server, fault, monkeypatch):
    monkeypatch.setattr(ray_jobs, "ANSWER_SECONDS", 0.3)
    for place in (0, 2):  # the first request, which opens the connection, and the following one
        server.script = [None] * place + [fault]
        with pytest.raises(UnreachableError, match=server.address) as raised:
            RayJobs(server.address).states()
        assert not isinstance(raised.value, RefusedError)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 400


def test_a_wrong_token_and_a_bad_request_are_refused(server, monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE")
    advice = "export RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN="
    for status in (401, 403, 401):
        server.script = [status]
        with pytest.raises(RefusedError, match=advice):
            RayJobs(server.address).states()
        if status == 403:
            monkeypatch.setenv("RAY_AUTH_MODE", "token")
            monkeypatch.setenv("RAY_AUTH_TOKEN", "f" * 64)
            advice = "the token of RAY_AUTH_TOKEN was used; `ray get-auth"
    jobs = RayJobs(server.address)
    jobs.state("web")
    server.script = [None, None, 400]  # after requests for the package and its upload
    with pytest.raises(RefusedError, match=r"refuses the job: .* trouble"):
        jobs.submit("web", SUBMISSION)


@pytest.fixture
def quick(monkeypatch):
    """Remove the pauses between requests."""
    for name in ("START_PAUSE", "FIRST_PAUSES", "PAUSE", "TICK"):
        monkeypatch.setattr(submission, name, 0.001)


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
    assert f"{Summary(values).text()}\nnanotok: the job succeeded" in err
    assert "an arbitrary line" not in err
    server.add("other", "SUCCEEDED", exit_code=0, log=DONE)
    code, reported, err = submit("--submission-id", "other")  # a version with another summary
    assert (code, reported["summary"]) == (0, {"status": "done"})
    assert "count: 1 of 1 slices\nnanotok: the job succeeded" in err
    assert server.submitted == []


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
