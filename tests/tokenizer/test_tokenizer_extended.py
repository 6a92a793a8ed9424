"""Tokenizers with added special tokens: ids stay the same, and every file has the new names."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.cli import main
from nanotok_ray.errors import TokenizerError
from nanotok_ray.recipe import PRESETS, SPECIAL_TOKENS
from nanotok_ray.tokenizer import FILE_NAMES, Model, Tokenizer, open_tokenizer
from tests.support.small_corpus import contents

SEED = PRESETS["seed"].special_tokens
VECTORS = Path(__file__).parents[1] / "vectors"
FORK = json.loads((VECTORS / "vision.json").read_text())["fork"]
MIX = json.loads((VECTORS / "training.json").read_text())["corpora"]["mix"]


@pytest.fixture(scope="module")
def base():
    return Tokenizer.train_from_iterator(MIX, 565, num_threads=1)


def test_ids_equal_those_of_the_fork_when_it_loads_a_tokenizer(base):
    expected = FORK["extend_on_load"]
    extended = base.extended(["<|bos|>", "<|image|>"])
    assert extended.get_vocab_size() == expected["n_vocab"]
    assert extended.encode_special("<|image|>") == expected["image_id"]
    assert extended.get_bos_token_id() == expected["bos"]


def test_a_token_added_while_learning_shifts_all_special_tokens(base):
    expected = FORK["trained_with_the_token"]
    names = [*SPECIAL_TOKENS, "<|image|>"]
    learned = Tokenizer.train_from_iterator(
        MIX, expected["vocab_size_asked"], special_tokens=names, num_threads=1
    )
    assert learned.get_vocab_size() == expected["n_vocab"]
    assert learned.get_bos_token_id() == expected["bos"]
    assert learned.encode_special("<|image|>") == expected["image_id"]
    assert learned.merges == base.merges[:-1]


def test_no_id_changes_and_texts_keep_their_ids(base):
    extended = base.extended(SEED)
    assert extended.merges == base.merges
    assert list(extended.special_tokens.items()) == [
        *base.special_tokens.items(),
        *zip(SEED, range(565, 571), strict=True),
    ]
    for text in (*MIX, "<image> <|ref|>"):
        assert extended.encode(text) == base.encode(text)
    assert extended.decode([565, 570]) == "<image><|/det|>"
    assert (extended.sha256 != base.sha256, base.get_vocab_size()) == (True, 565)


def test_existing_tokens_are_kept_and_repeated_ones_change_nothing(base):
    extended = base.extended(["<|bos|>", *SEED[:2], SEED[0]])
    assert extended.special_tokens == base.special_tokens | {SEED[0]: 565, SEED[1]: 566}
    assert extended.extended(SEED[1::-1]) is extended
    assert extended.extended(SEED) == base.extended(SEED)
    assert base.extended([]) is base


def test_names_that_cannot_be_special_tokens_are_refused(base):
    with pytest.raises(TokenizerError, match="'<image>': put it into a list"):
        base.extended("<image>")
    with pytest.raises(TokenizerError, match="an empty name"):
        base.extended(["<image>", ""])


@given(st.integers(265, 565))
def test_a_smaller_tokenizer_numbers_all_special_tokens_in_order(base_model, size):
    extended = base_model.extended(SEED).truncated(size + len(SEED))
    expected = base_model.truncated(size).extended(SEED)
    assert extended == expected
    assert list(extended.special_tokens) == [*SPECIAL_TOKENS, *SEED]
    assert list(extended.special_tokens.values()) == list(range(size - 9, size + len(SEED)))


@pytest.fixture(scope="module")
def base_model(base):
    return base.model


def test_without_is_the_inverse_of_extended(base_model):
    assert base_model.extended(SEED).without(SEED) == base_model
    middle = base_model.without(["<|user_end|>"])
    assert middle.special_tokens["<|assistant_start|>"] == 559


def test_ids_unused_between_special_tokens_stay_unused():
    model = Model(
        pattern="a", unicode_version="16.0.0", merges=(), special_tokens={"<a>": 256, "<c>": 300}
    )
    assert model.extended(["<b>"]).special_tokens == {"<a>": 256, "<c>": 300, "<b>": 301}


def run(capsys, *arguments):
    """Return the exit code, the JSON line and the text."""
    code = main(["tokenizer", "extend", *map(str, arguments)])
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    return code, json.loads(captured.out), captured.err


def test_the_command_writes_what_extended_saves(base, tmp_path, capsys):
    base.save(tmp_path / "base")
    arguments = ["--preset", "seed", "--special-token=<|pad|>", "--special-token=<|bos|>"]
    code, values, reported = run(
        capsys, tmp_path / "base", *arguments, "--output", tmp_path / "extended"
    )
    expected = base.extended([*SEED, "<|pad|>"])
    expected.save(tmp_path / "expected")
    assert contents(tmp_path / "extended") == contents(tmp_path / "expected")
    assert sorted(contents(tmp_path / "extended")) == sorted(FILE_NAMES)
    assert code == 0
    assert values == {
        "status": "done",
        "output": str(tmp_path / "extended"),
        "tokenizer_sha256": expected.sha256,
        "vocab_size": 572,
        "added": dict(zip([*SEED, "<|pad|>"], range(565, 572), strict=True)),
        "there": {"<|bos|>": 556},
    }
    for words in (
        "added             565  <image>\n",
        "there             556  <|bos|>\n",
        "572 ids",
    ):
        assert words in reported


def test_the_command_overwrites_its_own_result_and_no_other_tokenizer(base, tmp_path, capsys):
    base.save(tmp_path / "base")
    before = contents(tmp_path)
    code, values, reported = run(
        capsys, tmp_path / "base", "--special-token", "<a>", "--output", tmp_path / "base"
    )
    assert (code, values["status"]) == (2, "failed")
    assert "contains another tokenizer or other data (tokenizer.pkl, " in reported
    assert contents(tmp_path) == before
    first = run(capsys, tmp_path / "base", "--special-token", "<a>", "--output", tmp_path / "a")
    assert (
        run(capsys, tmp_path / "base", "--special-token", "<a>", "--output", tmp_path / "a")
        == first
    )
    (tmp_path / "nanochats").mkdir()
    (tmp_path / "nanochats/tokenizer.pkl").write_bytes(b"of another")
    code, _, reported = run(
        capsys, tmp_path / "base", "--special-token", "<a>", "--output", tmp_path / "nanochats"
    )
    assert (code, "(tokenizer.pkl): it is not overwritten" in reported) == (2, True)


def test_the_command_reads_and_writes_files(base, tmp_path, capsys):
    base.save(tmp_path / "base")
    ranks = tmp_path / "base/tokenizer.tiktoken"
    for spec, more, expected in (
        (tmp_path / "base/tokenizer.json", [], base),
        (f"{ranks}:nanochat", [], Tokenizer(base.model.without(SPECIAL_TOKENS))),
        (ranks, ["--pattern", "nanochat"], Tokenizer(base.model.without(SPECIAL_TOKENS))),
    ):
        output = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        code, values, _ = run(capsys, spec, "--special-token", "<a>", "--output", output, *more)
        assert (code, values["output"]) == (0, str(output))
        assert open_tokenizer(output) == expected.extended(["<a>"])
    bare = tmp_path / "a.tiktoken"
    code, values, _ = run(capsys, tmp_path / "base", "--special-token", "<a>", "--output", bare)
    assert (code, "cannot store special tokens" in values["error"]) == (2, True)


def test_the_command_requires_names_and_a_tokenizer(base, tmp_path, capsys):
    base.save(tmp_path / "base")
    code, values, _ = run(capsys, tmp_path / "base", "--output", tmp_path / "new")
    assert (code, "--preset (seed, nano-deepseek-ocr)" in values["error"]) == (2, True)
    code, values, _ = run(capsys, tmp_path, "--preset", "seed", "--output", tmp_path / "new")
    assert (code, "no tokenizer in" in values["error"]) == (2, True)
    assert not (tmp_path / "new").exists()
