"""Jobs with weights and min_count: learning and reports, without counting again."""

import json
from collections import Counter

import pytest
import rustbpe

from nanotok_ray import _core
from nanotok_ray.api import train
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.errors import SourceError
from nanotok_ray.job import Note, StageStarted
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.support import reference
from tests.support.small_corpus import texts, write_parquet

VOCAB_SIZE = 350
NUM_MERGES = VOCAB_SIZE - 256 - 9

RECIPE = """
source = [
    {{name = "a", kind = "text", paths = ["{root}/a"], split = "train"}},
    {{name = "b", kind = "text", paths = ["{root}/b"], split = "train"}},
]
tokenizer.vocab_size = 350
output = {{path = "{root}/out", work = "{root}/work"}}
limits.slice_bytes = 2500
"""

A = texts(60, seed=1)
B = [text.upper() for text in texts(25, seed=2)]


@pytest.fixture
def corpus(tmp_path, in_process):
    write_parquet(tmp_path / "a/0.parquet", A)
    write_parquet(tmp_path / "b/0.parquet", B)
    return tmp_path


def learn(corpus, *overrides):
    """Run the job; return the merges, the report, the stages with their work, and the notes."""
    events = []
    train(parse_recipe(RECIPE.format(root=corpus), overrides=overrides), on_event=events.append)
    report = json.loads((corpus / "out/tokenizer/report.json").read_text())
    todo = {event.stage: event.todo for event in events if isinstance(event, StageStarted)}
    notes = [event.text for event in events if isinstance(event, Note)]
    return Tokenizer.load(corpus / "out/tokenizer").merges, report, todo, notes


def merges_of(documents):
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(documents), 256 + NUM_MERGES, pattern=SPLIT_PATTERN)
    return [bytes(token) for token, _ in peer.get_mergeable_ranks()][256:]


@pytest.mark.parametrize(
    ("weights", "copies", "unit"),
    [
        (("1", "3"), (1, 3), 1),
        (("2", "1"), (2, 1), 1),
        (("1", "2.5"), (2, 5), 2),
        (("0.3", "1.1"), (3, 11), 10),
        (("4", "4"), (1, 1), 1),
    ],
)
def test_a_weight_multiplies_the_documents(corpus, weights, copies, unit):
    _, report, _, notes = learn(
        corpus, f"source.a.weight={weights[0]}", f"source.b.weight={weights[1]}"
    )
    tokens = Tokenizer.load(corpus / "out/tokenizer").model.tokens
    assert list(tokens[256:]) == merges_of(A * copies[0] + B * copies[1])
    assert report["weight_unit"] == unit
    sources = report["sources"]
    assert [sources[name]["multiplier"] for name in "ab"] == list(copies)
    assert [sources[name]["weight"] for name in "ab"] == list(weights)
    assert [sources[name]["texts"] for name in "ab"] == [len(A), len(B)]
    assert [sources[name]["text_bytes"] for name in "ab"] == [
        sum(len(text.encode()) for text in own) for own in (A, B)
    ]
    spans = {name: sources[name]["spans"] for name in "ab"}
    assert report["spans"] == sum(spans.values()) == len(spans_of(A + B))
    has_weights = copies[0] != copies[1]
    assert report["differs_from_rustbpe"] == (["weight"] if has_weights else [])
    assert any("differ from those that rustbpe learns" in note for note in notes) == has_weights


def spans_of(documents):
    splitter = _core.Splitter(SPLIT_PATTERN)
    return [span for document in documents for span in splitter.split(document.encode())]


def test_a_share_of_a_source_without_text_is_refused(corpus):
    write_parquet(corpus / "b/0.parquet", [""])
    with pytest.raises(SourceError, match=r"source 'b' has weight = 'share:0\.5' and no text"):
        learn(corpus, "source.a.weight=share:0.5", "source.b.weight=share:0.5")


@pytest.mark.parametrize("least", [2, 5])
def test_min_pair_count_is_in_counts_of_weight_1(corpus, least):
    merges, report, _, _ = learn(
        corpus,
        "source.b.weight=0.5",
        f"tokenizer.min_pair_count={least}",
        "tokenizer.vocab_size=5000",
    )
    counts = Counter(span for text in A * 2 + B for span in spans_of([text]))
    assert report["weight_unit"] == 2
    assert min(report["merges"]["count"]) >= 2 * least
    plain = reference.learn_merges(counts, num_merges=len(merges) + 1)
    assert plain[: len(merges)] == list(merges)
    assert report["stop_reason"] == "below min_pair_count"


@pytest.mark.parametrize("least", [2, 3, 8])
def test_min_count_excludes_exactly_the_spans_rare_in_all_slices_together(corpus, least):
    merges, report, todo, notes = learn(corpus, f"tokenizer.min_count={least}", "source.b.weight=3")
    assert todo["reduce"] > 2
    plain = Counter(spans_of(A + B))
    rare = {span: number for span, number in plain.items() if number < least}
    weighted = Counter(spans_of(A + B * 3))
    for span in rare:
        del weighted[span]
    assert reference.learn_merges(weighted, num_merges=NUM_MERGES) == list(merges)
    assert report["dropped"] == {
        "distinct_spans": len(rare),
        "spans": sum(rare.values()),
        "bytes": sum(len(span) * number for span, number in rare.items()),
    }
    assert report["min_count"] == least
    assert report["spans"] == sum(plain.values())
    assert report["distinct_spans"] == len(plain)
    assert report["differs_from_rustbpe"] == ["weight", "min_count"]
    assert any(f"min_count = {least} left out" in note for note in notes)
