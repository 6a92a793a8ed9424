"""SpanCounts equals a Counter for any inputs and any division of them."""

import pickle
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray import SpanCounts, _core
from nanotok_ray.counts import PATTERNS, SPLIT_PATTERN, SummedRuns
from nanotok_ray.counts.columns import checked_run
from nanotok_ray.documents import Documents
from nanotok_ray.documents import texts as text_batches
from nanotok_ray.errors import (
    CorruptOutputError,
    CountOverflowError,
    CountsError,
    PatternError,
    SplitError,
    TokenizerError,
)
from nanotok_ray.storage import Folder
from tests.support.count_runs import run_of

TEXTS = st.lists(st.text(alphabet="ab 1\n数", max_size=30), max_size=8)
RAW = st.lists(st.binary(max_size=20), max_size=8)
SPANS = st.binary(min_size=1, max_size=3)
PAIRS = st.lists(st.tuples(SPANS, st.integers(1, 2**60)), max_size=20)
TOP = 2**64 - 1


def plainly(documents, pattern=SPLIT_PATTERN):
    splitter = _core.Splitter(pattern)
    raw = [each if isinstance(each, bytes) else each.encode() for each in documents]
    return Counter(span for document in raw for span in splitter.split(document))


def counted(documents, **options):
    counts = SpanCounts(**options)
    counts.update(documents)
    return counts


def held(counts):
    return Counter(dict(counts.most_common()))


def summed(pairs):
    total = Counter()
    for span, count in pairs:
        total[span] += count
    return total


# From texts


@given(st.lists(TEXTS, max_size=3), st.sampled_from(sorted(PATTERNS)), st.integers(1, 2))
def test_updates_store_what_a_counter_stores(parts, pattern, threads):
    counts = SpanCounts(pattern, num_threads=threads)
    for documents in parts:
        counts.update(iter(documents))
    everything = [text for documents in parts for text in documents]
    expected = plainly(everything, PATTERNS[pattern])
    assert held(counts) == expected
    assert (counts.num_distinct, counts.total) == (len(expected), expected.total())
    assert counts.gaps == 0
    for own, array in zip(counts.run(), run_of(expected), strict=True):
        assert np.array_equal(own, array)
    assert counts.texts == len(everything)
    assert counts.text_bytes == sum(len(text.encode()) for text in everything)
    assert counts.pattern == PATTERNS[pattern]


@given(RAW)
def test_bytes_that_are_not_utf8_are_spans(documents):
    assert held(counted(documents)) == plainly(documents)
    assert held(counted(pa.array(documents, pa.binary()))) == plainly(documents)


def test_a_long_dictionary_is_counted_in_parts_by_use():
    rng = random.Random(5)
    rows = rng.choices(["a b", "c", "", "the cat " * 50], k=30_000)
    counts = counted(pa.array(rows).dictionary_encode())
    assert held(counts) == plainly(rows)
    assert (counts.texts, counts.text_bytes) == (30_000, sum(map(len, rows)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"gaps": "drop"}, TokenizerError, "drop"),
        ({"num_threads": 0}, CountsError, "threads is 0"),
        ({"num_threads": -1}, CountsError, "threads is -1"),
        *(
            ({"pattern": word}, PatternError, f"{word!r}: use one of nanochat, gpt4, cl100k, r50k")
            for word in ("nanocht", "GPT4", "o200k-base", "")
        ),
        ({"pattern": "("}, PatternError, "cannot compile"),
    ],
)
def test_invalid_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        SpanCounts(**options)


def test_an_error_names_the_text_and_keeps_earlier_counts(monkeypatch):
    monkeypatch.setattr(text_batches, "BATCH_TEXTS", 2)
    counts = SpanCounts("a+", gaps="error")
    with pytest.raises(SplitError, match="after 2 texts, document 1 cannot be split at byte 1"):
        counts.update(["a", "aa", "a", "ab"])
    assert held(counts) == {b"a": 1, b"aa": 1}
    assert counts.texts == 2
    with_gaps = counted(["ab-a", "-"], pattern="a+")
    assert (with_gaps.gaps, with_gaps.total) == (2, 4)


# Added up


@given(st.lists(TEXTS, min_size=1, max_size=4), st.booleans())
def test_merged_counts_equal_those_of_all_texts(parts, at_once):
    first, *others = map(counted, parts)
    if at_once:
        first.merge(*others)
    else:
        for other in others:
            first.merge(other)
    assert held(first) == plainly([text for part in parts for text in part])
    assert first.texts == sum(map(len, parts))
    for other, part in zip(others, parts[1:], strict=True):
        assert held(other) == plainly(part)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (SpanCounts("gpt4"), ["pattern", repr(SPLIT_PATTERN), repr(PATTERNS["gpt4"])]),
        (SpanCounts(gaps="error"), ["gaps rule", "'spans'", "'error'"]),
    ],
    ids=["pattern", "gaps"],
)
def test_counts_split_by_different_patterns_are_refused_with_both_values(other, words, tmp_path):
    counts = counted(["a b"])
    with pytest.raises(CountsError) as caught:
        counts.merge(counted(["c"]), other)
    assert all(word in str(caught.value) for word in words)
    assert held(counts) == {b"a": 1, b" b": 1}
    counts.save(tmp_path / "own.arrow")
    other.save(tmp_path / "other.arrow")
    with pytest.raises(CountsError) as caught:
        SpanCounts.load(tmp_path / "own.arrow", tmp_path / "other.arrow")
    assert all(word in str(caught.value) for word in [*words, "own.arrow", "other.arrow"])


@given(st.lists(PAIRS, max_size=12))
def test_pairs_and_runs_of_any_sizes_are_summed(parts):
    sums = SummedRuns()
    for pairs in parts:
        counts = SpanCounts.from_counts(pairs, pattern="gpt4")
        sums.add(counts.run())
        assert held(counts) == summed(pairs)
        assert counts.total == sum(count for _, count in pairs)
        assert counts.text_bytes == sum(len(span) * count for span, count in pairs)
        assert counts.texts is counts.gaps is None
    assert len(sums) <= max(1, sum(map(len, parts))).bit_length() + 1
    _, data, offsets, numbers = sums.run()
    found = dict(zip(Documents(data=data, offsets=offsets), numbers.tolist(), strict=True))
    assert found == summed(pair for pairs in parts for pair in pairs)


# From other tools


DICTIONARIES = [pa.dictionary(pa.int8(), pa.binary()), pa.dictionary(pa.int32(), pa.large_binary())]


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.binary_view(), *DICTIONARIES], ids=str
)
@given(pairs=PAIRS)
def test_arrow_columns_are_summed(kind, pairs):
    spans = pa.array([span for span, _ in pairs], pa.binary())
    numbers = pa.array([count for _, count in pairs], pa.int64())
    half = len(pairs) // 2
    chunks = [spans[:half].cast(kind), spans[half:].cast(kind)]
    if pa.types.is_dictionary(kind):
        chunks = [part.dictionary_encode().cast(kind) for part in (spans[:half], spans[half:])]
    counts = SpanCounts.from_arrow(pa.chunked_array(chunks, kind), numbers, pattern="gpt4")
    assert held(counts) == summed(pairs)


@given(
    st.dictionaries(st.binary(min_size=1, max_size=20), st.integers(1, 4) | st.integers(1, TOP)),
    st.integers(0, 12),
)
def test_most_common_equals_a_plain_sort(counted_spans, number):
    expected = sorted(counted_spans.items(), key=lambda item: (-item[1], item[0]))
    counts = SpanCounts.from_counts(counted_spans, pattern="gpt4")
    assert counts.most_common(number) == expected[:number]
    assert counts.most_common() == expected


@pytest.mark.parametrize("count", [0, -1, 2**64, 1.0, "1", None, True], ids=repr)
def test_a_count_is_an_integer_from_1_to_the_limit(count):
    with pytest.raises(CountsError) as caught:
        SpanCounts.from_counts([("a", 1), ("bad", count)], pattern="gpt4")
    for words in ("row 1", "'bad'", repr(count), "2**64 - 1", str(TOP)):
        assert words in str(caught.value)
    for span in (7, None, ("a",)):
        with pytest.raises(CountsError, match="row 1: the span is"):
            SpanCounts.from_counts([("a", 1), (span, 2)], pattern="gpt4")


def columns(spans, counts, counts_type=None):
    return pa.array(spans), pa.array(counts, counts_type)


@pytest.mark.parametrize(
    ("spans", "counts", "words"),
    [
        (*columns(["a", "b"], [1, 0]), ["row 1: the count of b'b' is 0", str(TOP)]),
        (*columns(["a", "b"], [1, -7]), ["row 1: the count of b'b' is -7"]),
        (*columns(["a", "b"], [None, 1]), ["row 0: the count of b'a' is None"]),
        (*columns(["a", None], [1, 1]), ["row 1: the span is null"]),
        (*columns(["a", ""], [1, 1]), ["row 1: the span is empty"]),
        (*columns(["a"], [1.0]), ["of type double", "bigint"]),
        (*columns(["a"], ["1"]), ["of type string"]),
        (*columns(["a"], [1], pa.decimal128(20, 0)), ["of type decimal128(20, 0)", "bigint"]),
        (*columns([1], [1]), ["the spans are of type int64", "strings or bytes"]),
        (*columns(["a", "b"], [1]), ["there are 2 spans and 1 counts"]),
    ],
    ids=range(10),
)
def test_columns_of_other_types_are_refused_by_row_and_value(spans, counts, words):
    with pytest.raises(CountsError) as caught:
        SpanCounts.from_arrow(spans, counts, pattern="gpt4")
    assert all(word in str(caught.value) for word in ["the columns", *words])
    own = SpanCounts("gpt4")
    with pytest.raises(CountsError):
        own.add(spans, counts)
    assert (own.total, own.texts) == (0, 0)


def test_spans_with_one_hash_are_sorted_by_their_bytes_and_stay_separate():
    def same(_, offsets):
        return np.zeros(len(offsets) - 1, np.uint64)

    spans = pa.array(["a", "ab", "c", "ab", "b"])
    (_, data, offsets, counts), _ = checked_run(
        spans, pa.array([1, 2, 3, 4, 5]), name="x", first_row=0, hash_documents=same
    )
    assert list(Documents(data=data, offsets=offsets)) == [b"a", b"ab", b"b", b"c"]
    assert counts.tolist() == [1, 2 + 4, 5, 3]


# The limit


def test_a_sum_at_the_limit_is_exact_and_one_above_it_an_error():
    pairs = [("a", np.uint64(TOP - 1)), ("a", np.int8(1)), ("b", TOP)]
    counts = SpanCounts.from_counts(pairs, pattern="nanochat")
    assert counts.most_common() == [(b"a", TOP), (b"b", TOP)]
    assert counts.total == counts.text_bytes == 2 * TOP
    one = SpanCounts.from_counts({"a": 1}, pattern="nanochat")
    for add in (counts.merge, lambda _: counts.add(pa.array(["a"]), pa.array([1]))):
        with pytest.raises(CountOverflowError, match=r"2\*\*64 - 1"):
            add(one)
        assert (counts.most_common(1), counts.total) == ([(b"a", TOP)], 2 * TOP)
    with pytest.raises(CountOverflowError, match=str(TOP)):
        SpanCounts.from_counts([("a", TOP), ("a", 1)], pattern="nanochat")


# On disk


@settings(max_examples=30)  # each file has 4,096 ranges
@given(TEXTS, PAIRS)
def test_saved_counts_load_unchanged(documents, pairs):
    name = f"memory://span-counts/{random.Random(str(documents)).random()}.arrow"
    for counts in (counted(documents), SpanCounts.from_counts(pairs, pattern="r50k")):
        counts.save(name)
        again = SpanCounts.load(name)
        assert again.origin == counts.origin
        assert again.most_common() == counts.most_common()
        assert (again.num_distinct, again.total) == (counts.num_distinct, counts.total)
        assert repr(again) == repr(counts)


def test_a_save_over_the_limit_fails_when_sums_are_requested_and_keeps_the_file(tmp_path):
    counts = SpanCounts.from_counts({"a": TOP}, pattern="nanochat")
    path = tmp_path / "a.arrow"
    counts.save(path)
    counts.update(["a"])
    for ask in (counts.run, counts.most_common, lambda: counts.save(path)):
        with pytest.raises(CountOverflowError, match=r"2\*\*64 - 1"):
            ask()
    assert held(SpanCounts.load(path)) == {b"a": TOP}
    assert len(list(tmp_path.iterdir())) == 1


def test_equal_counts_have_equal_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    documents = ["a b", "b c c", "the cat", b"\xff".decode(errors="replace")]
    one, other = counted(documents), counted(documents[:2])
    other.merge(counted(documents[2:]))
    one.save(tmp_path / "one.arrow")
    other.save("other.arrow")
    assert (tmp_path / "one.arrow").read_bytes() == (tmp_path / "other.arrow").read_bytes()
    assert SpanCounts.load("one.arrow").most_common() == one.most_common()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_that_is_not_a_count_file_is_refused_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.arrow"):
        SpanCounts.load(tmp_path / "nowhere.arrow")
    (tmp_path / "bad.arrow").write_bytes(b"ARROW1 and nothing else")
    with pytest.raises(CorruptOutputError, match=r"bad\.arrow"):
        SpanCounts.load(tmp_path / "bad.arrow")
    with pytest.raises(CountsError, match="no count file is named"):
        SpanCounts.load()


def test_counts_of_another_unicode_version_are_refused_with_both_versions(tmp_path):
    counted(["a"]).save(tmp_path / "a.arrow")
    folder = Folder(str(tmp_path))
    own = f'"unicode": "{_core.UNICODE_VERSION}"'.encode()
    data = folder.read_bytes("a.arrow")
    assert own in data
    folder.write_bytes("b.arrow", data.replace(own, own.replace(b"16.0.0", b"15.1.0")))
    with pytest.raises(CountsError, match=r"b\.arrow.*Unicode 15\.1\.0.*16\.0\.0"):
        SpanCounts.load(tmp_path / "b.arrow")
    with pytest.raises(CountsError, match=r"Unicode version.*'16\.0\.0'.*'15\.1\.0'"):
        SpanCounts.load(tmp_path / "a.arrow", tmp_path / "b.arrow")


def test_pickled_counts_are_equal_and_can_be_extended():
    counts = counted(["a b"], num_threads=1)
    again = pickle.loads(pickle.dumps(counts))
    again.update(["a"])
    again.merge(again)
    assert held(again) == {b"a": 4, b" b": 2}
    assert (again.texts, again.gaps, again.total, again.text_bytes) == (4, 0, 6, 8)
    again.merge(SpanCounts.from_counts({"c": 1}, pattern="nanochat"))
    assert held(again) == {b"a": 4, b" b": 2, b"c": 1}
    assert (again.texts, again.gaps, again.total, again.text_bytes) == (None, None, 7, 9)
    assert held(counts) == {b"a": 1, b" b": 1}
    assert pickle.loads(pickle.dumps(counts)).origin == counts.origin
