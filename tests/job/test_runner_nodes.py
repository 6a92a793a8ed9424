"""The runner on nodes of which some cannot run a task, or no task at all."""

import pytest

from nanotok_ray.errors import SharedFolderError
from nanotok_ray.job.runner import TaskListener
from nanotok_ray.job.task import Cause, Node, Task
from tests.support.scripted_pool import ScriptedPool, bad, good, run_on

NODES = {name: Node(name, f"10.0.0.{name} (worker-{name})") for name in "1234"}


def tasks_of(count):
    return [Task(name=f"slice {n}", work=len, argument="", num_bytes=0) for n in range(count)]


def lacks_a_file(attempt):
    return bad(Cause.SETUP, 1.0, "no such file", node=NODES[attempt.node])


def unfit(attempt):
    error = SharedFolderError(f"node {attempt.node} does not see it")
    return bad(Cause.UNFIT, 1.0, str(error), node=NODES[attempt.node], raised=error)


def on(nodes, course):
    """Let attempts on some nodes have a course, and succeed on others."""
    return lambda attempt: course(attempt) if attempt.node in nodes else good()


def test_a_slice_that_may_fail_for_its_node_is_tried_on_other_nodes():
    pool = ScriptedPool(on("12", lacks_a_file), nodes="123")
    ended = run_on(pool, tasks_of(1))["slice 0"]
    assert (ended.error, ended.attempts) == (None, 3)
    assert [each.node for each in pool.attempts] == ["1", "2", "3"]


def test_a_slice_that_fails_on_three_nodes_names_them():
    ended = run_on(ScriptedPool(lacks_a_file, nodes="1234"), tasks_of(1))["slice 0"]
    assert ended.attempts == 3
    assert ended.error.startswith("no such file (on 10.0.0.1 (worker-1), 10.0.0.2 (worker-2), ")
    assert "compare the mounts, the packages and the credentials" in ended.error


def test_a_slice_that_no_other_node_can_run_fails_after_each_has_tried():
    assert run_on(ScriptedPool(lacks_a_file, nodes="12"), tasks_of(1))["slice 0"].attempts == 2


def test_a_missing_file_is_an_error_of_the_slice_if_there_is_one_node():
    notes, pool = [], ScriptedPool(lacks_a_file, nodes="1")
    [ended] = run_on(pool, tasks_of(1), listener=TaskListener(on_note=notes.append)).values()
    assert (ended.error, ended.attempts, notes) == ("no such file", 1, [])


def test_a_second_attempt_avoids_the_nodes_on_which_the_slice_failed():
    courses = {"1": lacks_a_file, "2": lambda _: None}
    pool = ScriptedPool(
        lambda attempt: courses.get(attempt.node, lambda _: good())(attempt), nodes="123"
    )
    [ended] = run_on(pool, tasks_of(1)).values()
    assert (ended.error, [each.node for each in pool.attempts]) == (None, ["1", "2", "3"])


def test_an_unfit_node_uses_no_attempt_of_a_slice_and_gets_one_note():
    notes, pool = [], ScriptedPool(on("1", unfit), nodes="12")
    listener = TaskListener(on_note=notes.append)
    ended = run_on(pool, tasks_of(40), listener=listener).values()
    assert {each.error for each in ended} == {None}
    assert notes == ["10.0.0.1 (worker-1) is avoided: node 1 does not see it"]
    assert {each.node for each in pool.attempts if each.submitted > 10} <= {"2"}


@pytest.mark.parametrize("nodes", ["1", "12"])
def test_a_job_without_a_node_that_can_run_it_ends_with_the_reason(nodes):
    with pytest.raises(SharedFolderError, match=r"node \d does not see it"):
        run_on(ScriptedPool(unfit, nodes=nodes), tasks_of(3))


def test_the_note_on_a_failed_attempt_names_the_node():
    notes, pool = [], ScriptedPool(on("1", lacks_a_file), nodes="12")
    [ended] = run_on(pool, tasks_of(1), listener=TaskListener(on_note=notes.append)).values()
    assert (ended.error, ended.attempts) == (None, 2)
    [note] = notes
    assert note.startswith("slice 0: its node may lack a file, a package or a permission: no such ")
    assert note.endswith(" (on 10.0.0.1 (worker-1))")
