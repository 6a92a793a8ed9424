"""The runner: attempts, causes of failures, slow and silent attempts."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.job.runner import TaskListener, run_tasks
from nanotok_ray.job.task import Cause, RetryPolicy, Task
from tests.support.scripted_pool import (
    HANGS,
    MEMORY_PER_CPU,
    ScriptedPool,
    bad,
    causes,
    good,
    run_on,
)

LIMITS = RetryPolicy()
MIB, GIB = 1 << 20, 1 << 30


def tasks_of(count, num_bytes=0):
    return [
        Task(name=f"slice {number}", work=len, argument="", num_bytes=num_bytes)
        for number in range(count)
    ]


def failing(*courses):
    """Let the attempts at slice 1 have these courses, the last one again and again."""

    def course(attempt):
        if attempt.call.name != "slice 1":
            return good()
        return courses[min(attempt.number, len(courses)) - 1]

    return course


def of(pool, name="slice 1"):
    return [attempt for attempt in pool.attempts if attempt.call.name == name]


def test_waits_double_up_to_the_limit_with_jitter():
    pool = ScriptedPool(failing(bad(Cause.NODE)), nodes="12")
    ended = run_on(pool, tasks_of(2))
    began = [attempt.submitted for attempt in of(pool)]
    waits = [later - earlier for earlier, later in pairwise(began)]
    assert len(waits) == LIMITS.lost_nodes - 1
    for number, wait in enumerate(waits):
        nominal = min(2.0**number, LIMITS.max_wait)
        assert nominal / 2 <= wait <= nominal
    assert "went away 21 times" in ended["slice 1"].error


@pytest.mark.parametrize(
    ("cause", "times", "words"),
    [
        (Cause.STORAGE, 6, ("killed (failed 6 times",)),
        (Cause.WORKER, 3, ("died 3 times", "(killed)", "slice_bytes")),
        (Cause.MEMORY, 3, ("ran out of memory 3 times", "slice_bytes")),
        (Cause.NODE, 21, ("21 times (killed)",)),
        (Cause.CALL, 1, ("killed",)),
        (Cause.ERROR, 1, ("killed",)),
    ],
)
def test_a_slice_fails_after_its_limit_of_a_cause_and_no_other_does(cause, times, words):
    pool = ScriptedPool(failing(bad(cause, text="killed")), nodes="12")
    ended = run_on(pool, tasks_of(5))
    failed = ended.pop("slice 1")
    assert (failed.result, failed.attempts) == (None, times)
    assert all(word in failed.error for word in words)
    assert {(each.result, each.error, each.attempts) for each in ended.values()} == {(1, None, 1)}


def test_a_slice_without_enough_memory_is_given_more_each_time():
    pool = ScriptedPool(failing(bad(Cause.MEMORY)))
    run_on(pool, tasks_of(3))
    requests = [(each.call.request.cpus, each.call.request.memory) for each in of(pool)]
    assert requests == [(1, None), (2, 2 * MEMORY_PER_CPU), (4, 4 * MEMORY_PER_CPU)]


def test_the_largest_tasks_start_first_and_others_keep_their_order():
    sizes = [3, 7, 3, 9]
    tasks = [Task(name=str(n), work=len, argument="", num_bytes=x) for n, x in enumerate(sizes)]
    pool = ScriptedPool(lambda _: good(), cpus=1)
    run_on(pool, tasks)
    assert [attempt.call.name for attempt in pool.attempts] == ["3", "1", "0", "2"]


@pytest.mark.parametrize(("cpus", "window"), [(1, 1024), (2000, 4000)])
def test_an_autoscaler_sees_many_waiting_calls_but_not_all(cpus, window):
    pool = ScriptedPool(lambda _: good(), cpus=cpus)
    run_on(pool, tasks_of(4100))
    assert sum(attempt.submitted == 0 for attempt in pool.attempts) == window


@pytest.mark.parametrize("seconds", [None, 1000.0, 33.0])
def test_a_slow_slice_gets_a_second_attempt_and_the_first_success_ends_both(seconds):
    course = HANGS if seconds is None else good(seconds)
    notes, pool = [], ScriptedPool(failing(course, good()), nodes="1234")
    listener = TaskListener(on_note=notes.append)
    [*ended] = run_on(pool, tasks_of(6, MIB), listener=listener).values()
    assert [each.result for each in ended] == [1] * 6
    first, second = of(pool)
    assert (second.call.spread, first.call.spread) == (True, False)
    assert 30.0 <= second.submitted <= 32.0
    assert first.is_killed
    assert notes == ["slice 1 takes long and gets another attempt"]


def test_an_attempt_that_ends_first_after_all_kills_the_second():
    pool = ScriptedPool(lambda each: good(32.0 if each.number == 1 else 60.0), cpus=4)
    ended = run_on(pool, tasks_of(1))
    first, second = pool.attempts
    assert (first.is_killed, second.is_killed) == (False, True)
    assert (ended["slice 0"].attempts, ended["slice 0"].seconds) == (2, 32.0)


@pytest.mark.parametrize(
    ("seconds", "size", "expected"), [(20.0, 100, 60), (20.0, 1000, 600), (0.1, 100, 30)]
)
def test_a_second_attempt_begins_after_three_times_the_usual_time_and_a_minimum(
    seconds, size, expected
):
    def course(attempt):
        if attempt.call.name == "slow":
            return HANGS if attempt.number == 1 else good()
        return good(seconds)

    usual = [Task(name=str(n), work=len, argument="", num_bytes=100 * MIB) for n in range(12)]
    slow = Task(name="slow", work=len, argument="", num_bytes=size * MIB)
    pool = ScriptedPool(course, cpus=13)
    run_on(pool, [slow, *usual])
    _, second = of(pool, "slow")
    assert expected < second.submitted <= expected + 2


def test_a_failed_attempt_beside_a_slow_one_is_left_to_it_or_repeated():
    courses = {1: HANGS, 2: bad(Cause.NODE), 3: bad(Cause.MEMORY), 4: good()}
    pool = ScriptedPool(lambda attempt: courses[attempt.number], nodes="1234")
    ended = run_on(pool, tasks_of(1, MIB))
    assert (ended["slice 0"].error, ended["slice 0"].attempts) == (None, 4)
    assert pool.attempts[0].is_killed
    assert [each.call.request.cpus for each in pool.attempts] == [1, 1, 1, 2]


def test_concurrent_attempts_without_memory_count_as_one_failure():
    def course(attempt):
        return bad(Cause.MEMORY, 100.0 if attempt.number % 2 else 80.0)

    pool = ScriptedPool(course, nodes="1234")
    ended = run_on(pool, tasks_of(1, MIB))
    assert ended["slice 0"].error.startswith("its node ran out of memory 3 times")
    levels = [each.call.request.cpus for each in pool.attempts]
    assert levels[:2] == [1, 1]
    assert (set(levels), levels) == ({1, 2, 4}, sorted(levels))


@given(st.lists(st.integers(1, 3 << 30), min_size=1, max_size=6), st.integers(1, 3))
def test_hung_attempts_are_killed_at_their_deadline_per_started_gibibyte_on_their_cpu(sizes, cpus):
    tasks = [Task(name=str(n), work=len, argument="", num_bytes=x) for n, x in enumerate(sizes)]
    pool = ScriptedPool(lambda _: HANGS, cpus=cpus)
    ended = run_on(pool, tasks, retry_policy=RetryPolicy(overdue_floor=1e9, deadline=100.0))
    assert {each.error.partition(" (")[0] for each in ended.values()} == {
        "it missed its deadline 2 times"
    }
    for attempt in pool.attempts:
        deadline = 100.0 * -(-tasks[int(attempt.call.name)].num_bytes // GIB)
        assert deadline < attempt.ends - attempt.began <= deadline + 2


def test_attempts_that_wait_for_a_cpu_are_neither_slow_nor_late():
    pool = ScriptedPool(lambda _: good(3000.0), cpus=2)
    ended = run_on(pool, tasks_of(10, MIB))
    assert {(each.error, each.attempts) for each in ended.values()} == {(None, 1)}


COURSES = st.sampled_from([good(), good(40.0), HANGS, *(bad(cause, 2.0) for cause in causes())])


@given(st.lists(st.lists(COURSES, min_size=1, max_size=5), min_size=1, max_size=8), st.data())
def test_every_slice_ends_once_and_fails_only_for_a_cause_that_reached_its_limit(courses, data):
    policy = RetryPolicy(deadline=100.0)

    def course(attempt):
        own = courses[int(attempt.call.name.partition(" ")[2])]
        return own[attempt.number - 1] if attempt.number <= len(own) else good()

    pool = ScriptedPool(course, nodes="1234"[: data.draw(st.integers(1, 4))])
    ended = run_on(pool, tasks_of(len(courses), MIB), retry_policy=policy)
    for number, own in enumerate(courses):
        result = ended[f"slice {number}"]
        failures = [each[1].failure.cause for each in own if each and each[1].failure]
        failures += [Cause.SLOW] * own.count(HANGS)
        if result.error is not None:
            limits = {**policy.limits, Cause.SETUP: 1}  # also final where no other node is left
            assert any(failures.count(cause) >= limits[cause] for cause in failures)
        else:
            assert result.result == 1


@pytest.mark.parametrize("cause", causes())
def test_a_slice_that_always_fails_ends_within_its_limits_whatever_runs_beside_it(cause):
    pool = ScriptedPool(lambda _: bad(cause, 100.0), nodes="1234")
    ended = run_on(pool, tasks_of(1, MIB))["slice 0"]
    assert ended.error is not None
    assert ended.attempts <= 3 * LIMITS.limits[cause]


def test_closing_the_results_cancels_what_is_in_flight():
    pool = ScriptedPool(lambda each: good() if each.call.name == "slice 0" else HANGS)
    results = run_tasks(tasks_of(3), pool_of=lambda _: pool)
    assert next(results).task.name == "slice 0"
    results.close()
    assert all(each.ends < math.inf for each in pool.attempts)


def test_notes_end_after_the_first_five():
    notes, failures = [], []
    pool = ScriptedPool(failing(bad(Cause.STORAGE, text="slow down\nmore")))
    listener = TaskListener(
        on_note=notes.append, on_failure=lambda *failed: failures.append(failed[1].text)
    )
    run_on(pool, tasks_of(2), listener=listener)
    assert notes[0] == "slice 1: storage failed in a way that may pass: slow down"
    assert notes[4:] == [f"{notes[0]}; further such notes are omitted"]
    assert failures == ["slow down\nmore"] * 6
