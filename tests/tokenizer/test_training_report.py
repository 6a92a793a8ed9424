"""The training report: its curve equals encoding, its columns equal learning."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import SpanCounts, learn
from nanotok_ray.errors import TokenizerError
from nanotok_ray.formats import to_json
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import (
    BELOW_MIN_PAIR_COUNT,
    NO_PAIR_LEFT,
    REACHED,
    Counted,
    Learned,
    TrainSettings,
    cut_report,
    make_model,
    short_report,
    training_report,
    why_stopped,
)
from nanotok_ray.tokenizer.evaluation import token_bytes_of
from tests.support.small_corpus import texts

ONE_SPAN = Counted(
    documents=1, texts=1, text_bytes=1, spans=1, distinct_spans=1, span_bytes=9, gaps=0
)
SMALLEST = 256 + len(SPECIAL_TOKENS)


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
    st.integers(SMALLEST, SMALLEST + 40),
)
def test_the_curve_holds_for_texts_of_few_letters(documents, vocab_size):
    tokenizer, report = learned(documents, vocab_size=vocab_size, pattern=r"[^\n]+|\n")
    num_bytes = sum(len(text.encode()) for text in documents)
    for row in report["curve"]:
        smaller = tokenizer.truncated(row["vocab_size"])
        assert len(smaller.merges) == row["merges"]
        ids, _ = smaller.encode_batch(documents)
        assert row["tokens"] == len(ids)
        expected = round(num_bytes / len(ids), 4) if len(ids) else None
        assert row["bytes_per_token"] == expected


def test_rows_are_at_a_thousand_its_doubles_and_the_last():
    merges = [(left, right) for left in range(30) for right in range(100)]
    model = make_model(merges, pattern="nanochat", special_tokens=["<|bos|>"])
    counted = replace(ONE_SPAN, span_bytes=2**70)
    numbers = {"counts": [2**63] * 3000, "applied": [2**50] * 3000}
    report = report_of(model, vocab_size=3257, counted=counted, **numbers)
    rows = {row["merges"]: row for row in report["curve"]}
    assert list(rows) == [0, 1000, 2000, 3000]
    assert rows[2000]["tokens"] == 2**70 - 2000 * 2**50
    assert rows[3000]["vocab_size"] == 3257
    assert json.loads(to_json(report))["merges"]["count"][0] == 2**63


def test_columns_describe_each_merge_and_do_not_depend_on_the_order_of_texts():
    documents = texts(30, seed=5)
    tokenizer, report = learned(documents, vocab_size=330)
    merges = report["merges"]
    assert list(zip(merges["left"], merges["right"], strict=True)) == tokenizer.merges
    assert [*map(token_bytes_of, merges["token"])] == [*tokenizer.model.tokens[256:]]
    assert merges["count"] == sorted(merges["count"], reverse=True)
    assert all(
        0 < done <= count for count, done in zip(merges["count"], merges["applied"], strict=True)
    )
    again = learned(documents[::-1], vocab_size=330)[1]
    assert to_json(again) == to_json(report)
    short = short_report(report)
    assert len(to_json(short)) < 2000
    assert why_stopped(short) == REACHED
    assert short["spans"] == report["spans"] > 0


def test_the_report_of_a_smaller_tokenizer_is_cut_from_the_larger():
    documents = texts(40, seed=6)
    tokenizer, report = learned(documents, vocab_size=380)
    for size in (SMALLEST, SMALLEST + 1, 333, 380):
        alone, expected = learned(documents, vocab_size=size)
        smaller = tokenizer.truncated(size)
        assert smaller == alone
        read_back = json.loads(to_json(report))
        assert to_json(cut_report(read_back, smaller.model)) == to_json(expected)


@pytest.mark.parametrize(
    ("limits", "reason", "reported"),
    [
        ({}, NO_PAIR_LEFT, "no pair left"),
        ({"min_pair_count": 3}, BELOW_MIN_PAIR_COUNT, "below min_pair_count = 3"),
        ({"max_token_bytes": 2}, NO_PAIR_LEFT, "no pair left of at most max_token_bytes = 2"),
    ],
)
def test_the_reason_for_the_end_of_learning_is_reported_with_its_value(limits, reason, reported):
    _, report = learned(["abab ab abc"], vocab_size=1000, **limits)
    assert report["stop_reason"] == reason
    assert why_stopped(report) == reported
    assert report["vocab_size_asked"] == 1000 > report["vocab_size_reached"]


def test_two_ids_of_the_same_bytes_are_listed():
    model = make_model(
        [(97, 98), (98, 99), (256, 99), (97, 257)], pattern="nanochat", special_tokens=[]
    )
    report = report_of(model, vocab_size=260, counts=[1] * 4, applied=[1] * 4)
    assert report["duplicate_tokens"] == [[258, 259]]
    with pytest.raises(TokenizerError, match="applied has 3 numbers for 4 merges"):
        report_of(model, vocab_size=260, counts=[1] * 4, applied=[1] * 3)


@pytest.mark.parametrize(
    ("changes", "limits", "named"),
    [
        ({}, {}, []),
        ({"gaps": None}, {}, []),
        ({"gaps": 2}, {}, ["gaps"]),
        ({"min_count": 2}, {"max_token_bytes": 9}, ["min_count", "max_token_bytes"]),
        ({"sources": {"a": {"multiplier": 2}, "b": {"multiplier": 5}}}, {}, ["weight"]),
        ({"sources": {"a": {"multiplier": 1}, "b": {"multiplier": 1}}}, {}, []),
    ],
)
def test_settings_with_other_merges_than_rustbpe_are_named(changes, limits, named):
    model = make_model([], pattern="nanochat", special_tokens=())
    counted = replace(ONE_SPAN, **changes)
    report = report_of(model, vocab_size=256, counts=[], applied=[], counted=counted, **limits)
    assert report["differs_from_rustbpe"] == named
