"""Metrics, the driver of a run and findings of the doctor, without a cluster."""

from dataclasses import replace

import pytest

from nanotok_ray.cluster import cluster_check
from nanotok_ray.cluster.cluster_check import nodes_finding, same_finding, versions_finding
from nanotok_ray.cluster.metrics import METRICS, Metrics
from nanotok_ray.cluster.nodes import RayNode
from nanotok_ray.job.events import Advanced, AttemptFailed, SliceEnded, StageEnded, StageStarted
from nanotok_ray.job.holder import Holder


class Instrument:
    """An instrument with the interface of Ray's that records values."""

    def __init__(self, calls, name):
        self.calls, self.name = calls, name

    def set(self, value, tags):
        self.calls.append((self.name, value, tags))

    inc = observe = set


@pytest.fixture
def calls():
    """The calls of instruments in order."""
    return []


@pytest.fixture
def now():
    """A list whose last number is the current time."""
    return [50.0]


@pytest.fixture
def listener(calls, now):
    """Metrics beside a session of Ray whose instruments record their calls."""
    return Metrics(
        instrument=lambda metric: Instrument(calls, metric.name),
        is_there=lambda: True,
        now=lambda: now[-1],
    )


def test_metric_names_have_our_prefix_and_few_tags():
    assert len({each.name for each in METRICS}) == len(METRICS) == 7
    for each in METRICS:
        assert each.name.startswith("nanotok_")
        assert set(each.tags) <= {"stage", "cause"}
        assert each.text.endswith(".")


STARTED = StageStarted(stage="count", todo=1000, num_done=0, num_bytes=0)


def test_many_slices_cause_few_calls(calls, now, listener):
    for stage in ("count", "tokenize"):  # the bytes of the second one start at zero
        listener(replace(STARTED, stage=stage))
        before = len(calls)
        for done in range(1, 1001):
            now.append(now[-1] + 0.01)
            listener(Advanced(stage=stage, done=done, todo=1000, num_bytes=3 * done))
        listener(StageEnded(stage=stage, seconds=10.0, num_bytes=3000))
        assert len(calls) - before < 60
        assert [value for name, value, _ in calls if name == "nanotok_slices_done"][-1] == 1000
        assert calls[-1] == ("nanotok_stage_seconds", 10.0, {"stage": stage})
    assert sum(value for name, value, _ in calls if name == "nanotok_bytes") == 6000


def test_failures_are_counted_by_cause(calls, listener):
    row = {"stage": "count", "name": "a", "began": 0.0, "num_bytes": 0, "worker": "", "attempts": 1}
    listener(SliceEnded(seconds=2.0, **row))
    listener(SliceEnded(seconds=9.0, error="no", **row))
    assert calls == [("nanotok_slice_seconds", 2.0, {"stage": "count"})]
    for cause in ("slow", "slow", "node"):
        listener(AttemptFailed(stage="count", name="a", slices=2, cause=cause, text="a"))
    listener(StageEnded(stage="count", seconds=1.0, num_bytes=0))
    reported = [(value, tags["cause"]) for name, value, tags in calls if "attempts" in name]
    assert reported == [(4, "slow"), (2, "node")]


def test_an_error_in_metrics_fails_no_job_and_nothing_is_recorded_without_ray():
    calls = []

    def fail(metric):
        calls.append(metric)
        raise RuntimeError("no metrics")

    Metrics(instrument=fail, is_there=lambda: False)(STARTED)
    assert calls == []
    Metrics(instrument=fail, is_there=lambda: True)(STARTED)
    assert len(calls) == 1


def test_without_a_session_there_is_no_driver():
    me = Holder.this_process()
    assert me.ray_job == ""
    assert me.lives(me)


def node(address, cpus=4):
    return RayNode(address=address, cpus=cpus)


def test_nodes_with_another_core_no_core_or_no_answer_fail():
    reported = [
        (node("10.0.0.1"), "core 1"),
        (node("10.0.0.2"), "core 2"),
        (node("10.0.0.3"), RuntimeError("traceback\n  ...\nModuleNotFoundError: nanotok_ray\n")),
    ]
    finding = same_finding("cores of nodes", "core 1", reported, asked=5)
    assert finding.status == "fail"
    assert "10.0.0.2: core 2" in finding.found
    assert "10.0.0.3: ModuleNotFoundError" in finding.found
    assert "2 of the nodes did not answer" in finding.found
    assert "10.0.0.1" not in finding.found
    assert same_finding("cores of nodes", "core 1", reported[:1], asked=1).status == "ok"


def test_a_cluster_without_cpus_is_a_warning():
    assert nodes_finding([node("10.0.0.1", 0)]).status == "warn"
    assert nodes_finding([node("10.0.0.1", 0), node("10.0.0.2")]).found == "2 nodes, 4 CPUs"


def test_two_versions_of_ray_are_a_warning(monkeypatch):
    monkeypatch.setattr(cluster_check, "ray_version", lambda: "2.60.0")
    assert versions_finding("Ray", "2.59.0").status == "warn"
    assert versions_finding("Ray", "2.60.0").status == "ok"
    assert versions_finding("Ray", None).status == "ok"
