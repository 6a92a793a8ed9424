"""Verification of outputs: files, records, sums."""

import hashlib
import json
import shutil
from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.api import prepare, verify
from nanotok_ray.cli import main
from nanotok_ray.errors import TransientIOError
from nanotok_ray.formats import ROLES, ShardRecord, Totals, read_manifest
from nanotok_ray.job.events import Advanced, StageEnded, StageStarted
from nanotok_ray.job.local import LocalExecutor
from nanotok_ray.loader import open_shards
from nanotok_ray.shards import (
    expected_records,
    read_record,
    totals_of,
    verify_output,
)
from nanotok_ray.shards.check import check_slice, record_problems
from nanotok_ray.shards.check import slice as slice_check
from nanotok_ray.shards.check.files import IdScan, MaskScan
from nanotok_ray.sources import plan_from_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import FailingFirst, InProcess, Replacing, backwards, in_place_of_ray
from tests.support.finished_output import change_json, finished_output, rewrite
from tests.support.made_output import NOTHING
from tests.support.small_corpus import recipe, texts, write_parquet


def problems(out, **options):
    return verify_output(Folder(str(out)), **options).problems


def first(out, pattern):
    return min(out.glob(pattern))


def test_a_valid_output_has_no_problem_and_a_sample_is_compared(out):
    result = verify_output(Folder(str(out)))
    assert result.passed
    assert result.documents == 150
    assert result.sampled > 2 * result.slices


@pytest.mark.parametrize("name", ["tokenizer/report.json", "records/learn.json"])
def test_a_changed_report_or_record_of_learning_is_named(out, name):
    path = out / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    assert [name in problem for problem in problems(out)] == [True]


@pytest.mark.parametrize("changed", ["plan", "record", "manifest", None])
def test_no_source_of_a_contradictory_output_is_read(finished, out, tmp_path, changed):
    """The plan names a file that does not exist: a source that is read is a problem."""
    plan = out / "plan.json"
    sources = str(finished.parent / "in").encode()
    data = plan.read_bytes().replace(sources, b"x" * len(sources))
    plan.write_bytes(data)
    if changed != "plan":
        change_json(out / "manifest.json", "plan_sha256", hashlib.sha256(data).hexdigest())
    if changed == "record":
        path = first(out, "records/tokenize/web/train/*.json")
        path.write_bytes(path.read_bytes().replace(b'"blank_lines": 0', b'"blank_lines": 1'))
    elif changed == "manifest":
        change_json(out / "manifest.json", "slices", 7)
    for depth in ("sample", "full", "masks"):
        result = verify_output(Folder(str(out)), depth=depth)
        is_read = any("cannot be read again" in problem for problem in result.problems)
        assert is_read == (changed is None)
        assert any("sources were not compared" in why for why in result.unchecked) != is_read
    result = verify_output(Folder(str(out)), depth="files")
    assert not result.unchecked


def test_sources_inside_the_output_are_named(own_corpus):
    out = own_corpus
    (out.parent / "in").rename(out / "in")
    (out.parent / "in").symlink_to(out / "in")
    found = problems(out)
    assert len(found) == len(json.loads((out / "plan.json").read_text())["sources"])
    assert all("of this output" in problem for problem in found)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def cut(path):
    path.write_bytes(path.read_bytes()[:-2])


SHARD_FILES = [f"*/train/*.{suffix}" for suffix in ("bin", "idx", "mask")]
DAMAGE = [
    *((pattern, flip, "sha256") for pattern in SHARD_FILES),
    *((pattern, cut, "bytes") for pattern in SHARD_FILES),
    ("web/train/*.bin", Path.unlink, "missing"),
    ("records/tokenize/web/train/*.json", Path.unlink, "missing"),
    *((f"tokenizer/{name}", flip, name) for name in ("tokenizer.pkl", "token_bytes.pt")),
    ("tokenizer/tokenizer_config.json", flip, "tokenizer_config.json"),
]


@pytest.mark.parametrize(("pattern", "change", "reported"), DAMAGE)
def test_a_damaged_or_missing_file_is_detected_and_named(out, pattern, change, reported):
    path = first(out, pattern)
    change(path)
    (problem,) = problems(out)
    assert path.name in problem
    assert reported in problem


def test_a_record_of_another_recipe_is_detected(finished, out, tmp_path, in_process):
    other = tmp_path / "other"
    append = 'source.web.append=["<|user_end|>"]'
    prepare(recipe(finished.parent / "in", other, "limits.slice_bytes=60000", append))
    path = first(out, "records/tokenize/web/train/*.json")
    stem = path.name.rpartition("-")[0]
    shutil.copy(next(other.glob(f"records/tokenize/web/train/{stem}-*.json")), path)
    found = problems(out)
    assert len(found) == 1
    assert "another recipe" in found[0]


def test_an_edited_record_is_detected(out):
    path = first(out, "records/tokenize/web/train/*.json")
    change_json(path, "special_text", json.loads(path.read_text())["special_text"] + 1)
    assert any("manifest.json" in problem for problem in problems(out))


def test_a_foreign_plan_tokenizer_or_index_is_detected(finished, out, tmp_path, in_process):
    other = tmp_path / "other"
    prepare(
        recipe(finished.parent / "in", other, "tokenizer.vocab_size=300", "limits.slice_bytes=9000")
    )
    wrong = {
        "plan.json": "plan.json is not the one that manifest.json names",
        "tokenizer/tokenizer.txt": "tokenizer/ does not hold the tokenizer that",
        "shards.idx": "shards.idx",
    }
    for name, problem in wrong.items():
        kept = (out / name).read_bytes()
        shutil.copy(other / name, out / name)
        assert any(found.startswith(problem) for found in problems(out)), name
        (out / name).write_bytes(kept)
    assert not problems(out)


@pytest.fixture
def own_corpus(tmp_path, in_process):
    """Return an output whose sources a test can change."""
    return finished_output(tmp_path)


def other_texts(corpus):
    for number in range(3):
        write_parquet(corpus / f"text/shard_{number:05d}.parquet", texts(40, seed=50 + number))


@pytest.mark.parametrize(
    ("change", "reported"),
    [(other_texts, "changed since the plan was made"), (shutil.rmtree, "cannot be read again")],
    ids=["changed", "missing"],
)
def test_a_changed_or_missing_source_is_a_problem_unless_sampling_is_disabled(
    own_corpus, tmp_path, change, reported
):
    change(tmp_path / "in")
    assert any(reported in problem for problem in problems(own_corpus))
    assert not problems(own_corpus, depth="files")


def test_a_later_change_of_a_source_outside_the_sample_is_detected(own_corpus, tmp_path):
    path = tmp_path / "in/chats/1.jsonl"
    data = path.read_bytes()
    path.write_bytes(data.replace(b": ", b" :", 1))  # the same document in another spelling
    assert path.read_bytes() != data
    [problem] = problems(own_corpus)
    assert "1.jsonl" in problem
    assert "has changed since it was read" in problem


def test_ids_beyond_the_vocabulary_and_mask_bytes_over_1_are_detected(out):
    # The files and their record agree, as after a bug in the writer: only the values are wrong.
    rewrite(out, "chats/train/*.bin", lambda data: (350).to_bytes(2, "little") + data[2:])
    rewrite(out, "chats/train/*.mask", lambda data: b"\x02" + data[1:])
    found = problems(out)
    assert any("holds 350" in problem for problem in found)
    assert any("holds 2" in problem for problem in found)


EXECUTORS = (LocalExecutor(in_threads=True), InProcess(order=backwards))


@pytest.mark.parametrize("level", [{}, {"deep": True}, {"masks": True}])
def test_problems_are_in_the_order_of_the_plan(out, level):
    for path in [*out.glob("*/*/*.bin"), *out.glob("*/*/*.idx")]:
        flip(path)
    here, there = (verify(Folder(str(out)), executor=each, **level) for each in EXECUTORS)
    assert len(here.problems) > 5
    assert here == there


def test_progress_is_reported_as_in_other_stages(out):
    for executor in EXECUTORS:
        events = []
        result = verify(Folder(str(out)), executor=executor, on_event=events.append)
        assert result.passed
        started, *advanced, ended = events
        assert started == StageStarted(
            stage="verify", todo=result.slices, num_done=0, num_bytes=started.num_bytes
        )
        assert isinstance(ended, StageEnded)
        assert ended.num_bytes == started.num_bytes > 0
        done = [event.done for event in advanced if isinstance(event, Advanced)]
        assert [number for number in done if number] == [*range(1, result.slices + 1)]


def test_an_unchecked_slice_is_reported_and_changes_the_exit_code(out, capsys):
    with in_place_of_ray(FailingFirst("its worker died 3 times", order=backwards)):
        assert main(["verify", str(out), "--cpus", "2"]) == 5
    captured = capsys.readouterr()
    values = json.loads(captured.out)
    assert values["status"] == "failed"
    assert values["problems"] == []
    assert "its worker died 3 times" in values["unchecked"][0]
    assert "could not be checked" in captured.err


@pytest.mark.usefixtures("in_process")  # which does not wait before the next attempts
def test_a_local_storage_failure_leaves_a_slice_unchecked(out, monkeypatch, capsys):
    def fail(*_, **__):
        raise TransientIOError("the store is away")

    monkeypatch.setattr(slice_check, "check_files", fail)
    assert main(["verify", str(out), "--cpus", "1"]) == 5
    values = json.loads(capsys.readouterr().out)
    assert len(values["unchecked"]) == values["slices"]


def test_a_record_that_changes_during_the_check_is_not_valid(out):
    def check_late(work):
        with (out / work.record_name).open("a") as file:
            file.write(" ")
        return check_slice(work)

    result = verify(Folder(str(out)), executor=Replacing({check_slice: check_late}))
    assert len(result.unchecked) == result.slices
    assert not result.passed


def numbers(**own):
    return Totals(**(NOTHING | own))


def test_numbers_by_name_are_summed_by_name_and_sorted():
    totals = totals_of(
        [
            ("a/train", numbers(images=2, roles={"user": 3, "bos": 1}, special_tokens={"<b>": 1})),
            ("a/train", numbers(images=1, roles={"image": 4}, special_tokens={"<a>": 5})),
            ("b/train", numbers(over_max_tokens=1, special_tokens={"<b>": 2})),
        ]
    )
    assert list(totals) == ["all", "a/train", "b/train"]
    assert [*totals["all"].roles.items()] == [("bos", 1), ("image", 4), ("user", 3)]
    assert [*totals["all"].special_tokens.items()] == [("<a>", 5), ("<b>", 3)]
    assert totals["b/train"].roles == {}
    assert (totals["all"].images, totals["all"].over_max_tokens) == (3, 1)


def test_a_job_reports_the_tokens_of_each_role_and_the_use_of_special_tokens(out):
    tokenizer = Tokenizer.load(out / "tokenizer")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["special_tokens"] == tokenizer.special_tokens
    for source in ("web", "chats"):
        shards = [open_shards(str(out), split=split, source=source) for split in ("train", "val")]
        ids = Counter(np.concatenate([own for each in shards for own in each]).tolist())
        found = Counter()
        for path in out.glob(f"records/tokenize/{source}/*/*"):
            record = json.loads(path.read_text())
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
    folder = Folder(str(out))
    settings = read_manifest(folder).settings
    expected = next(e for e in expected_records(plan, settings) if e.slice.source == source)
    each = expected.slice
    record = read_record(folder, expected.record_name, ShardRecord).value
    assert not list(record_problems(record, item_bytes=2, slice_=each))
    assert any(
        why in found
        for found in record_problems(replace(record, **change), item_bytes=2, slice_=each)
    )


def test_a_wrong_mask_or_special_token_outside_the_sample_is_detected_by_its_sum(out):
    path = rewrite(out, "chats/train/0*.mask", lambda data: bytes([1 - data[0]]) + data[1:])
    [problem] = problems(out, depth="files")
    assert "its masks train on" in problem
    rewrite(out, f"chats/train/{path.name}", lambda data: bytes([1 - data[0]]) + data[1:])
    assert not problems(out, depth="files")
    rewrite(out, "web/val/*.bin", lambda data: b"A\0" + data[2:])
    [problem] = problems(out, depth="files")
    assert "'<|bos|>'" in problem


SPECIAL = (10, 11, 15)
IMAGE = 11


def blocks(data, cuts):
    """Divide bytes at shares of their length."""
    places = [0, *sorted(int(share * len(data)) for share in cuts), len(data)]
    return [memoryview(data)[start:stop] for start, stop in pairwise(places)]


def runs(ids):
    """Return start and end of runs of image tokens in plain Python."""
    at, edges = 0, []
    for is_image, own in groupby(ids, lambda number: number == IMAGE):
        length = len(list(own))
        edges += [at, at + length] if is_image else []
        at += length
    return edges


@pytest.mark.parametrize("item_bytes", [2, 4])
@given(
    ids=st.lists(st.sampled_from([0, 9, 10, 11, 11, 12, 15, 16]), max_size=30),
    cuts=st.lists(st.floats(0, 1), max_size=6),
)
def test_ids_are_scanned_in_blocks_of_any_size(item_bytes, ids, cuts):
    scan = IdScan(item_bytes, special_ids=SPECIAL, image_id=IMAGE, max_images=30)
    for block in blocks(np.array(ids, dtype=f"<u{item_bytes}").tobytes(), cuts):
        scan.add(block)
    assert scan.largest == max(ids, default=-1)
    assert scan.special_counts.tolist() == [ids.count(number) for number in SPECIAL]
    assert scan.image_edges.tolist() == runs(ids)


def test_positions_of_images_are_kept_up_to_a_limit():
    scan = IdScan(2, special_ids=SPECIAL, image_id=IMAGE, max_images=1)
    for _ in range(1000):
        scan.add(memoryview(np.array([0, IMAGE], dtype="<u2").tobytes()))
    assert 2 < len(scan.image_edges) < 10
    assert scan.special_counts.tolist() == [0, 1000, 0]


@given(flags=st.lists(st.integers(0, 3), max_size=20), cuts=st.lists(st.floats(0, 1), max_size=3))
def test_masks_are_scanned_in_blocks(flags, cuts):
    scan = MaskScan()
    for block in blocks(bytes(flags), cuts):
        scan.add(block)
    assert scan.largest == max(flags, default=-1)
    assert scan.ones == sum(flag > 0 for flag in flags)
