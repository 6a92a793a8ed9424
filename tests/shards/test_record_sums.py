"""Numbers of tokens in records and manifest: by role, by special token, of images."""

import json
from collections import Counter

import numpy as np
import pytest

from nanotok_ray.formats import ROLES
from nanotok_ray.loader import open_shards
from nanotok_ray.shards import (
    COUNTED,
    expected_records,
    read_record,
    settings_from,
    totals_of,
    verify_output,
)
from nanotok_ray.shards.check import record_problems
from nanotok_ray.sources import plan_from_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.finished_output import rewrite


def records(out, source):
    folder = Folder(str(out))
    names = sorted(path.relative_to(out) for path in out.glob(f"records/tokenize/{source}/*/*"))
    return [read_record(folder, name.as_posix()).values for name in names]


def numbers(**own):
    flow = {"in": 0, "out": 0, "quarantined": 0}
    empty = {"documents": flow, "bytes": flow, "quarantined": {}, "proof": {}, "roles": {}}
    return dict.fromkeys(COUNTED, 0) | empty | {"special_tokens": {}} | own


def test_numbers_by_name_are_summed_by_name_and_sorted():
    totals = totals_of(
        [
            ("a/train", numbers(images=2, roles={"user": 3, "bos": 1}, special_tokens={"<b>": 1})),
            ("a/train", numbers(images=1, roles={"image": 4}, special_tokens={"<a>": 5})),
            ("b/train", numbers(over_max_tokens=1, special_tokens={"<b>": 2})),
        ]
    )
    assert list(totals) == ["all", "a/train", "b/train"]
    assert [*totals["all"]["roles"].items()] == [("bos", 1), ("image", 4), ("user", 3)]
    assert [*totals["all"]["special_tokens"].items()] == [("<a>", 5), ("<b>", 3)]
    assert totals["b/train"]["roles"] == {}
    assert (totals["all"]["images"], totals["all"]["over_max_tokens"]) == (3, 1)


def test_a_job_reports_the_tokens_of_each_role_and_the_use_of_special_tokens(out):
    tokenizer = Tokenizer.load(out / "tokenizer")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["special_tokens"] == tokenizer.special_tokens
    for source in ("web", "chats"):
        shards = [open_shards(str(out), split=split, source=source) for split in ("train", "val")]
        ids = Counter(np.concatenate([own for each in shards for own in each]).tolist())
        found = Counter()
        for record in records(out, source):
            found.update(record["special_tokens"])
            assert set(record["roles"]) <= set(ROLES)
            assert sum(record["roles"].values()) == (record["tokens"] if source == "chats" else 0)
        expected = {name: ids[number] for name, number in tokenizer.special_tokens.items()}
        assert found == {name: count for name, count in expected.items() if count}
    totals = manifest["totals"]["all"]
    assert totals["special_tokens"]["<|bos|>"] == totals["documents"]["out"] == 150
    assert totals["roles"]["bos"] == 30


@pytest.mark.parametrize(
    ("source", "change", "why"),
    [
        ("web", {"roles": {"user": 3}}, "tokens of user, and is of kind text"),
        ("web", {"images": 3}, "has images, and is of kind text"),
        ("chats", {"roles": {}}, "0 tokens in all roles"),
        ("chats", {"images": 3}, "has images, and is of kind chat"),
        ("chats", {"special_tokens": {"<|bos|>": 10**9}}, "1000000000 special tokens of"),
        ("chats", {"trainable_tokens": 10**9}, "1000000000 trained tokens of"),
        ("chats", {"truncated": 1}, "1 documents cut, 0 too long"),
    ],
)
def test_a_record_with_inconsistent_tokens_is_contradictory(out, source, change, why):
    plan = plan_from_json((out / "plan.json").read_bytes())
    settings = settings_from(json.loads((out / "manifest.json").read_text()))
    expected = next(e for e in expected_records(plan, settings) if e.slice.source == source)
    each, record = expected.slice, read_record(Folder(str(out)), expected.record_name).values
    assert not list(record_problems(record, item_bytes=2, slice_=each))
    assert any(
        why in found for found in record_problems(record | change, item_bytes=2, slice_=each)
    )


def test_a_wrong_mask_or_special_token_outside_the_sample_is_detected_by_its_sum(out):
    path = rewrite(out, "chats/train/0*.mask", lambda data: bytes([1 - data[0]]) + data[1:])
    [problem] = verify_output(Folder(str(out)), sample=False).problems
    assert "its masks train on" in problem
    rewrite(out, f"chats/train/{path.name}", lambda data: bytes([1 - data[0]]) + data[1:])
    assert verify_output(Folder(str(out)), sample=False).passed
    rewrite(out, "web/val/*.bin", lambda data: b"A\0" + data[2:])
    [problem] = verify_output(Folder(str(out)), sample=False).problems
    assert "'<|bos|>'" in problem
