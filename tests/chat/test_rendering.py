"""Compares batches rendered by core and fallback with the reference implementation."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.chat import (
    BatchRenderer,
    compose,
    core_dialect,
    message_texts,
    segments_of,
    texts_of,
)
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.dialects import MALFORMED, reason_of, unused_text, value_of
from nanotok_ray.documents import Documents, to_utf8
from nanotok_ray.errors import SplitError
from tests.support.dialect_documents import (
    EVERY,
    MESSAGES,
    NAMES,
    ORDINARY,
    assistant,
    broken_messages,
    broken_objects,
    damaged,
    lines,
    user,
    with_images,
)

MERGES = np.array([(104, 105), (32, 116), (97, 98), (258, 258)], np.uint32)
ENCODER = _core.Encoder(SPLIT_PATTERN, MERGES)
NARROW = {name: 300 + number for number, name in enumerate(NAMES)}
WIDE = {name: 70_000 + number for number, name in enumerate(NAMES)}
FEWER = settings(max_examples=settings().max_examples // 2)
"""An example has up to five documents, which are rendered twice and by the reference; proptests
and fuzzing of the core go further.
"""
SAID = {"content", "value", "answer", "response", "text"}


def good(dialect):
    return ORDINARY[dialect] if dialect in ORDINARY else with_images(dialect)


def with_surrogates(value):
    """A value in which every text ends with a lone surrogate."""
    if isinstance(value, list):
        return [with_surrogates(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: each + "\ud83d" if key in SAID and isinstance(each, str) else with_surrogates(each)
        for key, each in value.items()
    }


def documents_of(dialect):
    """Lists of valid documents, some of which the core declines, and of bad and damaged ones."""
    fine = lines(good(dialect))
    odd = st.sampled_from([b'{"x":NaN,', b'{"x":1,"x":2,'])
    declined = st.builds(lambda line, start: line.replace(b"{", start, 1), fine, odd) | lines(
        good(dialect).map(with_surrogates)
    )
    bad = st.binary(max_size=9) | lines(broken_messages | broken_objects) | damaged(fine)
    return st.lists(fine | declined | bad, max_size=5)


def plain(document, dialect, *, encoder=ENCODER, special_tokens=NARROW):
    """Return (ids, labels, images, sizes, unused, problem) of one document from the reference."""
    try:
        segments = segments_of(document, dialect)
        composed = compose(
            lambda text: encoder.encode(to_utf8(text)).tolist(),
            special_tokens.__getitem__,
            segments,
        )
    except SplitError as error:
        return [], [], [], [0, 0], {}, error.reason
    except MALFORMED as error:
        return [], [], [], [0, 0], {}, reason_of(error)
    texts = [to_utf8(each.text).decode() for each in segments if not each.is_special]
    sizes = [len("".join(texts).encode()), spelled(texts, special_tokens)]
    unused = unused_text(value_of(document), dialect)
    return composed.ids, composed.labels, composed.images, sizes, unused, None


def spelled(texts, names):
    batch = Documents.from_strings(texts)
    return _core.count_occurrences(batch.data, batch.offsets, list(names))


def each_of(batch):
    """Return the results of a batch for each of its documents."""
    assert (batch.offsets[0], batch.offsets[-1]) == (0, len(batch.ids)) == (0, len(batch.labels))
    assert (batch.images.shape[1], batch.sizes.shape) == (3, (len(batch), 2))
    assert list(batch.problems) == sorted(batch.problems)
    assert batch.mask.tolist() == [label & 1 for label in batch.labels.tolist()]
    assert batch.unused[:, 0].tolist() == sorted(batch.unused[:, 0].tolist())
    assert batch.images[:, 0].tolist() == sorted(batch.images[:, 0].tolist())
    return [
        (
            batch.ids[start:end].tolist(),
            batch.labels[start:end].tolist(),
            [tuple(span) for own, *span in batch.images.tolist() if own == number],
            batch.sizes[number].tolist(),
            {batch.unused_keys[key]: n for own, key, n in batch.unused.tolist() if own == number},
            batch.problems.get(number),
        )
        for number, (start, end) in enumerate(pairwise(batch.offsets.tolist()))
    ]


def check(documents, dialect, *, encoder=ENCODER, special_tokens=NARROW):
    """Compare batches, for any number of threads, with the reference of each document."""
    wide = max(special_tokens.values()) > np.iinfo(np.uint16).max
    renderer = BatchRenderer(encoder, special_tokens, dialect, wide=wide)
    expected = [
        plain(document, dialect, encoder=encoder, special_tokens=special_tokens)
        for document in documents
    ]
    for threads in (1, 3):
        batch = renderer.render(Documents.from_bytes(documents), num_threads=threads)
        assert batch.ids.dtype == (np.uint32 if wide else np.uint16)
        assert batch.labels.dtype == np.uint8
        assert each_of(batch) == expected
    return expected


@given(
    special_tokens=st.sampled_from([NARROW, WIDE]),
    dialect=st.sampled_from(EVERY),
    data=st.data(),
)
def test_a_batch_equals_the_plain_rendering_of_each_document(special_tokens, dialect, data):
    check(data.draw(documents_of(dialect)), dialect, special_tokens=special_tokens)


@pytest.mark.parametrize("dialect", EVERY, ids=range(len(EVERY)))
@FEWER
@given(data=st.data())
def test_the_core_renders_ordinary_documents_and_counts_their_unused_text(dialect, data):
    documents = data.draw(st.lists(lines(good(dialect)), max_size=4))
    batch = Documents.from_bytes(documents)
    *_, declined = core_dialect(dialect).texts(batch.data, batch.offsets)
    assert declined.tolist() == []
    found = BatchRenderer(ENCODER, NARROW, dialect, wide=False).render(batch)
    expected = [unused_text(value_of(document), dialect) for document in documents]
    assert [each[4] for each in each_of(found)] == expected


@FEWER
@given(dialect=st.sampled_from(EVERY), data=st.data())
def test_documents_that_cannot_be_split_do_not_affect_others(dialect, data):
    encoder = _core.Encoder("[a-z<|>_]+", MERGES, gaps="error")
    check(data.draw(documents_of(dialect)), dialect, encoder=encoder)


@FEWER
@given(dialect=st.sampled_from(EVERY), data=st.data())
def test_the_texts_of_a_batch_equal_those_of_each_document(dialect, data):
    documents = data.draw(documents_of(dialect))
    found = texts_of(dialect, Documents.from_bytes(documents))
    texts = [found.texts[number] for number in range(len(found.texts))]
    ends = (found.bounds[0], found.bounds[-1], len(found.bounds))
    assert ends == (0, len(texts), len(documents) + 1)
    assert list(found.problems) == sorted(found.problems)
    for number, document in enumerate(documents):
        try:
            expected, problem = [to_utf8(each) for each in message_texts(document, dialect)], None
        except MALFORMED as error:
            expected, problem = [], reason_of(error)
        start, end = found.bounds[number : number + 2]
        assert texts[start:end] == expected
        assert found.problems.get(number) == problem


GOOD = json.dumps([user("hi <|bos|>", name="A"), assistant("abab", thinking=["a"])]).encode()
SURROGATE = json.dumps([user("hi \ud83d", name="B"), assistant("ab", note="")]).encode()
REPEATED = b'[{"role":"assistant","role":"user","content":"the"}]'
NOT_A_NUMBER = b'{"score":NaN,"messages":[{"role":"user","content":"that"}]}'
BAD = b'[{"role":"tool","content":"x"}]'


def test_documents_that_the_core_declines_keep_their_place():
    documents = [BAD, GOOD, SURROGATE, GOOD, BAD, REPEATED, NOT_A_NUMBER, GOOD, b"{"]
    batch = Documents.from_bytes(documents)
    _, _, _, declined = core_dialect(MESSAGES).texts(batch.data, batch.offsets)
    assert declined.tolist() == [0, 2, 4, 5, 6, 8]
    found = check(documents, MESSAGES)
    assert [number for number, each in enumerate(found) if each[-1] is not None] == [0, 4, 8]
    assert [each[3] for each in found[1:4]] == [[14, 1], [8, 0], [14, 1]]
    both, one = {"name": 1, "thinking": 1}, {"name": 1}
    assert [each[4] for each in found[1:8]] == [both, one, both, {}, {}, {}, both]
