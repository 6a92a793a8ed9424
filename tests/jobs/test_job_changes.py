"""Jobs whose inputs grow or lose files."""

import json
from functools import partial

import pytest

from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.cli import main
from nanotok_ray.errors import PlanError, RecipeError
from nanotok_ray.job.job_plan import decide
from nanotok_ray.job.planning import plan_job
from nanotok_ray.job.work import count_work
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.run_job import run
from tests.support.small_corpus import (
    RECIPE,
    contents,
    conversations,
    recipe,
    texts,
    write_conversations,
    write_parquet,
)


@pytest.fixture
def published(tmp_path, in_process):
    """Write a corpus of twelve files of text and two of chats, and publish its output."""
    for number in range(12):
        write_parquet(tmp_path / f"in/text/shard_{number:05d}.parquet", texts(6, seed=number))
    for number in range(2):
        write_conversations(tmp_path / f"in/chats/{number}.jsonl", conversations(5, seed=number))
    prepare(recipe(tmp_path / "in", tmp_path / "out"))
    return tmp_path / "in"


def remove(published, *numbers):
    for number in numbers:
        (published / f"text/shard_{number:05d}.parquet").unlink()


def prepared(out, text, *options):
    """Run `nanotok prepare` on the text of a recipe; return its exit code."""
    path = out.with_suffix(".toml")
    path.write_text(text)
    return main(["prepare", str(path), *options])


def refused(published, out, command=prepare):
    """Return the error of a job that refuses, after checking that it wrote nothing."""
    before = contents(out, leave_out=())
    with pytest.raises(PlanError) as caught:
        command(recipe(published, out))
    assert contents(out, leave_out=()) == before
    return str(caught.value)


def dry_run_of(job):
    return decide(job, command="train")


@pytest.mark.parametrize("command", [prepare, train, tokenize, plan_job, dry_run_of])
def test_removal_of_more_than_a_tenth_of_the_files_is_refused_by_every_job(out, published, command):
    remove(published, 3, 7)
    message = refused(published, out, command)
    for words in (
        *("source 'web'", "2 of 12 files", "shard_00003.parquet, shard_00007.parquet"),
        *(str(out), "--allow-removed", "output.allow_removed = true"),
    ):
        assert words in message


def test_a_tenth_may_be_removed_and_more_if_allowed(out, published):
    remove(published, 3)
    assert prepare(recipe(published, out)).values["documents"]["out"] == 66 + 10
    remove(published, 4, 5)
    refused(published, out)
    job = recipe(published, out, "output.allow_removed=true")
    assert prepare(job).values["documents"]["out"] == 54 + 10
    assert prepare(recipe(published, out)).values["status"] == "unchanged"


def test_removal_of_more_than_a_tenth_of_the_bytes_is_refused(out, published):
    write_parquet(published / "text/shard_00004.parquet", texts(60, seed=4))
    prepare(recipe(published, out))
    remove(published, 4)
    assert "1 of 12 files" in refused(published, out)


def test_an_emptied_file_counts_as_removed(out, published):
    (published / "chats/0.jsonl").write_bytes(b"")
    assert "chats" in refused(published, out)


def test_changed_and_added_files_are_no_loss(out, published):
    for number in range(3, 9):
        write_parquet(published / f"text/shard_{number:05d}.parquet", texts(3, seed=50 + number))
    write_conversations(published / "chats/9.jsonl", conversations(3, seed=9))
    assert prepare(recipe(published, out)).values["status"] == "done"


def test_a_removed_source_is_refused_with_its_contents(out, published, capsys):
    text = RECIPE.format(root=published, out=out)
    chats = f'[[source]]\nname = "chats"\nkind = "chat"\npaths = ["{published}/chats"]\n'
    assert chats in text
    before = contents(out, leave_out=())
    totals = json.loads((out / "manifest.json").read_text())["totals"]
    capsys.readouterr()
    assert prepared(out, text.replace(chats, "")) == 2
    error = capsys.readouterr().err
    tokens = totals["chats/train"]["tokens"]
    for words in ("source 'chats'", "10 documents", f"{tokens:,} tokens", "--allow-removed"):
        assert words in error
    assert contents(out, leave_out=()) == before
    assert prepared(out, text.replace(chats, ""), "--allow-removed") == 0
    assert json.loads((out / "manifest.json").read_text())["sources"] == ["web"]


def test_a_moved_or_renamed_source_is_not_removed(tmp_path, out, published):
    renamed = RECIPE.format(root=published, out=out).replace('"web"', '"texts"')
    assert prepared(out, renamed) == 0
    moved = published.rename(tmp_path / "moved")
    renamed = renamed.replace(str(published), str(moved))
    assert prepared(out, renamed) == 0
    write_parquet(tmp_path / "more/a.parquet", texts(3, seed=99))
    wider = f'source.texts.paths=["{moved}/text/*.parquet", "{tmp_path}/more/"]'
    assert prepared(out, renamed, "--set", wider) == 0


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("flag", [[], ["--allow-removed"]])
@pytest.mark.parametrize("name", ["another", "shard"])
def test_another_corpus_in_the_same_output_requires_replace(tmp_path, out, capsys, flag, name):
    other = tmp_path / "other"
    for number in range(2):
        write_parquet(other / f"text/{name}_{number:05d}.parquet", texts(40, seed=70 + number))
    write_conversations(other / "chats/0.jsonl", conversations(3, seed=9))
    text, before = RECIPE.format(root=other, out=out), contents(out, leave_out=())
    assert prepared(out, text, *flag) == 2
    error = capsys.readouterr().err
    assert contents(out, leave_out=()) == before
    for words in (str(out), "web, chats", "82 documents", "--replace"):
        assert words in error
    assert prepared(out, text, "--replace") == 0
    assert prepared(out, text) == 0


def test_an_unpublished_output_has_nothing_to_lose(out, published):
    (out / "manifest.json").unlink()
    remove(published, 3, 4, 5)
    assert prepare(recipe(published, out)).values["status"] == "done"


LEARN_RECORD = "records/learn.json"
relearn = partial(prepare, relearn=True)


def grow(corpus):
    """Add a file of other texts with the last name."""
    more = [f"{text} zyx wvu" for text in texts(60, seed=7)]
    write_parquet(corpus / "text/shard_00007.parquet", more)


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
    assert verify_output(Folder(str(out)), depth="full").passed


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


@pytest.mark.usefixtures("grown")
def test_other_rules_learn_again(corpus, out):
    for rule in (
        *("tokenizer.vocab_size=340", "tokenizer.min_count=2", "limits.doc_cap=50"),
        *("source.web.weight=2", "source.chats.count=true"),
    ):
        announced = decide(recipe(corpus, out, rule), command="prepare").values
        assert announced["learn"]["todo"] == 1, rule


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


def test_plan_and_tokenize_keep_the_tokenizer(grown, corpus, out):
    announced = decide(grown, command="prepare").values
    assert (announced["count"]["todo"], announced["learn"]["todo"]) == (0, 0)
    assert [note for note in announced["notes"] if "--relearn" in note]
    assert decide(grown, command="prepare", relearn=True).values["learn"]["todo"] == 1
    again = decide(grown, command="train").values
    assert again["learn"]["todo"] == 1
    assert [note for note in again["notes"] if "is published" in note]
    with pytest.raises(RecipeError, match="nothing to learn"):
        decide(recipe(corpus, out, f"tokenizer.path={out}/tokenizer"), command="train")
    run(grown, tokenize)
    second_pass = contents(out)
    assert run(grown).summary.values["status"] == "unchanged"
    assert contents(out) == second_pass
