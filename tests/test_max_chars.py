"""Counting stops at the same document as nanochat's tok_train, for any slicing."""

import json

import pytest
import rustbpe

from nanotok_ray.cluster.job import train_tokenizer
from nanotok_ray.patterns import SPLIT_PATTERN
from nanotok_ray.tokenizer import Tokenizer
from tests.small_corpus import recipe, texts, write_corpus

TRAIN = [*texts(40, seed=0), *texts(40, seed=1)]
"""The documents of the files that are train, in order."""


def upstream_documents(*, max_chars, doc_cap):
    """Give the documents that nanochat's iterator yields: capped, up to the one that passes."""
    taken, total = [], 0
    for text in TRAIN:
        taken.append(text[:doc_cap])
        total += len(taken[-1])
        if total > max_chars:
            break
    return taken


@pytest.mark.parametrize("slice_bytes", [2500, 6000, 1_000_000])
@pytest.mark.parametrize("doc_cap", [None, 50])
@pytest.mark.parametrize("max_chars", [1, 700, 2000, 9000, 10**9])
def test_the_cut_is_nanochats(tmp_path, in_process, max_chars, doc_cap, slice_bytes):
    write_corpus(tmp_path / "in")
    overrides = [f"limits.max_chars={max_chars}", f"limits.slice_bytes={slice_bytes}"]
    if doc_cap is not None:
        overrides.append(f"limits.doc_cap={doc_cap}")
    train_tokenizer(recipe(tmp_path / "in", tmp_path / "out", *overrides))
    expected = upstream_documents(max_chars=max_chars, doc_cap=doc_cap)
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())
    assert report["texts"] == len(expected)
    assert report["code_points"] == sum(map(len, expected))
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(expected), 341, pattern=SPLIT_PATTERN)
    ours = Tokenizer.load(tmp_path / "out/tokenizer").model.tokens
    assert list(ours) == [bytes(token) for token, _ in peer.get_mergeable_ranks()]


def test_slices_after_the_cut_are_not_counted(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    train_tokenizer(recipe(tmp_path / "in", tmp_path / "all"))
    train_tokenizer(recipe(tmp_path / "in", tmp_path / "cut", "limits.max_chars=2000"))
    everything = list((tmp_path / "all-work").rglob("*.arrow"))
    assert 1 < len(list((tmp_path / "cut-work").rglob("*.arrow"))) < len(everything) / 2
