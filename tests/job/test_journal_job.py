"""Whole jobs write a journal with their work, their environment, and their end."""

import json
import os
import time
from dataclasses import replace

import pytest

from nanotok_ray.api import prepare, train
from nanotok_ray.errors import LeaseLostError, SliceError
from nanotok_ray.job import (
    Advanced,
    AttemptFailed,
    Journal,
    Journaling,
    Note,
    SliceEnded,
    StageStarted,
    Terminated,
    journal_writer,
    journaling,
    lease_name,
    plan_job,
    read_journal,
    runs_in,
)
from nanotok_ray.recipe import parse_recipe
from tests.support.small_corpus import recipe, write_corpus

STAGES = ["count", "reduce", "learn", "tokenize", "verify"]


@pytest.fixture
def job(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    return recipe(tmp_path / "in", tmp_path / "out")


def fail_at(kind, stage, error):
    """Return a listener that raises at the first matching event."""

    def listen(event):
        if isinstance(event, kind) and event.stage == stage:
            raise error

    return listen


def summary_of(out):
    return json.loads(out.read_bytes("run/summary.json"))


def test_a_stage_is_in_the_journal_as_soon_as_it_starts(job, out, monkeypatch):
    monkeypatch.setattr(journal_writer, "WRITE_SECONDS", 1000.0)
    seen = []

    def listen(event):
        if isinstance(event, StageStarted):
            while not runs_in(out) or [own.name for own in read_journal(out).stages] == seen:
                time.sleep(0.001)
            seen.append(event.stage)

    prepare(job, on_event=listen)
    assert seen == [own.name for own in read_journal(out).stages] == STAGES


def test_learning_that_ends_early_reports_its_number_of_merges(tmp_path, in_process, out):
    write_corpus(tmp_path / "in")
    own = recipe(tmp_path / "in", tmp_path / "out", "tokenizer.vocab_size=20000")
    train(own)
    learned = next(stage for stage in read_journal(out).stages if stage.name == "learn")
    merges = json.loads(out.read_bytes("tokenizer/report.json"))["merges"]["count"]
    assert learned.done == len(merges) < learned.todo


def test_a_job_leaves_a_journal(job, out):
    prepare(job, on_event=lambda _: time.sleep(0.002))
    own = read_journal(out)
    assert own.run == 1
    assert [stage.name for stage in own.stages] == STAGES
    assert all(stage.seconds is not None for stage in own.stages)
    slices = [each for each in own.slices if each.stage == "tokenize"]
    assert [stage.done for stage in own.stages if stage.name == "tokenize"] == [len(slices)]
    assert all(each.num_bytes and each.estimate for each in slices)
    assert (own.end["status"], own.missing_segments) == ("done", 0)
    assert summary_of(out)["seconds"] == own.end["seconds"] > 0
    learned = next(stage for stage in own.stages if stage.name == "learn")
    assert learned.progress[-1][1:] == (learned.todo, learned.todo)
    assert len(learned.progress) <= 101
    assert (own.head["command"], own.head["pid"]) == ("prepare", os.getpid())
    assert own.head["cpus"] >= 1
    named = {"started", "host", "ray_job", "version", "core", "python", "ray", "nodes"}
    assert named <= set(own.head)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SliceError("no such thing"), "failed"),
        (ValueError("odd"), "failed"),
        (KeyboardInterrupt(), "interrupted"),
        (Terminated(), "terminated"),
    ],
)
def test_the_end_of_a_run_is_written_before_the_lease_is_released(
    job, out, monkeypatch, error, status
):
    states = []
    close = Journal.close

    def close_and_look(journal, **more):
        states.append(json.loads(out.read_bytes(lease_name(1)))["state"])
        return close(journal, **more)

    monkeypatch.setattr(Journal, "close", close_and_look)
    with pytest.raises(type(error)):
        prepare(job, on_event=fail_at(StageStarted, "tokenize", error))
    assert states[0] == "held"
    end = read_journal(out).end
    assert end["status"] == summary_of(out)["status"] == status
    assert str(error) in end["error"] or status != "failed"


def test_a_failed_run_keeps_the_rates_of_the_last_one_for_planning(job, out, tmp_path):
    train(job)
    prepare(job)
    before = summary_of(out)
    before["stages"]["count"] = {"seconds": 10.0, "bytes": 10**9}
    out.write_whole("run/summary.json", json.dumps(before).encode())
    more = recipe(tmp_path / "in", tmp_path / "out", "tokenizer.vocab_size=360")
    for _ in range(2):
        with pytest.raises(SliceError):
            prepare(more, on_event=fail_at(StageStarted, "count", SliceError("no")))
    after = summary_of(out)
    assert after["earlier_stages"]["count"] == {"seconds": 10.0, "bytes": 10**9}
    assert (after["run"], after["error"]) == (4, "no")
    estimate = plan_job(recipe(tmp_path / "in", tmp_path / "out", "limits.doc_cap=9"))
    reported = estimate.values["estimate"]["stages"]["count"]
    assert reported["from"].startswith("as in the last run")


def test_a_run_that_lost_its_lease_does_not_write_the_summary(job, out):
    with pytest.raises(LeaseLostError):
        prepare(job, on_event=fail_at(StageStarted, "tokenize", LeaseLostError("gone")))
    assert not out.exists("run/summary.json")
    assert read_journal(out).end["status"] == "failed"


TEXT = """
[[source]]
name = "web"
kind = "text"
paths = ["${JOURNAL_SECRET}/web", "https://me:pw@host/x?sig=abc&v=2"]
[output]
path = "OUT"
"""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("JOURNAL_SECRET", "s3://hidden")
    text = TEXT.replace("OUT", str(tmp_path / "out"))
    return Journaling(parse_recipe(text, overrides=["limits.max_skipped_slices=2"]), "prepare")


def test_the_recipe_is_stored_as_written_without_secrets(kept, out):
    kept.leased(1)
    kept.done()
    text = read_journal(out).head["recipe"]
    assert "${JOURNAL_SECRET}/web" in text
    assert "# --set limits.max_skipped_slices=2" in text
    assert "https://***@host/x?sig=***&v=2" in text
    assert not any(word in text for word in ("hidden", "pw@", "abc"))


SLICE = SliceEnded(
    stage="count", name="a", began=1.0, seconds=1.0, num_bytes=3, worker="w/1", attempts=1
)
ATTEMPT = AttemptFailed(stage="count", name="a", slices=2, cause="slow", text="")


def test_no_text_of_a_journal_contains_a_secret(kept, out, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "hunter2-hunter2")
    text = "https://me:pw@host/x?sig=abc refuses hunter2-hunter2"
    kept(Note(text=text))  # before the lease
    kept.leased(3)
    kept(replace(ATTEMPT, text=text))
    kept(replace(SLICE, error=text))
    kept.failed(SliceError(text))
    own = read_journal(out, 3)
    rows = (own.notes[0].text, own.failed_attempts[0].text, own.slices[0].error, own.end["error"])
    assert rows == ("https://***@host/x?sig=*** refuses ***",) * 4
    assert b"hunter2" not in out.read_bytes("run/summary.json")


def test_failed_attempts_are_bounded_and_counted(kept, out, monkeypatch):
    monkeypatch.setattr(journaling, "MAX_ATTEMPTS", 5)
    kept.leased(1)
    for number in range(9):
        kept(replace(ATTEMPT, cause="slow" if number % 2 else "storage", text="x" * 5000))
    kept.failed(ValueError())
    own = read_journal(out)
    assert len(own.failed_attempts) == 3
    assert len(own.failed_attempts[0].text) == 2000
    assert own.end["failed_attempts"] == {"slow": 8, "storage": 10}
    assert own.end["error"] == "ValueError"


def test_stages_without_slices_write_one_row_per_percent(kept, out):
    kept.leased(1)
    kept(StageStarted(stage="learn", todo=5000, num_done=0, num_bytes=0))
    for done in range(5001):
        kept(Advanced(stage="learn", done=done, todo=5000, num_bytes=0))
    kept(StageStarted(stage="count", todo=2, num_done=0, num_bytes=0))
    for done in (1, 2):
        kept(replace(SLICE, name=f"{done}"))
        kept(Advanced(stage="count", done=done, todo=2, num_bytes=3))
    kept.done()
    learn, count = read_journal(out).stages
    assert [done for _, done, _ in learn.progress] == list(range(0, 5001, 50))
    assert (count.done, count.progress) == (2, ())
