"""Files of an output as bytes and arrays: manifest, index, document ids, images."""

import struct
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError, SourceError
from nanotok_ray.formats import (
    MAX_DOCUMENT_TOKENS,
    DocumentIds,
    DocumentImages,
    DocumentIndex,
    StoredShard,
    from_json,
    ids_parts,
    images_bytes,
    images_of,
    images_parts,
    index_parts,
    key_of,
    pack_shards_index,
    to_json,
    unpack_shards_index,
)

NUMBERS = st.integers(0, 2**58)
SHARDS = st.builds(
    StoredShard,
    source=st.sampled_from(["web", "chats"]),
    split=st.sampled_from(["train", "val"]),
    name=st.from_regex(r"[a-z]{1,9}/(train|val)/[a-z0-9-]{1,30}", fullmatch=True),
    item_bytes=st.sampled_from([2, 4]),
    documents=NUMBERS,
    tokens=NUMBERS,
    sizes=st.dictionaries(st.sampled_from([".bin", ".idx", ".mask", ".ids", ".images"]), NUMBERS),
    record_sha256=st.binary(min_size=32, max_size=32).map(bytes.hex),
)


@given(st.lists(SHARDS, max_size=20))
def test_shards_idx_returns_its_rows(shards):
    index = unpack_shards_index(pack_shards_index(shards, sources=["web", "chats"]))
    assert len(index.rows) == len(shards)
    first = Counter()
    for number, shard in enumerate(shards):
        entry = index.rows[number]
        offset = int(entry["name_offset"])
        assert index.strings[offset:].partition(b"\0")[0].decode() == shard.name
        assert ["web", "chats"][entry["source"]] == shard.source
        assert ["train", "val"][entry["split"]] == shard.split
        assert entry["record_sha256"].tobytes().hex() == shard.record_sha256
        for name in ("item_bytes", "documents", "tokens"):
            assert entry[name] == getattr(shard, name)
        for name in ("bin", "idx", "mask", "ids", "images"):
            assert entry[f"{name}_bytes"] == shard.sizes.get(f".{name}", 0)
        assert entry["first_document"] == first[shard.source, shard.split]
        first[shard.source, shard.split] += shard.documents


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"X" + data[1:],
     lambda data: data[:20]],
    ids=["cut", "longer", "other magic", "header only in part"],
)  # fmt: skip
def test_a_damaged_shards_idx_is_refused(damage):
    with pytest.raises(CorruptOutputError, match=r"shards\.idx"):
        unpack_shards_index(damage(pack_shards_index([], sources=[])))


def test_json_does_not_depend_on_the_order_of_keys():
    assert to_json({"b": [1], "a": "ü"}) == to_json({"a": "ü", "b": [1]})
    assert key_of({"b": 1, "a": None}) == key_of({"a": None, "b": 1})
    assert key_of({"a": 1}) != key_of({"a": "1"})


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"format": "nanotok-plan 2"}'])
def test_another_format_is_refused_with_the_file_name(data):
    with pytest.raises(CorruptOutputError, match=r"plan\.json"):
        from_json(data, name="plan.json", expected_format="nanotok-plan 1")


def pack_index(lengths, *, item_bytes):
    return b"".join(index_parts([lengths], item_bytes=item_bytes))


def as_bytes(data):
    return np.frombuffer(data, dtype=np.uint8)


def test_the_bytes_equal_the_index_of_megatron():
    data = pack_index(np.array([3, 0, 2]), item_bytes=2)
    assert data == b"".join(
        [
            b"MMIDIDX\x00\x00",
            struct.pack("<QBQQ", 1, 8, 3, 4),
            struct.pack("<3i", 3, 0, 2),
            struct.pack("<3q", 0, 6, 6),
            struct.pack("<4q", 0, 1, 2, 3),
        ]
    )


@given(st.data())
def test_a_changed_byte_is_detected_or_harmless(data):
    packed = bytearray(pack_index(np.array([3, 5, 2]), item_bytes=2))
    place = data.draw(st.integers(0, len(packed) - 4 * 8 - 1))
    packed[place] ^= data.draw(st.integers(1, 255))
    try:
        positions = DocumentIndex(as_bytes(bytes(packed)), name="x.idx").positions
    except CorruptOutputError:
        return
    # Only the length of the last document cannot be compared with another value.
    assert positions[:3].tolist() == [0, 3, 8]


@pytest.mark.parametrize("size", [0, 10, 33, 61])
def test_a_truncated_index_is_refused(size):
    data = pack_index(np.array([3]), item_bytes=2)
    with pytest.raises(CorruptOutputError):
        DocumentIndex(as_bytes(data[:size]), name="x.idx")


def test_a_document_too_long_for_the_layout_is_refused():
    with pytest.raises(SourceError, match=str(MAX_DOCUMENT_TOKENS)):
        pack_index(np.array([MAX_DOCUMENT_TOKENS + 1]), item_bytes=2)


@given(st.lists(st.lists(st.integers(0, 100_000), max_size=9), max_size=5), st.sampled_from([2, 4]))
def test_an_index_written_in_parts_equals_that_of_all_documents(parts, item_bytes):
    arrays = [np.array(part, dtype=np.int32) for part in parts]
    lengths = [length for part in parts for length in part]
    whole = pack_index(np.array(lengths, dtype=np.int64), item_bytes=item_bytes)
    assert b"".join(index_parts(arrays, item_bytes=item_bytes)) == whole
    index = DocumentIndex(as_bytes(whole), name="a")
    assert np.diff(index.positions).tolist() == index.lengths.tolist() == lengths
    assert index.item_bytes == item_bytes


def with_another_byte(whole, data):
    """Return a copy of an array with any byte at any place."""
    other = whole.copy()
    other[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    return other


def packed_ids(*parts):
    batches = [
        Documents.from_strings(["before", *names]).part(1, len(names) + 1) for names in parts
    ]
    data = b"".join(ids_parts([(each.data, each.offsets) for each in batches]))
    return np.frombuffer(data, dtype=np.uint8)


@given(st.lists(st.text(max_size=5), max_size=6), st.integers(0, 6))
def test_ids_are_read_as_written(names, cut):
    ids = DocumentIds(packed_ids(names[:cut], names[cut:]), name="a.ids", documents=len(names))
    assert [ids[number] for number in range(len(ids))] == [
        name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") for name in names
    ]


@given(st.data())
def test_a_changed_file_is_an_error_or_contains_as_many_other_ids(data):
    other = with_another_byte(packed_ids(["a", "", "b7"]), data)
    try:
        ids = DocumentIds(other, name="a.ids", documents=3)
        assert sum(len(ids[number].encode()) for number in range(3)) == 3
    except CorruptOutputError as error:
        assert "a.ids" in str(error)  # noqa: PT017 - both are right


@pytest.mark.parametrize("documents", [0, 2, 4, 2**60])
def test_ids_of_another_number_of_documents_are_refused(documents):
    with pytest.raises(CorruptOutputError, match=r"a\.ids"):
        DocumentIds(packed_ids(["a", "", "b7"]), name="a.ids", documents=documents)


def test_an_id_that_is_not_utf8_is_refused():
    data = packed_ids(["a", "b7"]).tobytes().replace(b"b7", b"b\xff")
    ids = DocumentIds(np.frombuffer(data, np.uint8), name="a.ids", documents=2)
    assert ids[0] == "a"
    with pytest.raises(CorruptOutputError, match=r"a\.ids: id 1 is not UTF-8"):
        ids[1]


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


def packed_images(*batches):
    parts = images_parts([(len(documents), rows(documents)) for documents in batches])
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def opened_images(data, *, documents):
    return DocumentImages(np.frombuffer(data, np.uint8), name="a.images", documents=documents)


@given(st.lists(SPANS, max_size=6), st.integers(0, 6), st.data())
def test_images_are_read_as_written_and_a_part_counts_from_its_first_document(
    documents, cut, drawn
):
    data = packed_images(documents[:cut], documents[cut:])
    assert len(data) == images_bytes(documents=len(documents), images=sum(map(len, documents)))
    images = opened_images(data, documents=len(documents))
    assert len(images) == len(documents)
    assert images.num_images == sum(map(len, documents))
    assert images.num_tokens == sum(end - start for own in documents for start, end in own)
    for number, own in enumerate(documents):
        expected = [[start, end, place] for place, (start, end) in enumerate(own)]
        assert images[number].tolist() == expected
        assert images[number].dtype == np.int32
    assert np.array_equal(images.part(0, len(documents)), rows(documents))
    start, stop = sorted(drawn.draw(st.integers(0, len(documents))) for _ in range(2))
    assert np.array_equal(images.part(start, stop), rows(documents[start:stop]))
    assert np.array_equal(images_of(rows(documents), slice(start, stop)), images.part(start, stop))


def with_images(counts, *images, unused=0):
    """Return a file with any content."""
    header = struct.pack("<8sIIQ", b"NANOTOKI", 1, unused, len(counts) - 1)
    own = [struct.pack("<3i", *image) for image in images]
    return header + struct.pack(f"<{len(counts)}q", *counts) + b"".join(own)


def test_the_layout_is_the_documented_one():
    data = with_images([0, 2, 2, 3], (1, 4, 0), (4, 6, 1), (0, 9, 0))
    assert packed_images([[(1, 4), (4, 6)], [], [(0, 9)]]).tobytes() == data
    assert opened_images(data, documents=3)[2].tolist() == [[0, 9, 0]]


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
        (with_images([0, 2, 2, 2], (1, 2, 0), (2, 4, 0)), "image 1 of document 0 does not have"),
        (with_images([0, 1, 2, 2], (1, 2, 0), (2, 4, 1)), "image 0 of document 1 does not have"),
        (with_images([0, 0, 0, 0])[:-1], "55 bytes"),
        (with_images([0, 0, 0, 0]) + b"\0", "do not agree"),
        (b"NANOTOKD" + with_images([0, 0, 0, 0])[8:], "the header is not that of"),
        (with_images([0, 0, 0, 0, 0]), "the header is not that of"),
        (with_images([0, 0, 0, 0], unused=1), "the header is not that of"),
        (with_images([0, 0, 0, 0], unused=1 << 24), "the header is not that of"),
        (b"", "0 bytes"),
    ],
)
def test_contradictory_values_are_refused(data, why):
    with pytest.raises(CorruptOutputError, match=rf"a\.images.*{why}"):
        opened_images(data, documents=3)


def test_an_image_that_ends_after_its_document_is_refused():
    images = opened_images(packed_images([[(0, 2)], [], [(1, 4), (4, 6)]]), documents=3)
    images.check_within(np.array([2, 0, 6]))
    with pytest.raises(CorruptOutputError, match="image 1 of document 2 ends after"):
        images.check_within(np.array([2, 0, 5]))


@given(st.data())
def test_a_changed_file_is_an_error_or_contains_images_in_order(data):
    other = with_another_byte(packed_images([[(1, 4), (4, 6)], [], [(0, 9)]]), data)
    try:
        images = opened_images(other, documents=3)
    except CorruptOutputError as error:
        assert "a.images" in str(error)  # noqa: PT017 - both are right
        return
    for document in range(3):
        spans = images[document].tolist()
        assert [number for _, _, number in spans] == [*range(len(spans))]
        bounds = [bound for start, end, _ in spans for bound in (start, end)]
        assert bounds == sorted(bounds)
