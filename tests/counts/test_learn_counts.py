"""Learning from counts: the merges of the texts, for any division and origin of the counts."""

import logging
import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rustbpe
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import SpanCounts, Tokenizer, _core, learn
from nanotok_ray.counts import PATTERNS, SPLIT_PATTERN, find_counts, load_counts
from nanotok_ray.errors import (
    CountOverflowError,
    CountsError,
    PatternError,
    SourceError,
    TokenizerError,
    VocabularySizeError,
)
from nanotok_ray.formats import dump
from nanotok_ray.tokenizer import BELOW_MIN_PAIR_COUNT, NO_PAIR_LEFT, why_stopped
from tests.support import reference
from tests.support.small_corpus import texts

DOCUMENTS = texts(150, seed=7)
TOP = 2**64 - 1


def counted(documents, pattern=SPLIT_PATTERN):
    counts = SpanCounts(pattern)
    counts.update(documents)
    return counts


def given_counts(counts, pattern="nanochat"):
    return SpanCounts.from_counts(counts, pattern=pattern)


def learn_plain(counts, vocab_size, **options):
    """Learn from a dict, without special tokens."""
    return learn(given_counts(counts), vocab_size, special_tokens=(), **options)


# The same merges


def test_saved_loaded_and_merged_counts_have_the_merges_of_rustbpe(tmp_path):
    for number in range(3):
        counted(DOCUMENTS[number::3]).save(tmp_path / f"{number}.arrow")
    counts = SpanCounts.load(tmp_path / "0.arrow", tmp_path / "1.arrow")
    counts.merge(SpanCounts.load(tmp_path / "2.arrow"))
    own = learn(counts, 400, special_tokens=()).tokenizer
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(DOCUMENTS), 400, pattern=SPLIT_PATTERN)
    assert list(own.model.tokens) == [bytes(token) for token, _ in peer.get_mergeable_ranks()]
    assert own == Tokenizer.train_from_iterator(DOCUMENTS, 400, special_tokens=())
    assert counts.most_common() == counted(DOCUMENTS).most_common()  # learning changes no count


@given(st.dictionaries(st.binary(min_size=1, max_size=4), st.integers(1, 2**58), max_size=15))
def test_any_spans_and_counts_learn_as_the_reference(counts):
    merges = learn_plain(counts, 256 + 40).tokenizer.merges
    assert merges == reference.learn_merges(counts, num_merges=40)


def test_a_pair_may_reach_the_limit_but_not_exceed_it():
    found = learn_plain({"ab": 2**63, "xab": 2**63 - 1}, 257)
    assert (found.tokenizer.merges, found.learned.counts.tolist()) == ([(97, 98)], [TOP])
    top = learn_plain({"ab": TOP}, 999, min_pair_count=TOP)
    assert top.tokenizer.merges == [(97, 98)]


@pytest.mark.parametrize(
    ("counts", "pair"),
    [
        ({b"ab": 2**64 - 1, b"zab": 1}, (97, 98)),
        ({b"zy": 2**64 - 1, b"aaa": 2**63}, (97, 97)),
        ({b"xy": 5} | {b"ab" + bytes([byte]): 2**56 for byte in range(256)}, (97, 98)),
        ({b"\xff\xfe" * 2**20: 2**44}, (255, 254)),
    ],
)
def test_a_pair_that_would_exceed_64_bits_is_named(counts, pair):
    with pytest.raises(CountOverflowError, match=re.escape(f"pair {pair} would pass 2**64 - 1")):
        learn_plain(counts, 265)


# Where it ends


ENDS = [
    ({"abc": 2}, {}, [(97, 98), (256, 99)], ("is left to merge", "no pair left")),
    (
        {"ab": 5, "cd": 4, "ef": 3},
        {"min_pair_count": 4},
        [(97, 98), (99, 100)],
        ("occurs 4 times", "below min_pair_count = 4"),
    ),
    (
        {"abcd": 9},
        {"max_token_bytes": 2},
        [(97, 98), (99, 100)],
        ("is left to merge into at most 2 bytes", "no pair left of at most max_token_bytes = 2"),
    ),
]


@pytest.mark.parametrize(("counts", "limits", "merges", "messages"), ENDS)
def test_learning_ends_with_the_last_pair(caplog, counts, limits, merges, messages):
    warned, reported = messages
    found = learn(given_counts(counts, pattern="r50k"), 999, special_tokens=("<x>",), **limits)
    assert found.tokenizer.merges == merges
    reason = BELOW_MIN_PAIR_COUNT if "min_pair_count" in limits else NO_PAIR_LEFT
    assert found.stop_reason == found.report.stop_reason == reason
    assert why_stopped(found.report) == reported
    assert (found.report.vocab_size_asked, found.report.vocab_size_reached) == (999, 259)
    assert found.tokenizer.pattern == PATTERNS["r50k"]
    assert found.tokenizer.special_tokens == {"<x>": 258}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"no pair of tokens {warned}: the vocabulary has 259 ids" in caplog.text


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"vocab_size": 264}, VocabularySizeError, "must be at least 256, got 255"),
        ({"vocab_size": 2**31 + 1}, VocabularySizeError, "at most 2147483648, got 2147483649"),
        ({"min_pair_count": 0}, TokenizerError, "min_pair_count is 0: it must be 1"),
        ({"min_pair_count": 2**64}, TokenizerError, f"min_pair_count is {2**64}"),
        ({"max_token_bytes": 1}, TokenizerError, "max_token_bytes is 1: .* at least 2 bytes"),
        ({"num_threads": 0}, TokenizerError, "threads is 0: it must be at least 1"),
        ({"special_tokens": ("<x>", "<x>")}, TokenizerError, "'<x>' is given twice"),
        ({"special_tokens": "<x>"}, TokenizerError, "one name, '<x>': put it into a list"),
    ],
    ids=str,
)
def test_limits_out_of_range_are_refused_before_learning(options, error, message, monkeypatch):
    monkeypatch.setattr(_core, "learn", lambda *_, **__: pytest.fail("it learned"))
    with pytest.raises(error, match=message):
        learn(SpanCounts(), **{"vocab_size": 300, **options})


# Progress and report


def test_progress_is_reported_from_the_first_to_the_last_merge():
    seen = []
    found = learn(counted(DOCUMENTS), 380, on_progress=seen.append)
    merges, counts = found.tokenizer.merges, found.learned.counts.tolist()
    assert seen[0].done == 0
    assert seen[0].pair is seen[0].token is seen[0].count is None
    assert seen[-1].done == seen[-1].total == len(merges)
    assert len(seen) > 20
    for each in seen[1:]:
        assert each.pair == merges[each.done - 1]
        assert each.token == found.tokenizer.model.token(255 + each.done)
        assert each.count == counts[each.done - 1]
        assert each.seconds > 0
        assert each.merges_per_second == pytest.approx(each.done / each.seconds)
    assert [each.seconds for each in seen] == sorted(each.seconds for each in seen)

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(counted(DOCUMENTS), 400, on_progress=stop)


def test_the_report_is_saved_beside_the_tokenizer(tmp_path):
    counts = counted(DOCUMENTS)
    found = learn(counts, 400, min_pair_count=2, max_token_bytes=9)
    found.save(tmp_path / "new")
    assert Tokenizer.load(tmp_path / "new") == found.tokenizer
    assert (tmp_path / "new/report.json").read_bytes() == dump(found.report)
    report = found.report
    assert (report.vocab_size_asked, report.stop_reason) == (400, found.stop_reason)
    assert report.vocab_size_reached == found.tokenizer.get_vocab_size()
    assert (report.min_pair_count, report.max_token_bytes) == (2, 9)
    assert (report.texts, report.text_bytes) == (counts.texts, counts.text_bytes)
    assert (report.spans, report.distinct_spans) == (counts.total, counts.num_distinct)
    assert report.span_bytes == counts.text_bytes
    assert report.duplicate_tokens == ()
    assert list(report.merges.count) == found.learned.counts.tolist()
    foreign = learn(given_counts({"ab": 3}), 300).report
    assert foreign.texts is foreign.gaps is None
    assert (foreign.spans, foreign.text_bytes, foreign.span_bytes) == (3, 6, 6)


# From files


def write_spark(folder, counts, span_type):
    """Write a folder like Spark: several parts, small row groups, marker files."""
    folder.mkdir(parents=True)
    rows = random.Random(1).sample([*counts.items()], len(counts))
    for number in range(3):
        own = rows[number::3]
        spans = pa.array([span for span, _ in own], pa.binary())
        if pa.types.is_dictionary(span_type):
            spans = spans.cast(span_type.value_type).dictionary_encode()
        else:
            spans = spans.cast(span_type)
        numbers = pa.array([count for _, count in own], pa.int64())
        table = pa.table({"extra": pa.nulls(len(own)), "count": numbers, "span": spans})
        pq.write_table(table, folder / f"part-{number:05d}-a.snappy.parquet", row_group_size=10)
        (folder / f".part-{number:05d}-a.snappy.parquet.crc").write_bytes(b"crc")
    (folder / "_SUCCESS").write_bytes(b"")


def load(*paths, **options):
    return load_counts(find_counts(map(str, paths)), **options)


PLAIN = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
DICTIONARIES = [pa.dictionary(pa.int32(), kind) for kind in (pa.string(), pa.binary())]


@pytest.mark.parametrize("span_type", [*PLAIN, *DICTIONARIES], ids=str)
def test_parquet_spans_of_any_type_yield_the_tokenizer_of_the_texts(tmp_path, span_type):
    counts = dict(counted(DOCUMENTS).most_common())
    write_spark(tmp_path / "spark", counts, span_type)
    loaded = load(tmp_path / "spark", pattern="nanochat")
    assert dict(loaded.most_common()) == counts
    expected = Tokenizer.train_from_iterator(DOCUMENTS, 400)
    assert learn(loaded, 400).tokenizer == expected


@pytest.mark.parametrize("count_type", [pa.int16(), pa.uint32(), pa.uint64()], ids=str)
def test_a_span_in_many_rows_and_files_is_summed(tmp_path, count_type):
    spans, numbers = [b"\xff\xfe", b"y", b"\xff\xfe"] * 40, [1, 2, 3] * 40
    table = pa.table({"span": spans, "count": pa.array(numbers, count_type)})
    for name in ("a", "b"):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=7)
    loaded = load(tmp_path, pattern="gpt4")
    assert loaded.most_common() == [(b"\xff\xfe", 320), (b"y", 160)]
    bad = pa.table({"span": ["a"] * 9 + ["b"], "count": [1] * 9 + [-5]})
    pq.write_table(bad, tmp_path / "bad", row_group_size=4)  # SpanCounts decides what is bad
    with pytest.raises(CountsError, match=r"/bad.*row 9: the count of b'b' is -5"):
        load(tmp_path / "bad", pattern="gpt4")
    more = pa.table({"span": [b"y"], "count": pa.array([TOP - 159], pa.uint64())})
    pq.write_table(more, tmp_path / "c.parquet")
    with pytest.raises(CountOverflowError, match=r"2\*\*64 - 1"):
        load(tmp_path, pattern="gpt4")


def test_count_files_and_parquet_are_summed_and_each_file_counts_once(tmp_path):
    counted(DOCUMENTS[:50]).save(tmp_path / "counts/web/a.arrow")
    (tmp_path / "counts/web/a.json").write_text("{}")
    (tmp_path / "counts/web/a.quarantine.jsonl").write_text("{}")
    write_spark(tmp_path / "spark", dict(counted(DOCUMENTS[50:]).most_common()), pa.string())
    paths = [tmp_path / "counts", tmp_path / "counts/*/*.arrow", tmp_path / "spark"]
    loaded = load(*paths, pattern="nanochat")
    assert loaded.most_common() == counted(DOCUMENTS).most_common()
    assert load(tmp_path / "counts").origin == counted(DOCUMENTS[:50]).origin
    unnamed = [tmp_path / "part-0", tmp_path / "part-1"]
    (tmp_path / "counts/web/a.arrow").rename(unnamed[0])
    next((tmp_path / "spark").glob("*.parquet")).rename(unnamed[1])
    again = load(*unnamed, tmp_path / "spark", pattern="nanochat")
    assert again.most_common() == loaded.most_common()


def test_missing_unknown_and_contradictory_patterns_are_refused(tmp_path):
    pq.write_table(pa.table({"span": ["a"], "count": [1]}), tmp_path / "a.parquet")
    counted(["a"]).save(tmp_path / "a.arrow")
    both = ("a.arrow", repr(SPLIT_PATTERN), repr(PATTERNS["gpt4"]))
    for name, options, error, words in (
        ("a.parquet", {}, CountsError, ("a.parquet", "--pattern", *PATTERNS)),
        ("a.parquet", {"pattern": "gpt5"}, PatternError, ("'gpt5'",)),
        ("a.arrow", {"pattern": "gpt4"}, CountsError, both),
    ):
        with pytest.raises(error) as caught:
            load(tmp_path / name, **options)
        assert [word for word in words if word not in str(caught.value)] == []
    own = tmp_path / "a.arrow"
    assert load(own, pattern="nanochat").total == load(own).total == 1


def test_one_slice_counted_in_two_ways_is_refused_with_both_files(tmp_path):
    names = ("a-0000000000000000", "b-0000000000000000", "a-ffffffffffffffff")
    first, other, second = (tmp_path / f"web/{name}.arrow" for name in names)
    for path in (first, other, second):
        counted(["a"]).save(path)
    with pytest.raises(CountsError) as caught:
        load(tmp_path)
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)
    assert load(first, other).total == 2


def test_a_missing_column_is_refused_with_the_existing_ones(tmp_path):
    table = pa.table({"token": ["a"], "n": [4]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"no column 'span'.*'token', 'n'.*--span-column"):
        load(tmp_path, pattern="gpt4")
    with pytest.raises(SourceError, match=r"no column 'count'.*--count-column"):
        load(tmp_path, pattern="gpt4", span_column="token")
    loaded = load(tmp_path, pattern="gpt4", span_column="token", count_column="n")
    assert loaded.most_common() == [(b"a", 4)]


def test_files_without_counts_and_with_a_damaged_page_are_refused_by_name(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(SourceError, match=r"none of its 1 files ends in \.arrow or \.parquet"):
        load(tmp_path)
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no footer")
    table = pa.table({"span": [f"s{n}" for n in range(500)], "count": [1] * 500})
    path = tmp_path / "page.parquet"
    pq.write_table(table, path, compression="none", write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"s123", b"t123", 1))
    for name, message in (
        ("page.parquet", r"page\.parquet is not a readable parquet file"),
        ("notes.txt", r"notes\.txt is neither .* begins with b'hello'"),
        ("nowhere", "nowhere matches no file"),
        ("c*.parquet", r"cut\.parquet is not a readable parquet file"),
    ):
        with pytest.raises(SourceError, match=message):
            load(tmp_path / name, pattern="gpt4")
