"""The scheduler on nodes of which some cannot run a slice, or no slice at all."""

import pytest

from nanotok_ray.errors import SharedFolderError
from nanotok_ray.job import (
    AttemptResult,
    Cause,
    ClusterResources,
    Failure,
    Node,
    RetryPolicy,
    Scheduler,
    Task,
    TaskListener,
    run_tasks,
)
from nanotok_ray.job.scheduler import MIN_BYTES

GOOD = AttemptResult(result=1, seconds=0.5)


def tasks_of(count, num_bytes):
    return [
        Task(name=f"slice {number}", work=len, argument="", num_bytes=num_bytes)
        for number in range(count)
    ]


def attempts_at(count, *, num_bytes=0):
    return Scheduler(tasks_of(count, num_bytes), retry_policy=RetryPolicy())


def take_all(attempts, now):
    return list(iter(lambda: attempts.take(now, cpus=1), None))


NODES = {name: Node(name, f"10.0.0.{name} (worker-{name})") for name in "1234569"}


def on(node, cause=Cause.SETUP):
    failure = Failure(cause, "no such file", node=NODES[node])
    return AttemptResult(failure=failure)


def test_a_slice_that_may_fail_for_its_node_is_tried_on_other_nodes_which_are_named():
    attempts = attempts_at(3)
    [call] = take_all(attempts, 0.0)
    assert call.avoid == frozenset()
    [good] = attempts.ended(call, [on("1"), GOOD, on("1")], 0.0, nodes="1234")
    assert good.task.name == "slice 1"
    [call] = take_all(attempts, 10.0)
    assert (call.slices, call.avoid) == ((0, 2), {"1"})
    [good] = attempts.ended(call, [GOOD, on("2")], 10.0, nodes="1234")
    assert (good.task.name, good.attempts) == ("slice 0", 2)
    [call] = take_all(attempts, 20.0)
    assert call.avoid == {"1", "2"}
    assert attempts.take_speculative(call).avoid == {"1", "2"}
    attempts.ended(call.other_attempt, [on("9", Cause.NODE)], 20.0, nodes="1234")
    [ended] = attempts.ended(call, [on("3")], 20.0, nodes="1234")
    assert ended.error.startswith("no such file (on 10.0.0.1 (worker-1), 10.0.0.2 (worker-2), ")
    assert "compare the mounts, the packages and the credentials" in ended.error
    assert attempts.is_over


@pytest.mark.parametrize("nodes", [(), "1", "12"])
def test_a_slice_that_no_other_node_can_run_fails_after_each_has_tried(nodes):
    attempts, ended, tried = attempts_at(1), [], 0
    while not ended:
        [call] = take_all(attempts, 100.0 * tried)
        ended = attempts.ended(call, [on(str(tried + 1))], 100.0 * tried, nodes=nodes)
        tried += 1
    assert tried == max(1, len(nodes))


def test_slices_that_failed_on_different_nodes_are_tried_apart():
    attempts = attempts_at(2, num_bytes=MIN_BYTES)
    first, second = take_all(attempts, 0.0)
    attempts.ended(first, [on("1")], 0.0, nodes="12")
    attempts.ended(second, [on("2")], 0.0, nodes="12")
    again = take_all(attempts, 10.0)
    assert {call.avoid for call in again} == {frozenset("1"), frozenset("2")}


def test_an_unfit_node_uses_no_attempt_of_a_slice():
    attempts = attempts_at(2)
    for number in range(5):
        [call] = take_all(attempts, 100.0 * number)
        assert call.slices == (0, 1)
        outcome = on(str(number + 1), Cause.UNFIT)
        assert attempts.ended(call, [outcome] * 2, 100.0 * number, nodes="123456") == []
    [call] = take_all(attempts, 1000.0)
    assert len(attempts.ended(call, [GOOD] * 2, 1000.0)) == 2


class Pool:
    """Two nodes and more in no time: `run(node)` returns the outcome of a slice on a node."""

    def __init__(self, run, nodes):
        self.run, self.nodes = run, nodes
        self.time, self.ran, self.ended = 0.0, [], {}

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds

    def resources(self):
        nodes = dict.fromkeys(self.nodes, 1)
        return ClusterResources(cpus=len(nodes), node_cpus=1, node_memory=0, nodes=nodes)

    def free_cpus(self):
        return 0

    def submit(self, _, steps, *, avoid, **__):
        node = next((node for node in self.nodes if node not in avoid), None)
        assert node is not None, "a batch that no node can run would wait forever"
        self.ran.append(node)
        self.ended[len(self.ran)] = [self.run(node) for _ in steps]
        return len(self.ran)

    def wait(self, references, number, _):
        return list(references)[:number]

    def results(self, reference, _):
        return self.ended.pop(reference)

    def cancel(self, *_, **__):
        """Do nothing: all batches have ended."""


def unfit(node):
    error = SharedFolderError(f"node {node} does not see it")
    return AttemptResult(failure=Failure(Cause.UNFIT, str(error), error, NODES[node]))


def run_on(pool, count, *, notes=None):
    on_note = (lambda _: None) if notes is None else notes.append
    tasks = tasks_of(count, MIN_BYTES)
    return list(run_tasks(tasks, pool_of=lambda _: pool, listener=TaskListener(on_note=on_note)))


def test_a_node_that_cannot_run_slices_is_avoided_with_one_note_and_the_job_goes_on():
    notes = []
    pool = Pool(lambda node: unfit(node) if node == "1" else GOOD, "12")
    ended = run_on(pool, 40, notes=notes)
    assert [each.error for each in ended] == [None] * 40
    assert notes == ["10.0.0.1 (worker-1) is avoided: node 1 does not see it"]
    assert set(pool.ran[40:]) == {"2"}  # forty were sent before the first one failed


@pytest.mark.parametrize("nodes", ["1", "12"])
def test_a_job_without_a_node_that_can_run_it_ends_with_the_reason(nodes):
    with pytest.raises(SharedFolderError, match=f"node {nodes[-1]} does not see it"):
        run_on(Pool(unfit, nodes), 3)


def test_a_missing_file_is_an_error_of_the_slice_if_there_is_one_node():
    notes = []
    [ended] = run_on(Pool(on, "1"), 1, notes=notes)
    assert (ended.error, ended.attempts, notes) == ("no such file", 1, [])


def test_the_note_on_a_failed_attempt_names_the_node():
    notes = []
    [ended] = run_on(Pool(lambda node: on("1") if node == "1" else GOOD, "12"), 1, notes=notes)
    assert (ended.error, ended.attempts) == (None, 2)
    [note] = notes
    assert note.startswith("slice 0: its node may lack a file, a package or a permission: no such ")
    assert note.endswith(" (on 10.0.0.1 (worker-1))")
