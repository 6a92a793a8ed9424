"""Filters, against plain Python."""

import re
import unicodedata
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import filters

TEXTS = st.lists(st.text(alphabet="ab1 .\n\re\u0301é数\U0001f642\u0345", max_size=8), max_size=8)


def expected(texts, keep, reason):
    kept = [text for text in texts if keep(text)]
    lost = len(texts) - len(kept)
    return kept, {reason: lost} if lost else {}


@given(texts=TEXTS, low=st.integers(0, 5), high=st.integers(0, 8))
def test_length_counts_code_points(texts, low, high):
    kept = [text for text in texts if low <= len(text) <= high]
    reasons = Counter(
        f"shorter than {low} characters" if len(text) < low else f"longer than {high} characters"
        for text in texts
        if not low <= len(text) <= high
    )
    assert filters.apply(filters.length(min_chars=low, max_chars=high), texts) == (kept, reasons)


@given(texts=TEXTS, share=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_letters_are_those_of_unicode(texts, share):
    def keep(text):
        letters = sum(unicodedata.category(char)[0] == "L" for char in text)
        return bool(text) and letters >= share * len(text)

    result = filters.apply(filters.letters(min_share=share), texts)
    assert result == expected(texts, keep, "too few letters")


@given(texts=TEXTS, share=st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_repeated_lines_are_those_after_an_equal_one(texts, share):
    def keep(text):
        lines = [line for line in text.splitlines() if line.strip()]
        return sum(line in lines[:at] for at, line in enumerate(lines)) <= share * len(lines)

    result = filters.apply(filters.duplicate_lines(max_share=share), texts)
    assert result == expected(texts, keep, "duplicate lines")


@pytest.mark.parametrize(
    ("function", "kept"),
    [(filters.duplicate_lines(max_share=0.5), ["e\u0301"]), (filters.normalize("NFC"), ["\xe9"])],
)
def test_a_column_can_be_called_text(function, kept):
    columns = {"source_row": [0], "body": ["e\u0301"], "text": ["another"]}
    assert function(pa.RecordBatch.from_pydict(columns))["body"].to_pylist() == kept


def test_the_table_of_the_page_names_every_filter():
    page = (Path(__file__).parents[2] / "docs/datasets.md").read_text("utf-8")
    makers = [
        name
        for name, value in vars(filters).items()
        if getattr(value, "__annotations__", {}).get("return") == filters.BatchFunction
        and name not in {"chain", "per_document"}
    ]
    assert len(makers) == 5
    assert [name for name in makers if f"| `{name}(" not in page] == []


@given(texts=TEXTS, keep=st.booleans())
def test_patterns_match_a_part_of_a_text(texts, keep):
    result = filters.apply(filters.matching("a1|é", keep=keep), texts)
    reason = "does not match the pattern" if keep else "matches the pattern"
    assert result == expected(texts, lambda t: bool(re.search("a1|é", t)) == keep, reason)


@given(texts=TEXTS, form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_texts_are_normalized(texts, form):
    normalized = [unicodedata.normalize(form, text) for text in texts]
    assert filters.apply(filters.normalize(form), texts) == (normalized, {})


def test_an_unknown_form_is_refused_when_the_filter_is_made():
    with pytest.raises(ValueError, match="normalization"):
        filters.normalize("NFX")


@filters.per_document
def halves(text):
    return [text[: len(text) // 2], text[len(text) // 2 :]] if len(text) > 1 else None


@given(texts=TEXTS, high=st.integers(0, 4))
def test_a_chain_is_its_functions_one_after_the_other(texts, high):
    short = filters.length(max_chars=high)
    parts, removed = filters.apply(halves, texts)
    kept, longer = filters.apply(short, parts)
    documents, dropped = filters.apply(filters.chain(halves, short), texts)
    assert documents == kept
    # A row of which one part is kept is not removed, so only reasons given for parts are equal.
    assert dropped.get(f"longer than {high} characters", 0) == sum(longer.values())
    assert dropped.get("removed", 0) == sum(removed.values())


def test_a_chain_gives_the_rows_of_its_argument():
    batch = filters.batch_of(pa.array(["abcd", "x", "efgh"]), name="text")
    result = filters.chain(halves, halves)(batch)
    given_rows = result.filter(result.column("text").is_valid())
    assert given_rows.column(filters.ROW).to_pylist() == [0, 0, 0, 0, 2, 2, 2, 2]
    assert given_rows.column("text").to_pylist() == [*"abcdefgh"]
