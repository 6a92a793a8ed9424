"""The learner as a Ray task: the same files, its events, its errors, and a worker that dies."""

import os
import signal

import pytest

from nanotok_ray.api import train
from nanotok_ray.cluster import learner_task
from nanotok_ray.cluster.learner_task import learning_events, placement_notes
from nanotok_ray.errors import SourceError
from nanotok_ray.job import Advanced, Note, StageEnded
from nanotok_ray.recipe import LearnerRecipe
from tests.support.small_corpus import contents, recipe, write_corpus, write_parquet

IN_TASK = "learner.memory=100MiB"


def run(job):
    events = []
    train(job, on_event=events.append)
    return events


@pytest.mark.ray
@pytest.mark.timeout(120)
def test_a_task_writes_what_the_driver_writes_even_if_its_worker_dies(
    tmp_path, ray_with_deaths, monkeypatch
):
    write_corpus(tmp_path / "in")
    run(recipe(tmp_path / "in", tmp_path / "here"))
    marker = tmp_path / "died"

    def dies_once(training, counted, out):
        yield from ()
        for number, event in enumerate(learning_events(training, counted, out)):
            if number and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield event

    monkeypatch.setattr(learner_task, "learning_events", dies_once)
    events = run(recipe(tmp_path / "in", tmp_path / "there", IN_TASK))
    assert marker.exists()
    assert contents(tmp_path / "there") == contents(tmp_path / "here") | {
        "plan.json": contents(tmp_path / "there")["plan.json"]
    }
    assert sum("tried again" in event.text for event in events if isinstance(event, Note)) == 1
    assert any(isinstance(event, Advanced) and event.stage == "learn" for event in events)
    assert {"reduce", "learn"} <= {e.stage for e in events if isinstance(e, StageEnded)}


@pytest.mark.ray
@pytest.mark.timeout(120)
def test_an_exception_of_the_learner_is_raised_here(tmp_path, shared_ray):
    write_parquet(tmp_path / "in/text/a.parquet", ["some text"])
    write_parquet(tmp_path / "in/chats/b.jsonl", [])
    (tmp_path / "in/chats/b.jsonl").write_text("\n")
    shares = ["source.web.weight=share:0.5", "source.chats.weight=share:0.5"]
    job = recipe(tmp_path / "in", tmp_path / "out", IN_TASK, "source.chats.count=true", *shares)
    with pytest.raises(SourceError, match=r"'chats' has weight = 'share:0\.5' and no text"):
        run(job)


NODE = {"Alive": True, "Resources": {"CPU": 8.0, "memory": 2.0**34}, "Labels": {"kind": "big"}}


@pytest.mark.parametrize(
    ("learner", "fits"),
    [
        (LearnerRecipe(memory=2**34, cpus=8, label="kind=big"), True),
        (LearnerRecipe(memory=2**30), True),
        (LearnerRecipe(memory=2**34 + 1), False),
        (LearnerRecipe(memory=2**30, cpus=9), False),
        (LearnerRecipe(memory=2**30, label="kind=small"), False),
    ],
)
def test_a_learner_too_large_for_every_node_is_reported(learner, fits):
    assert bool(list(placement_notes(learner, [NODE]))) != fits
    assert list(placement_notes(learner, [NODE | {"Alive": False}]))
