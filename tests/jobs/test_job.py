"""Whole jobs in one process: run once, repeated, interrupted, changed."""

import json

import pytest

from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.errors import (
    IncompleteOutputError,
    PatternError,
    PlanError,
    SliceError,
    VerificationError,
)
from nanotok_ray.job import tokenize_work, use_executor
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer, make_model
from tests.support.executors import Replacing
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe, texts


def test_a_job_learns_tokenizes_verifies_and_reports(corpus, tmp_path):
    summary, stages, _ = run(recipe(corpus, tmp_path / "out"))
    assert list(stages) == ["count", "reduce", "learn", "tokenize", "verify"]
    values = summary.values
    assert values["status"] == "done"
    assert values["documents"] == {"in": 150, "out": 150, "quarantined": 0}
    assert values["vocab_size"] == 350
    assert values["proof"]["documents"] == values["proof"]["encoded_again"] > 10
    assert values["bytes"]["in"] == values["bytes"]["out"] > 0
    assert set(values["sources"]) == {"web/train", "web/val", "chats/train"}
    assert json.loads((tmp_path / "out/run/summary.json").read_text()) == values
    written = sum(len(ids) for ids in open_shards(str(tmp_path / "out")))
    written += sum(len(ids) for ids in open_shards(str(tmp_path / "out"), split="val"))
    assert values["tokens"] == written
    assert values["special_text"] > 0
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())
    assert report["texts"] == 80  # chats are not counted
    text = summary.text()
    for words in (
        "documents   150 of 150, ",
        "tokenizer   350 ids",
        "verified",
        ": no difference\n",
    ):
        assert words in text
    assert f"report      {tmp_path}/out/run/report.html\n" in text
    assert (tmp_path / "out/run/report.html").exists()
    assert text.endswith(
        f"nanotok verify {tmp_path}/out\n            nanotok inspect {tmp_path}/out --doc 0"
    )
    assert "quarantine" not in text
    assert "not reached" not in text


def test_the_manifest_is_removed_before_anything_changes(corpus, tmp_path):
    run(recipe(corpus, tmp_path / "out"))
    min((tmp_path / "out/web/train").glob("*.bin")).unlink()

    def fail(work):
        assert not (tmp_path / "out/manifest.json").exists()
        raise SliceError(work.slice.source)

    executor = Replacing({tokenize_work: fail})
    with use_executor(executor), pytest.raises(SliceError, match="web"):
        prepare(recipe(corpus, tmp_path / "out"))
    with pytest.raises(IncompleteOutputError):
        open_shards(str(tmp_path / "out"))


def test_train_and_tokenize_write_what_prepare_writes(corpus, tmp_path):
    prepare(recipe(corpus, tmp_path / "both"))
    with pytest.raises(IncompleteOutputError, match="train one first"):
        tokenize(recipe(corpus, tmp_path / "out"))
    _, first, _ = run(recipe(corpus, tmp_path / "out"), train)
    assert list(first) == ["count", "reduce", "learn"]
    assert not (tmp_path / "out/manifest.json").exists()
    again, stages, _ = run(recipe(corpus, tmp_path / "out"), train)
    assert (again.values["status"], stages) == ("unchanged", {})
    _, second, _ = run(recipe(corpus, tmp_path / "out"), tokenize)
    assert list(second) == ["tokenize", "verify"]
    assert contents(tmp_path / "out") == contents(tmp_path / "both")


def test_a_replaced_tokenizer_is_detected(corpus, tmp_path):
    run(recipe(corpus, tmp_path / "out"))
    learned = Tokenizer.load(tmp_path / "out/tokenizer")
    Tokenizer.train_from_iterator(["hello hello"], vocab_size=270).save(tmp_path / "mine")
    run(recipe(corpus, tmp_path / "out", f"tokenizer.path={tmp_path}/mine"))
    _, stages, _ = run(recipe(corpus, tmp_path / "out"))
    assert stages["count"][0] == 0
    assert stages["learn"] == (350 - 265, 0)
    assert Tokenizer.load(tmp_path / "out/tokenizer") == learned


def test_ids_beyond_uint16_are_written_as_uint32(corpus, tmp_path):
    # A merge for every pair of bytes, the common ones last.
    merges = [(left, right) for left in range(255, -1, -1) for right in range(255, -1, -1)]
    model = make_model(merges, pattern="nanochat", special_tokens=SPECIAL_TOKENS)
    Tokenizer(model).save(tmp_path / "wide")
    prepare(recipe(corpus, tmp_path / "out", f"tokenizer.path={tmp_path}/wide"))
    shards = open_shards(str(tmp_path / "out"), source="web")
    tokenizer = Tokenizer.load(tmp_path / "out/tokenizer")
    assert shards[0].dtype == "uint32"
    assert max(int(ids.max()) for ids in shards) > 65_535
    assert tokenizer.decode(shards[0]) == "<|bos|>" + texts(40, seed=0)[0]


def test_a_job_without_text_to_learn_from_fails_before_it_starts(corpus, tmp_path):
    with pytest.raises(PlanError, match="no train split"):
        prepare(recipe(corpus, tmp_path / "out", "source.web.split=val"))
    with pytest.raises(PatternError):
        prepare(recipe(corpus, tmp_path / "out", "tokenizer.pattern=(unclosed"))
    assert not (tmp_path / "out").exists()


def test_an_output_that_verification_refuses_is_not_published(corpus, tmp_path):
    job = recipe(corpus, tmp_path / "out")
    run(job)
    path = min((tmp_path / "out/records/tokenize/web/train").iterdir())
    record = json.loads(path.read_bytes())
    record["documents"]["in"] += 1
    path.write_text(json.dumps(record))
    (tmp_path / "out/manifest.json").unlink()
    with pytest.raises(VerificationError, match="delete the files named above"):
        prepare(job)
    assert not (tmp_path / "out/manifest.json").exists()
    path.unlink()
    prepare(job)
    assert (tmp_path / "out/manifest.json").exists()
