"""Progress: what is said of a stage at any time, and that something is said at all."""

import io
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.cli import progress as progresses
from nanotok_ray.cli.progress import Progress, StageProgress
from nanotok_ray.job import stage as fan_outs
from nanotok_ray.job.events import Advanced, AttemptFailed, SliceEnded, StageEnded, StageStarted
from nanotok_ray.job.task import Task, TaskResult
from tests.support.executors import InProcess

MB = 10**6


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def now():
    """Return a list whose last number is the time."""
    return [1000.0]


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


def test_a_stage_of_which_nothing_has_ended_says_that_it_lives():
    assert stage_of(0, running=96).line(80.0) == (
        "count: 0 of 96 slices, 96 tasks running, 1 min 20 s so far"
    )


def test_a_stage_says_rate_time_left_and_failures():
    stage = stage_of(24, running=8)
    stage.take(AttemptFailed(stage="count", name="a", slices=3, cause="slow", text=""))
    stage.take(advanced(24, running=8, failed=1))
    assert stage.line(60.0) == (
        "count: 24 of 96 slices, 8 tasks running, 0.8 MB/s, about 3 min left, 1 failed, "
        "3 attempts failed and tried again"
    )


def test_time_left_goes_by_bytes_as_the_largest_slices_go_first():
    stage = stage_of(10, estimate=8 * MB, num_bytes=100 * MB, todo=100)
    assert stage.left(80.0) == pytest.approx(20.0)


def test_time_left_is_not_foretold_by_the_first_few_of_many():
    assert stage_of(5, running=91).left(300.0) is None
    assert stage_of(60, running=36).left(300.0) == pytest.approx(180.0)


def test_time_left_without_bytes_goes_by_number():
    stage = StageProgress(started(todo=10, num_bytes=0), 0.0)
    stage.take(advanced(4, todo=10, num_bytes=0))
    assert stage.left(40.0) == pytest.approx(60.0)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99), st.floats(0, 1e6))
def test_time_left_is_never_below_zero(done, running, estimate, seconds):
    stage = StageProgress(started(todo=9, num_bytes=50), 0.0)
    stage.take(ended(estimate))
    stage.take(advanced(done, todo=9, running=running))
    left = stage.left(seconds)
    assert left is None or left >= 0
    assert stage.line(seconds).startswith(f"count: {done} of 9 slices")


def test_a_log_gets_a_line_every_ten_seconds_though_nothing_ends(now):
    stream = io.StringIO()
    progress = progress_at(now, stream)
    progress(started())
    for _ in range(35):
        now.append(now[-1] + 1)
        progress(advanced(0, running=96))
        progress.tick()
    assert stream.getvalue().splitlines()[1:] == [
        f"count: 0 of 96 slices, 96 tasks running, {seconds} s so far" for seconds in (10, 20, 30)
    ]


def test_the_thread_looks_by_itself(now, monkeypatch):
    monkeypatch.setattr(progresses, "TICK_SECONDS", 0.001)
    stream = io.StringIO()
    with progress_at(now, stream) as progress:
        progress(started())
        now.append(now[-1] + 80)
        while " of " not in stream.getvalue():
            threading.Event().wait(0.001)
    assert "count: 0 of 96 slices, 1 min 20 s so far" in stream.getvalue()


def test_a_fan_out_says_every_second_how_many_tasks_run(monkeypatch):
    times = [1000.0]
    monkeypatch.setattr(fan_outs.time, "monotonic", lambda: times[-1])

    class Slow(InProcess):
        def run(self, tasks, *, on_running, **_):
            for _ in range(30):
                on_running(2)
                times.append(times[-1] + 0.1)
            for task in tasks:
                yield TaskResult(task=task, result=5)

    tasks = [Task(name=name, work=len, argument="", num_bytes=7) for name in "abc"]
    events = []
    fan_outs.run_stage("count", tasks, num_done=0, on_event=events.append, executor=Slow())
    told = [(each.done, each.running) for each in events if isinstance(each, Advanced)]
    assert told == [(0, 2)] * 3 + [(1, 2), (2, 2), (3, 2)]
    assert [each.estimate for each in events if isinstance(each, SliceEnded)] == [7, 7, 7]


def test_nothing_is_said_between_stages(now):
    stream = io.StringIO()
    progress = progress_at(now, stream)
    progress(started())
    progress(AttemptFailed(stage="count", name="a", slices=2, cause="slow", text=""))
    progress(StageEnded(stage="count", seconds=4.0, num_bytes=8 * MB))
    before = stream.getvalue()
    assert before.endswith("count: done in 4.0 s, 2.0 MB/s, 2 attempts failed and tried again\n")
    now.append(now[-1] + 100)
    progress.tick()
    assert stream.getvalue() == before


def test_a_bar_says_the_same_beside_it(now):
    stream = Terminal()
    progress = progress_at(now, stream)
    progress(started())
    for _ in range(48):
        progress(ended())
    progress(advanced(48, running=8))
    now.append(now[-1] + 60)
    progress.tick()
    progress(StageEnded(stage="count", seconds=60.0, num_bytes=MB))
    assert "48/96" in stream.getvalue()
    assert "8 tasks running, 1.6 MB/s, about 1 min left" in stream.getvalue()


def test_a_stream_that_nobody_reads_ends_the_thread_alone(now, monkeypatch):
    class Broken(io.StringIO):
        def write(self, text):
            if " of " in text:
                raise BrokenPipeError
            return super().write(text)

    monkeypatch.setattr(progresses, "TICK_SECONDS", 0.001)
    with progress_at(now, Broken()) as progress:
        progress(started())
        now.append(now[-1] + 80)
        progress._ticker.join(10)
        assert not progress._ticker.is_alive()
