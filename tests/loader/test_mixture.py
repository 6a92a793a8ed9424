"""Mixtures: shares of tokens at any length, epochs of each stream, and refused settings."""

from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import PackingError
from nanotok_ray.loader import Loader, Mixture, RowSettings, open_shards
from tests.support.made_output import made_output
from tests.support.plain_loader import made_shards, made_sources


def shards_of(sources):
    """Return shards without files: (documents, tokens) of each source, one shard each."""
    names = [f"s{number}" for number in range(len(sources))]
    rows = np.zeros(len(sources), dtype=[("source", "<u4"), ("tokens", "<u8")])
    rows["source"] = range(len(sources))
    rows["tokens"] = [tokens for _, tokens in sources]
    ends = np.cumsum([0, *(documents for documents, _ in sources)]).tolist()
    return SimpleNamespace(
        index=SimpleNamespace(rows=rows),
        rows=np.arange(len(sources)),
        sources=names,
        num_tokens=sum(tokens for _, tokens in sources),
        ranges=lambda: {name: range(ends[n], ends[n + 1]) for n, name in enumerate(names)},
        __len__=lambda: ends[-1],
    )


def mixture_of(sources, weights, **more):
    names = [f"s{number}" for number in range(len(sources))]
    settings = RowSettings(
        packing="best-fit", length=8, weights=dict(zip(names, weights, strict=True)), **more
    )
    return Mixture.of(shards_of(sources), settings)


def streams_of(mixture, documents):
    """Return the index of the stream of each document."""
    return np.searchsorted(
        [stream.documents.stop for stream in mixture.streams], documents, "right"
    )


SOURCES = st.lists(
    st.tuples(
        st.tuples(st.integers(1, 2000), st.integers(1, 10**7)),
        st.one_of(st.integers(1, 100), st.floats(1e-9, 1e9), st.floats(0.01, 1)),
    ),
    min_size=1,
    max_size=6,
)


@given(SOURCES, st.integers(1, 50))
def test_shares_hold_at_any_length(sources, group_documents):
    sizes, weights = zip(*sources, strict=True)
    mixture = mixture_of(sizes, weights, group_documents=group_documents)
    shares = [
        Fraction(repr(float(weight))) * documents / tokens
        for (documents, tokens), weight in zip(sizes, weights, strict=True)
    ]
    shares = [share / sum(shares) for share in shares]
    taken, counts, length = (0,) * len(sizes), Counter(), 0
    for _ in range(-(-150 // group_documents)):
        documents, taken = mixture.next_group(taken)
        assert len(documents) == group_documents
        assert mixture.is_start_of_group(taken)
        for stream in streams_of(mixture, documents).tolist():
            counts[stream] += 1
            length += 1
            for number, share in enumerate(shares):
                bound = Fraction(1, 2) + share * len(shares) / 2
                assert abs(counts[number] - length * share) <= bound + Fraction(length, 2**31)
    assert taken == tuple(counts[number] for number in range(len(sizes)))


def test_a_rare_source_does_not_affect_the_others():
    mixture = mixture_of([(10, 100), (10, 10**18)], [1, 1e-300], group_documents=4096)
    assert mixture.next_group((0, 0))[1] == (4096, 0)
    assert mixture.next_group((4096 * 10**9, 0))[1] == (4096 * 10**9 + 4096, 0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"web": 1}, "weights name 'web', .*; the sources are a, c$"),
        ({"a": 1, "b": 1}, "weights name 'b', .*; the sources are a, c$"),
        ({}, "weights name no source"),
        ({"a": 0}, "weight of source 'a' is 0; it is a number above 0"),
        ({"a": -1}, "weight of source 'a' is -1;"),
        ({"a": float("nan")}, "weight of source 'a' is nan;"),
        ({"a": float("inf")}, "weight of source 'a' is inf;"),
        ({"a": True}, "weight of source 'a' is True;"),
        ({"a": "much"}, "weight of source 'a' is 'much';"),
    ],
)
def test_invalid_weights_are_refused(tmp_path, weights, message):
    shards = made_shards(tmp_path, [[[5]], [[0, 0]], [[5]]])
    with pytest.raises(PackingError, match=message):
        Loader(shards, batch_size=1, length=8, weights=weights)


def test_an_empty_selection_is_refused(tmp_path):
    made_output(tmp_path, *made_sources([[[0, 0]]]))
    for split in ("train", "val"):
        with pytest.raises(PackingError, match=r"nothing to pack: \d documents without a token"):
            Loader(open_shards(str(tmp_path), split), batch_size=1, length=8)
