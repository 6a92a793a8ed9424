"""Jobs that add special tokens: learning, saving, recording, use, and no repeated learning."""

import json

import numpy as np
import pytest

import nanotok_ray
from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.errors import TransientIOError
from nanotok_ray.job import training
from nanotok_ray.job.decide import decide
from nanotok_ray.recipe import PRESETS, SPECIAL_TOKENS
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import READABLE_NAME, Tokenizer
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe

SEED = list(PRESETS["seed"].special_tokens)
EXTEND = 'tokenizer.extend=["preset:seed"]'
ALSO = "tokenizer.also=[300, 330]"
LEARN_RECORD = "records/learn.json"


def tokenizer_of(out):
    return Tokenizer.load(out / "tokenizer")


def record_of(out):
    return json.loads((out / LEARN_RECORD).read_text())


def test_the_saved_tokenizer_is_the_extended_one(corpus, tmp_path):
    append = 'source.web.append=["<image>"]'
    out = tmp_path / "out"
    summary, _, _ = run(recipe(corpus, out, EXTEND, append))
    run(recipe(corpus, tmp_path / "plain"))
    tokenizer = tokenizer_of(out)
    assert tokenizer == tokenizer_of(tmp_path / "plain").extended(SEED)
    assert tokenizer.get_vocab_size() == 356
    assert summary.values["tokenizer_sha256"] == tokenizer.sha256
    assert record_of(out)["special_tokens"] == {"learned": list(SPECIAL_TOKENS), "extended": SEED}
    assert record_of(out)["report"]["vocab_size_reached"] == 350
    shards = nanotok_ray.open_shards(str(out), split="train")
    ends = {int(shards[number][-1]) for number in range(len(shards)) if len(shards[number])}
    assert 350 in ends
    assert verify_output(Folder(str(out))).problems == []
    summary, stages, _ = run(recipe(corpus, out, EXTEND, append))
    assert (summary.values["status"], stages) == ("unchanged", {})


OTHERS = 'tokenizer.extend=["<a>", "<image>"]'


@pytest.mark.parametrize(
    ("command", "first", "then"),
    [(prepare, [], [EXTEND]), (train, [EXTEND], []), (prepare, [EXTEND], [OTHERS])],
    ids=["added", "removed", "others"],
)
def test_a_changed_extension_does_not_repeat_learning(corpus, tmp_path, command, first, then):
    out = tmp_path / "out"
    run(recipe(corpus, out, ALSO, *first), command)
    job = recipe(corpus, out, ALSO, *then)
    assert decide(job, command=command.__name__.partition("_")[0]).values["learn"]["todo"] == 0
    _, stages, notes = run(job, command)
    assert not {"count", "learn"} & set(stages)
    assert ("tokenize" in stages) == (command is prepare)
    assert any("was not learned again" in note for note in notes)
    run(recipe(corpus, tmp_path / "fresh", ALSO, *then), command)
    expected = contents(tmp_path / "fresh")
    assert contents(out) | expected == contents(out)
    summary, stages, notes = run(job, command)
    assert (summary.values["status"], stages, notes) == ("unchanged", {}, [])


def test_smaller_tokenizers_are_extended_restored_when_lost_and_removed(corpus, tmp_path):
    out = tmp_path / "out"
    job = recipe(corpus, out, EXTEND, "tokenizer.also=[300, 350, 330]")
    run(job, train)
    run(recipe(corpus, tmp_path / "alone", "tokenizer.vocab_size=300"), train)
    smaller = Tokenizer.load(out / "tokenizer-300")
    assert smaller == tokenizer_of(tmp_path / "alone").extended(SEED)
    assert Tokenizer.load(out / "tokenizer-350") == tokenizer_of(out)
    assert record_of(out)["also"] == [300, 330, 350]
    before = contents(out)
    (out / "tokenizer-330/tokenizer.txt").unlink()
    _, stages, _ = run(job, train)
    assert (stages, contents(out)) == ({}, before)
    run(recipe(corpus, out, "tokenizer.also=[300]"), train)
    assert record_of(out)["also"] == [300]
    assert Tokenizer.load(out / "tokenizer-300") == tokenizer_of(tmp_path / "alone")
    assert not (out / "tokenizer-330/tokenizer.txt").exists()


def test_added_tokens_do_not_fill_sizes_that_learning_did_not_reach(corpus, tmp_path):
    limits = ["tokenizer.min_pair_count=40", "tokenizer.vocab_size=5000", EXTEND]
    out = tmp_path / "out"
    run(recipe(corpus, out, *limits), train)
    reached = tokenizer_of(out).get_vocab_size() - len(SEED)
    sizes = f"tokenizer.also=[{reached}, {reached + 1}]"
    _, stages, notes = run(recipe(corpus, out, *limits, sizes), train)
    assert stages == {}
    assert record_of(out)["also"] == [reached]
    assert any(
        f"asks for {reached + 1:,} ids and learning ended at {reached:,}" in n for n in notes
    )


def test_a_run_that_ends_while_the_extension_is_replaced_learns_again(
    corpus, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    run(recipe(corpus, out), train)
    before = contents(out)

    def die(*_):
        raise KeyboardInterrupt

    def fail(self, folder, *, overwrite):
        raise TransientIOError("the line went dead")

    with monkeypatch.context() as patch:
        patch.setattr(training, "write_beside", die)
        with pytest.raises(KeyboardInterrupt):
            run(recipe(corpus, out, EXTEND), train)
    assert "learn" in run(recipe(corpus, out), train).stages
    assert contents(out) == before
    with monkeypatch.context() as patch:
        patch.setattr(Tokenizer, "save", fail)
        with pytest.raises(TransientIOError):
            run(recipe(corpus, out, EXTEND), train)
    assert not (out / "tokenizer" / READABLE_NAME).exists()
    assert "learn" in run(recipe(corpus, out), train).stages
    assert contents(out) == before


def test_a_record_without_extensions_belongs_to_the_tokenizer(corpus, tmp_path):
    out = tmp_path / "out"
    run(recipe(corpus, out))
    record = record_of(out)
    del record["special_tokens"]
    (out / LEARN_RECORD).write_text(json.dumps(record))
    assert run(recipe(corpus, out))[1] == {}
    assert run(recipe(corpus, out, EXTEND), train)[1] == {}
    assert tokenizer_of(out).get_vocab_size() == 350 + len(SEED)


def test_a_foreign_tokenizer_is_extended_when_it_is_adopted(corpus, tmp_path):
    run(recipe(corpus, tmp_path / "learned"), train)
    path = f"tokenizer.path={tmp_path}/learned/tokenizer"
    extend = 'tokenizer.extend=["<|bos|>", "<image>"]'
    job = recipe(corpus, tmp_path / "out", path, extend, 'source.web.append=["<image>"]')
    before = contents(tmp_path / "learned")
    run(job)
    assert tokenizer_of(tmp_path / "out") == tokenizer_of(tmp_path / "learned").extended(
        ["<image>"]
    )
    assert contents(tmp_path / "learned") == before
    assert run(job).summary.values["status"] == "unchanged"
    assert run(job, tokenize).summary.values["status"] == "unchanged"
    shards = nanotok_ray.open_shards(str(tmp_path / "out"), split="train")
    assert any(np.any(shards[number] == 350) for number in range(len(shards)))
