"""Evaluation of tokenizers, and its plots."""

import gzip
import json
import re
import struct
import sys
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiktoken_ext.openai_public as openai
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.counts import PATTERNS
from nanotok_ray.documents import Documents
from nanotok_ray.errors import RecipeError, SourceError, TokenizerError, VerificationError
from nanotok_ray.report.figures import (
    RatioRow,
    check_plot,
    plot_bytes,
    ratio_figure,
    vocabulary_figure,
)
from nanotok_ray.sources import ReadingRules
from nanotok_ray.tokenizer import Tokenizer, token_text
from nanotok_ray.tokenizer.evaluation import (
    MAX_LABELS,
    PUBLISHED,
    Corpus,
    CorpusReader,
    Texts,
    TokenizerCounter,
    Usage,
    Vocabulary,
    characters_of,
    measure,
    overlap_of,
    published_tokenizer,
    token_bytes_of,
)
from tests.support.foreign_models import LEARNED, in_order
from tests.support.published_ranks import fake_package
from tests.support.small_corpus import texts, write_parquet

MADE = texts(60, seed=7)
LANGUAGES = ["en", "ko", "", "de"]
ALL_BYTES = 10**9


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(MADE, 380, num_threads=1)


@pytest.fixture(scope="module")
def small(tokenizer):
    return tokenizer.truncated(300)


def batches(made, *, size=7, labels=None):
    for start in range(0, len(made), size):
        yield Texts(
            documents=Documents.from_strings(made[start : start + size]),
            labels=None if labels is None else labels[start : start + size],
        )


def read(path, *, max_bytes=ALL_BYTES, **rules):
    """Return all texts and labels of a corpus, and its reader."""
    corpus = Corpus(name="x", paths=(str(path),), rules=ReadingRules(**rules))
    reader = CorpusReader(corpus, max_bytes=max_bytes)
    found = [*reader]
    own = [text.decode() for batch in found for text in batch.documents]
    labels = [label for batch in found for label in batch.labels or ()]
    return own, labels, reader


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8))
def test_characters_are_code_points(made):
    documents = Documents.from_strings(["é", *made]).part(1, len(made) + 1)
    assert characters_of(documents).tolist() == [len(text) for text in made]


def test_sums_equal_a_loop_over_texts_and_tokenizers(tokenizer, small):
    counters = [TokenizerCounter("all", tokenizer), TokenizerCounter("small", small)]
    labels = [LANGUAGES[number % 3] for number in range(len(MADE))]
    reported = []
    measured = measure(counters, batches(MADE, labels=labels), on_bytes=reported.append)

    def expected(chosen):
        return [
            [sum(len(each.encode(text)) for text in chosen) for each in (tokenizer, small)],
            len(chosen),
            len("".join(chosen).encode()),
            len("".join(chosen)),
        ]

    found = {None: measured.total} | measured.by_label
    assert [*measured.by_label] == ["", "en", "ko"]
    for label, own in found.items():
        chosen = [text for text, at in zip(MADE, labels, strict=True) if label in (None, at)]
        assert [own.tokens, own.texts, own.num_bytes, own.characters] == expected(chosen)
    assert sum(reported) == measured.total.num_bytes > 0
    total = measured.total
    assert total.bytes_per_token(1) == total.num_bytes / total.tokens[1]


def test_a_column_of_too_many_values_is_refused(tokenizer):
    made = ["a"] * (MAX_LABELS + 1)
    labels = [f"url {number}" for number in range(len(made))]
    with pytest.raises(SourceError, match=r"more than 1,000 different values, as 'url"):
        measure([TokenizerCounter("all", tokenizer)], batches(made, labels=labels))


def test_a_tokenizer_that_loses_text_is_refused(tokenizer, monkeypatch):
    decode = Tokenizer.decode_batch

    def lossy(self, ids, offsets, **options):
        return decode(self, np.where(ids == ord("z"), ord("y"), ids).astype(ids.dtype), offsets)

    monkeypatch.setattr(Tokenizer, "decode_batch", lossy)
    counter = TokenizerCounter("mine", tokenizer)
    assert counter.count(Documents.from_strings(["abc"]))[0].tolist() == [3]
    with pytest.raises(VerificationError, match=r"mine decodes a text of 2 bytes, 'zz' \.\.\.,"):
        counter.count(Documents.from_strings(["abc", "zz"]))


def test_use_equals_that_of_a_counter(tokenizer):
    vocabulary = Vocabulary.of(tokenizer)
    usage, counted = Usage(vocabulary), Counter()
    counter = TokenizerCounter("all", tokenizer)
    for batch in batches(MADE):
        usage.add(counter.encode(batch.documents)[0], batch.documents)
    for text in MADE:
        counted.update(tokenizer.encode(text))
    assert usage.counts.tolist() == [counted[n] for n in range(len(vocabulary.tokens))]
    ordered = sorted(counted, key=lambda number: (-counted[number], number))
    assert usage.most_used(10) == ordered[:10]
    assert usage.unused == [n for n in range(len(vocabulary.tokens)) if not counted[n]]
    assert usage.unused_merged == [n for n in usage.unused if n >= 256]
    assert usage.by_rank().tolist() == sorted(counted.values(), reverse=True)
    assert (usage.total, usage.texts) == (sum(counted.values()), len(MADE))
    assert usage.bytes_per_token == len("".join(MADE).encode()) / usage.total


def test_a_vocabulary_equals_the_model(tokenizer):
    vocabulary, model = Vocabulary.of(tokenizer), tokenizer.model
    assert vocabulary.length_counts == dict(sorted(Counter(map(len, model.tokens)).items()))
    longest = [len(model.tokens[number]) for number in vocabulary.longest(20)]
    assert longest == sorted(map(len, model.tokens), reverse=True)[:20]
    cut = [token for token in model.tokens[256:] if "�" in token.decode(errors="replace")]
    assert [model.tokens[number] for number in vocabulary.not_utf8] == cut
    assert cut
    for number in (0, 255, 256, 300):
        view = vocabulary.view(number)
        users = [256 + at for at, pair in enumerate(model.merges) if number in pair]
        assert (view.token, [*view.parts_of]) == (model.tokens[number], users)
        assert view.pair == (None if number < 256 else model.merges[number - 256])
        assert vocabulary.number_of(token_text(view.token)) == number
    bos = tokenizer.get_bos_token_id()
    assert vocabulary.number_of("<|bos|>") == bos
    assert vocabulary.view(bos).is_special
    for number in (-1, 380):
        with pytest.raises(TokenizerError, match=f"no id {number}: the ids are 0 to 379"):
            vocabulary.view(number)
    with pytest.raises(TokenizerError, match="no token is spelled 'no such token'"):
        vocabulary.number_of("no such token")


@given(st.binary())
def test_a_spelled_token_can_be_parsed(token):
    assert token_bytes_of(token_text(token)) == token


def test_overlap_equals_that_of_sets_and_of_a_loop_over_merges(tokenizer):
    other = Tokenizer.train_from_iterator(texts(60, seed=8), 370, num_threads=1)
    left, right = Vocabulary.of(tokenizer), Vocabulary.of(other)
    found = overlap_of(left, right)
    own, theirs = set(left.tokens), set(right.tokens)
    assert found.shared == len(own & theirs)
    assert (found.only_left, found.only_right) == (len(own - theirs), len(theirs - own))
    equal = found.equal_merges
    assert tokenizer.merges[:equal] == other.merges[:equal]
    assert tokenizer.merges[equal] != other.merges[equal]
    assert (found.left, found.right) == (left.tokens[256 + equal], right.tokens[256 + equal])
    plain, in_other_order = (Vocabulary.of(Tokenizer(each)) for each in (LEARNED, in_order()))
    assert plain.tokens[0] != in_other_order.tokens[0]
    reordered = overlap_of(plain, in_other_order)
    assert (reordered.equal_merges, reordered.left, reordered.right) == (
        len(LEARNED.merges),
        None,
        None,
    )
    without_pairs = Vocabulary(tokens=right.tokens)
    assert overlap_of(left, without_pairs).shared == found.shared


def test_published_patterns_and_special_tokens_equal_tiktoken(monkeypatch):
    monkeypatch.setattr(openai, "load_tiktoken_bpe", lambda *_, **__: {})
    assert openai.r50k_base()["pat_str"] == PATTERNS["r50k"]
    for name, make in (("cl100k", openai.cl100k_base), ("o200k", openai.o200k_base)):
        theirs = make()
        assert PUBLISHED[name].pattern == PATTERNS[name] == theirs["pat_str"]
        assert PUBLISHED[name].special_tokens == theirs["special_tokens"]


def test_published_vocabularies_are_read_without_importing_their_package(tmp_path, monkeypatch):
    ranks = fake_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for kind in PUBLISHED:
        counter = TokenizerCounter("theirs", published_tokenizer(kind))
        assert counter.num_ids == {"cl100k": 100277, "o200k": 200019}[kind]
        assert counter.vocabulary.tokens == tuple(ranks)
        made = Documents.from_strings(["the the", "", "naïve"])
        assert counter.count(made)[0].tolist() == [2, 0, 6]


def test_damaged_published_vocabularies_are_refused_with_the_remedy(tmp_path, monkeypatch):
    fake_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "bpe_openai/data/cl100k_base.tiktoken.gz"
    message = r"does not hold the ranks of cl100k: .* reinstall it: pip"
    for damaged in (b"no gzip", gzip.compress(b"one two three"), path.read_bytes()[:-20]):
        path.write_bytes(damaged)
        with pytest.raises(TokenizerError, match=message):
            published_tokenizer("cl100k")


def test_texts_of_every_format_are_read_and_other_values_counted_or_refused(tmp_path):
    made = ["a\\b", "naïve 数据", "", "last"]
    write_parquet(tmp_path / "a.parquet", made)
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in made))
    (tmp_path / "c.txt").write_text("\n".join(made))
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress("\n".join(made).encode()))
    (tmp_path / "e.txt").write_bytes(b"")
    (tmp_path / "f.txt").write_bytes(b"\n\n")
    write_parquet(tmp_path / "g.parquet", [])
    for name in ("a.parquet", "b.jsonl", "[ag].parquet"):
        assert read(tmp_path / name)[0] == made
    for name in ("c.txt", "*.txt", "d.txt.gz"):
        assert read(tmp_path / name)[0] == [text for text in made if text]
    for name in ("[ef].txt", "g.parquet"):
        assert read(tmp_path / name)[0] == []
    assert read(tmp_path / "c.txt", format="document")[0] == ["\n".join(made)]
    with pytest.raises(SourceError, match="matches no file"):
        read(tmp_path / "none.txt")
    with pytest.raises(RecipeError, match="has only text and no columns"):
        read(tmp_path / "c.txt", id_column="language")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": 1}\n{no}\n{"other": "x"}\n{no}')
    found, _, reader = read(tmp_path / "bad.jsonl")
    assert found == ["a"]
    bad = {"field is not a string": 1, "field is missing": 1, "invalid JSON": 2}
    assert reader.set_aside == bad


def test_labels_are_those_of_the_column_and_of_the_conversation(tmp_path):
    rows = [{"text": MADE[at], "lang": own} for at, own in enumerate(["en", None, "ko", "en"])]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name in ("a.parquet", "a.jsonl"):
        found, labels, _ = read(tmp_path / name, id_column="lang")
        assert (found, labels) == (MADE[:4], ["en", "(none)", "ko", "en"])
    said = [{"role": "user", "content": "salut"}, {"role": "assistant", "content": "bonjour"}]
    lines = [{"lang": "de", "messages": said[:1]}, {"lang": "fr", "messages": said}]
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found, labels, _ = read(tmp_path / "chats.jsonl", kind="chat", id_column="lang")
    assert (found, labels) == (["salut", "salut", "bonjour"], ["de", "fr", "fr"])


def test_a_corpus_ends_with_the_text_that_reaches_the_limit(tmp_path):
    for number in range(3):
        write_parquet(tmp_path / f"{number}.parquet", [f"{number}{at:03}" for at in range(20)])
    whole, _, reader = read(tmp_path)
    assert (len(whole), reader.is_cut, reader.estimated_bytes > 0) == (60, False, True)
    for limit, number in ((1, 1), (4, 1), (5, 2), (80, 20), (81, 21), (239, 60), (10**6, 60)):
        found, _, reader = read(tmp_path, max_bytes=limit)
        assert found == whole[:number]
        assert reader.is_cut == (number < 60)
        assert reader.estimated_bytes <= limit


SVG = "{http://www.w3.org/2000/svg}"


def ratios():
    return ratio_figure(
        {
            "en & <b>": RatioRow([4.25, 3.5], 1.0),
            "$5 to $6": RatioRow([None, 1.125], None),
            "_한국어": RatioRow([0.5, 2.0], 3.0),
        },
        ["_mine", "its $x$"],
        title="Bytes <per> token",
        note="a note",
    )


def saved(figure, suffix):
    return plot_bytes(figure, name=f"x{suffix}")


def words(svg):
    root = ElementTree.fromstring(svg)
    return ["".join(each.itertext()).replace("\u200b", "") for each in root.iter(f"{SVG}text")]


def test_bars_have_the_length_of_the_numbers_and_labels():
    figure = ratios()
    (axes,) = figure.axes
    assert [[bar.get_width() for bar in bars] for bars in axes.containers] == [
        [4.25, 0, 0.5],
        [3.5, 1.125, 2.0],
    ]
    reported = words(saved(figure, ".svg"))
    for word in ("Bytes <per> token", "a note", "en & <b>", "$5 to $6", "_한국어", "_mine"):
        assert word in reported
    assert {"4.25", "3.50", "no tokens", "1.12", "its $x$", "one token per code point"} < {
        *reported
    }
    assert (
        reported.index("_mine")
        < reported.index("its $x$")
        < reported.index("one token per code point")
    )


def test_lengths_and_use_are_drawn():
    lengths = {1: 256, 2: 7, 24: 2, 84: 3}
    figure = vocabulary_figure(lengths, title="t", note="n", counts=[9, 4, 1], unused=5)
    left, right = figure.axes
    heights = [bar.get_height() for bar in left.containers[0]]
    assert heights == [256, 7, *[0] * 21, 5]
    (line,) = right.lines
    assert [line.get_xdata().tolist(), line.get_ydata().tolist()] == [[1, 2, 3], [9, 4, 1]]
    assert {"3 used, 5 not", "24+"} < {*words(saved(figure, ".svg"))}
    assert len(vocabulary_figure(lengths, title="t").axes) == 1
    long = list(range(50_000, 0, -1))
    (line,) = vocabulary_figure({1: 256}, title="t", counts=long).axes[1].lines
    drawn = line.get_ydata().tolist()  # a long curve keeps its ends
    assert (drawn[:3], drawn[-1], len(drawn) <= 400) == (long[:3], 1, True)


def test_the_same_numbers_yield_the_same_bytes_in_the_format_of_the_suffix():
    svg, png = (saved(ratios(), suffix) for suffix in (".svg", ".png"))
    assert (svg, png) == (saved(ratios(), ".svg"), saved(ratios(), ".png"))
    assert not re.search(rb"\b20\d\d-\d\d-\d\d|Matplotlib v", svg + png)
    assert ElementTree.fromstring(svg).tag == f"{SVG}svg"
    width, height = struct.unpack(">II", png[16:24])
    assert (png[:8], width > 1000, height > 300) == (b"\x89PNG\r\n\x1a\n", True, True)


def test_an_empty_table_is_drawn():
    for figure in (
        ratio_figure({}, ["mine"], title="t"),
        ratio_figure({"en": RatioRow([None], None)}, ["mine"], title="t"),
        vocabulary_figure({1: 256}, title="t", counts=[], unused=256),
    ):
        assert saved(figure, ".svg").startswith(b"<?xml")


def test_without_matplotlib_or_a_known_suffix_the_error_names_the_remedy(monkeypatch):
    for name in ("x.jpg", "x.html"):
        with pytest.raises(TokenizerError, match=rf"{name}: its name must end in \.svg, \.png$"):
            check_plot(name)
    check_plot("x.svg")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    message = r"needs matplotlib, .* leave --plot out, or pip install '\.\[plots\]'"
    with pytest.raises(TokenizerError, match=message):
        vocabulary_figure({1: 256}, title="t")
