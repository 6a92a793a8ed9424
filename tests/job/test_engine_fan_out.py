"""A fan-out without Ray: events, slices that are skipped by rule, and failures of the job."""

from dataclasses import replace

import pytest

from nanotok_ray.errors import SliceError
from nanotok_ray.job import Advanced, Note, Task, TaskResult, run_stage
from tests.support.executors import InProcess


def task(number):
    return Task(
        name=f"slice {number}", work=len, argument="", num_bytes=10, inputs=(f"/in/{number}.gz",)
    )


class Engine(InProcess):
    """An engine that completes tasks of even number, and counts its runs."""

    is_closed, begun = False, 0

    def run(self, tasks, *, on_note, **_):
        on_note("a worker died")
        try:
            for number, each in enumerate(tasks):
                self.begun += 1
                error = f"why {number}" if number % 2 else None
                yield TaskResult(task=each, result=None if error else 7, error=error)
        finally:
            self.is_closed = True


def run(count, *, engine=None, on_event=lambda _: None, **settings):
    tasks = [task(number) for number in range(count)]
    executor = engine or Engine()
    return run_stage("count", tasks, num_done=0, on_event=on_event, executor=executor, **settings)


def test_failed_slices_fail_the_job_after_all_others_have_run():
    reported = []
    with pytest.raises(SliceError) as caught:
        run(5, on_event=reported.append)
    assert str(caught.value).splitlines() == [
        "count: 2 of 5 slices failed; the others are kept, run the job again",
        "  slice 1 (of /in/1.gz): why 1",
        "  slice 3 (of /in/3.gz): why 3",
    ]
    last = [event for event in reported if isinstance(event, Advanced)][-1]
    assert (last.done, last.failed, last.num_bytes) == (5, 2, 21)
    assert Note(text="count: a worker died") in reported
    with pytest.raises(SliceError, match=r"slice 9 \(of /in/9.gz\): why 9\n  and 5 more$"):
        run(20)


def test_up_to_the_limit_failed_slices_are_skipped_and_returned():
    failures = [(each.task.name, each.error) for each in run(5, max_skipped=2)]
    assert failures == [("slice 1", "why 1"), ("slice 3", "why 3")]
    with pytest.raises(SliceError):
        run(7, max_skipped=2)
    engine = Engine()
    assert run(0, engine=engine) == []
    assert engine.begun == 0


def test_an_exception_in_a_listener_closes_the_engine():
    def interrupt(event):
        if isinstance(event, Advanced):
            raise KeyboardInterrupt

    engine = Engine()
    with pytest.raises(KeyboardInterrupt) as caught:
        run(2, engine=engine, on_event=interrupt)
    assert engine.is_closed
    del caught


def test_many_inputs_are_abbreviated():
    own = replace(task(0), inputs=tuple(f"{letter}.gz" for letter in "abcdef"))
    assert own.inputs_text == "a.gz, b.gz, c.gz and 3 more files"
