"""A tokenizer's folder: files that `save` refuses or removes, and contradictory files."""

import hashlib
import json
import pickle
from types import SimpleNamespace

import pytest

from nanotok_ray import SpanCounts, learn, open_tokenizer
from nanotok_ray.cli import main
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer import Tokenizer, get_tokenizer

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
    summary = SimpleNamespace(values={}, text=str)
    command = ["train", str(tmp_path / "recipe.toml"), "--to-nanochat"]
    assert main(command, job=lambda *_, **__: summary) == 0
    assert sorted(found(nanochat)) == ["notes.md", *NANOCHATS]
    assert (nanochat / "tokenizer.pkl").read_bytes() == nanochats_pickle(other)
    assert get_tokenizer() == other
    (nanochat / "tokenizer.pkl").write_bytes(nanochats_pickle(one))  # nanochat's tok_train
    assert get_tokenizer() == one
