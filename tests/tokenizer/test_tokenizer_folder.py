"""Folders of tokenizers; added special tokens."""

import hashlib
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import SpanCounts, learn, open_tokenizer
from nanotok_ray.cli import main
from nanotok_ray.errors import TokenizerError
from nanotok_ray.job.summary import read_summary
from nanotok_ray.recipe import PRESETS, SPECIAL_TOKENS
from nanotok_ray.tokenizer import FILE_NAMES, Model, Tokenizer, get_tokenizer
from tests.support.small_corpus import contents

NANOCHATS = ["token_bytes.pt", "tokenizer.pkl"]


def learned(*texts, vocab_size=270, **options):
    return Tokenizer.train_from_iterator(texts, vocab_size, num_threads=1, **options)


@pytest.fixture
def one():
    return learned("hello hello help")


@pytest.fixture
def other():
    return learned("world worlds word")


def found(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def report_of(*texts):
    counts = SpanCounts()
    counts.update(texts)
    return learn(counts, 270)


def test_another_tokenizer_is_not_overwritten_unless_requested(one, other, tmp_path):
    one.save(tmp_path)
    before = found(tmp_path)
    with pytest.raises(TokenizerError) as caught:
        other.save(tmp_path)
    for words in (str(tmp_path), "tokenizer.txt", f"{one.get_vocab_size()} ids", "overwrite=True"):
        assert words in str(caught.value)
    assert found(tmp_path) == before
    other.save(tmp_path, overwrite=True)
    assert Tokenizer.load(tmp_path) == other
    one.save(tmp_path / "tokenizer")
    assert open_tokenizer(tmp_path) == other
    one.save(tmp_path / "out/tokenizer")
    assert open_tokenizer(tmp_path / "out") == one


def test_hugging_face_files_beside_a_tokenizer_are_removed_with_it(one, other, tmp_path):
    names = ["added_tokens.json", "chat_template.jinja", "merges.txt", "special_tokens_map.json"]
    beside = [tmp_path / name for name in (*names, "vocab.json", "config.json")]
    one.save(tmp_path)
    for path in beside:
        path.write_text("{}")
    one.save(tmp_path, overwrite=True)
    with pytest.raises(TokenizerError, match="overwrite=True"):
        other.save(tmp_path)
    assert all(path.exists() for path in beside)
    other.save(tmp_path, overwrite=True)
    assert [path.name for path in beside if path.exists()] == ["config.json"]
    assert Tokenizer.load(tmp_path) == other


def test_the_same_tokenizer_may_be_saved_again_or_completed(one, tmp_path):
    one.save(tmp_path)
    before = found(tmp_path)
    one.save(tmp_path)
    (tmp_path / "tokenizer.txt").unlink()
    one.save(tmp_path)
    assert found(tmp_path) == before
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/tokenizer.json").write_bytes(b"{}")
    with pytest.raises(TokenizerError, match=r"holds something else \(tokenizer\.json\)"):
        one.save(tmp_path / "foreign")
    assert found(tmp_path / "foreign").keys() == {"tokenizer.json"}


def test_overwriting_removes_the_report_of_the_other_tokenizer(other, tmp_path):
    first = report_of("hello hello help")
    first.save(tmp_path)
    first.tokenizer.save(tmp_path)
    assert "report.json" in found(tmp_path)
    with pytest.raises(TokenizerError, match="overwrite=True"):
        report_of("world worlds word").save(tmp_path)
    other.save(tmp_path, overwrite=True)
    assert "report.json" not in found(tmp_path)
    report_of("hello hello help").save(tmp_path, overwrite=True)
    assert json.loads((tmp_path / "report.json").read_text())["merges"]["left"][0] == 101


def test_a_foreign_report_is_kept(one, tmp_path):
    for data in (b"no JSON", b"[]", b'{"format": "mine 1", "merges": 3}'):
        (tmp_path / "report.json").write_bytes(data)
        one.save(tmp_path)
        assert (tmp_path / "report.json").read_bytes() == data


@pytest.mark.parametrize("suffix", [".json", ".txt", ".pkl", ".tiktoken"])
def test_saving_to_a_file_name_is_refused_unless_it_is_a_folder(one, tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    message = rf"name of a file.*name a folder.*tokenizer\{suffix} in"
    for place in (path, f"memory://names{path}"):
        with pytest.raises(TokenizerError, match=message):
            one.save(place)
    assert not list(tmp_path.iterdir())
    path.mkdir()
    one.save(path)
    assert Tokenizer.load(path) == one


def test_learn_refuses_as_train_does(one, other, tmp_path, capsys):
    counts = SpanCounts()
    counts.update(["world worlds word"])
    counts.save(tmp_path / "counts.arrow")
    one.save(tmp_path / "own")
    asked = ["tokenizer", "learn", f"{tmp_path}/counts.arrow", "--vocab-size=270"]
    asked.append(f"--output={tmp_path}/own")
    assert main(asked) == 2
    assert "--force" in capsys.readouterr().err
    assert Tokenizer.load(tmp_path / "own") == one
    assert main([*asked, "--force"]) == 0
    assert Tokenizer.load(tmp_path / "own") == other


def nanochats_pickle(tokenizer, protocol=4):
    """Return the file that nanochat's tok_train writes."""
    return pickle.dumps(tokenizer.to_tiktoken(), protocol=protocol)


@pytest.fixture
def nanochat(tmp_path, monkeypatch):
    monkeypatch.setenv("NANOCHAT_BASE_DIR", str(tmp_path))
    return tmp_path / "tokenizer"


def test_a_folder_with_contradictory_files_is_refused(one, other, nanochat):
    one.save(nanochat)
    (nanochat / "tokenizer.pkl").write_bytes(nanochats_pickle(other))
    for load in (get_tokenizer, lambda: open_tokenizer(nanochat), lambda: Tokenizer.load(nanochat)):
        with pytest.raises(TokenizerError) as caught:
            load()
        for words in ("tokenizer.txt", "tokenizer.pkl", "their tokens", "To use the pickle,"):
            assert words in str(caught.value)
    assert open_tokenizer(nanochat / "tokenizer.pkl") == other
    (nanochat / "tokenizer.txt").unlink()
    (nanochat / "tokenizer.json").unlink()
    assert get_tokenizer() == other


def test_files_that_differ_in_pattern_or_special_tokens_are_reported(nanochat):
    own = {"vocab_size": 259, "special_tokens": ("<|bos|>", "<|eos|>")}
    learned("ab ab", **own).save(nanochat)
    names = own | {"special_tokens": ("<|bos|>", "<|x|>")}
    for data, message in (
        (nanochats_pickle(learned("ab ab", **own, pattern=r"\w+")), "differ in their pattern;"),
        (nanochats_pickle(learned("ab ab", **names)), "differ in their special tokens;"),
        (b"no pickle", r"tokenizer\.txt.*tokenizer\.pkl, byte 0"),
    ):
        (nanochat / "tokenizer.pkl").write_bytes(data)
        with pytest.raises(TokenizerError, match=message):
            Tokenizer.load(nanochat)


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_a_pickle_of_the_same_tokenizer_is_no_contradiction(one, nanochat, protocol):
    large = learned("".join(map(chr, range(32, 4000))) * 2, vocab_size=3000)
    for own in (one, large):
        own.save(nanochat, overwrite=True)
        (nanochat / "tokenizer.pkl").write_bytes(nanochats_pickle(own, protocol))
        assert Tokenizer.load(nanochat) == own


def test_to_nanochat_writes_the_files_of_nanochat_and_removes_ours(one, other, nanochat, tmp_path):
    one.save(nanochat)
    (nanochat / "notes.md").write_text("mine")
    other.save(tmp_path / "out/tokenizer")
    source = 'name = "web"\nkind = "text"\npaths = ["x.txt"]\nformat = "lines"'
    (tmp_path / "recipe.toml").write_text(
        f'[[source]]\n{source}\n[output]\npath = "{tmp_path}/out"\n'
    )
    ended = {"status": "done", "output": "", "stages": {}, "vocab_size": 1}
    summary = read_summary({**ended, "tokenizer_sha256": "0" * 64}, name="the summary")
    command = ["train", str(tmp_path / "recipe.toml"), "--to-nanochat"]
    assert main(command, job=lambda *_, **__: summary) == 0
    assert sorted(found(nanochat)) == ["notes.md", *NANOCHATS]
    assert (nanochat / "tokenizer.pkl").read_bytes() == nanochats_pickle(other)
    assert get_tokenizer() == other
    (nanochat / "tokenizer.pkl").write_bytes(nanochats_pickle(one))  # nanochat's tok_train
    assert get_tokenizer() == one


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


def test_added_tokens_change_no_id_and_repeated_ones_change_nothing(base):
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
    some = base.extended(["<|bos|>", *SEED[:2], SEED[0]])
    assert some.special_tokens == base.special_tokens | {SEED[0]: 565, SEED[1]: 566}
    assert some.extended(SEED[1::-1]) is some
    assert some.extended(SEED) == extended
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
