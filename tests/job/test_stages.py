"""Stages of a job: their events and failures, the summary, the learner's task, probes."""

import json
import os
import pickle
import signal
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.api import train
from nanotok_ray.cli import exit_code
from nanotok_ray.cluster import learner_task
from nanotok_ray.cluster.learner_task import learning_events, placement_notes
from nanotok_ray.cluster.nodes import RayNode
from nanotok_ray.errors import (
    SharedFolderError,
    SliceError,
    SourceError,
    TransientIOError,
)
from nanotok_ray.job.events import Advanced, Note, StageEnded
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.probes import (
    answer,
    probes_in,
    problem_with,
    see,
    shared_folders,
)
from nanotok_ray.job.stage import TaskRules, run_stage
from nanotok_ray.job.summary import read_summary
from nanotok_ray.job.task import SharedFolder, Task, TaskResult
from nanotok_ray.job.work import TokenizeWork, tokenize_work
from nanotok_ray.recipe import LearnerRecipe
from nanotok_ray.shards import ExpectedSlice
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder, LocalStore
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess
from tests.support.small_corpus import (
    contents,
    recipe,
    shard_settings,
    texts,
    write_corpus,
    write_parquet,
)


@pytest.fixture
def work(tmp_path):
    write_corpus(tmp_path / "in")
    out, folder = str(tmp_path / "out"), str(tmp_path / "out/tokenizer")
    tokenizer = Tokenizer.train_from_iterator(texts(40, seed=0), vocab_size=320)
    tokenizer.save(folder)
    plan = make_plan(recipe(tmp_path / "in", out))
    settings = shard_settings(tokenizer)
    expected = ExpectedSlice(slice=next(plan.slices()), settings=settings)
    return TokenizeWork(expected=(expected,), out=out, tokenizer=folder)


def records(tmp_path):
    return [json.loads(path.read_bytes()) for path in tmp_path.glob("out/records/**/*.json")]


@pytest.mark.parametrize("suffix", [".bin", ".idx"])
def test_files_that_read_back_differently_get_no_record_and_another_attempt(
    work, tmp_path, monkeypatch, suffix
):
    right = LocalStore.create

    @contextmanager
    def lose_a_bit(self, name, **options):
        with right(self, name, **options) as file:
            yield file
        path = self.path(name)
        if name.endswith(suffix) and path.exists():
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "create", lose_a_bit)
        with pytest.raises(TransientIOError, match="reads back otherwise"):
            tokenize_work(work)
    assert records(tmp_path) == []
    tokenize_work(work)
    assert len(records(tmp_path)) == 1


COUNT = st.integers(0, 10**12)
SOURCE = st.fixed_dictionaries(
    {
        "documents": COUNT,
        "text_bytes": COUNT,
        "tokens": st.integers(1, 10**12),
        "bytes_per_token": st.none() | st.floats(0, 9),
        "quarantined": COUNT,
        "trainable_tokens": st.none() | st.just(1),
    }
)
EXPORT = st.fixed_dictionaries(
    {
        "layout": st.just("olmo"),
        "folder": st.just("/out/export/olmo"),
        "files": COUNT,
        "documents": COUNT,
        "left_out": st.dictionaries(st.just("too long"), COUNT),
        "masks": st.none() | st.just("bytes"),
    }
    | {
        name: st.just(value)
        for name, value in {
            "format": "nanotok-export 1",
            "layout_format": "olmo 1",
            "options": {},
            "reader": "ai2-olmo-core",
            "item_bytes": 2,
            "num_ids": 265,
            "special_tokens": {},
            "tokenizer_sha256": "0" * 64,
            "manifest_sha256": "0" * 64,
            "units": 1,
            "bytes": 0,
            "tokens": 0,
            "unread_tokens": {},
            "joint_files": [],
        }.items()
    }
)
CORPUS = {
    "documents": st.fixed_dictionaries({"in": COUNT, "out": COUNT, "quarantined": COUNT}),
    "tokens": COUNT,
    "bytes_per_token": st.none() | st.floats(0, 9),
    "sources": st.dictionaries(st.text("abc", min_size=1, max_size=3), SOURCE, max_size=16),
    "quarantined": st.dictionaries(st.text("xyz", max_size=2), COUNT, max_size=9),
    "bytes": st.fixed_dictionaries({"in": COUNT, "out": COUNT, "quarantined": COUNT}),
    "special_tokens": st.just({}),
    "text_bytes": COUNT,
    "blank_lines": COUNT,
    "slices": COUNT,
    "shards": COUNT,
    "special_text": COUNT,
    "roles": st.just({}) | st.just({"image": 3}),
    "images": st.just(0),
    "trainable_tokens": COUNT,
    "over_max_tokens": COUNT,
    "truncated": st.just(0),
    "without_trainable_token": COUNT,
    "rules": st.fixed_dictionaries(
        {
            "max_tokens": st.just(9),
            "too_long": st.sampled_from(["keep", "cut", "drop"]),
            "untrainable": st.sampled_from(["keep", "drop"]),
        }
    ),
    "verified": st.just({"slices": 1, "shards": 2, "documents": 3}),
    "proof": st.fixed_dictionaries(
        {
            "documents": st.just(5),
            "bytes": COUNT,
            "encoded_again": st.just(4) | st.just(5),
            "not_encoded_again": st.dictionaries(st.text("abc", max_size=2), COUNT, max_size=2),
        }
    ),
}
LEARNED = st.fixed_dictionaries(
    {
        "merges": COUNT,
        "end": st.just("no pair left"),
        "not_reached": st.lists(st.integers(1000, 2000), max_size=3),
        "of_other_inputs": st.booleans(),
        "also": st.lists(COUNT, max_size=3),
        "differs_from_rustbpe": st.lists(st.just("weight"), max_size=2),
        "skipped_slices": st.lists(st.just("a"), max_size=2),
    }
)
RUN = {
    "status": st.sampled_from(["done", "unchanged"]),
    "output": st.just("/out"),
    "vocab_size": st.integers(265, 999),
    "tokenizer_sha256": st.just("0" * 64),
    "stages": st.dictionaries(
        st.sampled_from(["count", "learn"]),
        st.just({"seconds": 1.0, "bytes": 3_000_000, "megabytes_per_second": 3.0}),
    ),
}


@given(
    st.fixed_dictionaries(
        RUN | CORPUS, optional={"learned": LEARNED, "exports": st.lists(EXPORT, min_size=1)}
    )
)
def test_a_few_lines_report_the_results_and_the_next_step(values):
    summary = read_summary(values, name="the summary")
    assert json.loads(json.dumps(summary.values)) == values
    lines = summary.text().splitlines()
    assert len(lines) <= 24 + min(12, len(values["sources"]))
    assert lines[-2:] == [
        "next        nanotok verify /out",
        "            nanotok inspect /out --doc 0",
    ]
    starts = [line.partition(" ")[0] for line in lines]
    assert "report      /out/run/report.html" in lines
    assert starts.count("quarantine") == bool(values["quarantined"])
    if values["quarantined"]:
        line, numbers = lines[starts.index("quarantine")], [*values["quarantined"].values()]
        assert line.startswith(f"quarantine  {sum(numbers):,} document")
        assert f" ({numbers[0]:,}: {next(iter(values['quarantined']))}" in line
        assert line.endswith(", listed in /out/quarantine")
    missed = values.get("learned", {}).get("not_reached")
    assert any(line.startswith("not reached ") for line in lines) == bool(missed)
    named = sum(line.startswith("  ") and " documents " in line for line in lines)
    is_cut = len(values["sources"]) > 12
    assert named == (11 if is_cut else len(values["sources"]))
    assert any("more, in the report" in line for line in lines) == is_cut


@given(st.fixed_dictionaries(RUN, optional={"learned": LEARNED}))
def test_after_training_alone_the_next_step_is_to_tokenize(values):
    lines = read_summary(values, name="the summary").text().splitlines()
    assert len(lines) <= 15
    assert lines[-1] == "            nanotok tokenize RECIPE"


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


NODE = RayNode(address="10.0.0.1", cpus=8, memory=2**34, labels={"kind": "big"})


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
    assert list(placement_notes(learner, []))


at_once = partial(probes_in, waits=(0.0, 0.0))


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_a_probe_is_seen_answered_and_removed(tmp_path, kind):
    url = str(tmp_path) if kind == "local" else f"memory://{tmp_path.name}"
    shared = shared_folders(f"{url}/out", f"{url}/work")
    with at_once([*shared, *shared]) as probes:
        assert [probe.name.rpartition("/")[0] for probe in probes] == ["run/probe", "probe"]
        for probe in probes:
            see(probe)
            assert problem_with(probe) is None
        assert answer(probes, "node") == [None, None]
        for probe in probes:
            assert problem_with(probe, probe.answer_name("node")) is None
            Folder(probe.folder).remove(probe.answer_name("node"))
    assert Folder(f"{url}/out").list() == Folder(f"{url}/work").list() == []


def test_a_missing_or_different_probe_is_a_problem_that_names_the_file(tmp_path):
    with at_once([SharedFolder(url=str(tmp_path), probes="probe")]) as [probe]:
        file = tmp_path / probe.name
        file.write_bytes(b"another job's")
        assert problem_with(probe) == f"{file} holds something else"
        file.unlink()
        assert problem_with(probe) == f"{file}: FileNotFoundError"
        assert answer([probe], "node") == [f"{file}: FileNotFoundError"]
        with pytest.raises(
            SharedFolderError, match=f"{tmp_path} is not one folder.*mounted"
        ) as own:
            see(probe)
    again = pickle.loads(pickle.dumps(own.value))
    assert (type(again), str(again), exit_code(again)) == (SharedFolderError, str(own.value), 5)
    assert files(tmp_path) == []


def test_a_late_probe_is_seen(tmp_path):
    looks = []

    def appear(_):
        looks.append(1)
        if len(looks) == 2:
            Folder(probe.folder).write_bytes(probe.name, probe.token.encode())

    with at_once([SharedFolder(url=str(tmp_path), probes="probe")]) as [probe]:
        (tmp_path / probe.name).unlink()
        assert problem_with(probe, sleep=appear) is None


def test_probes_are_removed_after_an_error_and_a_failed_write_stops_the_job(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    shared = [SharedFolder(url=str(tmp_path / name), probes="probe") for name in ("a", "file")]
    with pytest.raises(OSError, match="file"), at_once(shared):
        raise AssertionError("never reached")
    with pytest.raises(RuntimeError, match="mine"), at_once(shared[:1]):
        raise RuntimeError("mine")
    assert files(tmp_path) == [tmp_path / "file"]


def test_a_refused_job_leaves_no_folder_behind(tmp_path):
    (tmp_path / "work").mkdir()
    shared = shared_folders(str(tmp_path / "new/out"), str(tmp_path / "work"))
    with pytest.raises(RuntimeError, match="mine"), at_once(shared):
        raise RuntimeError("mine")
    assert list(tmp_path.rglob("*")) == [tmp_path / "work"]
    other = tmp_path / "new/out/run/of another"
    with pytest.raises(RuntimeError, match="mine"), at_once(shared):
        fail_with_a_file(other)
    assert files(tmp_path) == [other]


def fail_with_a_file(path):
    path.write_bytes(b"")
    raise RuntimeError("mine")


def test_a_temporary_storage_failure_does_not_decide_about_sharing(tmp_path, monkeypatch):
    def fail(*_):
        raise TransientIOError("for now")

    with at_once([SharedFolder(url=str(tmp_path), probes="probe")]) as [probe]:
        monkeypatch.setattr(Folder, "read_bytes", fail)
        with pytest.raises(TransientIOError):
            see(probe)
        with pytest.raises(TransientIOError):
            answer([probe], "node")


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


def staged(count, *, engine=None, on_event=lambda _: None, **settings):
    tasks = [task(number) for number in range(count)]
    runtime = Runtime(engine or Engine(), on_event=on_event)
    return run_stage("count", tasks, runtime, num_done=0, rules=TaskRules(**settings))


def test_failed_slices_fail_the_job_after_all_others_have_run():
    reported = []
    with pytest.raises(SliceError) as caught:
        staged(5, on_event=reported.append)
    assert str(caught.value).splitlines() == [
        "count: 2 of 5 slices failed; the others are kept, run the job again",
        "  slice 1 (of /in/1.gz): why 1",
        "  slice 3 (of /in/3.gz): why 3",
    ]
    last = [event for event in reported if isinstance(event, Advanced)][-1]
    assert (last.done, last.failed, last.num_bytes) == (5, 2, 21)
    assert Note(text="count: a worker died") in reported
    with pytest.raises(SliceError, match=r"slice 9 \(of /in/9.gz\): why 9\n  and 5 more$"):
        staged(20)


def test_up_to_the_limit_failed_slices_are_skipped_and_returned():
    failures = [(each.task.name, each.error) for each in staged(5, max_skipped=2)]
    assert failures == [("slice 1", "why 1"), ("slice 3", "why 3")]
    with pytest.raises(SliceError):
        staged(7, max_skipped=2)
    engine = Engine()
    assert staged(0, engine=engine) == []
    assert engine.begun == 0


def test_an_exception_in_a_listener_closes_the_engine():
    def interrupt(event):
        if isinstance(event, Advanced):
            raise KeyboardInterrupt

    engine = Engine()
    with pytest.raises(KeyboardInterrupt) as caught:
        staged(2, engine=engine, on_event=interrupt)
    assert engine.is_closed
    del caught


def test_many_inputs_are_abbreviated():
    own = replace(task(0), inputs=tuple(f"{letter}.gz" for letter in "abcdef"))
    assert own.inputs_text == "a.gz, b.gz, c.gz and 3 more files"
