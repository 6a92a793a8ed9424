"""The compiled core through its Python functions, against rustbpe, tiktoken and xxhash."""

import pickle
import signal
import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS, SPLIT_PATTERN
from nanotok_ray.errors import (
    CountOverflowError,
    NanotokError,
    PatternError,
    SplitError,
    TokenizerError,
)

NANOCHAT = SPLIT_PATTERN
TEXT = "Hello hello 12345 world's\n\n   the theme, there; it's naïve 世界 世界!\r\n"


def batch(documents):
    documents = [d.encode() if isinstance(d, str) else d for d in documents]
    ends = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return np.frombuffer(b"".join(documents), np.uint8), ends


def unpack(data, offsets):
    data = data.tobytes()
    return [data[a:b] for a, b in pairwise(offsets)]


def count(documents, *, threads=1):
    counts = _core.SpanCounts(NANOCHAT)
    counts.update(*batch(documents), threads=threads)
    return counts


def rows(run):
    hashes, data, offsets, counts = run
    return list(zip(hashes.tolist(), unpack(data, offsets), counts.tolist(), strict=True))


def run_of(counts):
    """A sorted run of a dict of spans, made in Python."""
    spans = sorted(counts, key=lambda span: (xxhash.xxh3_64_intdigest(span), span))
    hashes = np.array([xxhash.xxh3_64_intdigest(span) for span in spans], np.uint64)
    return (hashes, *batch(spans), np.array([counts[span] for span in spans], np.uint64))


def learn(documents, num_merges):
    _, data, offsets, counts = count(documents).sorted_run()
    return _core.learn([(data, offsets, counts)], num_merges=num_merges)[:2]


def same(left, right):
    return len(left) == len(right) and all(map(np.array_equal, left, right))


corpora = st.integers(1, 6).flatmap(
    lambda letters: st.lists(
        st.lists(
            st.tuples(st.sampled_from("ab c1\n"[:letters]), st.integers(1, 30)), max_size=8
        ).map(lambda runs: "".join(letter * times for letter, times in runs)),
        max_size=8,
    )
)


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_hashes_of_documents_are_those_of_xxhash(documents):
    expected = [xxhash.xxh3_64_intdigest(document) for document in documents]
    assert _core.hash_documents(*batch(documents)).tolist() == expected
    assert [_core.hash64(document) for document in documents] == expected


@given(st.lists(st.binary(max_size=4) | st.text(max_size=3).map(str.encode), max_size=5))
def test_documents_are_utf8_if_each_is(documents):
    assert _core.is_utf8(*batch(documents)) == all(_decodes(document) for document in documents)


def test_occurrences_are_counted_leftmost_longest_and_within_a_document():
    documents = batch(["<|bos|><|bos|>", "<|bo", "s|>", "<|bos|>x"])
    assert _core.count_occurrences(*documents, ["<|bos|>", "<|eos|>"]) == 3
    assert _core.count_occurrences(*documents, []) == 0
    assert _core.count_occurrences(*batch(["abab"]), ["a", "ab"]) == 2
    with pytest.raises(TokenizerError, match="empty"):
        _core.count_occurrences(*documents, [""])


def _decodes(document):
    try:
        document.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@given(document=st.binary() | st.text().map(str.encode))
def test_joined_spans_are_the_document(pattern, document):
    spans = _core.Splitter(pattern).split(document)
    assert b"".join(spans) == document
    assert all(spans)
    assert _core.Splitter(pattern).count_gaps(document) == 0


def test_gaps_are_maximal_spans_and_invalid_bytes_are_spans_of_their_own():
    splitter = _core.Splitter("a+")
    assert splitter.pattern == "a+"
    document = "xyaaé".encode() + b"\xff\xc3a"
    assert splitter.split(document) == [b"xy", b"aa", "é".encode(), b"\xff", b"\xc3", b"a"]
    assert splitter.count_gaps(document) == 2


def test_other_patterns_are_split_by_a_table_or_by_the_regex_engine():
    assert _core.Splitter(r"\w+|\W+").engine == "table"
    assert _core.Splitter(r"(a)\1|\w").engine == "regex"


@given(st.lists(st.text() | st.binary(), max_size=8))
def test_counts_are_the_number_of_each_span(documents):
    counts = count(documents)
    splitter = _core.Splitter(NANOCHAT)
    spans = [span for data in unpack(*batch(documents)) for span in splitter.split(data)]
    assert same(counts.sorted_run(), run_of(Counter(spans)))
    assert (counts.total(), counts.num_distinct()) == (len(spans), len(set(spans)))
    assert counts.num_gaps() == 0


@given(corpora, st.integers(2, 4))
def test_counts_do_not_depend_on_threads(documents, threads):
    documents = [document * 300 for document in documents]
    one, many = count(documents), count(documents, threads=threads)
    assert same(one.sorted_run(), many.sorted_run())
    assert one.total() == many.total()


@given(st.lists(corpora, max_size=4))
def test_merged_runs_are_the_count_of_all_documents(parts):
    merged = _core.merge_runs([count(documents).sorted_run() for documents in parts])
    assert same(merged, count([document for part in parts for document in part]).sorted_run())


def test_runs_that_do_not_fit_together_are_refused():
    hashes, data, offsets, counts = run_of({b"a": 1, b"b": 2, b"c": 3})
    with pytest.raises(TokenizerError, match="run 1 is not sorted"):
        _core.merge_runs([run_of({b"a": 1}), (hashes[::-1].copy(), data, offsets, counts)])
    with pytest.raises(TokenizerError, match="3 spans but 2 counts"):
        _core.merge_runs([(hashes, data, offsets, counts[:2])])


def test_sums_of_runs_have_weights_and_a_least_count():
    sums = _core.RunSums(min_count=3)
    runs = [run_of({b"a": 2, b"bb": 1}), run_of({b"a": 1, b"c": 2**63})]
    sums.add(runs, ["one", "two"], [10, 1])
    assert sums.totals() == ([2**63 + 4, 2**63 + 5, 3], [1, 2, 1])
    hashes, *rest = sums.take()
    assert hashes.tolist() == []
    assert dict(zip(unpack(*rest[:2]), rest[2].tolist(), strict=True)) == {b"a": 21, b"c": 2**63}
    with pytest.raises(TokenizerError, match="taken already"):
        sums.take()


def test_sums_of_runs_name_what_is_wrong():
    hashes, data, offsets, counts = run_of({b"a": 1, b"b": 2, b"c": 3})
    backwards = (hashes[::-1].copy(), data, offsets, counts)
    for run, weights, message in (
        (backwards, [1], "two: rows are not sorted"),
        ((hashes, data, offsets, counts[:2]), [1], "two: there are 3 spans but 2 counts"),
        ((hashes, data, offsets[::-1].copy(), counts), [1], "two: offset"),
        ((hashes, data, offsets, counts), [], "weights"),
    ):
        with pytest.raises(TokenizerError, match=message):
            _core.RunSums().add([run_of({b"a": 1}), run], ["one", "two"], [1, *weights])
    with pytest.raises(TokenizerError, match="1 runs, 0 names"):
        _core.RunSums().add([backwards], [], [1])
    with pytest.raises(CountOverflowError, match=r'"b" would pass 2\*\*64 - 1'):
        _core.RunSums().add([(hashes, data, offsets, counts)], ["one"], [2**63])


@given(corpora)
def test_spans_may_come_twice_and_then_their_counts_add(documents):
    _, data, offsets, counts = count(documents).sorted_run()
    spans = unpack(data, offsets)
    twice = (*batch(spans + spans), np.concatenate([counts, counts * 2]))
    once = (data, offsets, counts * 3)
    twice, once = (_core.learn([each], num_merges=50) for each in (twice, once))
    assert same(twice[:3], once[:3])
    assert twice[3] == once[3]


def test_batches_that_are_not_the_same_twice_are_an_error():
    _, *arrays = count([TEXT]).sorted_run()
    with pytest.raises(TokenizerError, match="differ when they are read for the second time"):
        _core.learn(iter([tuple(arrays)]), num_merges=20)


def test_an_interrupt_ends_the_learner():
    _, data, offsets, counts = count([TEXT]).sorted_run()

    def interrupt(done, *_):
        if done == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        _core.learn([(data, offsets, counts)], num_merges=20, on_progress=interrupt)


@given(st.lists(st.text() | st.binary(), max_size=6), st.integers(1, 4), st.booleans())
def test_a_batch_is_its_documents_encoded_one_by_one(documents, threads, wide):
    encoder = _core.Encoder(NANOCHAT, learn([TEXT], 60)[0])
    documents = unpack(*batch(documents))
    ids, offsets = encoder.encode_batch(*batch(documents), threads=threads, wide=wide)
    assert ids.dtype == (np.uint32 if wide else np.uint16)
    assert offsets.dtype == np.int64
    found = [ids[a:b].tolist() for a, b in pairwise(offsets)]
    assert found == [encoder.encode(document).tolist() for document in documents]
    tokens = unpack(*encoder.token_bytes())
    assert [b"".join([tokens[number] for number in row]) for row in found] == documents


def test_ids_that_need_32_bits_must_be_asked_for():
    pairs = np.stack(np.divmod(np.arange(65_281, dtype=np.uint32), np.uint32(256)), axis=1)
    encoder = _core.Encoder(NANOCHAT, pairs)
    with pytest.raises(TokenizerError, match="65537 token ids do not fit"):
        encoder.encode_batch(*batch(["ab"]))
    ids, _ = encoder.encode_batch(*batch(["ab"]), wide=True)
    assert ids.tolist() == encoder.encode(b"ab").tolist() == [256 + 97 * 256 + 98]
    narrow = _core.Encoder(NANOCHAT, pairs[:-1])
    assert narrow.encode_batch(*batch([b"\xfe\xff"]))[0].tolist() == [0xFE, 0xFF]


def splits_badly(call):
    """A call of `call(pattern, gaps)` whose third document has a gap at byte 4."""
    return lambda: call("a+", "error")(*batch(["a", "", "aaaabaa", "b"]))


def counting(pattern, gaps):
    return _core.SpanCounts(pattern, gaps=gaps).update


def encoding(pattern, gaps):
    return _core.Encoder(pattern, np.empty((0, 2), np.uint32), gaps=gaps).encode_batch


def merges_of(*pairs):
    return lambda: _core.Encoder("a", np.array(pairs, np.uint32))


def documents_of(offsets):
    return lambda: _core.hash_documents(np.zeros(4, np.uint8), np.array(offsets, np.int64))


ERRORS = [
    (lambda: _core.Splitter("(?<"), PatternError, "cannot compile the split pattern"),
    (lambda: _core.SpanCounts("["), PatternError, "cannot compile the split pattern"),
    (lambda: _core.SpanCounts("a", gaps="drop"), TokenizerError, 'gaps is "drop"'),
    (splits_badly(counting), SplitError, "document 2 cannot be split at byte 4"),
    (splits_badly(encoding), SplitError, "document 2 cannot be split at byte 4"),
    (merges_of((97, 256)), TokenizerError, "merge 0 uses id 256"),
    (merges_of((97, 98), (97, 98)), TokenizerError, "merge 1 merges the same pair as merge 0"),
    (merges_of((97, 98, 99)), TokenizerError, r"\(m, 2\) array, not \[1, 3\]"),
    (documents_of([]), TokenizerError, "offsets are empty"),
    (documents_of([0, 5]), TokenizerError, "offset 1 is 5, outside the 4 bytes"),
    (documents_of([-1, 2]), TokenizerError, "offset 0 is -1"),
    (documents_of([0, 3, 2]), TokenizerError, "offset 2 is smaller than the one before"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors_are_those_of_the_package_and_pickle(call, error, message):
    with pytest.raises(error, match=message) as raised:
        call()
    assert isinstance(raised.value, NanotokError)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert type(copy) is error
    assert str(copy) == str(raised.value)


def test_a_failed_update_counts_nothing():
    counts = _core.SpanCounts("a+", gaps="error")
    counts.update(*batch(["aa"]))
    with pytest.raises(SplitError):
        counts.update(*batch(["a", "b"]))
    assert rows(counts.sorted_run()) == [(xxhash.xxh3_64_intdigest(b"aa"), b"aa", 1)]


def test_an_unknown_id_is_a_key_error():
    decoder = _core.Decoder(np.empty((0, 2), np.uint32), [])
    with pytest.raises(KeyError, match="Invalid token for decoding: 256"):
        decoder.decode(np.array([97, 256], np.uint32))


def test_arrays_of_another_layout_are_refused():
    encoder = _core.Encoder(NANOCHAT, np.empty((0, 2), np.uint32))
    data, offsets = batch(["abcd"])
    with pytest.raises(TokenizerError, match="data must be a contiguous"):
        encoder.encode_batch(np.frombuffer(b"abcdefgh", np.uint8)[::2], offsets)
    with pytest.raises(TypeError):
        encoder.encode_batch(data, offsets.astype(np.int32))
    with pytest.raises(TokenizerError, match="C-contiguous"):
        _core.Encoder(NANOCHAT, np.asfortranarray([[97, 98], [256, 99]], np.uint32))


def test_other_threads_run_while_the_core_works():
    """The main thread adds up while another one splits: with the GIL held it could not."""
    splitter = _core.Splitter(r"(a)\1|b")  # the slow engine
    done = threading.Event()

    def split():
        splitter.count_gaps(b"c" * 3_000_000)
        done.set()

    worker = threading.Thread(target=split)
    worker.start()
    steps = 0
    while not done.is_set():
        steps += 1
    worker.join()
    assert steps > 100
