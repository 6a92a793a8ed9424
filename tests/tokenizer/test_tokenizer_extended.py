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


def test_ids_equal_those_of_the_fork(base):
    """It adds the token when it loads a tokenizer; added while learning, it shifts the others."""
    extended = base.extended(["<|bos|>", "<|image|>"])
    expected = FORK["trained_with_the_token"]
    learned = Tokenizer.train_from_iterator(
        MIX,
        expected["vocab_size_asked"],
        special_tokens=[*SPECIAL_TOKENS, "<|image|>"],
        num_threads=1,
    )
    assert learned.merges == base.merges[:-1]
    for own, numbers in ((extended, FORK["extend_on_load"]), (learned, expected)):
        assert own.get_vocab_size() == numbers["n_vocab"]
        assert own.encode_special("<|image|>") == numbers["image_id"]
        assert own.get_bos_token_id() == numbers["bos"]


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
def test_a_smaller_tokenizer_numbers_all_special_tokens_in_order(base, size):
    extended = base.model.extended(SEED).truncated(size + len(SEED))
    expected = base.model.truncated(size).extended(SEED)
    assert extended == expected
    assert list(extended.special_tokens) == [*SPECIAL_TOKENS, *SEED]
    assert list(extended.special_tokens.values()) == list(range(size - 9, size + len(SEED)))


def test_without_is_the_inverse_of_extended_and_unused_ids_stay_unused(base):
    assert base.model.extended(SEED).without(SEED) == base.model
    middle = base.model.without(["<|user_end|>"])
    assert middle.special_tokens["<|assistant_start|>"] == 559
    gap = Model(
        pattern="a", unicode_version="16.0.0", merges=(), special_tokens={"<a>": 256, "<c>": 300}
    )
    assert gap.extended(["<b>"]).special_tokens == {"<a>": 256, "<c>": 300, "<b>": 301}


@pytest.fixture
def run(base, tmp_path, capsys):
    """Run the command; return the exit code, the JSON line and the text."""
    base.save(tmp_path / "base")

    def command(*arguments):
        code = main(["tokenizer", "extend", *map(str, arguments)])
        captured = capsys.readouterr()
        assert captured.out.count("\n") == 1
        return code, json.loads(captured.out), captured.err

    return command


def test_the_command_writes_what_extended_saves(run, base, tmp_path):
    arguments = ["--preset", "seed", "--special-token=<|pad|>", "--special-token=<|bos|>"]
    out = tmp_path / "extended"
    code, values, reported = run(tmp_path / "base", *arguments, "--output", out)
    expected = base.extended([*SEED, "<|pad|>"])
    expected.save(tmp_path / "expected")
    assert contents(out) == contents(tmp_path / "expected")
    assert sorted(contents(out)) == sorted(FILE_NAMES)
    assert code == 0
    assert values == {
        "status": "done",
        "output": str(out),
        "tokenizer_sha256": expected.sha256,
        "vocab_size": 572,
        "added": dict(zip([*SEED, "<|pad|>"], range(565, 572), strict=True)),
        "there": {"<|bos|>": 556},
    }
    assert "added             565  <image>\n" in reported
    assert "there             556  <|bos|>\n" in reported
    assert "572 ids" in reported


def test_the_command_overwrites_its_own_result_and_no_other_tokenizer(run, tmp_path):
    asked = [tmp_path / "base", "--special-token", "<a>", "--output"]
    before = contents(tmp_path)
    code, values, reported = run(*asked, tmp_path / "base")
    assert (code, values["status"]) == (2, "failed")
    assert "contains another tokenizer or other data (tokenizer.pkl, " in reported
    assert contents(tmp_path) == before
    assert run(*asked, tmp_path / "a") == run(*asked, tmp_path / "a")
    (tmp_path / "nanochats").mkdir()
    (tmp_path / "nanochats/tokenizer.pkl").write_bytes(b"of another")
    code, _, reported = run(*asked, tmp_path / "nanochats")
    assert (code, "(tokenizer.pkl): it is not overwritten" in reported) == (2, True)


def test_the_command_reads_and_writes_files(run, base, tmp_path):
    ranks = tmp_path / "base/tokenizer.tiktoken"
    without_names = Tokenizer(base.model.without(SPECIAL_TOKENS))
    for number, (spec, more, expected) in enumerate(
        (
            (tmp_path / "base/tokenizer.json", [], base),
            (f"{ranks}:nanochat", [], without_names),
            (ranks, ["--pattern", "nanochat"], without_names),
        )
    ):
        output = tmp_path / f"{number}.json"
        code, values, _ = run(spec, "--special-token", "<a>", "--output", output, *more)
        assert (code, values["output"]) == (0, str(output))
        assert open_tokenizer(output) == expected.extended(["<a>"])
    bare = tmp_path / "a.tiktoken"
    code, values, _ = run(tmp_path / "base", "--special-token", "<a>", "--output", bare)
    assert (code, "cannot store special tokens" in values["error"]) == (2, True)


def test_the_command_requires_names_and_a_tokenizer(run, tmp_path):
    goal = ["--output", tmp_path / "new"]
    code, values, _ = run(tmp_path / "base", *goal)
    assert (code, "--preset (seed, nano-deepseek-ocr)" in values["error"]) == (2, True)
    code, values, _ = run(tmp_path, "--preset", "seed", *goal)
    assert (code, "no tokenizer in" in values["error"]) == (2, True)
    assert not (tmp_path / "new").exists()
