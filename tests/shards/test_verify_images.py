"""Shards of vision documents: reading equals writing, and inconsistencies are detected."""

import copy
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import DocumentImages, check_record_shape, images_parts
from nanotok_ray.loader import open_shards
from nanotok_ray.shards.check import check_files, image_problems, record_problems
from tests.support.finished_output import read_all
from tests.support.vision_shards import IMAGE, VisionShards, documents_with_images


@pytest.fixture
def made(tmp_path):
    return VisionShards(tmp_path, documents_with_images(20))


def problems(made):
    """Return the problems of record and files; the first has none if the second has some."""
    check_record_shape(made.record, name="record", of_shards=True)
    of_record = list(record_problems(made.record, item_bytes=2, slice_=made.slice))
    return of_record or list(
        check_files(
            made.out,
            made.record,
            item_bytes=2,
            num_ids=made.tokenizer.model.num_ids,
            special_tokens=made.tokenizer.special_tokens,
            image_token=IMAGE,
        )
    )


@pytest.mark.parametrize("limit", [1, 40, 100, 10**6])
def test_images_are_read_with_their_documents_for_any_shard_size(tmp_path, limit):
    made = VisionShards(tmp_path, documents_with_images(20), max_shard_tokens=limit)
    assert problems(made) == []
    shards = open_shards(str(made.publish()))
    assert len(made.record["shards"]) == {1: 20, 10**6: 1}.get(limit, len(shards.rows))
    number_of_image = made.tokenizer.encode_special(IMAGE)
    for number, own in enumerate(made.composed):
        images = shards.images(number)
        assert images.dtype == np.int32
        assert images.tolist() == [[*span, place] for place, span in enumerate(own.images)]
        assert shards.mask(number).tolist() == own.mask
        for start, end, _ in images.tolist():
            assert (shards[number][start:end] == number_of_image).all()


@pytest.mark.parametrize("token", ["<|bos|>", "<|assistant_end|>"])
def test_special_tokens_are_counted(made, token):
    made.record["special_tokens"][token] += 1
    [problem] = problems(made)
    assert repr(token) in problem
    assert "20 times, it says 21" in problem


def test_a_special_token_that_no_record_names_is_detected(made):
    own = made.tokenizer.encode_special("<|python_end|>").to_bytes(2, "little")
    made.change(".bin", lambda data: data[:-4] + own + data[-2:])
    [problem] = problems(made)
    assert "'<|python_end|>' 1 times, it says 0" in problem


def images_start(made):
    return 24 + 8 * (made.record["shards"][0]["documents"] + 1)


def shifted(made, shift, *, field, image=0):
    """Return a change that adds to a field of an image."""

    def change(data):
        at = images_start(made) + 12 * image + 4 * field
        value = struct.unpack_from("<i", data, at)[0] + shift
        return data[:at] + struct.pack("<i", value) + data[at + 4 :]

    return change


@pytest.mark.parametrize(
    ("shift", "field", "why"),
    [
        (-1, 0, "its images have"),
        (1, 1, "its images have"),
        (1, 2, "has another number"),
        (-5000, 0, "starts before its document"),
        (5000, 1, "ends after its document"),
    ],
)
def test_a_moved_image_is_detected(made, shift, field, why):
    made.change(".images", shifted(made, shift, field=field))
    found = problems(made)
    assert any(why in problem or "do not agree" in problem for problem in found)
    made.publish()
    if "its images" not in why:
        with pytest.raises(CorruptOutputError, match=r"\.images"):
            read_all(made.out.url)


def test_images_of_another_number_or_size_are_detected(made):
    def without_last(data):
        at = images_start(made) - 8
        count = struct.unpack_from("<q", data, at)[0]
        return data[:at] + struct.pack("<q", count - 1) + data[at + 8 : -12]

    made.change(".images", without_last)
    [problem] = problems(made)
    assert "its shards have room for" in problem
    made.record["images"] -= 1
    found = problems(made)
    assert any("image tokens do not agree" in each for each in found)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda record: record.update(images=record["images"] + 1), "have room for"),
        (lambda record: record["roles"].update(user=record["roles"]["user"] + 1), "in all roles"),
        (lambda record: record["files"].pop(2), r"does not name .*\.images"),
        (lambda record: record["files"][2].update(size=25), "25 bytes by its record"),
        (
            lambda record: record["files"][2].update(size=record["files"][2]["size"] + 1),
            "for each image",
        ),
    ],
)
def test_a_record_with_contradictory_sums_is_refused(made, change, why):
    change(made.record)
    found = list(record_problems(made.record, item_bytes=2, slice_=made.slice))
    assert found
    assert any(re.search(why, problem) for problem in found)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("images", -1),
        ("roles", {"system": 1}),
        ("roles", {"user": -1}),
        ("roles", []),
        ("special_tokens", {"<|bos|>": 1.5}),
        ("over_max_tokens", None),
    ],
)
def test_a_record_of_other_types_is_refused(made, field, value):
    record = copy.deepcopy(made.record) | {field: value}
    with pytest.raises(CorruptOutputError, match=field):
        check_record_shape(record, name="record", of_shards=True)


def test_a_truncated_file_of_images_is_detected_and_refused(made):
    made.publish()
    name = made.record["files"][2]["name"]
    assert name.endswith(".images")
    path = Path(made.out.url) / name
    path.write_bytes(path.read_bytes()[:60])
    [problem] = problems(made)
    assert "has 60 bytes, its record says" in problem
    with pytest.raises(CorruptOutputError, match="has 60 bytes"):
        open_shards(made.out.url).images(0)


@pytest.mark.parametrize(
    ("edges", "reported"),
    [
        ([1, 3, 5, 7], None),
        ([1, 3], "token 0 of document 1"),
        ([1, 3, 5, 8], "token 2 of document 1"),
        ([1, 3, 5, 7, 8, 9], "token 3 of document 1"),
        ([2, 3, 5, 7], "token 1 of document 0"),
        ([], "token 1 of document 0"),
    ],
)
def test_the_first_contradictory_image_token_is_named(edges, reported):
    own = np.array([[0, 1, 3], [1, 0, 1], [1, 1, 2]])
    data = np.frombuffer(b"".join(images_parts([(2, own)])), np.uint8)
    images = DocumentImages(data, name="a.images", documents=2)
    found = list(image_problems(images, np.array([0, 5, 9]), np.array(edges, np.int64), name="a"))
    assert [each.partition(", first at ")[2] for each in found] == ([reported] if reported else [])
