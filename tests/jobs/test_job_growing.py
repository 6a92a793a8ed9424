"""A corpus that grows from run to run: results and tokenizer are kept, unless requested."""

import json
from functools import partial

import pytest

from nanotok_ray.api import prepare, tokenize
from nanotok_ray.job import count_work
from nanotok_ray.job.decide import decide
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe, texts, write_parquet

LEARN_RECORD = "records/learn.json"
relearn = partial(prepare, relearn=True)


def grow(corpus):
    """Add a file of other texts with the last name."""
    more = [f"{text} zyx wvu" for text in texts(60, seed=7)]
    write_parquet(corpus / "text/shard_00007.parquet", more)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def grown(corpus, out):
    """Return a job that ran before its corpus grew."""
    job = recipe(corpus, out)
    run(job)
    grow(corpus)
    return job


def shards_of(out):
    return {name: data for name, data in contents(out).items() if name.split("/")[0] == "web"}


def tokenizer_of(out):
    return (out / "tokenizer/tokenizer.txt").read_bytes()


def test_existing_results_are_kept_and_new_files_are_train(corpus, out, tmp_path):
    job = recipe(corpus, out)
    first, stages, _ = run(job)
    before, tokenizer, learned = shards_of(out), tokenizer_of(out), contents(tmp_path / "out-work")
    grow(corpus)
    summary, grown, notes = run(job)
    assert grown.keys() == {"tokenize", "verify"}
    assert grown["tokenize"][1] == stages["tokenize"][0]
    assert tokenizer_of(out) == tokenizer
    assert contents(tmp_path / "out-work") == learned
    assert before.items() < shards_of(out).items()
    assert {name.split("/")[1] for name in shards_of(out).keys() - before.keys()} == {"train"}
    assert summary.values["documents"]["out"] == first.values["documents"]["out"] + 60
    assert [note for note in notes if "--relearn" in note]
    assert summary.values["learned"]["of_other_inputs"]
    assert not first.values["learned"]["of_other_inputs"]
    assert verify_output(Folder(str(out)), deep=True).passed


def test_a_relearned_tokenizer_equals_one_learned_from_all_inputs(grown, corpus, out, tmp_path):
    run(grown)
    kept = tokenizer_of(out)
    summary, stages, notes = run(grown, relearn)
    assert stages["count"][0] < stages["count"][1]  # only new ones
    assert not summary.values["learned"]["of_other_inputs"]
    assert not [note for note in notes if "--relearn" in note]
    assert tokenizer_of(out) != kept
    frozen = ("source.web.split=files", 'source.web.val_files=["shard_00002.parquet"]')
    run(recipe(corpus, tmp_path / "whole", *frozen))
    assert tokenizer_of(out) == tokenizer_of(tmp_path / "whole")
    assert run(grown, relearn).summary.values["status"] == "unchanged"


@pytest.mark.parametrize(
    "rule",
    [
        *("tokenizer.vocab_size=340", "tokenizer.min_count=2", "limits.doc_cap=50"),
        *("source.web.weight=2", "source.chats.count=true"),
    ],
)
@pytest.mark.usefixtures("grown")
def test_other_rules_learn_again(corpus, out, rule):
    assert "learn" in run(recipe(corpus, out, rule)).stages


@pytest.mark.parametrize(
    "name", ["tokenizer/tokenizer.txt", "tokenizer/report.json", LEARN_RECORD, "earlier version"]
)
def test_an_incomplete_tokenizer_is_learned_from_the_current_inputs(grown, out, name):
    if name == "earlier version":
        values = json.loads((out / LEARN_RECORD).read_text())
        del values["rules"]
        (out / LEARN_RECORD).write_text(json.dumps(values))
    else:
        (out / name).write_bytes(b"not what it was")
    summary, stages, _ = run(grown)
    assert "learn" in stages
    assert not summary.values["learned"]["of_other_inputs"]


def test_skipped_slices_are_retried_when_learning_again(corpus, out, breaking):
    job = recipe(corpus, out, "limits.max_skipped_slices=1")
    fix = breaking([count_work], ("shard_00001", 0))
    assert run(job).summary.values["learned"]["skipped_slices"]
    fix()
    grow(corpus)
    summary, stages, _ = run(job)
    assert "learn" in stages
    assert not summary.values["learned"]["skipped_slices"]


@pytest.mark.usefixtures("grown")
def test_smaller_tokenizers_and_added_tokens_extend_a_kept_one(corpus, out):
    also = recipe(corpus, out, "tokenizer.also=[300]", 'tokenizer.extend=["<|more|>"]')
    summary, stages, _ = run(also)
    assert "learn" not in stages
    assert summary.values["learned"]["of_other_inputs"]
    assert Tokenizer.load(out / "tokenizer").get_special_tokens() >= {"<|more|>"}
    assert Tokenizer.load(out / "tokenizer-300").get_vocab_size() == 301
    assert run(also).summary.values["status"] == "unchanged"


def test_plan_and_tokenize_keep_the_tokenizer(grown, out):
    announced = decide(grown, command="prepare").values
    assert (announced["count"]["todo"], announced["learn"]["todo"]) == (0, 0)
    assert [note for note in announced["notes"] if "--relearn" in note]
    assert decide(grown, command="prepare", relearn=True).values["learn"]["todo"] == 1
    assert decide(grown, command="train").values["learn"]["todo"] == 1
    run(grown, tokenize)
    second_pass = contents(out)
    assert run(grown).summary.values["status"] == "unchanged"
    assert contents(out) == second_pass
