"""Commands for tokenizers: learn, evaluate, encode, decode, convert."""

import json
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray import SpanCounts, Tokenizer
from nanotok_ray.counts import PATTERNS
from nanotok_ray.loader import open_shards
from nanotok_ray.tokenizer import token_text
from nanotok_ray.tokenizer.evaluation import SAMPLE_TEXTS, Vocabulary
from tests.support.missing_packages import uninstall
from tests.support.published_ranks import fake_package
from tests.support.small_corpus import texts, write_conversations, write_parquet

MADE = texts(60, seed=7)
LANGUAGES = ["en" if number % 3 else "ko" for number in range(30)]
MINE = "a/tokenizer"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Three tokenizers, of which two have the same name, and two corpora."""
    folder = tmp_path_factory.mktemp("compare")
    tokenizer = Tokenizer.train_from_iterator(MADE, 380, num_threads=1)
    tokenizer.save(folder / MINE)
    tokenizer.truncated(300).save(folder / "b/tokenizer")
    Tokenizer.train_from_iterator(texts(60, seed=8), 330, num_threads=1).save(folder / "other")
    table = pa.table({"text": MADE[:30], "language": LANGUAGES})
    pq.write_table(table, folder / "web.parquet")
    for number in range(2):
        write_parquet(folder / f"more/{number}.parquet", MADE[30 + number : 60 : 2])
    return folder


@pytest.fixture
def tokenizer(root):
    return Tokenizer.load(root / MINE)


@pytest.fixture
def command(root, run, monkeypatch):
    """Return a function that runs a command in the folder of the tokenizers."""
    monkeypatch.chdir(root)
    return partial(run, "tokenizer")


def expected(chosen, tokenizers):
    """Return the expected values of some texts, from a plain loop."""
    size = len("".join(chosen).encode())
    tokens = {name: sum(map(len, own.encode(chosen))) for name, own in tokenizers.items()}
    first, *others = tokens
    return {
        "texts": len(chosen),
        "bytes": size,
        "code_points": len("".join(chosen)),
        "tokens": tokens,
        "bytes_per_token": {name: round(size / number, 4) for name, number in tokens.items()},
        "diff_percent": {
            name: round((tokens[name] - tokens[first]) / tokens[name] * 100, 4) for name in others
        },
    }


def test_rows_equal_a_loop_over_sources_and_labels(command, root):
    names = [MINE, "b/tokenizer", "other"]
    corpora = ["--corpus", "web=web.parquet", "--corpus", "web.parquet", "--by", "language"]
    code, values, reported = command("compare", *names, *corpora)
    tokenizers = {name: Tokenizer.load(root / name) for name in names}
    assert (code, values["status"]) == (0, "compared")
    assert [own["name"] for own in values["tokenizers"]] == names
    found = {(row.pop("source"), row.pop("label")): row for row in values["rows"]}
    for source in ("web", "corpus"):
        for label in (None, "en", "ko"):
            labelled = zip(MADE[:30], LANGUAGES, strict=True)
            chosen = [text for text, own in labelled if label in (None, own)]
            assert found[source, label] == expected(chosen, tokenizers)
    assert found["all", None] == expected(MADE[:30] * 2, tokenizers)
    assert [*found][-1] == ("all", None)
    row = found["web", "en"]
    assert f"  en  {row['bytes']:>9,}".replace(" ", "") in reported.replace(" ", "")
    assert f"{row['diff_percent']['other']:+.1f}%" in reported


def test_globs_of_one_name_are_one_source(command, root):
    globs = ["--corpus", "x=more/0.parquet", "--corpus", "x=more/1*"]
    _, values, reported = command("compare", "other", *globs)
    (row,) = values["rows"]
    tokenizers = {"other": Tokenizer.load(root / "other")}
    assert row == {"source": "x", "label": None} | expected(MADE[30:60], tokenizers)
    assert values["overlaps"] == []
    assert "all" not in reported


def test_vocabularies_are_compared_with_the_first(command, root, tokenizer):
    left, right = tokenizer.model, Tokenizer.load(root / "other").model
    named = [f"a={MINE}", "other", "b=b/tokenizer", f"again={MINE}"]
    _, values, reported = command("compare", *named, "--corpus", "more")
    other, small, same = values["overlaps"]
    assert (other["first"], other["other"], small["other"]) == ("a", "other", "b")
    assert other["shared"] == len({*left.tokens} & {*right.tokens})
    pairs = zip(left.merges, right.merges, strict=False)
    assert other["equal_merges"] == [own == their for own, their in pairs].index(False)
    assert (small["equal_merges"], small["only_other"], small["other_token"]) == (35, 0, None)
    assert (same["equal_merges"], same["only_other"]) == (115, 0)
    for line in (
        f"merge {other['equal_merges']} (from 0) is the first that differs: a has ",
        "the first 35 merges are equal, and a has more",
        "all 115 merges are equal",
    ):
        assert line in reported


def test_published_vocabularies_are_shown_beside_ours(command, tmp_path, monkeypatch):
    fake_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    _, values, _ = command("compare", "other", "cl100k", "x=o200k", "--corpus", "more")
    first, *others = values["tokenizers"]
    assert [own["name"] for own in others] == ["cl100k", "x"]
    assert "sha256" in first
    assert values["rows"][0]["tokens"]["cl100k"] < values["rows"][0]["bytes"]
    assert values["overlaps"][0]["first_token"] is not None
    assert command("show", "cl100k")[1]["vocab_size"] == 100277


def test_an_empty_corpus_has_no_ratios_and_uses_no_tokens(command, tmp_path):
    empty, plot = tmp_path / "a.txt", tmp_path / "a.svg"
    empty.write_text("")
    code, values, reported = command("compare", "other", MINE, "--corpus", empty, "--plot", plot)
    (row,) = values["rows"]
    assert (code, row["bytes_per_token"]) == (0, {"other": None, "tokenizer": None})
    assert row["diff_percent"] == {"tokenizer": None}
    assert "corpus      0           -" in reported
    assert plot.exists()
    code, values, reported = command("show", MINE, empty)
    assert (code, values["tokens"], values["bytes_per_token"]) == (0, 0, None)
    assert (values["unused"], values["most_used"]) == (371, [])
    assert "unused      115 of 115 merged tokens, 256 of 256 bytes" in reported


def test_a_picture_shows_the_largest_rows(command, tmp_path):
    labels = [f"label{number:03}" for number in range(80)]
    made = ["x" * (1 + number) for number in range(len(labels))]
    corpus, path = tmp_path / "a.parquet", tmp_path / "a.svg"
    pq.write_table(pa.table({"text": made, "own": labels}), corpus)
    _, values, _ = command("compare", "other", "--corpus", corpus, "--by", "own", "--plot", path)
    page = path.read_text()
    assert len(values["rows"]) == len(labels) + 1
    assert f"The largest 60 of {len(labels) + 1} rows." in page
    assert page.count(">corpus: label") == 59
    assert f">corpus: {labels[-1]}<" in page
    assert f">corpus: {labels[0]}<" not in page


def test_a_source_may_have_several_formats(command, tmp_path):
    write_parquet(tmp_path / "a.parquet", ["hallo"])
    (tmp_path / "a.txt").write_text("ja\nnein\n")
    (tmp_path / "b.foo").write_text("#\n\n#")
    files = [f"--corpus={tmp_path}/{name}" for name in ("a.txt", "b.foo", "a.parquet")]
    _, values, _ = command("compare", "other", *files, "--document-per-file")
    assert [(row["texts"], row["bytes"]) for row in values["rows"]] == [(3, 5 + 8 + 4)]


def test_chats_are_read_from_folders_with_other_files(command, tmp_path):
    made = [[{"role": "user", "content": "hallo"}, {"role": "assistant", "content": "ja"}]]
    write_conversations(tmp_path / "c.jsonl", made)
    (tmp_path / "readme.txt").write_text("no chat")
    _, values, _ = command("compare", "other", "--corpus", tmp_path, "--kind", "chat")
    (row,) = values["rows"]
    assert (row["texts"], row["bytes"]) == (2, 7)
    _, values, _ = command("compare", "other", "--corpus", tmp_path / "*", "--kind", "chat")
    assert "--input-format = 'lines', but a chat source is read from" in values["error"]


def test_show_accepts_any_tokenizer_and_a_pattern_if_it_has_none(command, tokenizer):
    ranks = f"{MINE}/tokenizer.tiktoken"
    for words in ([f"{ranks}:nanochat"], [ranks, "--pattern", "nanochat"]):
        assert command("show", *words)[1]["vocab_size"] == 371
    values = command("show", f"{MINE}/tokenizer.json")[1]
    assert values["tokenizer_sha256"] == tokenizer.sha256


def test_show_describes_the_tokenizer(command, tokenizer):
    code, values, reported = command("show", MINE, "--top", "5")
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
    left, right = (repr(model.tokens[each].decode()) for each in model.merges[0])
    for word in (
        f"sha256      {tokenizer.sha256}\n",
        "ids         380: 256 bytes, 115 merges, 9 special tokens\n",
        "pattern     nanochat: '(?i:",
        "371  <|bos|>\n",
        "bytes  tokens\n",
        "tokens of several bytes that are not UTF-8: ",
        f"256  {model.tokens[256].decode()!r} = {left} + {right}\n",
    ):
        assert word in reported
    assert "corpus" not in reported


def test_show_reports_and_draws_the_use_of_tokens_in_a_corpus(command, tokenizer, tmp_path):
    for path in (tmp_path / "a.svg", tmp_path / "a.png"):
        code, values, reported = command("show", MINE, "web.parquet", "--plot", path)
        assert path.stat().st_size > 2000
        assert f"wrote       {path}\n" in reported
    ids = [number for text in MADE[:30] for number in tokenizer.encode(text)]
    size = len("".join(MADE[:30]).encode())
    unused = [number for number in range(tokenizer.num_text_ids) if number not in set(ids)]
    assert code == 0
    assert (values["texts"], values["text_bytes"], values["tokens"]) == (30, size, len(ids))
    assert values["bytes_per_token"] == round(size / len(ids), 4)
    assert values["unused"] == len(unused)
    assert values["unused_merged"] == sum(number >= 256 for number in unused)
    most = max(range(380), key=ids.count)
    assert values["most_used"][0]["id"] == most
    assert values["most_used"][0]["times"] == ids.count(most)
    assert f"tokens      {len(ids):,}, {size / len(ids):.3f} bytes per token" in reported
    assert f"{ids.count(most):,}  {ids.count(most) / len(ids):.2%}" in reported


def test_tokens_of_several_words_are_counted(command, root, tmp_path):
    pattern, name = PATTERNS["nanochat-superwords"], "superwords"
    learned_from = [*MADE, *SAMPLE_TEXTS.values()]
    own = Tokenizer.train_from_iterator(learned_from, 2000, pattern=pattern, num_threads=1)
    own.save(root / name)
    tokens = [own.decode_single_token_bytes(n) for n in range(own.num_text_ids)]
    several = {n for n, token in enumerate(tokens) if len(token.split()) > 1}
    assert 10 < len(several) < 1000
    ids = [number for text in MADE[:30] for number in own.encode(text)]
    used = sum(number in several for number in ids)
    vocabulary = f"{len(several)} tokens of the vocabulary, {len(several) / len(tokens):.1%}"
    plot = ("--plot", tmp_path / "a.svg")

    _, values, reported = command("show", name, "web.parquet", *plot)
    assert (values["superwords"], values["superword_tokens"]) == (len(several), used)
    assert f"superwords  {vocabulary}\n" in reported
    assert (
        f"superwords  {used:,} of the tokens have several words, {used / len(ids):.1%}" in reported
    )

    _, values, reported = command("compare", name, MINE, "--corpus", "web=web.parquet", *plot)
    assert [each.get("superwords") for each in values["tokenizers"]] == [len(several), None]
    assert values["rows"][0]["superword_tokens"] == {name: used}
    line = f"  {name}: {vocabulary}, {used / len(ids):.1%} of the encoded tokens\n"
    assert f"tokens of several words\n{line}\n" in reported

    _, values, reported = command("eval", MINE, "--against", name, *plot)
    samples = {title: own.encode(text) for title, text in SAMPLE_TEXTS.items()}
    found = {title: each["superword_tokens"] for title, each in values["texts"].items()}
    counted = {title: sum(number in several for number in each) for title, each in samples.items()}
    assert found == {title: {name: number} for title, number in counted.items()}
    share = sum(counted.values()) / sum(map(len, samples.values()))
    assert f"  {name}: {vocabulary}, {share:.1%} of the encoded tokens\n" in reported


def test_nothing_is_said_of_several_words_if_no_token_has_them(command):
    for arguments in (
        ("show", MINE, "web.parquet"),
        ("compare", MINE, "other", "--corpus", "web.parquet"),
        ("eval", MINE, "--against", "other"),
    ):
        _, values, reported = command(*arguments)
        assert "superword" not in f"{values} {reported}"
        assert "several words" not in reported


def test_a_corpus_is_cut_and_its_bad_documents_are_counted(command, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "aaaa"}\n{no}\n{"text": "bb"}\n')
    _, values, reported = command("show", MINE, path)
    assert (values["texts"], values["text_bytes"]) == (2, 6)
    assert "note: corpus: skipped: invalid JSON (1)\n" in reported
    _, values, reported = command("show", MINE, f"mine={path}", "--max-bytes", "3")
    assert (values["texts"], values["text_bytes"]) == (1, 4)
    assert "note: mine: truncated at --max-bytes; the source has more text\n" in reported


def test_single_tokens_are_shown(command, tokenizer):
    model = tokenizer.model
    cut = next(n for n in Vocabulary.of(tokenizer).not_utf8)
    flags = ["--id", "256", "--id", "65", "--token", "<|bos|>"]
    _, values, reported = command("show", MINE, *flags, "--token", token_text(model.tokens[cut]))
    bos = tokenizer.get_bos_token_id()
    shown = [(own["id"], own["merge"], own["special"], own["times"]) for own in values["tokens"]]
    assert shown == [
        (256, 0, False, None),
        (65, None, False, None),
        (bos, None, True, None),
        (cut, cut - 256, False, None),
    ]
    assert values["tokens"][0]["pair"] == [*model.merges[0]]
    assert "id          371, special token <|bos|>, 7 bytes\n" in reported
    assert "id          65, byte 'A', 1 byte\n" in reported
    assert "sha256" not in reported
    _, values, reported = command("show", MINE, "web.parquet", "--id", "256")
    times = sum(tokenizer.encode(text).count(256) for text in MADE[:30])
    assert values["tokens"][0]["times"] == times
    assert f"used        {times:,} times of " in reported


def test_control_characters_of_a_token_are_escaped(command, tmp_path):
    Tokenizer.train_from_iterator(["\x1b[31m"] * 9, 270, special_tokens=["\x1b[0m"]).save(tmp_path)
    code, _, reported = command("show", tmp_path)
    assert (code, "\x1b" in reported) == (0, False)
    assert r"\x1b[0m" in reported
    assert r"'\x1b['" in reported


def test_the_table_equals_that_of_nanochat(command, root, tokenizer):
    base = Tokenizer.load(root / "other")
    code, values, reported = command("eval", MINE, "--against", "other")
    assert (code, values["status"]) == (0, "evaluated")
    assert [each["name"] for each in values["tokenizers"]] == ["tokenizer", "other"]
    assert {*values["texts"]} == {"news", "korean", "code", "math", "science"}
    for name, text in SAMPLE_TEXTS.items():
        row = values["texts"][name]
        assert row == expected([text], {"tokenizer": tokenizer, "other": base})
        ours, theirs, size = row["tokens"]["tokenizer"], row["tokens"]["other"], row["bytes"]
        diff = (theirs - ours) / theirs * 100
        cells = [name, f"{size:,}", f"{theirs:,}", f"{size / theirs:.3f}"]
        cells += [f"{ours:,}", f"{size / ours:.3f}", f"{diff:+.1f}%"]
        assert cells in [line.split() for line in reported.splitlines()]
    assert f"against other, {base.get_vocab_size()} ids\n" in reported


def test_splits_of_an_output_are_its_texts_without_special_tokens(command, out, root, tokenizer):
    base, own = Tokenizer.load(root / "other"), Tokenizer.load(out / "tokenizer")
    special = [*own.special_tokens.values()]
    _, values, reported = command("eval", MINE, "--against", "other", "--splits-of", out)
    for split in ("val", "train"):
        made = [
            own.decode(ids[~np.isin(ids, special)]) for ids in open_shards(str(out), split=split)
        ]
        tokenizers = {"tokenizer": tokenizer, "other": base}
        assert values["texts"][split] == expected(made, tokenizers)
        assert f"\n{split}" in reported
    _, values, _ = command("eval", MINE, "--splits-of", out, "--max-bytes", "1")
    first = next(text for text in made if text)
    assert values["texts"]["train"]["bytes"] == len(first.encode())


def test_a_missing_package_is_named(command, monkeypatch):
    for package, flags, hint in (
        ("bpe_openai", ["--against", "o200k"], "pip install bpe-openai"),
        ("matplotlib", ["--plot", "x.svg"], "pip install '.[plots]'"),
    ):
        uninstall(monkeypatch, package)
        code, values, _ = command("eval", MINE, *flags)
        assert (code, hint in values["error"]) == (2, True)


@pytest.fixture
def counts(tmp_path):
    """Write a count file of the texts and return its path."""
    own = SpanCounts()
    own.update(MADE)
    own.save(tmp_path / "counts/a.arrow")
    return tmp_path / "counts/a.arrow"


@pytest.fixture
def learn(run):
    return partial(run, "tokenizer", "learn")


def test_a_count_file_yields_the_tokenizer_of_its_texts(counts, tmp_path, learn):
    out = tmp_path / "tokenizer"
    code, values, reported = learn(counts, "--vocab-size", 350, "--output", out)
    expected = Tokenizer.train_from_iterator(MADE, 350)
    assert code == 0
    assert Tokenizer.load(out) == expected
    assert json.loads((out / "report.json").read_text())["texts"] == 60
    assert (values["status"], values["output"]) == ("done", str(out))
    assert (values["vocab_size"], values["tokenizer_sha256"]) == (350, expected.sha256)
    assert values["stop_reason"] == "vocabulary size reached"
    assert set(values["seconds"]) == {"read", "learn"}
    assert "merges" not in values
    shown = ("reading     1 count file\n", "learn: 85 merges\n", "350 ids, learned in")
    for words in (*shown, "in 60 texts", f"wrote       {out}"):
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
    (tmp_path / "b.arrow").write_bytes(b"ARROW1 and nothing else")
    code, values, _ = learn(tmp_path / "b.arrow", "--vocab-size=300", "--output", tmp_path / "t")
    assert (code, "b.arrow" in values["error"]) == (4, True)
