"""The summary of a run: few lines, including the most important ones."""

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.job import Summary

COUNT = st.integers(0, 10**12)
SOURCE = st.fixed_dictionaries(
    {
        "documents": COUNT,
        "tokens": st.integers(1, 10**12),
        "bytes_per_token": st.none() | st.floats(0, 9),
        "quarantined": COUNT,
        "trainable_tokens": st.none() | st.just(1),
    }
)
EXPORT = st.fixed_dictionaries(
    {
        "layout": st.just("olmo"),
        "folder": st.just("/out/export/olmo"),
        "files": COUNT,
        "documents": COUNT,
        "left_out": st.dictionaries(st.just("too long"), COUNT),
        "masks": st.booleans(),
    }
)
CORPUS = {
    "documents": st.fixed_dictionaries({"in": COUNT, "out": COUNT, "quarantined": COUNT}),
    "tokens": COUNT,
    "bytes_per_token": st.none() | st.floats(0, 9),
    "sources": st.dictionaries(st.text("abc", min_size=1, max_size=3), SOURCE, max_size=9),
    "quarantined": st.dictionaries(st.text("xyz", max_size=2), COUNT, max_size=9),
    "special_text": COUNT,
    "roles": st.just({}) | st.just({"image": 3}),
    "images": st.just(0),
    "trainable_tokens": COUNT,
    "over_max_tokens": COUNT,
    "truncated": st.just(0),
    "without_trainable_token": COUNT,
    "rules": st.fixed_dictionaries(
        {
            "max_tokens": st.just(9),
            "too_long": st.sampled_from(["keep", "cut", "drop"]),
            "untrainable": st.sampled_from(["keep", "drop"]),
        }
    ),
    "verified": st.just({"slices": 1, "shards": 2, "documents": 3}),
    "proof": st.fixed_dictionaries(
        {
            "documents": st.just(5),
            "encoded_again": st.just(4) | st.just(5),
            "not_encoded_again": st.dictionaries(st.text("abc", max_size=2), COUNT, max_size=2),
        }
    ),
}
LEARNED = st.fixed_dictionaries(
    {
        "merges": COUNT,
        "end": st.just("no pair left"),
        "not_reached": st.lists(st.integers(1000, 2000), max_size=3),
        "of_other_inputs": st.booleans(),
        "also": st.lists(COUNT, max_size=3),
        "differs_from_rustbpe": st.lists(st.just("weight"), max_size=2),
        "skipped_slices": st.lists(st.just("a"), max_size=2),
    }
)
RUN = {
    "status": st.sampled_from(["done", "unchanged"]),
    "output": st.just("/out"),
    "vocab_size": st.integers(265, 999),
    "tokenizer_sha256": st.just("0" * 64),
    "stages": st.dictionaries(
        st.sampled_from(["count", "learn"]),
        st.just({"seconds": 1.0, "megabytes_per_second": 3.0}),
    ),
}


@given(
    st.fixed_dictionaries(RUN | CORPUS, optional={"learned": LEARNED, "exports": st.lists(EXPORT)})
)
def test_at_most_15_lines_report_the_results_and_the_next_step(values):
    lines = Summary(values).text().splitlines()
    assert len(lines) <= 15
    assert lines[-2:] == [
        "next        nanotok verify /out",
        "            nanotok inspect /out --doc 0",
    ]
    starts = [line.partition(" ")[0] for line in lines]
    assert "report      /out/run/report.html" in lines
    assert ("quarantine" in starts) == bool(values["quarantined"])
    missed = values.get("learned", {}).get("not_reached")
    assert any(line.startswith("not reached ") for line in lines) == bool(missed)
    named = sum(line.startswith("  ") and " documents " in line for line in lines)
    assert named >= min(len(values["sources"]), 1)
    assert named == len(values["sources"]) or any("more, in the report" in line for line in lines)


@given(st.fixed_dictionaries(RUN, optional={"learned": LEARNED}))
def test_after_training_alone_the_next_step_is_to_tokenize(values):
    lines = Summary(values).text().splitlines()
    assert len(lines) <= 15
    assert lines[-1] == "            nanotok tokenize RECIPE"


def test_quarantine_is_named_with_its_folder():
    values = {"status": "done", "output": "/out", "vocab_size": 300, "tokenizer_sha256": "0" * 64}
    text = Summary({**values, "stages": {}, "quarantined": {"a": 1}}).text()
    assert "quarantine  1 document (1: a), listed in /out/quarantine\n" in text
