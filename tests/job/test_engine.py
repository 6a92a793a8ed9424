"""The scheduler: attempts, causes of failures, deaths of workers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray import exceptions

from nanotok_ray.cluster import failure_of
from nanotok_ray.errors import SharedFolderError, SliceError, SourceError, TransientIOError
from nanotok_ray.job import (
    Advanced,
    AttemptResult,
    Cause,
    Failure,
    Note,
    RetryPolicy,
    Scheduler,
    Task,
    TaskResult,
    TaskRules,
    run_batch,
    run_stage,
    use_executor,
)
from nanotok_ray.job.probes import Probe
from nanotok_ray.job.scheduler import MIN_BYTES
from tests.support.executors import InProcess

GOOD = AttemptResult(result=1, seconds=0.5)
LIMITS = RetryPolicy()


def bad(cause):
    return AttemptResult(failure=Failure(cause, f"text of {cause.name}"))


def attempts_at(count, *, num_bytes=0, retry_policy=LIMITS):
    """Return attempts at tasks of one size; from `MIN_BYTES` on, each is a separate call."""
    tasks = [
        Task(name=f"slice {number}", work=len, argument="", num_bytes=num_bytes)
        for number in range(count)
    ]
    return Scheduler(tasks, retry_policy=retry_policy)


def failed(attempts, call, cause, now, text="why"):
    """Let a whole call fail."""
    return attempts.ended(
        call, [AttemptResult(failure=Failure(cause, text))] * len(call.slices), now
    )


def doubled(*, count=1, **settings):
    """Return attempts, their first call, and a speculative one beside it."""
    attempts = attempts_at(count, **settings)
    [call] = take_all(attempts, 0.0)
    return attempts, call, attempts.take_speculative(call)


def take_all(attempts, now):
    calls = []
    while (call := attempts.take(now, cpus=1)) is not None:
        calls.append(call)
    return calls


def fail_until_it_ends(attempts, cause):
    """Fail the only slice for one cause whenever it is due; return its end and the waits."""
    now, waits = 0.0, []
    while True:
        ended = failed(attempts, attempts.take(now, cpus=1), cause, now)
        if ended:
            return ended[0], waits
        waits.append(attempts.due(now))
        assert attempts.take(now + waits[-1] * 0.99, cpus=1) is None
        now += waits[-1]


def test_storage_failures_wait_together_and_each_wait_doubles():
    attempts = attempts_at(3)
    [call] = take_all(attempts, 0.0)
    [good] = attempts.ended(call, [bad(Cause.STORAGE), GOOD, bad(Cause.STORAGE)], 0.0)
    assert good.task.name == "slice 1"
    assert 0.5 <= attempts.due(0.0) <= 1.0
    [call] = take_all(attempts, 1.0)
    assert call.slices == (0, 2)
    ended = attempts.ended(call, [GOOD, GOOD], 1.0)
    assert [each.attempts for each in ended] == [2, 2]


def test_waits_double_up_to_the_limit_and_the_sixth_storage_failure_is_final():
    ended, waits = fail_until_it_ends(attempts_at(1), Cause.STORAGE)
    assert len(waits) == 5
    for number, wait in enumerate(waits):
        assert 2**number / 2 <= wait <= 2**number
    assert ended.attempts == 6
    assert "failed 6 times" in ended.error
    _, waits = fail_until_it_ends(attempts_at(1), Cause.NODE)
    assert len(waits) == 20
    assert max(waits) <= LIMITS.longest_wait


@pytest.mark.parametrize(
    ("cause", "times", "words"),
    [
        (Cause.WORKER, 3, ("died 3 times", "(killed)", "slice_bytes")),
        (Cause.SLOW, 2, ("it missed its deadline 2 times (killed)", "limits.slice_deadline")),
    ],
)
def test_a_dead_worker_or_a_deadline_counts_against_a_slice_only_if_it_ran_alone(
    cause, times, words
):
    attempts = attempts_at(3)
    [call] = take_all(attempts, 0.0)
    assert failed(attempts, call, cause, 0.0) == []
    alone = take_all(attempts, 0.0)
    assert [call.slices for call in alone] == [(0,), (1,), (2,)]
    for call in alone[::2]:
        [good] = attempts.ended(call, [GOOD], 0.0)
        assert (good.error, good.attempts) == (None, 2)
    now, call = 0.0, alone[1]
    for _ in range(times - 1):
        assert failed(attempts, call, cause, now) == []
        now += attempts.due(now)
        [call] = take_all(attempts, now)
    [ended] = failed(attempts, call, cause, now, "killed")
    assert (ended.task.name, ended.attempts) == ("slice 1", 1 + times)
    assert all(word in ended.error for word in words)
    assert attempts.is_over


def test_a_slice_without_enough_memory_is_retried_alone_with_more_each_time():
    attempts = attempts_at(2)
    [call] = take_all(attempts, 0.0)
    failed(attempts, call, Cause.MEMORY, 0.0)
    other, call = take_all(attempts, 0.0)
    assert (other.slices, call.slices, call.memory_level) == ((0,), (1,), 1)
    now, levels = 0.0, [call.memory_level]
    while not (ended := failed(attempts, call, Cause.MEMORY, now)):
        now += attempts.due(now)
        [call] = take_all(attempts, now)
        levels.append(call.memory_level)
    assert levels == [1, 2, 3]
    assert ended[0].error.startswith("its node ran out of memory 3 times")


def test_a_failed_call_is_split_and_fails_only_the_slice_at_fault():
    attempts = attempts_at(2)
    [call] = take_all(attempts, 0.0)
    assert failed(attempts, call, Cause.NODE, 0.0) == []
    [call] = take_all(attempts, 1.0)  # a lost node says nothing about its slices
    assert call.slices == (0, 1)
    assert failed(attempts, call, Cause.CALL, 1.0) == []
    first, second = take_all(attempts, 2.0)
    [ended] = failed(attempts, second, Cause.CALL, 2.0, "cannot pickle")
    assert (ended.error, ended.attempts) == ("cannot pickle", 3)
    attempts.ended(first, [GOOD], 2.0)
    assert attempts.is_over


@pytest.mark.parametrize("is_first_faster", [True, False])
def test_the_first_successful_attempt_counts_and_the_other_is_canceled(is_first_faster):
    attempts, call, second = doubled(count=2)
    assert (second.slices, second.is_speculative) == ((0, 1), True)
    assert (call.other_attempt, second.other_attempt) == (second, call)
    fast, slow = (call, second) if is_first_faster else (second, call)
    assert attempts.is_wanted(slow)
    assert [each.attempts for each in attempts.ended(fast, [GOOD] * 2, 0.0)] == [2, 2]
    assert not attempts.is_wanted(slow)
    assert attempts.ended(slow, [GOOD] * 2, 0.0) == []
    assert attempts.is_over


def test_a_failure_in_one_of_two_attempts_is_left_to_the_other():
    attempts, call, second = doubled(count=2)
    [good] = attempts.ended(call, [bad(Cause.STORAGE), GOOD], 0.0)
    assert good.task.name == "slice 1"
    assert take_all(attempts, 100.0) == []
    assert attempts.is_wanted(second)
    failed(attempts, second, Cause.NODE, 100.0)
    [again] = take_all(attempts, 200.0)
    assert again.slices == (0,)
    [ended] = attempts.ended(again, [GOOD], 200.0)
    assert ended.attempts == 3
    # The last allowed failure is not final either, but an error is.
    attempts, call, second = doubled(retry_policy=RetryPolicy(worker_deaths=1))
    assert failed(attempts, call, Cause.WORKER, 0.0) == []
    [ended] = attempts.ended(second, [GOOD], 1.0)
    assert (ended.error, ended.attempts) == (None, 2)
    attempts, call, second = doubled()
    [ended] = attempts.ended(call, [bad(Cause.ERROR)], 0.0)
    assert ended.error == "text of ERROR"
    assert not attempts.is_wanted(second)


MAX_ATTEMPTS = sum(LIMITS.limits.values()) + 3
"""Failures of all causes, a call divided in two ways, and the one that succeeds."""


@given(st.integers(1, 12), st.randoms(use_true_random=False), st.sampled_from([0.0, 0.3, 0.97]))
def test_every_slice_ends_once_and_in_time(count, rng, badness):
    attempts = attempts_at(count, num_bytes=rng.choice([0, MIN_BYTES]))
    now, ended, in_flight = 0.0, [], []
    for _ in range(10_000):
        if attempts.is_over:
            break
        now += rng.choice([0.0, 1.0, 60.0])
        in_flight += take_all(attempts, now)
        if not in_flight:
            assert attempts.due(now) is not None
            continue
        call = in_flight[rng.randrange(len(in_flight))]
        if call.other_attempt is None and attempts.is_wanted(call) and rng.random() < 0.2:
            in_flight.append(attempts.take_speculative(call))
            continue
        in_flight.remove(call)
        ended += happen(attempts, call, rng, badness, now)
        in_flight = [each for each in in_flight if attempts.is_wanted(each)]
    assert attempts.is_over
    assert sorted(each.task.name for each in ended) == sorted(f"slice {n}" for n in range(count))
    assert max(each.attempts for each in ended) <= 2 * MAX_ATTEMPTS


def happen(attempts, call, rng, badness, now):
    """Let a call end at random: as a whole, or each slice separately."""
    if rng.random() < badness / 2:
        cause = rng.choice([cause for cause in Cause if cause is not Cause.ERROR])
        return failed(attempts, call, cause, now)
    outcomes = [
        bad(rng.choice([Cause.STORAGE, Cause.ERROR])) if rng.random() < badness / 2 else GOOD
        for _ in call.slices
    ]
    return attempts.ended(call, outcomes, now)


def test_two_concurrent_attempts_without_memory_count_as_one_failure():
    attempts, call, second = doubled()
    for level in range(LIMITS.memory_failures):
        assert (call.memory_level, second.memory_level) == (level, level)
        assert failed(attempts, second, Cause.MEMORY, 100.0 * level) == []
        ended = failed(attempts, call, Cause.MEMORY, 100.0 * level)
        for call in take_all(attempts, 100.0 * (level + 1)):
            second = attempts.take_speculative(call)
    assert ended[0].error.startswith("its node ran out of memory 3 times")
    assert (ended[0].attempts, attempts.is_over) == (6, True)


@pytest.mark.parametrize("cause", Cause)
def test_a_slice_ends_within_its_limit_if_two_concurrent_attempts_fail_each_time(cause):
    attempts, *calls = doubled()
    for number in range(1, LIMITS.limits[cause] + 1):
        for call in calls:
            failed(attempts, call, cause, 100.0 * number)
        again = take_all(attempts, 100.0 * (number + 1))
        calls = [each for call in again for each in (attempts.take_speculative(call), call)]
    assert attempts.is_over


def test_a_failed_attempt_beside_a_slow_one_may_be_repeated():
    attempts = attempts_at(1)
    [call] = take_all(attempts, 0.0)
    for number in range(LIMITS.speculative_attempts):
        assert call.may_have_speculative(LIMITS)
        second = attempts.take_speculative(call)
        assert second.memory_level == min(number, 1)
        assert not call.may_have_speculative(LIMITS)
        assert failed(attempts, second, Cause.NODE if number else Cause.MEMORY, 1.0) == []
    assert not call.may_have_speculative(LIMITS)
    assert attempts.take(1e9, cpus=1) is None
    [ended] = attempts.ended(call, [GOOD], 2.0)
    assert (ended.error, ended.attempts) == (None, 1 + LIMITS.speculative_attempts)
    assert attempts.is_over


LONG = "it was on 10.0.0.7, " * 100


@pytest.mark.parametrize(
    ("error", "cause", "text"),
    [
        (exceptions.WorkerCrashedError(), Cause.WORKER, "WorkerCrashedError: The worker died"),
        (exceptions.NodeDiedError(f"{LONG}\nand"), Cause.NODE, "NodeDiedError: it was on 10.0.0.7"),
        (exceptions.ObjectLostError("ab", None, ""), Cause.NODE, "ObjectLostError: "),
        (exceptions.GetTimeoutError("late"), Cause.NODE, "GetTimeoutError: late"),
        (exceptions.RaySystemError("no worker"), Cause.NODE, "RaySystemError: "),
        (exceptions.OutOfMemoryError("95 %"), Cause.MEMORY, "OutOfMemoryError: 95 %"),
        (exceptions.RuntimeEnvSetupError("no wheel"), Cause.CALL, "RuntimeEnvSetupError: "),
        (exceptions.TaskCancelledError(), Cause.CALL, "TaskCancelledError: "),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_errors_of_ray_are_classified(error, cause, text):
    failure = failure_of(error)
    assert failure.cause is cause
    assert failure.text.startswith(text)
    assert "\n" not in failure.text
    assert len(failure.text) < 400


def raised(error):
    """Wrap an error like Ray does if it was raised in a worker outside any slice."""
    return exceptions.RayTaskError("run_call", "Traceback: ...", error)


def test_errors_in_a_worker_outside_of_a_slice_are_classified():
    torn = failure_of(raised(SourceError("torn")))
    assert (torn.text, torn.cause) == ("torn", Cause.CALL)
    assert failure_of(raised(TransientIOError("for now"))).cause is Cause.STORAGE
    assert "Traceback: ..." in failure_of(raised(TypeError("no"))).text
    unfit = failure_of(raised(SharedFolderError("not one folder")))
    assert (unfit.cause, unfit.text) == (Cause.UNFIT, "not one folder")
    assert isinstance(unfit.raised, SharedFolderError)


class PanicError(BaseException):
    """A panic as native code raises it."""


def raises(error):
    def work(argument):
        raise error

    return work


def test_a_slice_that_raises_does_not_stop_the_others():
    errors = (
        SourceError("a.gz is torn"),
        TransientIOError("no route"),
        PanicError("at the disco"),
        OSError(28, "No space left"),
        PermissionError(13, "Permission denied", "/data/out"),
    )
    outcomes = run_batch([*((raises(error), None) for error in errors), (len, "four")], [])
    causes = [each.failure and each.failure.cause for each in outcomes]
    assert causes == [Cause.ERROR, Cause.STORAGE, Cause.ERROR, Cause.ERROR, Cause.SETUP, None]
    assert outcomes[0].failure.text == "a.gz is torn"
    assert "PanicError: at the disco" in outcomes[2].failure.text
    assert "in work" in outcomes[2].failure.text
    assert outcomes[4].failure.text.startswith("/data/out: Permission denied; ")
    assert "\n" not in outcomes[4].failure.text  # no traceback
    assert outcomes[5].result == 4
    assert outcomes[5].seconds >= 0


class NoCredentialsError(Exception):
    """Like the error of botocore, which no other class tells."""


def caused_by(cause, error):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file or directory", "/in/a.gz"),
        ModuleNotFoundError("No module named 'gcsfs'"),
        NoCredentialsError("Unable to locate credentials"),
        caused_by(FileNotFoundError(2, "No such file"), SourceError("cannot read /in/a.gz")),
        caused_by(caused_by(ImportError("s3fs"), ValueError("s3")), SourceError("install s3fs")),
    ],
    ids=["file", "package", "credentials", "cause", "cause of a cause"],
)
def test_an_error_that_another_node_may_not_have_is_told_apart(error):
    [outcome] = run_batch([(raises(error), None)], [])
    assert outcome.failure.cause is Cause.SETUP


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_cancellation_is_not_a_failure_of_a_slice(error):
    with pytest.raises(error):
        run_batch([(raises(error()), None)], [])


def test_nothing_runs_where_the_folder_is_a_different_one(tmp_path):
    done = []
    probe = Probe(str(tmp_path), "run/probe/a", "token", waits=(0.0,))
    with pytest.raises(SharedFolderError, match="does not see what the job wrote there"):
        run_batch([(done.append, 1)], [probe])
    assert done == []


def task(number):
    return Task(
        name=f"slice {number}", work=len, argument="", num_bytes=10, inputs=(f"/in/{number}.gz",)
    )


class Engine(InProcess):
    """An engine that completes tasks of even number, and counts its runs."""

    is_closed, begun = False, 0

    def run(self, tasks, *, listener, **_):
        listener.on_note("a worker died")
        try:
            for number, each in enumerate(tasks):
                self.begun += 1
                error = f"why {number}" if number % 2 else None
                yield TaskResult(task=each, result=None if error else 7, error=error)
        finally:
            self.is_closed = True


def run(count, *, engine=None, on_event=lambda _: None, **settings):
    tasks = [task(number) for number in range(count)]
    with use_executor(engine or Engine()):
        return run_stage("count", tasks, num_done=0, on_event=on_event, rules=TaskRules(**settings))


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
