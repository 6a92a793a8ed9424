"""Verification of masks and images."""

import copy
import json
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.api import prepare, verify
from nanotok_ray.cli import main
from nanotok_ray.errors import CorruptOutputError, VerificationError
from nanotok_ray.formats import (
    DocumentBatch,
    DocumentImages,
    ShardRecord,
    from_values,
    images_parts,
    read_manifest,
)
from nanotok_ray.loader import open_shards
from nanotok_ray.shards import expected_records, read_record, verify_output
from nanotok_ray.shards.check import check_files, record_problems
from nanotok_ray.shards.check.document import OTHER_MASK, OTHER_TEXT, DocumentCheck
from nanotok_ray.shards.check.files import image_problems
from nanotok_ray.shards.check.slice import compare_documents
from nanotok_ray.shards.settings import Vocabulary
from nanotok_ray.sources import SKIPPED, plan_from_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.finished_output import read_all, rewrite
from tests.support.small_corpus import conversations, recipe
from tests.support.vision_shards import IMAGE, VisionShards, documents_with_images


@pytest.fixture
def out(corpus, tmp_path):
    prepare(recipe(corpus, tmp_path / "out"))
    return tmp_path / "out"


def masks(out):
    return verify_output(Folder(str(out)), depth="masks")


def test_every_conversation_and_no_text_is_compared(out, corpus):
    result = masks(out)
    assert not result.problems
    assert result.sampled == 30
    assert result.source_bytes == sum(
        len(line) for path in corpus.glob("chats/*") for line in path.read_bytes().splitlines()
    )
    for path in corpus.glob("text/*"):
        path.unlink()
    assert masks(out).passed


def test_a_special_token_exchanged_with_its_spelled_out_name_is_detected(corpus, tmp_path):
    # Both decode to the same text with the same mask: only the special token differs.
    lines = [json.dumps([{"role": "user", "content": "<|bos|>"}, conversations(1, seed=0)[0][1]])]
    (corpus / "chats/0.jsonl").write_text(lines[0] + "\n", encoding="utf-8")
    prepare(recipe(corpus, tmp_path / "out"))
    assert masks(tmp_path / "out").passed

    def change(data):
        ids = np.frombuffer(data, dtype="<u2").copy()
        bos = int(ids[0])
        end = int(np.flatnonzero(ids == Tokenizer.load(out).encode_special("<|user_end|>"))[0])
        ids[:end] = [*ids[2:end], ids[1], bos]
        return ids.tobytes()

    out = tmp_path / "out/tokenizer"
    rewrite(tmp_path / "out", "chats/train/0*.bin", change)
    [problem] = masks(tmp_path / "out").problems
    assert OTHER_MASK in problem


def test_a_changed_source_is_named(out, corpus):
    path = corpus / "chats/1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[0] = lines[0].replace(b"content", b"tnetnoc")
    path.write_bytes(b"".join(lines))
    problems = masks(out).problems
    assert "1.jsonl" in problems[0]
    assert "has changed since it was read" in problems[0]
    assert any("row 0 of 1.jsonl: the plain reading refuses it" in each for each in problems)


def test_a_missing_or_shorter_source_is_named(out, corpus):
    path = corpus / "chats/1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"\n" * sum(map(len, lines[1:])) + lines[0])
    assert any("are no longer in the source" in each for each in masks(out).problems)
    path.unlink()
    problems = masks(out).problems
    assert problems
    assert all("cannot be read again" in each and "1.jsonl" in each for each in problems)


def test_bad_lines_are_skipped_and_lone_surrogates_are_replaced(corpus, tmp_path):
    half = ["\ud83d", "\ude42 tail"]
    parts = [{"type": "text", "text": text} for text in half]
    odd = [{"role": "user", "content": "a\ud800b"}, {"role": "assistant", "content": parts}]
    with (corpus / "chats/0.jsonl").open("a", encoding="utf-8") as file:
        file.write("{broken\n\n" + json.dumps(odd) + "\n")
    prepare(recipe(corpus, tmp_path / "out", "limits.max_quarantined_share=1.0"))
    result = masks(tmp_path / "out")
    assert not result.problems
    assert result.sampled == 31


def slices(out):
    """Yield slice, record and settings of each slice of conversations."""
    folder = Folder(str(out))
    settings = read_manifest(folder).settings
    plan = plan_from_json((out / "plan.json").read_bytes())
    for each in expected_records(plan, settings):
        if each.slice.kind == "chat":
            record = read_record(folder, each.record_name, ShardRecord)
            yield each.slice, record.value, settings["chats"]


def compared_fully(out, slice_, values, settings):
    """Return the result of comparing all documents of a slice with its source."""
    tokenizer = Tokenizer.load(out / "tokenizer")
    check = DocumentCheck(kind="chat", settings=settings, tokenizer=tokenizer)
    return compare_documents(Folder(str(out)), slice_, values, check=check, depth="full")


def test_a_cut_conversation_is_a_prefix_of_both_texts(corpus, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    prepare(recipe(corpus, whole, "limits.slice_bytes=1000000"))
    rules = ("limits.max_tokens=40", "limits.too_long=cut")
    prepare(recipe(corpus, cut, "limits.slice_bytes=1000000", *rules))

    def compared(out, **changed):
        return [
            compared_fully(out, each, values, replace(settings, **changed))
            for each, values, settings in slices(out)
        ]

    assert all(not each.problems for each in compared(cut, too_long="cut"))
    assert all(each.problems for each in compared(cut, too_long="keep", max_tokens=None))
    assert all(not each.problems for each in compared(whole, too_long="cut", max_tokens=5000))
    long = [
        problem
        for each in compared(whole, too_long="cut", max_tokens=41)
        for problem in each.problems
    ]
    assert long
    assert all("limits.max_tokens = 41" in problem or "more of this" in problem for problem in long)

    rewrite(cut, "chats/train/0*.mask", lambda data: data[:1] + bytes([1 - data[1]]) + data[2:])
    [changed] = compared(cut, too_long="cut")
    assert [OTHER_MASK in problem for problem in changed.problems] == [True]


def test_the_command_reports_the_number_compared_and_exits_4_on_a_difference(out, capsys):
    assert main(["verify", str(out), "--masks"]) == 0
    captured = capsys.readouterr()
    values = json.loads(captured.out)
    assert (values["status"], values["masks"], values["sampled"]) == ("verified", True, 30)
    assert "30 conversations and vision documents equal their source" in captured.err
    # The first id of text and the special token before it are exchanged.
    rewrite(out, "chats/train/1*.bin", lambda data: data[:2] + data[4:6] + data[2:4] + data[6:])
    assert main(["verify", str(out), "--masks"]) == 4
    capsys.readouterr()
    assert main(["verify", str(out), "--masks", "--no-sample"]) == 2
    assert "cannot be combined" in capsys.readouterr().err


def test_deep_and_masks_together_are_refused(out):
    with pytest.raises(VerificationError, match="two ways to compare: pass one"):
        verify(out, deep=True, masks=True)


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    return VisionShards(tmp_path_factory.mktemp("vision"), documents_with_images(20))


def differing(vision, tokenizer, documents, written):
    """Return (document, reason) of vision documents that differ from the written ones."""
    check = DocumentCheck(kind="vision", settings=vision.settings, tokenizer=tokenizer)
    found = [
        (number, check.problem(document, *written[number], dialect="messages"))
        for number, document in enumerate(documents)
    ]
    return [(number, why) for number, why in found if why is not None]


def test_an_output_with_vision_documents_is_verified_by_masks(tmp_path):
    made = VisionShards(tmp_path, documents_with_images(20), max_shard_tokens=200)
    out = made.publish()
    assert len(made.values["shards"]) > 3
    result = masks(out)
    assert not result.problems
    assert result.sampled == result.documents == 20  # the plain reading of each equals it

    def change(data):
        flags = np.frombuffer(data, dtype=np.uint8).copy()
        places = [int(np.flatnonzero(flags == flag)[-1]) for flag in (0, 1)]
        flags[places] ^= 1
        return flags.tobytes()

    made.change(".mask", change)
    made.publish()
    problems = masks(out).problems
    assert problems
    assert all(f"of a.jsonl: {OTHER_MASK}" in problem for problem in problems)


@given(st.data())
def test_any_wrong_id_or_mask_byte_is_detected_and_its_document_named(vision, data):
    rendered = vision.rendered

    def found(**changed):
        return differing(vision, vision.tokenizer, vision.documents, replace(rendered, **changed))

    at = data.draw(st.integers(0, len(rendered.ids) - 1))
    document = int(np.searchsorted(np.cumsum(rendered.lengths), at, side="right"))
    mask = rendered.mask.copy()
    mask[at] ^= 1
    assert found(mask=mask) == [(document, OTHER_MASK)]
    ids = rendered.ids.copy()
    others = set(range(vision.tokenizer.model.num_ids)) - {int(ids[at])}
    ids[at] = data.draw(st.sampled_from(sorted(others)))
    assert found(ids=ids) == [(document, OTHER_TEXT)]


def problem_under(vision, document, ids, mask, **rules):
    """Return the problem of a document without images in a job of other rules."""
    settings = replace(vision.settings, **rules)
    check = DocumentCheck(kind="vision", settings=settings, tokenizer=vision.tokenizer)
    arrays = np.array(ids, np.uint16), np.array(mask, np.uint8), np.zeros((0, 2), np.int64)
    return check.problem(document, *arrays, dialect="messages")


@pytest.mark.parametrize("rule", ["keep", "drop", "cut"])
def test_a_document_is_cut_only_by_a_job_that_cuts_and_is_no_longer_than_the_limit(vision, rule):
    first, size = vision.composed[0], len(vision.composed[0].ids)

    def problem(size, limit):
        arrays = first.ids[:size], first.mask[:size]
        return problem_under(vision, vision.documents[0], *arrays, max_tokens=limit, too_long=rule)

    assert problem(5, limit=5) == (None if rule == "cut" else OTHER_TEXT)
    assert problem(size, limit=size) is None
    why = None if rule == "keep" else f"it has {size} tokens, limits.max_tokens = {size - 1}"
    assert problem(size, limit=size - 1) == why


def test_a_document_without_trainable_tokens_is_detected_where_such_are_dropped(vision):
    messages = [{"role": "user", "content": "a"}]
    ids, mask, _ = vision.tokenizer.render_vision_conversation({"messages": messages})
    written = json.dumps(messages).encode(), ids, mask
    assert problem_under(vision, *written, untrainable="keep") is None
    assert "limits.untrainable = 'drop'" in problem_under(vision, *written, untrainable="drop")


def test_an_unknown_id_is_not_mistaken_for_a_zero_byte(vision):
    model = vision.tokenizer.model
    last = model.num_ids - 1
    sparse = Tokenizer(replace(model, special_tokens={**model.special_tokens, IMAGE: last + 3}))
    messages = [{"role": "user", "content": "\0"}]
    ids, mask, _ = sparse.render_vision_conversation({"messages": messages})

    def problems(ids):
        return differing(
            vision,
            sparse,
            [json.dumps(messages).encode()],
            DocumentBatch(
                ids=np.array(ids, np.uint16),
                positions=np.array([0, len(ids)]),
                mask=np.array(mask, np.uint8),
                images=np.zeros((0, 3), np.int64),
            ),
        )

    assert ids[2] == 0
    assert problems(ids) == []
    assert problems([*ids[:2], last + 1, *ids[3:]]) == [(0, OTHER_TEXT)]


def test_a_skipped_slice_is_not_read(out, corpus):
    for path in corpus.glob("chats/*"):
        path.unlink()
    for each, values, settings in slices(out):
        for reasons, is_sound in (({SKIPPED: 9}, True), ({}, False)):
            found = compared_fully(out, each, replace(values, quarantined=reasons), settings)
            assert (not found.problems) == is_sound


@pytest.fixture
def made(tmp_path):
    return VisionShards(tmp_path, documents_with_images(20))


def problems(made):
    """Return the problems of record and files; the first has none if the second has some."""
    of_record = list(record_problems(made.record, item_bytes=2, slice_=made.slice))
    return of_record or check_files(
        made.out, made.record, Vocabulary.of(made.tokenizer.model, made.settings)
    )


@pytest.mark.parametrize("limit", [1, 40, 100, 10**6])
def test_images_are_read_with_their_documents_for_any_shard_size(tmp_path, limit):
    made = VisionShards(tmp_path, documents_with_images(20), max_shard_tokens=limit)
    assert problems(made) == []
    shards = open_shards(str(made.publish()))
    assert len(made.values["shards"]) == {1: 20, 10**6: 1}.get(limit, len(shards.rows))
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
    made.values["special_tokens"][token] += 1
    [problem] = problems(made)
    assert repr(token) in problem
    assert "20 times, it says 21" in problem


def test_a_special_token_that_no_record_names_is_detected(made):
    own = made.tokenizer.encode_special("<|python_end|>").to_bytes(2, "little")
    made.change(".bin", lambda data: data[:-4] + own + data[-2:])
    [problem] = problems(made)
    assert "'<|python_end|>' 1 times, it says 0" in problem


def images_start(made):
    return 24 + 8 * (made.values["shards"][0]["documents"] + 1)


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
        (1, 2, "not have the number"),
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
    made.values["images"] -= 1
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
    change(made.values)
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
    record = copy.deepcopy(made.values) | {field: value}
    with pytest.raises(CorruptOutputError, match=field):
        from_values(ShardRecord, record, name="record")


def test_a_truncated_file_of_images_is_detected_and_refused(made):
    made.publish()
    name = made.values["files"][2]["name"]
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
