"""The engine on simulated clusters: invariants for any faults and any seed."""

import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # as its scripts import each other

import simulate as simulation
from nanotok_ray.job.runner import run_tasks
from nanotok_ray.job.task import RetryPolicy
from simulate import Scenario, assert_once, run_reduce, simulate
from simulated import CALM, Faults, SimulatedCluster, tasks_of

SHARES = st.sampled_from([0.0, 0.001, 0.01, 0.03])


def faults_of(draw):
    return Faults(
        slow_nodes=draw(st.sampled_from([0.0, 0.1])),
        hangs=draw(SHARES),
        worker_deaths=draw(SHARES),
        storage_failures=draw(SHARES),
        node_life=draw(st.sampled_from([None, 600.0, 3600.0])),
        noticed=draw(st.sampled_from([0.0, 0.5, 1.0])),
        hungry_bytes=draw(st.sampled_from([None, 1 << 30])),
        starved=draw(st.booleans()),
        poison=draw(st.integers(0, 3)),
    )


@settings(max_examples=100)
@given(st.composite(faults_of)(), st.integers(0, 1 << 30), st.integers(1, 300), st.integers(1, 6))
def test_every_slice_ends_once_and_only_bad_slices_fail(faults, seed, slices, nodes):
    tasks = tasks_of(slices, faults, random.Random(seed))
    cluster = SimulatedCluster(faults, nodes=nodes, first_nodes=nodes, seed=seed)
    ended = list(run_tasks(tasks, pool_of=lambda _: cluster, retry_policy=PATIENT))
    assert_once(tasks, ended)
    assert [each.error for each in ended if each.error and not each.task.argument.is_poison] == []


PATIENT = RetryPolicy(storage_failures=20, worker_deaths=12, missed_deadlines=12)
"""With three failures in a hundred, a slice can fail three times by chance."""


@settings(max_examples=10)
@given(st.integers(0, 1 << 30))
def test_a_stable_cluster_ends_soon_after_the_ideal_time_without_waste(seed):
    own = simulate(Scenario(weather="calm", slices=800, cpus=96, seed=seed))
    assert own.over_ideal < 1.3
    assert own.wasted < 0.01
    assert own.calls < 820


@settings(max_examples=5)
@given(st.integers(0, 1 << 30))
def test_an_unstable_cluster_wastes_less_than_half_and_only_bad_slices_fail(seed):
    own = simulate(Scenario(weather="all", slices=1500, cpus=320, seed=seed))
    assert own.wasted < 0.5
    assert (own.failed, own.errors) == (own.poison, ())


@pytest.mark.parametrize("seed", [3, 5])
def test_a_lost_attempt_beside_a_hung_one_is_repeated(monkeypatch, seed):
    faults = replace(CALM, hangs=0.05, worker_deaths=0.04)
    monkeypatch.setattr(simulation, "WEATHERS", {"own": faults})
    scenario = Scenario(weather="own", slices=300, cpus=96, seed=seed)
    own = simulate(scenario, RetryPolicy(worker_deaths=20))
    assert own.seconds < 1800  # otherwise the deadline of an hour ends them


def test_a_cluster_that_starts_small_grows_in_a_few_steps():
    own = simulate(Scenario(weather="calm", slices=8000, cpus=800, first_cpus=16))
    assert own.seconds < own.ideal + 300


def test_the_driver_needs_bounded_time_per_slice():
    small = simulate(Scenario(weather="all", slices=2000, cpus=320))
    large = simulate(Scenario(weather="all", slices=10_000, cpus=1600))
    assert large.driver_per_thousand < 4 * small.driver_per_thousand


@pytest.mark.parametrize(("slices", "is_merged"), [(1000, False), (3000, True)])
def test_the_sum_of_a_large_job_runs_in_tasks_and_takes_a_small_part_of_the_time(slices, is_merged):
    own = run_reduce(Scenario(weather="all", slices=slices, cpus=320))
    assert (own.files < slices) == (own.merge_seconds > 0) == is_merged
    assert 1 < own.parts <= 256
    assert own.reduce_seconds + own.join_seconds < own.one_thread_seconds
    assert 0 < own.plan_bytes < 10_000_000
