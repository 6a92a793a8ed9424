"""With --masks the trained tokens of conversations are compared with the reference."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.api import prepare
from nanotok_ray.cli import main
from nanotok_ray.errors import VerificationError
from nanotok_ray.formats import from_json, images_of
from nanotok_ray.shards import settings_from, verify_output
from nanotok_ray.shards.check import (
    OTHER_MASK,
    OTHER_TEXT,
    DocumentCheck,
    DocumentParts,
    compare_documents,
)
from nanotok_ray.sources import SKIPPED, plan_from_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.finished_output import rewrite
from tests.support.small_corpus import conversations, recipe, write_corpus
from tests.support.vision_shards import IMAGE, VisionShards, documents_with_images


@pytest.fixture
def corpus(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    return tmp_path / "in"


@pytest.fixture
def out(corpus, tmp_path):
    prepare(recipe(corpus, tmp_path / "out"))
    return tmp_path / "out"


def masks(out):
    return verify_output(Folder(str(out)), masks=True)


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


def swapped(out, one, other):
    """Return a change that swaps the first ids of two special tokens."""
    special = Tokenizer.load(out / "tokenizer").encode_special

    def change(data):
        ids = np.frombuffer(data, dtype="<u2").copy()
        places = [int(np.flatnonzero(ids == special(name))[0]) for name in (one, other)]
        ids[places] = ids[places[::-1]]
        return ids.tobytes()

    return change


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
    manifest = json.loads((out / "manifest.json").read_text())
    settings = settings_from(manifest)["chats"]
    plan = plan_from_json((out / "plan.json").read_bytes())
    for each in plan.slices():
        if each.kind == "chat":
            name = f"records/tokenize/chats/train/{each.name_for(settings.key(each))}.json"
            data = (out / name).read_bytes()
            yield each, from_json(data, name=name, expected_format="nanotok-record 1"), settings


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
    rewrite(out, "chats/train/1*.bin", swapped(out, "<|user_start|>", "<|user_end|>"))
    assert main(["verify", str(out), "--masks"]) == 4
    capsys.readouterr()
    assert main(["verify", str(out), "--masks", "--no-sample"]) == 2
    assert "cannot be combined" in capsys.readouterr().err


def test_deep_and_masks_together_are_refused(out):
    with pytest.raises(VerificationError, match="two ways to compare: pass one"):
        verify_output(Folder(str(out)), deep=True, masks=True)


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    return VisionShards(tmp_path_factory.mktemp("vision"), documents_with_images(20))


def vision_problems(vision, *, first=0, **changed):
    """Return (document, reason) of a run of vision documents with a change."""
    rendered = vision.rendered
    start = int(rendered.lengths[:first].sum())
    written = {
        "ids": rendered.ids[start:],
        "lengths": rendered.lengths[first:],
        "mask": rendered.mask[start:],
        "images": images_of(rendered.images, slice(first, 20)),
    }
    return problems_of(vision, vision.tokenizer, vision.documents[first:], **written | changed)


def problems_of(vision, tokenizer, documents, *, ids, lengths, mask, images):
    """Return (document, reason) of documents that differ from these arrays."""
    check = DocumentCheck(kind="vision", settings=vision.settings, tokenizer=tokenizer)
    parts = DocumentParts(ids, lengths, mask, images)
    found = [
        (number, check.problem(document, *parts[number], dialect="messages"))
        for number, document in enumerate(documents)
    ]
    return [(number, why) for number, why in found if why is not None]


def test_an_output_with_vision_documents_is_verified_by_masks(tmp_path):
    made = VisionShards(tmp_path, documents_with_images(20), max_shard_tokens=200)
    out = made.publish()
    assert len(made.record["shards"]) > 3
    result = masks(out)
    assert not result.problems
    assert result.sampled == result.documents == 20

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


@pytest.mark.parametrize("first", [0, 7])
def test_vision_documents_equal_their_plain_reading(vision, first):
    assert vision_problems(vision, first=first) == []


@given(st.data())
def test_any_wrong_id_or_mask_byte_is_detected_and_its_document_named(vision, data):
    rendered = vision.rendered
    at = data.draw(st.integers(0, len(rendered.ids) - 1))
    document = int(np.searchsorted(np.cumsum(rendered.lengths), at, side="right"))
    mask = rendered.mask.copy()
    mask[at] ^= 1
    assert vision_problems(vision, mask=mask) == [(document, OTHER_MASK)]
    ids = rendered.ids.copy()
    others = set(range(vision.tokenizer.model.num_ids)) - {int(ids[at])}
    ids[at] = data.draw(st.sampled_from(sorted(others)))
    assert vision_problems(vision, ids=ids) == [(document, OTHER_TEXT)]


def problem_of_first(vision, *, size, **rules):
    """Return the problem of the first tokens of the first document in a job of other rules."""
    rendered = vision.rendered
    settings = replace(vision.settings, **rules)
    check = DocumentCheck(kind="vision", settings=settings, tokenizer=vision.tokenizer)
    arrays = rendered.ids[:size], rendered.mask[:size], rendered.images[:0, 1:]
    return check.problem(vision.documents[0], *arrays, dialect="messages")


@pytest.mark.parametrize(
    ("rule", "why"),
    [("keep", OTHER_TEXT), ("drop", OTHER_TEXT), ("cut", None)],
)
def test_only_a_job_that_cuts_may_have_cut_a_document(vision, rule, why):
    assert problem_of_first(vision, size=5, max_tokens=5, too_long=rule) == why


@pytest.mark.parametrize("rule", ["cut", "drop"])
def test_a_document_longer_than_the_limit_is_detected(vision, rule):
    size = int(vision.rendered.lengths[0])
    assert problem_of_first(vision, size=size, max_tokens=size, too_long=rule) is None
    problem = problem_of_first(vision, size=size, max_tokens=size - 1, too_long=rule)
    assert problem == f"it has {size} tokens, limits.max_tokens = {size - 1}"


def test_a_document_without_trainable_tokens_is_detected_where_such_are_dropped(vision):
    messages = [{"role": "user", "content": "a"}]
    ids, mask, _ = vision.tokenizer.render_vision_conversation({"messages": messages})
    arrays = np.array(ids, np.uint16), np.array(mask, np.uint8), np.zeros((0, 2), np.int64)
    found = []
    for rule in ("keep", "drop"):
        settings = replace(vision.settings, untrainable=rule)
        check = DocumentCheck(kind="vision", settings=settings, tokenizer=vision.tokenizer)
        found.append(check.problem(json.dumps(messages).encode(), *arrays, dialect="messages"))
    assert found[0] is None
    assert "limits.untrainable = 'drop'" in found[1]


def test_an_unknown_id_is_not_mistaken_for_a_zero_byte(vision):
    model = vision.tokenizer.model
    last = model.num_ids - 1
    sparse = Tokenizer(replace(model, special_tokens={**model.special_tokens, IMAGE: last + 3}))
    messages = [{"role": "user", "content": "\0"}]
    ids, mask, _ = sparse.render_vision_conversation({"messages": messages})

    def problems(ids):
        return problems_of(
            vision,
            sparse,
            [json.dumps(messages).encode()],
            ids=np.array(ids, np.uint16),
            lengths=np.array([len(ids)]),
            mask=np.array(mask, np.uint8),
            images=np.zeros((0, 3), np.int64),
        )

    assert ids[2] == 0
    assert problems(ids) == []
    assert problems([*ids[:2], last + 1, *ids[3:]]) == [(0, OTHER_TEXT)]


def test_a_skipped_slice_is_not_read(out, corpus):
    for path in corpus.glob("chats/*"):
        path.unlink()
    for each, values, settings in slices(out):
        for reasons, is_sound in (({SKIPPED: 9}, True), ({}, False)):
            found = compared_fully(out, each, {**values, "quarantined": reasons}, settings)
            assert (not found.problems) == is_sound
