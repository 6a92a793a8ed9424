"""`nanotok tokenizer eval`: nanochat's table, on the sample texts and the texts of an output."""

import json

import numpy as np
import pytest

from nanotok_ray.cli import main
from nanotok_ray.loader import open_shards
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.evaluation import SAMPLE_TEXTS
from tests.support.missing_packages import uninstall
from tests.support.small_corpus import texts


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers") / "other"
    Tokenizer.train_from_iterator(texts(60, seed=8), 300, num_threads=1).save(folder)
    return folder


@pytest.fixture
def evaluate(out, capsys):
    """Run the command on the output's tokenizer; return its exit code, values and stderr."""

    def run(*arguments):
        code = main(["tokenizer", "eval", str(out / "tokenizer"), *arguments])
        captured = capsys.readouterr()
        return code, json.loads(captured.out.splitlines()[-1]), captured.err

    return run


def test_the_table_equals_that_of_nanochat(evaluate, out, other):
    own, base = Tokenizer.load(out / "tokenizer"), Tokenizer.load(other)
    code, values, reported = evaluate("--against", str(other))
    assert (code, values["status"]) == (0, "evaluated")
    assert [each["name"] for each in values["tokenizers"]] == ["tokenizer", "other"]
    assert {*values["texts"]} == {"news", "korean", "code", "math", "science"}
    for name, text in SAMPLE_TEXTS.items():
        ours, theirs, size = len(own.encode(text)), len(base.encode(text)), len(text.encode())
        diff = (theirs - ours) / theirs * 100
        row = values["texts"][name]
        assert row["tokens"] == {"tokenizer": ours, "other": theirs}
        assert row["bytes_per_token"]["other"] == round(size / theirs, 4)
        assert row["diff_percent"] == {"other": round(diff, 4)}
        cells = [name, f"{size:,}", f"{theirs:,}", f"{size / theirs:.3f}"]
        cells += [f"{ours:,}", f"{size / ours:.3f}", f"{diff:+.1f}%"]
        assert cells in [line.split() for line in reported.splitlines()]
    assert f"against other, {base.get_vocab_size()} ids\n" in reported


def test_splits_of_an_output_are_its_texts_without_special_tokens(evaluate, out, other):
    base, own = Tokenizer.load(other), Tokenizer.load(out / "tokenizer")
    special = [*own.special_tokens.values()]
    _, values, reported = evaluate("--against", str(other), "--splits-of", str(out))
    for split in ("train", "val"):
        shards = open_shards(str(out), split=split)
        made = [own.decode(ids[~np.isin(ids, special)]) for ids in shards]
        row = values["texts"][split]
        assert (row["texts"], row["bytes"]) == (len(made), len("".join(made).encode()))
        assert row["tokens"] == {
            "tokenizer": sum(map(len, own.encode(made))),
            "other": sum(map(len, base.encode(made))),
        }
        assert f"\n{split}" in reported
    flags = ["--splits-of", str(out), "--max-bytes", "1"]
    _, values, _ = evaluate(*flags)
    first = next(text for text in made_of(out, own) if text)
    assert values["texts"]["train"]["bytes"] == len(first.encode())


def made_of(out, tokenizer):
    special = [*tokenizer.special_tokens.values()]
    for ids in open_shards(str(out)):
        yield tokenizer.decode(ids[~np.isin(ids, special)])


def test_a_missing_package_is_named(evaluate, monkeypatch):
    uninstall(monkeypatch, "bpe_openai")
    code, values, _ = evaluate("--against", "o200k")
    assert (code, "pip install bpe-openai" in values["error"]) == (2, True)
    uninstall(monkeypatch, "matplotlib")
    code, values, _ = evaluate("--plot", "x.svg")
    assert (code, "pip install '.[plots]'" in values["error"]) == (2, True)
