"""The journal: segments, events, a job's journal, a store."""

import json
import os
import re
import threading
import time
import tracemalloc
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.api import prepare, train
from nanotok_ray.errors import LeaseLostError, SliceError
from nanotok_ray.job import journal_writer, journaling
from nanotok_ray.job.events import (
    Advanced,
    AttemptFailed,
    ClusterSize,
    Note,
    SliceEnded,
    StageStarted,
)
from nanotok_ray.job.journal import (
    FailedAttempt,
    JournalledSlice,
    RunEnd,
    TimedNote,
    read_journal,
    row_of,
    runs_in,
    segment_name,
)
from nanotok_ray.job.journal_writer import Journal
from nanotok_ray.job.journaling import RunRecorder
from nanotok_ray.job.lease import lease_name
from nanotok_ray.job.planning import plan_job
from nanotok_ray.job.termination import Terminated
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.storage import Folder
from tests.support.faulty_proxy import Fault
from tests.support.machine_speed import scaled
from tests.support.made_journal import Run, end
from tests.support.small_corpus import recipe

TEXT = st.text(max_size=12)
COUNT = st.integers(0, 2**50)
TIME = st.floats(0, 1e6)


def written(out, rows, *, run=1):
    journal = Journal(out, run)
    journal.begin()
    for row in rows:
        journal.add(row)
    assert journal.close() is None
    return read_journal(out, run)


def note(text):
    return {"event": "note", "at": 1.0, "text": text}


def test_stages_are_counted_by_their_slices_and_an_end_before_more_work_is_no_end(out):
    run = Run()
    for stage, count in (("count", 3), ("tokenize", 2), ("count", 1)):
        run.sliced(stage, count)
    found = written(out, run.events)
    reported = [(each.name, each.todo, each.done) for each in found.stages]
    assert reported == [("count", 3, 3), ("tokenize", 2, 2), ("count", 1, 1)]
    sizes = [each["num_bytes"] for each in run.events if each["event"] == "slice"]
    expected = [sum(sizes[:3]), sum(sizes[3:5]), sizes[5]]
    assert [each.done_bytes for each in found.stages] == expected
    seconds = [each["seconds"] for each in run.events if each["event"] == "stage end"]
    assert [each.seconds for each in found.stages] == seconds
    assert found.head.command == run.events[0]["command"]
    last = end(run.now)
    assert written(out, [*run.events, last], run=2).end.status == "done"
    assert written(out, [last, *run.events], run=3).end is None


SLICE_VALUES = {"stage": TEXT, "name": TEXT, "at": TIME, "began": TIME, "seconds": TIME}
SLICE_VALUES |= {"num_bytes": COUNT, "worker": TEXT, "attempts": COUNT}
ROWS = st.one_of(
    st.builds(TimedNote, at=TIME, text=TEXT),
    st.builds(JournalledSlice, **SLICE_VALUES, error=st.none() | TEXT, estimate=COUNT),
    st.builds(FailedAttempt, stage=TEXT, name=TEXT, at=TIME, slices=COUNT, cause=TEXT, text=TEXT),
)
EVENTS = {TimedNote: "note", JournalledSlice: "slice", FailedAttempt: "attempt"}


@given(st.lists(ROWS, min_size=1))
def test_a_written_journal_can_be_read(rows):
    out = Folder("memory://journal-round")
    found = written(out, [{"event": EVENTS[type(row)], **asdict(row)} for row in rows])
    again = {TimedNote: found.notes, JournalledSlice: found.slices}
    again |= {FailedAttempt: found.failed_attempts}
    for kind, own in again.items():
        assert list(own) == [row for row in rows if type(row) is kind]


def test_rows_of_events_keep_their_fields():
    own = {"stage": "count", "name": "a", "num_bytes": 3, "worker": "h/1", "attempts": 1}
    extra = {"estimate": 7, "slices": 2, "error": "no"}
    attempt = {"stage": "count", "name": "a", "slices": 1, "cause": "slow", "text": "t"}
    rows = [
        row_of(Note(text="x" * 3000), 1.5),
        row_of(SliceEnded(began=1.23456, seconds=2, **own), 3.0),
        row_of(SliceEnded(began=0.0, seconds=0.0004, **own, **extra), 4.0),
        row_of(AttemptFailed(**attempt), 5.0),
    ]
    assert rows == [
        {"event": "note", "at": 1.5, "text": "x" * 2000},
        {"event": "slice", "at": 3.0, **own, "began": 1.235, "seconds": 2, "estimate": 0},
        {"event": "slice", "at": 4.0, **own, "began": 0.0, "seconds": 0.0, **extra},
        {"event": "attempt", "at": 5.0, **attempt},
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.just(10**400),
    lambda own: st.lists(own, max_size=2) | st.dictionaries(TEXT, own, max_size=2),
    max_leaves=4,
)
KEYS = ["at", "name", "todo", "kept", "num_bytes", "stage", "done", "seconds", "text", "error"]
HOSTILE = st.builds(
    lambda kind, at, own: {"event": kind, "at": at, **own},
    st.sampled_from(["run", "note", "stage", "slice", "attempt", "progress", "stage end", "end"])
    | JSON,
    TIME | JSON,
    st.dictionaries(st.sampled_from(KEYS), JSON | TIME | COUNT),
)


@given(st.lists(HOSTILE | JSON), st.binary(max_size=20))
def test_a_foreign_journal_can_be_read(lines, data):
    out = Folder("memory://journal-hostile")
    text = "".join(f"{json.dumps(each)}\n" for each in lines)
    out.write_bytes(segment_name(7, 0), text.encode())
    out.write_bytes(segment_name(7, 1), data)
    found = read_journal(out)
    for stage in found.stages:
        values = (stage.at, stage.todo, stage.num_bytes, stage.done, stage.seconds or 0)
        assert all(abs(float(value)) <= 2**63 for value in values)


def test_damaged_segments_are_counted_and_foreign_events_are_skipped(out):
    for number, data in enumerate([b'{"event":"note","at":1,"text":"a"}', b"[1]", b"\xff", b"{"]):
        out.write_bytes(segment_name(3, number), data)
    out.write_bytes(segment_name(3, 6), b"[" * 100_000)
    found = read_journal(out)
    assert found.notes == (TimedNote(at=1, text="a"),)
    assert found.missing_segments == 6
    out.write_bytes("run/journal/000004-999999999999999999.jsonl", b"")
    assert read_journal(out).missing_segments == 10**18 - 1
    assert read_journal(out, 2) is None
    foreign = [{"event": "dance", "at": 1.0}, note("b") | {"at": 1e300}]
    later = {"event": "note", "at": 2.0, "text": "a", "mood": 1}
    assert written(out, [*foreign, later], run=5).notes == (TimedNote(at=2.0, text="a"),)


class Refusing(Folder):
    """Storage that refuses a given number of writes of segments."""

    def __init__(self, url, times):
        super().__init__(url)
        self.times, self.refused = times, threading.Event()

    def write_bytes(self, name, data):
        if self.times and name.startswith("run/journal/"):
            self.times -= 1
            self.refused.set()
            raise OSError(28, "No space left\non device")
        super().write_bytes(name, data)


def test_events_that_storage_refused_are_in_the_next_segment(tmp_path):
    out = Refusing(str(tmp_path), 1)
    journal = Journal(out, 1)
    journal.add(note("a"))
    journal.begin()
    assert out.refused.wait(scaled(10))
    journal.add(note("b"))
    assert journal.close() is None
    assert notes_of(out) == ["a", "b"]
    assert runs_in(out) == {1: [0]}


def test_memory_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_writer, "MAX_PENDING_BYTES", 1000)
    out = Refusing(str(tmp_path), 10**9)
    journal = Journal(out, 1)
    tracemalloc.start()
    for number in range(20_000):  # 10 MB of rows
        journal.add(note(f"{number:0100}"))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 200_000  # also of other threads
    out.times = 0
    journal.begin()
    assert journal.close().startswith("19,993 events are missing")
    assert len(notes_of(out)) == 7


def notes_of(out):
    journal = read_journal(out) if runs_in(out) else None
    return [] if journal is None else [each.text for each in journal.notes]


def test_a_segment_ends_after_half_a_minute_and_later_in_a_long_run(out, monkeypatch):
    monkeypatch.setattr(journal_writer, "WRITE_SECONDS", 0.001)
    now = [0.0]
    journal = Journal(out, 1, now=lambda: now[0])
    journal.begin()
    segments = []
    times = [0.0, 29.0, 30.0, 31.0, 72_000.0, 72_100.0, 72_301.0, 72_302.0, 72_303.0]
    for number, now[0] in enumerate(times, 1):
        journal.add(note(str(number)))
        while len(notes_of(out)) != number:
            time.sleep(0.001)
        segments.append(len(runs_in(out)[1]))
    # Segments end at 30 s, at 72,000 s, and 302 s later: a 240th of the elapsed time.
    assert segments == [1, 1, 1, 2, 2, 3, 3, 3, 4]
    assert journal.close() is None
    assert notes_of(out) == list("123456789")


def test_journals_of_the_last_runs_are_kept(out):
    for run in [*range(1, 30), 99]:
        out.write_bytes(segment_name(run, 0), b"")
    out.write_bytes(segment_name(30, 4), b"")
    written(out, [note("a")], run=30)
    assert list(runs_in(out)) == [*range(11, 31), 99]
    assert runs_in(out)[30] == [0]


def test_the_end_is_written_before_old_journals_are_removed(out, monkeypatch):
    for run in range(1, 30):
        out.write_bytes(segment_name(run, 0), b"")
    journal, ends, is_tidy = Journal(out, 30), [], threading.Event()

    def remove(name):
        if not ends:
            journal.add({"event": "end", "at": 2.0, "status": "done"})
            assert "was not written in time" in journal.close(seconds=0)
        ends.append(read_journal(out, 30).end)
        Folder(out.url).remove(name)
        if len(runs_in(out)) == journal_writer.MAX_RUNS:
            is_tidy.set()

    monkeypatch.setattr(out, "remove", remove)
    journal.add({"event": "run", "at": 1.0})
    journal.begin()
    assert is_tidy.wait(scaled(30))
    assert ends == [None, *[RunEnd(at=2.0, status="done")] * 9]


def test_a_refused_end_is_reported_even_if_other_files_are_written(tmp_path):
    out = Refusing(str(tmp_path), 10**9)
    journal = Journal(out, 1)
    journal.add({"event": "end", "at": 1.0})
    journal.begin()
    reported = journal.close(last_files={"run/summary.json": b"{}"})
    assert reported.endswith("was not written: [Errno 28] No space left")
    assert out.read_bytes("run/summary.json") == b"{}"


def test_invalid_json_is_skipped_and_reported(out):
    journal = Journal(out, 1)
    journal.begin()
    journal.add(note(b"a"))
    assert journal.close().startswith("1 events are missing")


def test_many_segments_are_read_in_parallel_and_in_order(remote, proxy):
    for number in range(40):
        row = f'{{"event":"note","at":{number},"text":"{number}"}}\n'
        remote.write_bytes(segment_name(1, number), row.encode())
    proxy.fail(Fault.RESET, Fault.SLOW_DOWN, method="GET", path="-0000", period=7)
    own = read_journal(Folder(remote.url))
    assert [each.text for each in own.notes] == [str(number) for number in range(40)]


def test_a_job_continues_after_failures_of_the_journal(job, remote, proxy, tmp_path):
    proxy.fail_always(Fault.FORBIDDEN, method="PUT", path="run/journal")
    reported = []
    summary = prepare(recipe(tmp_path / "in", remote.url), on_event=reported.append)
    assert summary.values["status"] == "done"
    notes = [each.text for each in reported if isinstance(each, Note) and "journal" in each.text]
    assert len(notes) == 1


STAGES = ["count", "reduce", "learn", "tokenize", "verify"]


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


def test_learning_that_ends_early_reports_its_number_of_merges(job, out, tmp_path):
    train(recipe(tmp_path / "in", out.url, "tokenizer.vocab_size=20000"))
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
    assert (own.end.status, own.missing_segments) == ("done", 0)
    assert summary_of(out)["seconds"] == own.end.seconds > 0
    learned = next(stage for stage in own.stages if stage.name == "learn")
    assert learned.progress[-1][1:] == (learned.todo, learned.todo)
    assert len(learned.progress) <= 101
    assert (own.head.command, own.head.pid) == ("prepare", os.getpid())
    assert own.head.cpus >= 1
    assert None not in asdict(own.head).values()
    text = b"".join(map(out.read_bytes, out.list("run/journal/"))).decode()
    assert re.search(r'"event":"stage","at":[0-9.]+,"name":"count","todo":\d+,"kept":0,', text)


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
    assert end.status == summary_of(out)["status"] == status
    assert str(error) in end.error or status != "failed"


def test_a_failed_run_keeps_the_rates_of_the_last_one_for_planning(job, out, tmp_path):
    train(job)
    prepare(job)
    before = summary_of(out)
    before["stages"]["count"] = {"seconds": 10.0, "bytes": 10**9}
    out.write_bytes("run/summary.json", json.dumps(before).encode())
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
    assert read_journal(out).end.status == "failed"


RECIPE = """
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
    text = RECIPE.replace("OUT", str(tmp_path / "out"))
    return RunRecorder(parse_recipe(text, overrides=["limits.max_skipped_slices=2"]), "prepare")


def test_the_recipe_is_stored_as_written_without_secrets(kept, out):
    kept.begin(1)
    kept.done()
    text = read_journal(out).head.recipe
    assert "${JOURNAL_SECRET}/web" in text
    assert "# --set limits.max_skipped_slices=2" in text
    assert "https://***@host/x?sig=***&v=2" in text
    assert not any(word in text for word in ("hidden", "pw@", "abc"))


SLICE_ENDED = SliceEnded(
    stage="count", name="a", began=1.0, seconds=1.0, num_bytes=3, worker="w/1", attempts=1
)
ATTEMPT = AttemptFailed(stage="count", name="a", slices=2, cause="slow", text="")


def test_no_text_of_a_journal_contains_a_secret(kept, out, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "hunter2-hunter2")
    text = "https://me:pw@host/x?sig=abc refuses hunter2-hunter2"
    kept(Note(text=text))  # before the lease
    kept.begin(3)
    kept(replace(ATTEMPT, text=text))
    kept(replace(SLICE_ENDED, error=text))
    kept.failed(SliceError(text))
    own = read_journal(out, 3)
    rows = (own.notes[0].text, own.failed_attempts[0].text, own.slices[0].error, own.end.error)
    assert rows == ("https://***@host/x?sig=*** refuses ***",) * 4
    assert b"hunter2" not in out.read_bytes("run/summary.json")


def test_failed_attempts_are_bounded_and_counted(kept, out, monkeypatch):
    monkeypatch.setattr(journaling, "MAX_ATTEMPTS", 5)
    kept.begin(1)
    for number in range(9):
        kept(replace(ATTEMPT, cause="slow" if number % 2 else "storage", text="x" * 5000))
    kept.failed(ValueError())
    own = read_journal(out)
    assert len(own.failed_attempts) == 3
    assert len(own.failed_attempts[0].text) == 2000
    assert own.end.failed_attempts == {"slow": 8, "storage": 10}
    assert own.end.error == "ValueError"


def test_the_size_of_the_cluster_is_written_when_it_changes(kept, out):
    kept.begin(1)
    here = len(os.sched_getaffinity(0))
    for cpus, nodes in [(here, 1), (48, 4), (48, 4), (32, 3)]:
        kept(ClusterSize(cpus=cpus, nodes=nodes))
    kept.done()
    found = read_journal(out)
    assert found.cluster == ClusterSize(cpus=32, nodes=3)
    assert (found.head.cpus, found.head.nodes) == (here, 1)
    text = b"".join(map(out.read_bytes, out.list("run/journal/"))).decode()
    assert text.count('"event":"cluster"') == 2


def test_stages_without_slices_write_one_row_per_percent(kept, out):
    kept.begin(1)
    kept(StageStarted(stage="learn", todo=5000, num_done=0, num_bytes=0))
    for done in range(5001):
        kept(Advanced(stage="learn", done=done, todo=5000, num_bytes=0))
    kept(StageStarted(stage="count", todo=2, num_done=0, num_bytes=0))
    for done in (1, 2):
        kept(replace(SLICE_ENDED, name=f"{done}"))
        kept(Advanced(stage="count", done=done, todo=2, num_bytes=3))
    kept.done()
    learn, count = read_journal(out).stages
    assert [done for _, done, _ in learn.progress] == list(range(0, 5001, 50))
    assert (count.done, count.progress) == (2, ())
