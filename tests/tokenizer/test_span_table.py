"""The span table of a tokenizer changes no id, and is refused when it is not that tokenizer's."""

import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.counts.totals import most_frequent
from nanotok_ray.documents.batch import Documents
from nanotok_ray.errors import SplitError, TokenizerError
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer, make_model
from tests.support.small_corpus import WORDS, texts

LEARNED_FROM = texts(60, seed=1)
# Most of these are spans of the tables: words of 1 to 3 tokens, of more, and longer than 15 bytes.
PARTS = [*WORDS, " the", " of", "  ", "\n\n", " internationalization", " ", "0123456789" * 30]


def narrow():
    return Tokenizer.train_from_iterator(LEARNED_FROM, vocab_size=350)


def wide():
    """Return a tokenizer whose ids need 32 bits: merges of all pairs of bytes, and of those.

    The common pairs come last, so their ids are the high ones.
    """
    pairs = [(left, right) for left in range(255, -1, -1) for right in range(255, -1, -1)]
    number = {pair: 256 + rank for rank, pair in enumerate(pairs)}
    common = [(number[tuple(b" t")], number[tuple(b"he")]), (number[tuple(b"li")], ord("s"))]
    return Tokenizer(
        make_model([*pairs, *common], pattern="nanochat", special_tokens=SPECIAL_TOKENS)
    )


@pytest.fixture(scope="module", params=[narrow, wide])
def both(request, tmp_path_factory):
    """Return a tokenizer without and with a table."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer = request.param()
    tokenizer.save(folder)
    tokenizer.write_span_table(folder, [*LEARNED_FROM, " internationalization"])
    return tokenizer, Tokenizer.load(folder)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a tokenizer and its table."""
    tokenizer = narrow()
    tokenizer.save(tmp_path / "tokenizer")
    tokenizer.write_span_table(tmp_path / "tokenizer", LEARNED_FROM)
    return tmp_path / "tokenizer"


def share_in_table(tokenizer, some):
    documents = Documents.from_strings(some)
    held = tokenizer._encoder.bytes_in_table(documents.data, documents.offsets)
    return held / documents.num_bytes


def assert_same_ids(plain, fast, some):
    assert fast.encode(some) == plain.encode(some)
    documents = Documents.from_strings(some)
    for gaps in ("spans", "error"):
        ids, offsets = fast.encode_documents(documents, gaps=gaps)
        expected, ends = plain.encode_documents(documents, gaps=gaps)
        assert ids.dtype == expected.dtype
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_array_equal(offsets, ends)


@given(some=st.lists(st.lists(st.sampled_from(PARTS) | st.text()).map("".join)))
def test_ids_are_the_same_with_and_without(both, some):
    assert_same_ids(*both, some)


def test_ids_of_real_text_are_the_same_and_most_of_it_is_in_the_table(both, tmp_path):
    plain, _ = both
    paths = sorted(Path(os.__file__).parent.glob("*.py"))[:60]
    sources = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
    plain.save(tmp_path)
    plain.write_span_table(tmp_path, sources[::2], max_spans=5000)
    fast = Tokenizer.load(tmp_path)
    assert 0 < fast.span_table_size <= 5000
    assert 0.2 < share_in_table(fast, sources) < 1
    assert_same_ids(plain, fast, sources)


def test_the_encoder_that_refuses_gaps_uses_the_table_and_still_refuses(tmp_path):
    model = make_model([(97, 98)], pattern=r"\w+", special_tokens=())
    Tokenizer(model).save(tmp_path)
    Tokenizer(model).write_span_table(tmp_path, ["ab ab"])
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.span_table_size == 2  # "ab", and the gap " "
    data = Documents.from_strings(["ab"])
    assert tokenizer._strict_encoder.bytes_in_table(data.data, data.offsets) == 2
    assert tokenizer.encode_documents(data, gaps="error")[0].tolist() == [256]
    with pytest.raises(SplitError):
        tokenizer.encode_documents(Documents.from_strings(["ab ab"]), gaps="error")


def test_a_folder_without_a_table_works_without(folder):
    with_table = Tokenizer.load(folder)
    (folder / "span_table.bin").unlink()
    without = Tokenizer.load(folder)
    assert with_table.span_table_size > 0 == without.span_table_size
    assert without == with_table
    assert_same_ids(without, with_table, LEARNED_FROM)


def test_a_table_can_be_left_alone(folder, monkeypatch):
    (folder / "span_table.bin").write_bytes(b"damaged")
    assert Tokenizer.load(folder, span_table=False).span_table_size == 0
    monkeypatch.setenv("NANOTOK_SPAN_TABLE", "off")
    assert Tokenizer.load(folder).span_table_size == 0
    monkeypatch.setenv("NANOTOK_SPAN_TABLE", "of")
    with pytest.raises(TokenizerError, match="'of' is neither 'on' nor 'off'"):
        Tokenizer.load(folder)
    monkeypatch.setenv("NANOTOK_SPAN_TABLE", "on")
    with pytest.raises(TokenizerError):
        Tokenizer.load(folder)


def refusal(folder):
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(folder)
    assert str(folder / "span_table.bin") in str(caught.value)
    assert "delete it, or load the tokenizer with span_table=False" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("at", [0, 8, 12, 20, 50, 76, 80, 90, 128, -1])
def test_a_table_with_a_changed_byte_is_refused(folder, at):
    data = bytearray((folder / "span_table.bin").read_bytes())
    data[at] ^= 1
    (folder / "span_table.bin").write_bytes(data)
    refusal(folder)


@pytest.mark.parametrize("size", [0, 127, 128, -1])
def test_a_cut_table_is_refused(folder, size):
    data = (folder / "span_table.bin").read_bytes()
    (folder / "span_table.bin").write_bytes(data[:size])
    refusal(folder)


def test_a_table_of_another_tokenizer_is_refused(folder, tmp_path):
    other = Tokenizer.train_from_iterator(LEARNED_FROM, vocab_size=349)
    other.save(tmp_path / "other")
    other.write_span_table(tmp_path / "other", LEARNED_FROM)
    data = (tmp_path / "other/span_table.bin").read_bytes()
    (folder / "span_table.bin").write_bytes(data)
    assert "another tokenizer" in refusal(folder)


def test_saving_removes_the_table_of_another_tokenizer_and_keeps_its_own(folder):
    Tokenizer.load(folder).save(folder)
    size = Tokenizer.load(folder).span_table_size
    assert size > 0
    Tokenizer.train_from_iterator(LEARNED_FROM, vocab_size=349).save(folder, overwrite=True)
    assert Tokenizer.load(folder).span_table_size == 0
    assert not (folder / "span_table.bin").exists()
    (folder / "span_table.bin").write_bytes(b"no table")
    narrow().save(folder, overwrite=True)
    assert not (folder / "span_table.bin").exists()


def test_a_table_is_not_written_beside_another_tokenizer(folder, tmp_path):
    before = (folder / "span_table.bin").read_bytes()
    other = Tokenizer.train_from_iterator(LEARNED_FROM, vocab_size=349)
    with pytest.raises(TokenizerError, match="save this one there first"):
        other.write_span_table(folder, LEARNED_FROM)
    assert (folder / "span_table.bin").read_bytes() == before
    with pytest.raises(TokenizerError, match="no tokenizer in"):
        other.write_span_table(tmp_path / "empty", LEARNED_FROM)


def test_a_table_does_not_depend_on_the_order_of_the_texts(folder):
    first = (folder / "span_table.bin").read_bytes()
    shuffled = random.Random(5).sample(LEARNED_FROM, len(LEARNED_FROM))
    narrow().write_span_table(folder, shuffled)
    assert (folder / "span_table.bin").read_bytes() == first


def test_a_table_of_no_spans_is_a_table(folder):
    plain = narrow()
    for some, limit in (([], 10), (LEARNED_FROM, 0)):
        plain.write_span_table(folder, some, max_spans=limit)
        empty = Tokenizer.load(folder)
        assert empty.span_table_size == 0
        assert_same_ids(plain, empty, LEARNED_FROM)


def test_a_pickle_leaves_the_table_behind(folder):
    tokenizer = Tokenizer.load(folder)
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again == tokenizer
    assert again.span_table_size == 0


@given(
    counted=st.dictionaries(st.binary(max_size=20), st.integers(1, 4) | st.integers(1, 2**64 - 1)),
    limit=st.integers(0, 12),
    seed=st.integers(0, 2**32),
)
def test_the_most_frequent_spans_are_those_of_a_plain_sort(counted, limit, seed):
    expected = sorted(counted, key=lambda span: (-counted[span], span))[:limit]
    order = random.Random(seed).sample(sorted(counted), len(counted))
    spans = Documents.from_bytes(order)
    counts = np.array([counted[span] for span in order], dtype=np.uint64)
    found = most_frequent(spans.data, spans.offsets, counts, max_spans=limit)
    assert list(found) == expected


def test_the_table_holds_the_most_frequent_spans(folder):
    plain = narrow()
    counts = _core.SpanCounts(plain.pattern)
    documents = Documents.from_strings(LEARNED_FROM)
    counts.update(documents.data, documents.offsets)
    _, data, offsets, numbers = counts.sorted_run()
    chosen = most_frequent(data, offsets, numbers, max_spans=10)
    plain.write_span_table(folder, LEARNED_FROM, max_spans=10)
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.span_table_size == 10
    assert share_in_table(tokenizer, [span.decode() for span in chosen]) == 1
