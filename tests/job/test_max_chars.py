"""Counting ends at the same document as nanochat's tok_train, for any slices."""

import json

import pytest
import rustbpe

from nanotok_ray.api import train
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.sources import make_plan
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import recipe, texts, write_corpus

TRAIN = [*texts(40, seed=0), *texts(40, seed=1)]
"""The documents of the train files in order."""


def upstream_documents(*, max_chars, doc_cap):
    """Return the documents of nanochat's iterator: capped, up to the one that exceeds the limit."""
    taken, total = [], 0
    for text in TRAIN:
        taken.append(text[:doc_cap])
        total += len(taken[-1])
        if total > max_chars:
            break
    return taken


def limits(max_chars, doc_cap):
    caps = [] if doc_cap is None else [f"limits.doc_cap={doc_cap}"]
    return [f"limits.max_chars={max_chars}", *caps]


@pytest.mark.parametrize("slice_bytes", [2500, 6000, 1_000_000])
@pytest.mark.parametrize("doc_cap", [None, 50])
@pytest.mark.parametrize("max_chars", [1, 700, 2000, 9000, 10**9])
def test_the_cut_equals_that_of_nanochat(tmp_path, in_process, max_chars, doc_cap, slice_bytes):
    write_corpus(tmp_path / "in")
    expected = upstream_documents(max_chars=max_chars, doc_cap=doc_cap)
    overrides = [f"limits.slice_bytes={slice_bytes}", *limits(max_chars, doc_cap)]
    assert counted(tmp_path, *overrides) == numbers_of(expected)
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(expected), 341, pattern=SPLIT_PATTERN)
    ours = Tokenizer.load(tmp_path / "out/tokenizer").model.tokens
    assert list(ours) == [bytes(token) for token, _ in peer.get_mergeable_ranks()]


def rows_of_slices(tmp_path):
    """Return the number of documents of each slice of 1,000 bytes."""
    plan = make_plan(recipe(tmp_path / "in", tmp_path / "x", "limits.slice_bytes=1000"))
    return [
        sum(file.layout[group].rows for group in range(piece.start, piece.stop))
        for each in plan.slices(split="train")
        if each.source == "web"
        for file, piece in zip(each.files, each.pieces, strict=True)
    ]


def test_a_limit_that_a_slice_reaches_exactly_is_not_exceeded(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    reached = sum(rows_of_slices(tmp_path)[:3])
    limit = sum(map(len, TRAIN[:reached]))
    expected = upstream_documents(max_chars=limit, doc_cap=None)
    assert len(expected) > reached
    overrides = ["limits.slice_bytes=1000", f"limits.max_chars={limit}"]
    assert counted(tmp_path, *overrides) == numbers_of(expected)


def counted(tmp_path, *overrides):
    """Learn; return the numbers of documents and code points of the report."""
    train(recipe(tmp_path / "in", tmp_path / "out", *overrides))
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())
    return report["texts"], report["code_points"]


def numbers_of(documents):
    return len(documents), sum(map(len, documents))


@pytest.mark.parametrize("doc_cap", [None, 50, 5])
def test_little_more_is_counted_than_needed(tmp_path, in_process, doc_cap):
    write_corpus(tmp_path / "in")
    limit = 3000 if doc_cap is None else 10 * doc_cap
    needed = len(upstream_documents(max_chars=limit, doc_cap=doc_cap))
    rows = rows_of_slices(tmp_path)
    reach = next(n for n in range(1, len(rows) + 1) if sum(rows[:n]) >= needed)
    counted(tmp_path, "limits.slice_bytes=1000", *limits(limit, doc_cap))
    names = {path.name.rsplit("-", 1)[0] for path in (tmp_path / "out-work").rglob("*.arrow")}
    assert reach <= len(names) <= reach + 1 < len(rows)
