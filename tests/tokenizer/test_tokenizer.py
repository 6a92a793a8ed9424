"""The tokenizer: encoding, names of files, the report of training."""

import base64
import hashlib
import json
import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import rustbpe
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken import load, registry

import nanotok_ray
from nanotok_ray import SpanCounts, learn, open_tokenizer
from nanotok_ray.counts import PATTERNS, default_threads
from nanotok_ray.documents import Documents
from nanotok_ray.errors import SplitError, TokenizerError, VocabularySizeError
from nanotok_ray.formats import Counted, CountedSource, TrainingReport, dump, from_values, to_json
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import (
    REACHED,
    Learned,
    Tokenizer,
    TrainSettings,
    cut_report,
    make_model,
    short_report,
    training_report,
    why_stopped,
)
from nanotok_ray.tokenizer.evaluation import token_bytes_of
from tests.support.small_corpus import texts

CORPUS = [
    "the cat sat on the mat",
    "the hat, that cat's hat: 12345",
    "naïve café 你好 🙂",
    "   x\n\n y",
]

# Repeated letters, so that pairs have equal counts and overlap; digits; white space; marks.
odd_texts = st.text(
    st.sampled_from("aab the''s1234 \n\r\t\u00a0\u3000é\u0301你🙂.,-\u017f\x00")
    | st.characters(codec="utf-8")
)
corpora = st.lists(odd_texts, max_size=6)
patterns = st.sampled_from(list(PATTERNS))


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(CORPUS, 300)


@given(corpora, st.integers(0, 60), st.sampled_from(["nanochat", "gpt4"]))
def test_merges_equal_rustbpe(corpus, num_merges, name):
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(corpus), 256 + num_merges, pattern=PATTERNS[name])
    own = Tokenizer.train_from_iterator(
        corpus, 256 + num_merges, pattern=name, special_tokens=(), num_threads=2
    )
    assert list(own.model.tokens) == [token for token, _ in peer.get_mergeable_ranks()]


@given(corpora, odd_texts, patterns)
def test_ids_equal_tiktoken(corpus, text, name):
    own = Tokenizer.train_from_iterator(corpus, 320, pattern=name)
    peer = own.to_tiktoken()
    assert own.encode(text) == peer.encode_ordinary(text)
    assert own.get_vocab_size() == peer.n_vocab
    assert own.engine == "lexer"
    assert own.encode_special("<|bos|>") == peer.encode_single_token("<|bos|>")


@given(st.permutations(CORPUS), st.integers(1, 3))
def test_merges_depend_on_neither_order_nor_threads(tokenizer, corpus, threads):
    assert Tokenizer.train_from_iterator(iter(corpus), 300, num_threads=threads) == tokenizer


def test_bos_is_the_special_token_even_if_a_merge_spells_it():
    own = Tokenizer.train_from_iterator(
        ["<|bos|>"], 400, pattern="(?s:.+)", special_tokens=["<|bos|>"]
    )
    assert own.model.tokens[-1] == b"<|bos|>"
    assert own.get_special_tokens() == {"<|bos|>"}
    assert own.get_bos_token_id() == own.special_tokens["<|bos|>"] == own.get_vocab_size() - 1
    assert own.encode("<|bos|>") == [own.get_vocab_size() - 2]


def test_a_vocabulary_that_is_too_small_is_refused_before_anything_is_read():
    def unread():
        pytest.fail("a text was read")
        yield ""

    with pytest.raises(VocabularySizeError, match=r"^vocab_size_no_special must be at least 256"):
        Tokenizer.train_from_iterator(unread(), 264)


@given(odd_texts | st.text())
def test_one_text_has_the_ids_of_its_bytes(tokenizer, text):
    ids, _ = tokenizer.encode_batch([text])
    assert tokenizer.encode(text) == ids.tolist()
    assert tokenizer.encode(text * 60) == tokenizer.to_tiktoken().encode_ordinary(text * 60)
    framed = [7, *ids.tolist(), tokenizer.get_bos_token_id()]
    assert tokenizer.encode(text, append="<|bos|>", prepend=7) == framed


def test_values_that_are_not_text_have_their_own_error(tokenizer):
    class Text(str):
        __slots__ = ()

    assert tokenizer.encode(Text("the")) == tokenizer.encode("the")
    for value in (None, b"the", 7):
        with pytest.raises(ValueError, match="Invalid input type"):
            tokenizer.encode(value)
    for wrong in ([b"the"], ["the", None]):
        with pytest.raises(TypeError, match="is not an instance of 'str'"):
            tokenizer.encode(wrong)
    for text in ("a", b"a"):
        with pytest.raises(TypeError, match=r"iterator: .* got one text: put it into a list"):
            Tokenizer.train_from_iterator(text, 300)
    for value, kind in (({"messages": []}, "dict"), ([], "list")):
        with pytest.raises(TypeError, match=f"got a {kind}: use json.dumps"):
            tokenizer.render_batch([value])


def test_gaps_are_kept_or_refused():
    own = Tokenizer.train_from_iterator(["ab ab"], 300, pattern="[a-z]+")
    assert own.engine == "table"
    documents = Documents.from_strings(["ab", "ab?"])
    ids, _ = own.encode_documents(documents)
    assert own.decode(ids) == "abab?"
    with pytest.raises(SplitError):
        own.encode_documents(documents, gaps="error")
    backtracking = Tokenizer.train_from_iterator([], 265, pattern=r"(?:(a+)+\1)+$")
    with pytest.raises(SplitError, match="document 0 cannot be split at byte 0"):
        backtracking.encode("a" * 100 + "b")


@pytest.mark.parametrize(
    ("num_special", "dtype"), [(9, np.uint16), (65280, np.uint16), (65281, np.uint32)]
)
def test_ids_have_the_narrowest_dtype(num_special, dtype):
    own = Tokenizer.train_from_iterator(
        [], 256 + num_special, special_tokens=[f"<{number}>" for number in range(num_special)]
    )
    ids, offsets = own.encode_batch(["ab"])
    assert ids.dtype == own.model.id_dtype == dtype
    assert offsets.dtype == np.int64
    assert own.encode_special(f"<{num_special - 1}>") == own.get_vocab_size() - 1


@pytest.mark.parametrize("number", [-1, 300, 10**20])
def test_an_unknown_id_is_a_key_error(tokenizer, number):
    assert tokenizer.get_vocab_size() == 300
    with pytest.raises(KeyError, match=f"Invalid token for decoding: {number}"):
        tokenizer.decode([97, number])
    with pytest.raises(KeyError, match=str(number)):
        tokenizer.decode_single_token_bytes(number)


def test_a_truncated_tokenizer_equals_one_learned_at_that_size(tokenizer):
    largest = tokenizer.get_vocab_size()
    for size in (265, 266, 300, largest):
        smaller, learned = tokenizer.truncated(size), Tokenizer.train_from_iterator(CORPUS, size)
        assert smaller == learned
        assert smaller.sha256 == learned.sha256
        assert learned.sha256[:16] in repr(learned)
        assert smaller.encode_special("<|bos|>") == size - 9
        assert (smaller == tokenizer) == (size == largest)
        assert smaller != "tokenizer"
    for size in (264, largest + 1):
        with pytest.raises(TokenizerError, match=rf"to {size} ids: from 265 .* to {largest} "):
            tokenizer.truncated(size)


def test_distant_special_ids_follow_the_merges_after_truncation():
    model = make_model([(97, 98), (256, 99)], pattern="nanochat", special_tokens=[])
    model = replace(model, special_tokens={"<|bos|>": 300, "<|end|>": 400})
    assert model.truncated(259).special_tokens == {"<|bos|>": 257, "<|end|>": 258}
    with pytest.raises(TokenizerError, match="to 260 "):
        model.truncated(261)


def test_training_uses_one_thread_inside_a_ray_worker(monkeypatch):
    def fake(mode):
        context = SimpleNamespace(worker=SimpleNamespace(mode=mode))
        return SimpleNamespace(
            WORKER_MODE=1, is_initialized=lambda: True, get_runtime_context=lambda: context
        )

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)))
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    assert default_threads() == 7
    monkeypatch.setitem(sys.modules, "ray", fake(mode=0))
    assert default_threads() == 7
    monkeypatch.setitem(sys.modules, "ray", fake(mode=1))
    assert default_threads() == 1


def test_every_public_name_exists():
    for name in nanotok_ray.__all__:
        assert getattr(nanotok_ray, name)
    assert {"open_shards", "open_tokenizer"} <= set(nanotok_ray.__all__) <= set(dir(nanotok_ray))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = nanotok_ray.nothing


URL = "https://ranks.invalid/encodings/small_base.tiktoken"
TOKENS = [bytes([255 - value]) for value in range(256)] + [b"th", b"the", b" the"]


def small_base():
    return {
        "name": "small_base",
        "pat_str": PATTERNS["cl100k"],
        "mergeable_ranks": load.load_tiktoken_bpe(URL),
        "special_tokens": {"<|endoftext|>": 300},
    }


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return tiktoken's cache, which is empty; no encoding has been loaded."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    tiktoken.list_encoding_names()
    monkeypatch.setattr(registry, "ENCODINGS", {})
    monkeypatch.setitem(registry.ENCODING_CONSTRUCTORS, "small_base", small_base)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def test_an_encoding_is_read_from_the_cache_of_tiktoken(cache):
    lines = [b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(TOKENS)]
    (cache / hashlib.sha1(URL.encode()).hexdigest()).write_bytes(b"".join(lines))
    own = open_tokenizer("small_base")
    peer = tiktoken.get_encoding("small_base")
    assert own.n_vocab == peer.n_vocab == 301
    for text in ("the the\n\n🙂 1234", "", "<|endoftext|> x"):
        assert own.encode(text) == peer.encode_ordinary(text)
        options = {"allowed_special": "all"}
        assert own.encode(text, **options) == peer.encode(text, **options)


@pytest.mark.parametrize("name", ["small_base", "cl100k_base", "gpt2"])
def test_without_the_files_the_error_names_their_location(cache, monkeypatch, name):
    def refuse(path):
        raise ConnectionError(path)

    monkeypatch.setattr(load, "read_file", refuse)
    with pytest.raises(TokenizerError) as caught:
        open_tokenizer(name)
    named = (f"the files of '{name}'", f"tiktoken.get_encoding('{name}')", str(cache))
    for words in (*named, "(ConnectionError)", "TIKTOKEN_CACHE_DIR="):
        assert words in str(caught.value)


def test_a_pattern_for_an_encoding_and_an_unknown_name_are_refused(cache):
    with pytest.raises(TokenizerError, match="pattern is given, but small_base says its own"):
        open_tokenizer("small_base", pattern="gpt4")
    with pytest.raises(TokenizerError, match="no tokenizer in small_bas "):
        open_tokenizer("small_bas")
    saved = Tokenizer.train_from_iterator(["ab ab"], 266)
    saved.save("small_base")  # a folder of this name is preferred
    assert open_tokenizer("small_base") == saved


ONE_SPAN = Counted(
    documents=1, texts=1, text_bytes=1, spans=1, distinct_spans=1, span_bytes=9, gaps=0
)
MIN_VOCAB_SIZE = 256 + len(SPECIAL_TOKENS)


def learned(documents, *, vocab_size, pattern="nanochat", **limits):
    """Learn from documents; return the tokenizer and its report."""
    counts = SpanCounts(pattern, num_threads=1)
    counts.update(documents)
    found = learn(counts, vocab_size, num_threads=1, **limits)
    return found.tokenizer, found.report


def report_of(model, *, vocab_size, counts, applied, counted=ONE_SPAN, **limits):
    """Return the report of a model whose merges have these numbers."""
    numbers = Learned(
        merges=model.merge_array,
        counts=np.array(counts, dtype=np.uint64),
        applied=np.array(applied, dtype=np.uint64),
        stop_reason=REACHED,
    )
    settings = TrainSettings(vocab_size=vocab_size, special_tokens=(), **limits)
    return training_report(model, settings, numbers, counted)


@given(
    st.lists(st.text("abc é\n", max_size=60), min_size=1, max_size=5),
    st.integers(MIN_VOCAB_SIZE, MIN_VOCAB_SIZE + 40),
)
def test_the_curve_holds_for_texts_of_few_letters(documents, vocab_size):
    tokenizer, report = learned(documents, vocab_size=vocab_size, pattern=r"[^\n]+|\n")
    num_bytes = sum(len(text.encode()) for text in documents)
    for row in report.curve:
        smaller = tokenizer.truncated(row.vocab_size)
        assert len(smaller.merges) == row.merges
        ids, _ = smaller.encode_batch(documents)
        assert row.tokens == len(ids)
        expected = round(num_bytes / len(ids), 4) if len(ids) else None
        assert row.bytes_per_token == expected


def test_rows_are_at_a_thousand_its_doubles_and_the_last():
    merges = [(left, right) for left in range(30) for right in range(100)]
    model = make_model(merges, pattern="nanochat", special_tokens=["<|bos|>"])
    counted = replace(ONE_SPAN, span_bytes=2**70)
    numbers = {"counts": [2**63] * 3000, "applied": [2**50] * 3000}
    report = report_of(model, vocab_size=3257, counted=counted, **numbers)
    rows = {row.merges: row for row in report.curve}
    assert list(rows) == [0, 1000, 2000, 3000]
    assert rows[2000].tokens == 2**70 - 2000 * 2**50
    assert rows[3000].vocab_size == 3257
    assert json.loads(dump(report))["merges"]["count"][0] == 2**63


def test_columns_describe_each_merge_and_do_not_depend_on_the_order_of_texts():
    documents = texts(30, seed=5)
    tokenizer, report = learned(documents, vocab_size=330)
    merges = report.merges
    assert list(zip(merges.left, merges.right, strict=True)) == tokenizer.merges
    assert [*map(token_bytes_of, merges.token)] == [*tokenizer.model.tokens[256:]]
    assert list(merges.count) == sorted(merges.count, reverse=True)
    assert all(0 < done <= count for count, done in zip(merges.count, merges.applied, strict=True))
    again = learned(documents[::-1], vocab_size=330)[1]
    assert dump(again) == dump(report)
    short = short_report(report)
    assert len(to_json(short)) < 2000
    assert why_stopped(short) == REACHED
    assert short.spans == report.spans > 0


def test_the_report_of_a_smaller_tokenizer_is_cut_from_the_larger():
    documents = texts(40, seed=6)
    tokenizer, report = learned(documents, vocab_size=380)
    for size in (MIN_VOCAB_SIZE, MIN_VOCAB_SIZE + 1, 333, 380):
        alone, expected = learned(documents, vocab_size=size)
        smaller = tokenizer.truncated(size)
        assert smaller == alone
        read_back = from_values(TrainingReport, json.loads(to_json(report)), name="report.json")
        assert dump(cut_report(read_back, smaller.model)) == dump(expected)


def test_two_ids_of_the_same_bytes_are_listed():
    model = make_model(
        [(97, 98), (98, 99), (256, 99), (97, 257)], pattern="nanochat", special_tokens=[]
    )
    report = report_of(model, vocab_size=260, counts=[1] * 4, applied=[1] * 4)
    assert report.duplicate_tokens == ((258, 259),)
    with pytest.raises(TokenizerError, match="applied has 3 numbers for 4 merges"):
        report_of(model, vocab_size=260, counts=[1] * 4, applied=[1] * 3)


def source(multiplier):
    return CountedSource(weight="1", multiplier=multiplier, texts=1, text_bytes=1, spans=1)


@pytest.mark.parametrize(
    ("changes", "limits", "named"),
    [
        ({}, {}, []),
        ({"gaps": None}, {}, []),
        ({"gaps": 2}, {}, ["gaps"]),
        ({"min_count": 2}, {"max_token_bytes": 9}, ["min_count", "max_token_bytes"]),
        ({"sources": {"a": source(2), "b": source(5)}}, {}, ["weight"]),
        ({"sources": {"a": source(1), "b": source(1)}}, {}, []),
    ],
)
def test_settings_with_other_merges_than_rustbpe_are_named(changes, limits, named):
    model = make_model([], pattern="nanochat", special_tokens=())
    counted = replace(ONE_SPAN, **changes)
    report = report_of(model, vocab_size=256, counts=[], applied=[], counted=counted, **limits)
    assert list(report.differs_from_rustbpe) == named
