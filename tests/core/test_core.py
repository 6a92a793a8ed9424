"""The Python functions of the compiled core: counts compared with xxhash, and refused arguments."""

import pickle
import signal
import threading
from collections import Counter

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
from tests.support.count_runs import run_of

NANOCHAT = SPLIT_PATTERN
TEXT = "Hello hello 12345 world's\n\n   the theme, there; it's naïve 世界 世界!\r\n"


def batch(documents):
    documents = [d.encode() if isinstance(d, str) else d for d in documents]
    ends = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return np.frombuffer(b"".join(documents), np.uint8), ends


def count(documents):
    counts = _core.SpanCounts(NANOCHAT)
    counts.update(*batch(documents), threads=1)
    return counts


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_document_hashes_equal_xxhash(documents):
    expected = [xxhash.xxh3_64_intdigest(document) for document in documents]
    assert _core.hash_documents(*batch(documents)).tolist() == expected
    assert [_core.hash64(document) for document in documents] == expected


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@given(document=st.binary() | st.text().map(str.encode))
def test_joined_spans_equal_the_document(pattern, document):
    spans = _core.Splitter(pattern).split(document)
    assert b"".join(spans) == document
    assert all(spans)
    assert _core.Splitter(pattern).count_gaps(document) == 0


@given(st.lists(st.text() | st.binary(), max_size=8))
def test_counts_are_the_number_of_each_span(documents):
    counts = count(documents)
    splitter = _core.Splitter(NANOCHAT)
    raw = [each.encode() if isinstance(each, str) else each for each in documents]
    spans = [span for document in raw for span in splitter.split(document)]
    for found, expected in zip(counts.sorted_run(), run_of(Counter(spans)), strict=True):
        assert np.array_equal(found, expected)
    assert (counts.total(), counts.num_distinct()) == (len(spans), len(set(spans)))
    assert counts.num_gaps() == 0


def test_errors_in_sums_of_runs_name_the_cause():
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


def test_an_interrupt_stops_the_learner():
    _, data, offsets, counts = count([TEXT]).sorted_run()

    def interrupt(done, *_):
        if done == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        _core.learn([(data, offsets, counts)], num_merges=20, on_progress=interrupt)


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
def test_errors_belong_to_the_package_and_pickle(call, error, message):
    with pytest.raises(error, match=message) as raised:
        call()
    assert isinstance(raised.value, NanotokError)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert type(copy) is error
    assert str(copy) == str(raised.value)


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
    """The main thread computes while another one splits, which is impossible with the GIL held."""
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
