"""`nanotok tokenizer learn`: options, text, JSON, exit codes."""

import json
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray import SpanCounts, Tokenizer
from nanotok_ray.counts import PATTERNS
from tests.support.small_corpus import texts

DOCUMENTS = texts(150, seed=7)


@pytest.fixture
def counts(tmp_path):
    """Write a count file and return its path."""
    own = SpanCounts()
    own.update(DOCUMENTS)
    path = tmp_path / "counts/a.arrow"
    own.save(path)
    return str(path)


@pytest.fixture
def learn(run):
    return partial(run, "tokenizer", "learn")


def test_a_count_file_yields_the_tokenizer_of_its_texts(counts, tmp_path, learn):
    out = tmp_path / "tokenizer"
    code, values, reported = learn(counts, "--vocab-size", 350, "--output", out)
    expected = Tokenizer.train_from_iterator(DOCUMENTS, 350)
    assert code == 0
    assert Tokenizer.load(out) == expected
    assert json.loads((out / "report.json").read_text())["texts"] == 150
    assert (values["status"], values["output"]) == ("done", str(out))
    assert (values["vocab_size"], values["tokenizer_sha256"]) == (350, expected.sha256)
    assert values["stop_reason"] == "vocabulary size reached"
    assert set(values["seconds"]) == {"read", "learn"}
    assert "merges" not in values
    shown = ("reading     1 count file\n", "learn: 85 merges\n", "350 ids, learned in")
    for words in (*shown, "in 150 texts", f"wrote       {out}"):
        assert words in reported


def test_also_omits_a_size_that_was_not_reached(counts, tmp_path, learn):
    out = f"{tmp_path}/tokenizer"
    flags = ("--vocab-size", 90_000, "--output", out, "--also", "300,80000")
    code, values, reported = learn(counts, *flags)
    assert (code, values["wrote"]) == (0, [out, f"{out}-300"])
    assert f"note: 80,000 ids were not reached; {out}-80000 is not written" in reported


def test_every_flag_has_its_effect(tmp_path, learn):
    table = pa.table({"token": [b"abcdef", b"xy"], "n": [9, 2]})
    pq.write_table(table, tmp_path / "c.parquet")
    arguments = [tmp_path / "c.parquet", "--span-column=token", "--count-column=n"]
    arguments += ["--pattern=r50k", "--vocab-size=999", f"--output={tmp_path}/t", "--cpus=2"]
    arguments += ["--min-pair-count=3", "--max-token-bytes=4"]
    arguments += ["--special-token=<a>", "--special-token=<b>"]
    code, values, reported = learn(*arguments)
    own = Tokenizer.load(tmp_path / "t")
    assert code == 0
    assert own.pattern == PATTERNS["r50k"]
    assert list(own.special_tokens) == ["<a>", "<b>"]
    assert max(len(token) for token in own.model.tokens) == 4
    assert b"xy" not in own.model.tokens
    assert values["stop_reason"] == "below min_pair_count"
    assert (values["texts"], values["min_pair_count"], values["max_token_bytes"]) == (None, 3, 4)
    assert f"{own.get_vocab_size()} ids of the 999 asked for" in reported
    assert "below min_pair_count = 3" in reported
    assert "reading     1 parquet file\n" in reported


def test_a_damaged_count_file_exits_4(tmp_path, learn):
    goal = ["--vocab-size=300", "--output", tmp_path / "t"]
    (tmp_path / "b.arrow").write_bytes(b"ARROW1 and nothing else")
    code, values, _ = learn(tmp_path / "b.arrow", *goal)
    assert (code, "b.arrow" in values["error"]) == (4, True)
