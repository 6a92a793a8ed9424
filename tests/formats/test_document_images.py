"""The file of images: reads the written images, and refuses inconsistent files."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import DocumentImages, images_bytes, images_of, images_parts

SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=4).map(
    lambda steps: [
        (sum(map(sum, steps[:n])) + steps[n][0], sum(map(sum, steps[: n + 1])))
        for n in range(len(steps))
    ]
)
"""Starts and ends of the images of a document as sums of gaps and lengths."""


def rows(documents):
    """Return the images of documents in the form of the writer."""
    found = [(number, *span) for number, own in enumerate(documents) for span in own]
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def packed(*batches):
    parts = images_parts([(len(documents), rows(documents)) for documents in batches])
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def opened(data, *, documents):
    return DocumentImages(np.frombuffer(data, np.uint8), name="a.images", documents=documents)


@given(st.lists(SPANS, max_size=6), st.integers(0, 6))
def test_images_are_read_as_written(documents, cut):
    data = packed(documents[:cut], documents[cut:])
    assert len(data) == images_bytes(documents=len(documents), images=sum(map(len, documents)))
    images = opened(data, documents=len(documents))
    assert len(images) == len(documents)
    assert images.num_images == sum(map(len, documents))
    assert images.num_tokens == sum(end - start for own in documents for start, end in own)
    for number, own in enumerate(documents):
        expected = [[start, end, place] for place, (start, end) in enumerate(own)]
        assert images[number].tolist() == expected
        assert images[number].dtype == np.int32
    assert np.array_equal(images.part(0, len(documents)), rows(documents))


@given(st.lists(SPANS, min_size=1, max_size=6), st.data())
def test_a_part_is_numbered_from_its_first_document(documents, data):
    start = data.draw(st.integers(0, len(documents) - 1))
    stop = data.draw(st.integers(start, len(documents)))
    images = opened(packed(documents), documents=len(documents))
    assert np.array_equal(images.part(start, stop), rows(documents[start:stop]))
    assert np.array_equal(images_of(rows(documents), slice(start, stop)), images.part(start, stop))


def with_images(counts, *images):
    """Return a file with any content."""
    header = struct.pack("<8sIIQ", b"NANOTOKI", 1, 0, len(counts) - 1)
    own = [struct.pack("<3i", *image) for image in images]
    return header + struct.pack(f"<{len(counts)}q", *counts) + b"".join(own)


def test_the_layout_is_the_documented_one():
    data = with_images([0, 2, 2, 3], (1, 4, 0), (4, 6, 1), (0, 9, 0))
    assert packed([[(1, 4), (4, 6)], [], [(0, 9)]]).tobytes() == data
    assert opened(data, documents=3)[2].tolist() == [[0, 9, 0]]


@pytest.mark.parametrize("place", [0, 8, 12, 15, 16])
def test_an_unknown_file_header_is_refused(place):
    data = bytearray(with_images([0, 1], (1, 4, 0)))
    data[place] += 1
    why = r"the header is not that of|has format .version "
    with pytest.raises(CorruptOutputError, match=why):
        opened(bytes(data), documents=1)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (with_images([0, 2, 1, 3], (0, 1, 0), (1, 2, 1), (3, 4, 0)), "do not agree"),
        (with_images([0, 2**62, -(2**62), 3], (0, 1, 0), (1, 2, 1), (3, 4, 0)), "do not agree"),
        (with_images([1, 1, 1, 3], (0, 1, 0), (1, 2, 1), (3, 4, 0)), "do not agree"),
        (with_images([0, 1, 1, 2], (0, 1, 0), (1, 2, 0), (3, 4, 0)), "do not agree"),
        (with_images([0, 1, 1, 4], (0, 1, 0), (1, 2, 0), (3, 4, 1)), "do not agree"),
        (with_images([0, 0, 1, 1], (-1, 1, 0)), "image 0 of document 1 has no tokens"),
        (with_images([0, 0, 1, 1], (3, 3, 0)), "image 0 of document 1 has no tokens"),
        (with_images([0, 0, 1, 1], (3, 2, 0)), "image 0 of document 1 has no tokens"),
        (with_images([0, 0, 0, 2], (0, 3, 0), (2, 4, 1)), "image 1 of document 2 starts before"),
        (with_images([0, 2, 2, 2], (5, 6, 0), (2, 4, 1)), "image 1 of document 0 starts before"),
        (with_images([0, 2, 2, 2], (1, 2, 0), (2, 4, 0)), "image 1 of document 0 has another"),
        (with_images([0, 1, 2, 2], (1, 2, 0), (2, 4, 1)), "image 0 of document 1 has another"),
        (with_images([0, 0, 0, 0])[:-1], "55 bytes"),
        (with_images([0, 0, 0, 0]) + b"\0", "do not agree"),
        (b"NANOTOKD" + with_images([0, 0, 0, 0])[8:], "the header is not that of"),
        (with_images([0, 0, 0, 0, 0]), "the header is not that of"),
        (b"", "0 bytes"),
    ],
)
def test_contradictory_values_are_refused(data, why):
    with pytest.raises(CorruptOutputError, match=rf"a\.images.*{why}"):
        opened(data, documents=3)


def test_images_of_neighboring_documents_may_be_in_any_order():
    images = opened(with_images([0, 1, 1, 2], (7, 9, 0), (0, 1, 0)), documents=3)
    assert [images[number].tolist() for number in range(3)] == [[[7, 9, 0]], [], [[0, 1, 0]]]


def test_an_image_that_ends_after_its_document_is_refused():
    images = opened(packed([[(0, 2)], [], [(1, 4), (4, 6)]]), documents=3)
    images.check_within(np.array([2, 0, 6]))
    with pytest.raises(CorruptOutputError, match="image 1 of document 2 ends after"):
        images.check_within(np.array([2, 0, 5]))


@given(st.data())
def test_a_changed_file_is_an_error_or_contains_images_in_order(data):
    whole = packed([[(1, 4), (4, 6)], [], [(0, 9)]]).tobytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    other = whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + 1 :]
    try:
        images = opened(other, documents=3)
    except CorruptOutputError as error:
        assert "a.images" in str(error)  # noqa: PT017 - both are right
        return
    for document in range(3):
        spans = images[document].tolist()
        assert [number for _, _, number in spans] == [*range(len(spans))]
        bounds = [bound for start, end, _ in spans for bound in (start, end)]
        assert bounds == sorted(bounds)
