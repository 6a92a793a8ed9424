"""`nanotok tokenizer show`: describes a tokenizer, and its use by a corpus."""

import json

import pytest

from nanotok_ray.cli import main
from nanotok_ray.tokenizer import Tokenizer, token_text
from nanotok_ray.tokenizer.evaluation import Vocabulary
from tests.support.published_ranks import fake_package
from tests.support.small_corpus import texts, write_parquet

MADE = texts(60, seed=7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a tokenizer with a corpus."""
    root = tmp_path_factory.mktemp("show")
    tokenizer = Tokenizer.train_from_iterator(MADE, 380, num_threads=1)
    tokenizer.save(root / "tokenizer")
    write_parquet(root / "a.parquet", MADE[:40])
    return root


@pytest.fixture
def shown(capsys):
    """Run the command with any tokenizer; return the values of its last line."""

    def run(*arguments):
        main(["tokenizer", "show", *arguments])
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return run


@pytest.fixture
def show(folder, capsys):
    """Run the command; return its exit code, the values of its last line, and stderr."""

    def run(*arguments):
        code = main(["tokenizer", "show", str(folder / "tokenizer"), *arguments])
        captured = capsys.readouterr()
        return code, json.loads(captured.out.splitlines()[-1]), captured.err

    return run


def test_show_accepts_any_tokenizer_and_a_pattern_if_it_has_none(folder, shown, monkeypatch):
    fake_package(folder)
    monkeypatch.syspath_prepend(folder)
    sha256 = Tokenizer.load(folder / "tokenizer").sha256
    ranks = f"{folder}/tokenizer/tokenizer.tiktoken"
    made = [shown("cl100k"), shown(f"{ranks}:nanochat"), shown(ranks, "--pattern", "nanochat")]
    assert [each["vocab_size"] for each in made] == [100277, 371, 371]
    assert shown(f"{folder}/tokenizer/tokenizer.json")["tokenizer_sha256"] == sha256


def test_show_describes_the_tokenizer(show, folder):
    tokenizer = Tokenizer.load(folder / "tokenizer")
    code, values, reported = show("--top", "5")
    model = tokenizer.model
    assert (code, values["status"]) == (0, "shown")
    assert values["tokenizer_sha256"] == tokenizer.sha256
    assert (values["vocab_size"], values["merges"]) == (380, len(model.merges))
    assert values["special_tokens"] == tokenizer.special_tokens
    assert sum(values["lengths"].values()) == len(model.tokens)
    assert values["first_merges"] == [
        {"id": number, "token": token_text(model.tokens[number])} for number in range(256, 261)
    ]
    assert len(values["longest"]) == 5
    for word in (
        f"sha256      {tokenizer.sha256}\n",
        "ids         380: 256 bytes, 115 merges, 9 special tokens\n",
        "pattern     nanochat: '(?i:",
        "371  <|bos|>\n",
        "bytes  tokens\n",
        "tokens of several bytes that are not UTF-8: ",
    ):
        assert word in reported
    left, right = (repr(model.tokens[each].decode()) for each in model.merges[0])
    assert f"256  {model.tokens[256].decode()!r} = {left} + {right}\n" in reported
    assert "corpus" not in reported


def test_show_reports_the_use_of_tokens_in_a_corpus(show, folder):
    tokenizer = Tokenizer.load(folder / "tokenizer")
    code, values, reported = show(str(folder / "a.parquet"))
    ids = [number for text in MADE[:40] for number in tokenizer.encode(text)]
    size = len("".join(MADE[:40]).encode())
    unused = [number for number in range(tokenizer.num_text_ids) if number not in set(ids)]
    assert code == 0
    assert (values["texts"], values["text_bytes"], values["tokens"]) == (40, size, len(ids))
    assert values["bytes_per_token"] == round(size / len(ids), 4)
    assert values["unused"] == len(unused)
    assert values["unused_merged"] == sum(number >= 256 for number in unused)
    most = max(range(380), key=ids.count)
    assert values["most_used"][0]["id"] == most
    assert values["most_used"][0]["times"] == ids.count(most)
    assert f"tokens      {len(ids):,}, {size / len(ids):.3f} bytes per token" in reported
    assert f"{ids.count(most):,}  {ids.count(most) / len(ids):.2%}" in reported


def test_a_corpus_is_cut_and_its_bad_documents_are_counted(show, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "aaaa"}\n{no}\n{"text": "bb"}\n')
    _, values, reported = show(str(path))
    assert (values["texts"], values["text_bytes"]) == (2, 6)
    assert "note: corpus: skipped: invalid JSON (1)\n" in reported
    _, values, reported = show(f"mine={path}", "--max-bytes", "3")
    assert (values["texts"], values["text_bytes"]) == (1, 4)
    assert "note: mine: truncated at --max-bytes; the source has more text\n" in reported


def test_an_empty_corpus_uses_no_tokens(show, tmp_path):
    (tmp_path / "a.txt").write_text("")
    code, values, reported = show(str(tmp_path / "a.txt"))
    assert (code, values["tokens"], values["bytes_per_token"]) == (0, 0, None)
    assert values["unused"] == 371
    assert values["most_used"] == []
    assert "unused      115 of 115 merged tokens, 256 of 256 bytes" in reported


def test_single_tokens_are_shown(show, folder):
    tokenizer = Tokenizer.load(folder / "tokenizer")
    model = tokenizer.model
    cut = next(n for n in Vocabulary.of(tokenizer).not_utf8)
    flags = ["--id", "256", "--id", "65", "--token", "<|bos|>"]
    _, values, reported = show(*flags, "--token", token_text(model.tokens[cut]))
    numbers = [own["id"] for own in values["tokens"]]
    assert numbers == [256, 65, tokenizer.get_bos_token_id(), cut]
    assert [own["merge"] for own in values["tokens"]] == [0, None, None, cut - 256]
    assert values["tokens"][0]["pair"] == [*model.merges[0]]
    assert [own["special"] for own in values["tokens"]] == [False, False, True, False]
    assert {own["times"] for own in values["tokens"]} == {None}
    assert "id          371, special token <|bos|>, 7 bytes\n" in reported
    assert "id          65, byte 'A', 1 bytes\n" in reported
    assert "sha256" not in reported
    _, values, reported = show(str(folder / "a.parquet"), "--id", "256")
    times = sum(tokenizer.encode(text).count(256) for text in MADE[:40])
    assert values["tokens"][0]["times"] == times
    assert f"used        {times:,} times of " in reported


def test_control_characters_of_a_token_are_escaped(capsys, tmp_path):
    Tokenizer.train_from_iterator(["\x1b[31m"] * 9, 270, special_tokens=["\x1b[0m"]).save(tmp_path)
    assert main(["tokenizer", "show", str(tmp_path)]) == 0
    reported = capsys.readouterr().err
    assert "\x1b" not in reported
    assert r"\x1b[0m" in reported
    assert r"'\x1b['" in reported


@pytest.mark.parametrize("name", ["a.svg", "a.png"])
def test_a_picture_is_written(show, folder, tmp_path, name):
    path = tmp_path / name
    _, _, reported = show(str(folder / "a.parquet"), "--plot", str(path))
    assert path.stat().st_size > 2000
    assert f"wrote       {path}\n" in reported


def test_a_file_with_any_suffix_may_be_a_document(show, tmp_path):
    (tmp_path / "a.foo").write_text("x")
    code, values, _ = show(str(tmp_path / "a.foo"), "--document-per-file")
    assert (code, values["text_bytes"]) == (0, 1)
