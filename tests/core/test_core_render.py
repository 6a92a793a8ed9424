"""The compiled core's rendering against its plain twin: dialects in Python, then `compose`."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.chat import Composed, compose, segments_of
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.dialects import CHAT_DIALECTS, MALFORMED, VISION_DIALECTS
from nanotok_ray.documents import Documents
from nanotok_ray.errors import TokenizerError
from tests.support.dialect_strategies import (
    EVERY,
    NAMES,
    ORDINARY,
    VISION,
    broken_messages,
    broken_objects,
    damaged,
    lines,
    with_images,
)

MERGES = np.array([(104, 105), (32, 116), (97, 98), (258, 258), (49, 43), (60, 124)], np.uint32)
IDS = {name: 256 + len(MERGES) + number for number, name in enumerate(NAMES)}
ENCODER = _core.Encoder(SPLIT_PATTERN, MERGES)

FEWER = settings(max_examples=settings().max_examples // 4)
"""An example is up to four documents, rendered three times over and read plainly; proptests and
fuzzing of the core look further."""


def core_dialect(dialect):
    settings = dialect.to_dict()
    return _core.Dialect(settings.pop("kind"), settings.pop("name"), **settings)


def plain(document, dialect):
    """What the plain way gives: the segments and their ids, or None if it refuses the document."""
    try:
        segments = segments_of(document, dialect)
        return segments, compose(ENCODER.encode_text, IDS.__getitem__, segments)
    except MALFORMED:
        return None


def rendered(documents, dialect, *, threads=1, wide=False):
    """What the core gives for each document, None if it declines, and sizes of its texts."""
    batch = Documents.from_bytes(documents)
    ids, labels, offsets, declined, images, sizes = ENCODER.render(
        core_dialect(dialect), list(IDS.items()), batch.data, batch.offsets,
        threads=threads, wide=wide,
    )  # fmt: skip
    assert ids.dtype == (np.uint32 if wide else np.uint16)
    assert (labels.dtype, len(labels)) == (np.uint8, len(ids))
    assert (images.shape[1], sizes.shape) == (3, (len(documents), 2))
    assert {each.dtype for each in (offsets, declined, images, sizes)} == {np.dtype(np.int64)}
    assert (offsets[0], offsets[-1], len(offsets)) == (0, len(ids), len(documents) + 1)
    found = [
        Composed(ids=ids[start:end].tolist(), labels=labels[start:end].tolist(), images=[])
        for start, end in pairwise(offsets)
    ]
    for number, start, end in images.tolist():
        found[number].images.append((start, end))
    for number in declined.tolist():
        assert found[number] == Composed(ids=[], labels=[], images=[])
        found[number] = None
    return found, sizes.tolist()


def texts_of(documents, dialect):
    """The texts that the core finds in each document, None if it declines it."""
    batch = Documents.from_bytes(documents)
    data, offsets, firsts, declined = core_dialect(dialect).texts(batch.data, batch.offsets)
    assert data.dtype == np.uint8
    assert {each.dtype for each in (offsets, firsts, declined)} == {np.dtype(np.int64)}
    texts = [data[start:end].tobytes() for start, end in pairwise(offsets)]
    found = [texts[start:end] for start, end in pairwise(firsts)]
    for number in declined.tolist():
        assert found[number] == []
        found[number] = None
    return found


def sizes_of(texts):
    """Bytes of texts, and special tokens spelled out in them."""
    batch = Documents.from_bytes(texts)
    return [len(batch.data), _core.count_occurrences(batch.data, batch.offsets, NAMES)]


def check(documents, dialect):
    """Hold the core against its plain twin; give the numbers of the documents that it declines."""
    found, sizes = rendered(documents, dialect)
    for threads, wide in ((2, False), (3, True)):
        assert rendered(documents, dialect, threads=threads, wide=wide) == (found, sizes)
    all_texts = texts_of(documents, dialect)
    for document, own, size, texts in zip(documents, found, sizes, all_texts, strict=True):
        assert (own is None) == (texts is None), document
        if own is None:
            assert size == [0, 0]
            continue
        expected = plain(document, dialect)
        assert expected is not None, document
        segments, composed = expected
        assert own == composed, document
        assert texts == [each.text.encode() for each in segments if not each.is_special]
        assert size == sizes_of(texts)
    return {number for number, own in enumerate(found) if own is None}


@pytest.mark.parametrize("dialect", ORDINARY, ids=lambda dialect: dialect.name)
@FEWER
@given(data=st.data())
def test_ordinary_chats_are_rendered_as_the_plain_way_does(dialect, data):
    documents = data.draw(st.lists(lines(ORDINARY[dialect]), max_size=4))
    assert check(documents, dialect) == set()


@FEWER
@given(dialect=st.sampled_from(VISION), data=st.data())
def test_ordinary_documents_with_images_are_rendered_as_the_plain_way_does(dialect, data):
    documents = data.draw(st.lists(lines(with_images(dialect)), max_size=4))
    assert check(documents, dialect) == set()


@FEWER
@given(dialect=st.sampled_from(EVERY), data=st.data())
def test_what_the_plain_way_refuses_is_declined(dialect, data):
    """`check` compares whatever is not declined."""
    good = lines(ORDINARY[dialect]) if dialect in ORDINARY else lines(with_images(dialect))
    broken = st.binary(max_size=9) | lines(broken_messages | broken_objects) | damaged(good)
    documents = data.draw(st.lists(good | broken, min_size=1, max_size=4))
    declined = check(documents, dialect)
    refused = {n for n, document in enumerate(documents) if plain(document, dialect) is None}
    assert refused <= declined


def test_a_dialect_that_does_not_exist_is_refused():
    with pytest.raises(TokenizerError, match='"gsm8k" is no dialect of kind vision'):
        _core.Dialect("vision", "gsm8k", image_token="<image>")
    with pytest.raises(TokenizerError, match='kind is "text": it must be "chat" or "vision"'):
        _core.Dialect("text", "messages")


def test_every_dialect_of_the_model_is_known():
    names = {"chat": CHAT_DIALECTS, "vision": VISION_DIALECTS}
    assert {dialect.name for dialect in ORDINARY} == set(CHAT_DIALECTS)
    for kind in ("chat", "vision"):
        for name in names[kind]:
            _core.Dialect(kind, name, image_token="<image>")
