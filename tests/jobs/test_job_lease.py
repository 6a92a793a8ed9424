"""Two runs of one output: one is refused, sees the other's result, or stops in time."""

import pytest

from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.errors import LeaseLostError, OutputInUseError
from nanotok_ray.job import (
    Advanced,
    StageEnded,
    StageStarted,
    ignore,
    lease_name,
    leased,
    plan_job,
    use_executor,
)
from nanotok_ray.storage import Folder
from tests.support.executors import InProcess
from tests.support.lease_elsewhere import held_elsewhere
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe, texts, write_parquet


@pytest.fixture
def job(corpus, tmp_path):
    return recipe(corpus, tmp_path / "out")


@pytest.fixture
def out(tmp_path):
    return Folder(str(tmp_path / "out"))


def test_a_plan_is_not_frozen_while_a_run_is_active(job, out, monkeypatch):
    held_elsewhere(out, monkeypatch, command="prepare")
    announced = plan_job(job, rate=1.0)
    assert announced.values["frozen"]["status"] == "in use"
    assert "another run has locked this output" in announced.text()
    assert not out.exists("plan.json")


def test_every_run_that_changes_something_acquires_and_releases_the_lease(job, out, tmp_path):
    done = [train(job), tokenize(job)]
    out.remove("shards.idx")
    done.append(prepare(job))
    out.remove("tokenizer/tokenizer.json")
    done.append(prepare(job))
    assert out.list("run/lease/") == [lease_name(len(done))]
    assert b'"released"' in out.read_bytes(lease_name(len(done)))
    before = contents(tmp_path / "out", leave_out=())
    for command in (prepare, train, tokenize):
        assert command(job).values["status"] == "unchanged"
    assert contents(tmp_path / "out", leave_out=()) == before


def first_time(meanwhile):
    """Run an action once while a run starts Ray, before it holds a lease."""
    todo = [meanwhile]

    def start(**_):
        if todo:
            todo.pop()()

    return use_executor(InProcess(on_session=start))


def test_the_work_of_a_concurrent_run_is_seen_and_not_repeated(job, tmp_path):
    other = recipe(tmp_path / "in", tmp_path / "out", "tokenizer.vocab_size=320")
    with first_time(lambda: prepare(other)):
        prepare(job)
    quiet = recipe(tmp_path / "in", tmp_path / "quiet")
    with first_time(lambda: prepare(quiet)):
        assert prepare(quiet).values["status"] == "unchanged"
    assert contents(tmp_path / "quiet").items() <= contents(tmp_path / "out").items()


def test_a_plan_frozen_by_a_concurrent_run_is_kept(job, out, tmp_path):
    def freeze():
        write_parquet(tmp_path / "in/text/shard_00003.parquet", texts(40, seed=3))
        plan_job(job, rate=1.0)

    with first_time(freeze):
        prepare(job)
    assert out.list("web/val/")
    assert b"shard_00003" in out.read_bytes("plan.json")
    assert prepare(job).values["status"] == "unchanged"


def run_in_between(out):
    with leased(out, command="other", on_event=ignore):
        pass


def test_repeated_findings_are_reported_once(job, out, tmp_path):
    prepare(job)
    write_parquet(tmp_path / "in/text/shard_00003.parquet", texts(40, seed=3))
    with first_time(lambda: run_in_between(out)):
        notes = run(job).notes
    assert any("1 added" in note for note in notes)
    assert len(notes) == len(set(notes))


def test_an_endless_sequence_of_other_runs_is_reported(job, out):
    executor = InProcess(on_session=lambda **_: run_in_between(out))
    with use_executor(executor), pytest.raises(OutputInUseError, match="each of the 3 times"):
        prepare(job)


@pytest.mark.parametrize(
    ("kind", "stage"),
    [
        *((StageEnded, "count"), (StageEnded, "learn"), (Advanced, "tokenize")),
        *((StageStarted, "verify"), (StageEnded, "verify")),
    ],
    ids=["counted", "learned", "tokenizing", "verifying", "verified"],
)
def test_a_run_whose_lease_was_taken_over_changes_nothing_more(job, out, tmp_path, kind, stage):
    seen = {}

    def take_over(event):
        if isinstance(event, kind) and event.stage == stage and not seen:
            out.write_whole(lease_name(9), b"{}")
            seen.update(contents(tmp_path / "out"))

    with pytest.raises(LeaseLostError, match="another run has taken over"):
        prepare(job, on_event=take_over)
    after = contents(tmp_path / "out")
    changed = {name for name in after if after[name] != seen.get(name)}
    assert "manifest.json" not in after
    assert all(name.startswith(("web/", "chats/", "records/tokenize/")) for name in changed)
    assert out.read_bytes(lease_name(9)) == b"{}"
