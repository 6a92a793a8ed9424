"""Progress: the text of a stage at any time, and regular updates."""

import io
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import train
from nanotok_ray.cli import progress as progresses
from nanotok_ray.cli.progress import Progress, stage_line
from nanotok_ray.job import stage as fan_outs
from nanotok_ray.job.events import (
    Activity,
    Advanced,
    AttemptFailed,
    Planned,
    PlannedStage,
    SliceEnded,
    StageEnded,
    StageStarted,
)
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.forecast import Forecast, StageProgress
from nanotok_ray.job.task import Task, TaskResult
from tests.support.executors import InProcess
from tests.support.small_corpus import recipe, write_corpus

MB = 10**6


class Terminal(io.StringIO):
    def isatty(self):
        return True


NO_PLAN = Forecast()
PLAN = Planned(
    stages=(
        PlannedStage(name="count", num_bytes=96 * MB),
        PlannedStage(name="learn"),
        PlannedStage(name="tokenize", num_bytes=192 * MB),
        PlannedStage(name="verify", seconds=0.0),
    )
)


@pytest.fixture
def now():
    """Return a list whose last number is the current time."""
    return [1000.0]


@pytest.fixture
def log(now):
    """Return a stream and the progress that is printed to it."""
    stream = io.StringIO()
    return stream, progress_at(now, stream)


def progress_at(now, stream):
    return Progress(stream, clock=lambda: now[-1])


def started(todo=96, num_bytes=96 * MB):
    return StageStarted(stage="count", todo=todo, num_done=0, num_bytes=num_bytes)


def ended(estimate=MB):
    own = {"name": "a", "began": 0.0, "seconds": 1.0, "num_bytes": 2 * estimate, "worker": "a/1"}
    return SliceEnded(stage="count", attempts=1, estimate=estimate, **own)


def advanced(done, *, todo=96, running=0, failed=0, num_bytes=None):
    size = 2 * MB * done if num_bytes is None else num_bytes
    own = {"todo": todo, "running": running, "failed": failed}
    return Advanced(stage="count", done=done, num_bytes=size, **own)


def stage_of(done, *, running=0, estimate=MB, **more):
    stage = StageProgress(started(**more), 0.0)
    for _ in range(done):
        stage.take(ended(estimate))
    stage.take(advanced(done, todo=stage.started.todo, running=running))
    return stage


def test_a_stage_shows_rate_time_left_and_failures():
    stage = stage_of(24, running=8)
    stage.take(AttemptFailed(stage="count", name="a", slices=3, cause="slow", text=""))
    stage.take(advanced(24, running=8, failed=1))
    assert stage_line(stage, NO_PLAN, 60.0) == (
        "count: 24 of 96 slices (25%), about 3 min left, 1 failed, "
        "3 attempts failed and tried again, 0.8 MB/s, 8 tasks running"
    )


@pytest.mark.parametrize(
    ("stage", "seconds", "left"),
    [
        (stage_of(10, estimate=8 * MB, num_bytes=100 * MB, todo=100), 80.0, 20.0),
        (stage_of(5, running=91), 300.0, None),
        (stage_of(60, running=36), 300.0, 180.0),
        (stage_of(4, todo=10, num_bytes=0), 40.0, 60.0),
    ],
    ids=["by bytes", "unknown after few of many tasks", "after many", "by number without bytes"],
)
def test_time_left_is_by_bytes_because_the_largest_slices_run_first(stage, seconds, left):
    assert stage.left(seconds) == (left and pytest.approx(left))


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99), st.floats(0, 1e6))
def test_time_left_is_never_negative(done, running, estimate, seconds):
    stage = StageProgress(started(todo=9, num_bytes=50), 0.0)
    stage.take(ended(estimate))
    stage.take(advanced(done, todo=9, running=running))
    left = stage.left(seconds)
    assert left is None or left >= 0
    assert stage_line(stage, NO_PLAN, seconds).startswith(f"count: {done} of 9 slices")


def test_a_log_receives_a_line_every_ten_seconds_without_results(now, log):
    stream, progress = log
    progress(started())
    for _ in range(35):
        now.append(now[-1] + 1)
        progress(advanced(0, running=96))
        progress.tick()
    assert stream.getvalue().splitlines()[1:] == [
        f"count: 0 of 96 slices (0%), {seconds} s so far, 96 tasks running"
        for seconds in (10, 20, 30)
    ]


def test_a_fan_out_shows_the_running_tasks_every_second(monkeypatch):
    times = [1000.0]
    monkeypatch.setattr(fan_outs.time, "monotonic", lambda: times[-1])

    class Slow(InProcess):
        def run(self, tasks, *, listener, **_):
            for _ in range(30):
                listener.on_running(2)
                times.append(times[-1] + 0.1)
            for task in tasks:
                yield TaskResult(task=task, result=5)

    tasks = [Task(name=name, work=len, argument="", num_bytes=7) for name in "abc"]
    events = []
    fan_outs.run_stage("count", tasks, Runtime(Slow(), on_event=events.append), num_done=0)
    reported = [(each.done, each.running) for each in events if isinstance(each, Advanced)]
    assert reported == [(0, 2)] * 3 + [(1, 2), (2, 2), (3, 2)]
    assert [each.estimate for each in events if isinstance(each, SliceEnded)] == [7, 7, 7]


def test_nothing_is_printed_between_stages(now, log):
    stream, progress = log
    progress(started())
    progress(AttemptFailed(stage="count", name="a", slices=2, cause="slow", text=""))
    progress(StageEnded(stage="count", seconds=4.0, num_bytes=8 * MB))
    before = stream.getvalue()
    assert before.endswith("count: done in 4.0 s, 2.0 MB/s, 2 attempts failed and tried again\n")
    now.append(now[-1] + 100)
    progress.tick()
    assert stream.getvalue() == before


def test_a_closed_stream_ends_only_the_thread(now, monkeypatch):
    class Broken(io.StringIO):
        def write(self, text):
            if " of " in text:
                raise BrokenPipeError
            return super().write(text)

    monkeypatch.setattr(progresses, "TICK_SECONDS", 0.001)
    with progress_at(now, Broken()) as progress:
        progress(started())
        now.append(now[-1] + 80)  # only the thread prints
        for thread in threading.enumerate():
            if thread.name == "progress":
                thread.join(10)
                assert not thread.is_alive()


def play_learning(stream, *, calls, total, **options):
    with Progress(stream, **options) as progress:
        progress(StageStarted(stage="learn", todo=total, num_done=0, num_bytes=0))
        for done in calls:
            last = ((256, 257), b" the", 1_234_567 - done) if done else None
            progress(Advanced(stage="learn", done=done, todo=total, num_bytes=0, last=last))
        progress(StageEnded(stage="learn", seconds=2.0, num_bytes=8_000_000))


def test_learning_logs_one_line_every_ten_seconds_for_any_number_of_events():
    now = [0.0]
    log = io.StringIO()

    def calls():
        for done in range(0, 20_001, 20):
            yield done
            now[0] += 0.03125

    play_learning(log, calls=calls(), total=20_000, clock=lambda: now[0])
    the, rate = "' the'", ", 640 merges/s"
    assert [line.replace(rate, "") for line in log.getvalue().splitlines()] == [
        "learn: 20,000 merges",
        f"learn: 6,400 of 20,000 merges (32%), about 21 s left, {the} 1,228,167 times",
        f"learn: 12,800 of 20,000 merges (64%), about 11 s left, {the} 1,221,767 times",
        f"learn: 19,200 of 20,000 merges (96%), about 1 s left, {the} 1,215,367 times",
        "learn: done in 2.0 s, 20,000 of 20,000 merges",
    ]


def test_learning_on_a_terminal_is_a_bar_with_the_last_token_and_its_count(monkeypatch):
    monkeypatch.setattr("tqdm.std.tqdm.monitor_interval", 0)
    monkeypatch.setenv("COLUMNS", "120")
    log = Terminal()
    play_learning(log, calls=[0, 200, 20_000], total=20_000)
    assert "' the' 1,214,567 times" in log.getvalue()
    assert "(1%)" not in log.getvalue()


def test_a_job_forwards_the_progress_of_the_learner(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    events = []
    train(recipe(tmp_path / "in", tmp_path / "out"), on_event=events.append)
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())["merges"]
    made = [event.last for event in events if isinstance(event, Advanced) and event.last]
    pair, _, count = made[-1]
    assert pair == (report["left"][-1], report["right"][-1])
    assert count == report["count"][-1]


def test_a_stage_shows_its_number_and_the_remaining_time_of_the_job(now, log):
    stream, progress = log
    progress(PLAN)
    progress(started())
    for _ in range(48):
        progress(ended())
    now.append(now[-1] + 48)
    progress(advanced(48, num_bytes=48 * MB))
    progress(StageEnded(stage="count", seconds=96.0, num_bytes=96 * MB))
    progress(StageStarted(stage="learn", todo=100, num_done=0, num_bytes=0))
    now.append(now[-1] + 20)
    progress(Advanced(stage="learn", done=50, todo=100, num_bytes=0))
    whole = "whole job: about 3 min 32 s"
    assert stream.getvalue().splitlines() == [
        "count (1 of 4): 96 slices, about 96.0 MB",
        # 192 MB remain to be tokenized at 1 MB/s, and the time of learning is unknown
        "count (1 of 4): 48 of 96 slices (50%), about 48 s left (whole job: over 4 min), 1.0 MB/s",
        "count (1 of 4): done in 96.0 s, 1.0 MB/s",
        "learn (2 of 4): 100 merges",
        f"learn (2 of 4): 50 of 100 merges (50%), about 20 s left ({whole}), 2 merges/s",
    ]


def positions(planned, begun):
    """Yield the position after each begun stage, whose number never exceeds the total."""
    forecast = Forecast([PlannedStage(name=name) for name in planned])
    for name in begun:
        forecast.begin(name, todo=3, num_bytes=0)
        assert 0 < forecast.number <= len(forecast.planned)
        assert forecast.planned[forecast.number - 1].name == name
        yield forecast.position


def test_unplanned_stages_and_repeated_stages_are_numbered():
    planned = ["count", "reduce", "learn", "tokenize"]
    begun = ["count", "count", "merge", "reduce", "learn", "tokenize", "verify"]
    shown = "1 of 4, 1 of 4, 2 of 5, 3 of 5, 4 of 5, 5 of 5, 6 of 6"
    assert ", ".join(positions(planned, begun)) == shown
    assert list(positions(planned, ["count", "tokenize"])) == ["1 of 4", "2 of 2"]
    assert list(positions(["export", "export"], ["export"] * 3)) == ["1 of 2", "2 of 2", "2 of 2"]
    assert list(positions([], ["verify"])) == [""]


@given(
    st.lists(st.sampled_from("abc"), max_size=5),
    st.lists(st.sampled_from("abcd"), max_size=8),
)
def test_the_stage_number_never_exceeds_the_total(planned, begun):
    assert len([*positions(planned, begun)]) == len(begun)


def test_the_first_activity_is_printed_at_once_and_later_ones_if_they_last(now, log):
    stream, progress = log
    progress(Activity(text="reading recipe.toml"))
    assert stream.getvalue() == "reading recipe.toml\n"
    progress(Activity(text="listing the files of web"))
    for done in range(1, 26):
        now.append(now[-1] + 1)
        progress(Activity(text="opening the files of web", done=done, todo=40))
        progress.tick()
    progress(Activity(text="starting Ray"))
    now.append(now[-1] + 1)
    progress.tick()
    progress(started())
    assert stream.getvalue().splitlines()[1:] == [
        "opening the files of web: 1 of 40",
        "opening the files of web: 11 of 40, 10 s so far",
        "opening the files of web: 21 of 40, 20 s so far",
        "starting Ray",
        "count: 96 slices, about 96.0 MB",
    ]


def test_an_activity_on_a_terminal_overwrites_its_line(now):
    stream = Terminal()
    with progress_at(now, stream) as progress:
        progress(Activity(text="opening the files of web", done=0, todo=40))
        assert "opening the files of web: 0 of 40 [00:00]" in stream.getvalue()
        progress(Activity(text="starting Ray"))
        assert "starting Ray [00:00]" in stream.getvalue()
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().endswith("\r")


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_bar_fits_any_terminal(now, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "24")
    stream = Terminal()
    progress = progress_at(now, stream)
    progress(PLAN)
    progress(started())
    for _ in range(48):
        progress(ended())
    progress(AttemptFailed(stage="count", name="a", slices=3, cause="slow", text=""))
    progress(advanced(48, running=8))
    now.append(now[-1] + 60)
    progress.tick()
    last = stream.getvalue().rpartition("\r")[2].partition("\x1b")[0]
    assert len(last) <= columns
    assert last.endswith("]")
    assert "48/96" in last
    assert "#" in last or "█" in last
    assert "1 min left" in last
    assert ("1 min left, job over 3 min" in last) == (columns >= 80)
    assert ("1.6 MB/s" in last) == (columns >= 200)
    assert ("8 tasks running" in last) == (columns >= 200)
    progress(StageEnded(stage="count", seconds=60.0, num_bytes=MB))


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_names_of_files_cannot_write_to_the_terminal(now, stream):
    with progress_at(now, stream) as progress:
        progress(Activity(text="reading \x1b[31mred\nforged.jsonl, https://me:pw@host/a"))
        progress.tick()
    assert r"reading \x1b[31mred\nforged.jsonl, https://***@host/a" in stream.getvalue()
    assert "\x1b[31m" not in stream.getvalue()
