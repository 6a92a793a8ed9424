"""Whole jobs: results, order and slicing, merged and summed counts."""

import hashlib
import json
import os
import shutil
from functools import partial

import numpy as np
import pytest

from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.cli import main
from nanotok_ray.counts import merge_groups
from nanotok_ray.errors import (
    CorruptOutputError,
    IncompleteOutputError,
    LeaseLostError,
    PatternError,
    PlanError,
    SliceError,
)
from nanotok_ray.job import reducing
from nanotok_ray.job.counting import training_of
from nanotok_ray.job.events import Activity
from nanotok_ray.job.lease import Lease, lease_numbers
from nanotok_ray.job.work import count_work, tokenize_work
from nanotok_ray.loader import open_shards
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess, Replacing, in_place_of_ray, shuffled
from tests.support.lease_elsewhere import ELSEWHERE
from tests.support.run_job import run
from tests.support.small_corpus import RECIPE, contents, recipe, texts, write_corpus, write_parquet


def test_a_job_learns_tokenizes_verifies_and_reports(corpus, out):
    summary, stages, _ = run(recipe(corpus, out))
    assert list(stages) == ["count", "reduce", "learn", "tokenize", "verify"]
    values = summary.values
    assert values["status"] == "done"
    assert values["documents"] == {"in": 150, "out": 150, "quarantined": 0}
    assert values["vocab_size"] == 350
    assert values["proof"]["documents"] == values["proof"]["encoded_again"] > 10
    assert values["bytes"]["in"] == values["bytes"]["out"] > 0
    assert set(values["sources"]) == {"web/train", "web/val", "chats/train"}
    assert json.loads((out / "run/summary.json").read_text()) == values
    written = sum(len(ids) for ids in open_shards(str(out)))
    written += sum(len(ids) for ids in open_shards(str(out), split="val"))
    assert values["tokens"] == written
    assert values["special_text"] > 0
    report = json.loads((out / "tokenizer/report.json").read_text())
    assert report["texts"] == 80  # chats are not counted
    assert (out / "run/report.html").exists()
    for words in (
        "documents   150 of 150, ",
        "tokenizer   350 ids",
        "verified",
        ": no difference\n",
    ):
        assert words in summary.text()


def test_the_manifest_is_removed_before_anything_changes(corpus, out):
    run(recipe(corpus, out))
    min((out / "web/train").glob("*.bin")).unlink()

    def fail(work):
        assert not (out / "manifest.json").exists()
        raise SliceError(work.slice.source)

    executor = Replacing({tokenize_work: fail})
    with in_place_of_ray(executor), pytest.raises(SliceError, match="web"):
        prepare(recipe(corpus, out))
    with pytest.raises(IncompleteOutputError):
        open_shards(str(out))


def test_train_and_tokenize_write_what_prepare_writes(corpus, out, tmp_path):
    prepare(recipe(corpus, tmp_path / "both"))
    with pytest.raises(IncompleteOutputError, match="train one first"):
        tokenize(recipe(corpus, out))
    _, first, _ = run(recipe(corpus, out), train)
    assert list(first) == ["count", "reduce", "learn"]
    assert not (out / "manifest.json").exists()
    again, stages, _ = run(recipe(corpus, out), train)
    assert (again.values["status"], stages) == ("unchanged", {})
    _, second, _ = run(recipe(corpus, out), tokenize)
    assert list(second) == ["tokenize", "verify"]
    assert contents(out) == contents(tmp_path / "both")


def test_a_replaced_tokenizer_is_detected(corpus, out, tmp_path):
    run(recipe(corpus, out))
    learned = Tokenizer.load(out / "tokenizer")
    Tokenizer.train_from_iterator(["hello hello"], vocab_size=270).save(tmp_path / "mine")
    run(recipe(corpus, out, f"tokenizer.path={tmp_path}/mine"))
    _, stages, _ = run(recipe(corpus, out))
    assert stages["count"][0] == 0
    assert stages["learn"] == (350 - 265, 0)
    assert Tokenizer.load(out / "tokenizer") == learned


def test_a_job_without_text_to_learn_from_fails_before_it_starts(corpus, out):
    with pytest.raises(PlanError, match="no train split"):
        prepare(recipe(corpus, out, "source.web.split=val"))
    with pytest.raises(PatternError):
        prepare(recipe(corpus, out, "tokenizer.pattern=(unclosed"))
    assert not out.exists()


def test_an_output_whose_records_change_while_it_is_written_is_not_published(corpus, out):
    def change(work):
        tokenize_work(work)
        [expected] = work.expected
        path = out / expected.record_name
        path.write_bytes(path.read_bytes().replace(b'"blank_lines": 0', b'"blank_lines": 1'))

    executor = Replacing({tokenize_work: change})
    with in_place_of_ray(executor), pytest.raises(CorruptOutputError, match="by a worker"):
        prepare(recipe(corpus, out))
    assert not (out / "manifest.json").exists()
    prepare(recipe(corpus, out))
    assert (out / "manifest.json").exists()


@pytest.fixture
def merging(corpus, monkeypatch):
    """Merge if there are at least 4 count files, about 3 of them into one."""
    for path in corpus.rglob("*.*"):  # times are part of the keys by which files are grouped
        os.utime(path, (2, 2))
    monkeypatch.setattr(reducing, "MERGE_ABOVE", 3)
    monkeypatch.setattr(reducing, "merge_groups", partial(merge_groups, target=3))


@pytest.fixture
def in_parts(monkeypatch):
    """Sum about 8,000 bytes of count files per part."""
    monkeypatch.setattr(reducing, "PART_BYTES", 8000)


OVERRIDES = (
    "limits.slice_bytes=1000",
    "source.chats.count=true",
    "source.chats.weight=3",
    "tokenizer.min_count=2",
)


def test_another_vocabulary_merges_nothing_and_a_new_file_only_its_group(corpus, out, merging):
    first = run(recipe(corpus, out, *OVERRIDES), train).stages
    groups = first["merge"][0]
    again = run(recipe(corpus, out, *OVERRIDES, "tokenizer.vocab_size=340"), train).stages
    assert (again["count"][0], again["merge"]) == (0, (0, groups))
    write_parquet(corpus / "text/shard_00000b.parquet", texts(8, seed=8))
    more = run(recipe(corpus, out, *OVERRIDES), train).stages
    assert more["count"][0] == 1
    assert 1 <= more["merge"][0] <= 2
    assert more["merge"][1] >= groups - 1


def test_stale_merged_files_and_sums_are_removed(corpus, out, merging, in_parts, capsys):
    path = out.with_suffix(".toml")
    path.write_text(RECIPE.format(root=corpus, out=out))

    def reported(*more):
        sets = [word if word == "--dry-run" else f"--set={word}" for word in (*OVERRIDES, *more)]
        assert main(["cache", "rm", str(path), *sets]) == 0
        return json.loads(capsys.readouterr().out)

    num_parts = run(recipe(corpus, out, *OVERRIDES), train).stages["reduce"][0]
    listed = reported("--dry-run")
    merged = listed["kept"]["merged"] - num_parts
    assert merged > 1
    assert listed["files"] == []
    removed = reported("tokenizer.min_count=3")["removed"]
    assert (removed["slices"], removed["merged"]) == (0, num_parts)
    assert not list((out.with_name("out-work") / "reduced").rglob("*.*"))
    write_parquet(corpus / "text/shard_00000b.parquet", texts(8, seed=8))
    removed = reported()["removed"]
    assert (removed["slices"], removed["merged"]) == (0, merged)
    again = run(recipe(corpus, out, *OVERRIDES), train).stages
    assert (again["count"][0], again["merge"][1]) == (1, 0)


@pytest.mark.parametrize("and_merge", [False, True])
def test_summing_in_tasks_changes_no_byte_of_the_tokenizer(corpus, tmp_path, request, and_merge):
    run(recipe(corpus, tmp_path / "plain", *OVERRIDES), train)
    request.getfixturevalue("in_parts")
    if and_merge:
        request.getfixturevalue("merging")
    stages = run(recipe(corpus, tmp_path / "parts", *OVERRIDES), train).stages
    num_parts = stages["reduce"][0]
    assert num_parts >= 8
    assert ("merge" in stages) == and_merge
    assert contents(tmp_path / "parts/tokenizer") == contents(tmp_path / "plain/tokenizer")
    files = contents(tmp_path / "parts-work")
    assert sum(name.startswith("reduced/") for name in files) == 2 * num_parts


def test_existing_parts_are_not_summed_again(corpus, out, tmp_path, in_parts):
    job = recipe(corpus, out, *OVERRIDES, "tokenizer.vocab_size=340")
    num_parts = run(recipe(corpus, out, *OVERRIDES), train).stages["reduce"][0]
    [lost, damaged, *_] = sorted((tmp_path / "out-work/reduced").rglob("*.json"))
    lost.unlink()
    damaged.with_suffix(".arrow").write_bytes(b"")
    assert run(job, train).stages["reduce"] == (2, num_parts - 2)
    other = recipe(corpus, out, *OVERRIDES, "tokenizer.min_count=3")
    assert run(other, train).stages["reduce"] == (num_parts, 0)


def train_slices(job):
    return sum(each.source == "web" for each in make_plan(job).slices(split="train"))


def stream(out, *, split, source):
    shards = open_shards(str(out), split=split, source=source)
    ids = np.concatenate([*shards, np.zeros(0, np.uint16)])
    ends = np.cumsum([len(document) for document in shards])
    masks = [shards.mask(document) for document in range(len(shards))]
    mask = b"".join(m.tobytes() for m in masks if m is not None)
    return hashlib.sha256(ids.tobytes() + ends.tobytes() + mask).hexdigest()


ORDERS = {"in order": list, "shuffled": shuffled(7)}

# Slice sizes that divide the train files of the text source into 1, 2 and 7 slices.
TARGETS = {1: 10_000_000, 2: 50_000, 7: 4_750}


def test_tokenizer_and_joined_tokens_do_not_depend_on_the_slicing(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    results = {}
    for number, target in TARGETS.items():
        for name, order in ORDERS.items():
            out = tmp_path / f"out-{number}-{name[0]}"
            job = recipe(tmp_path / "in", out, f"limits.slice_bytes={target}")
            assert train_slices(job) == number
            with in_place_of_ray(InProcess(order=order)):
                prepare(job)
            results[number, name] = (
                contents(out / "tokenizer"),
                stream(out, split="train", source="web"),
                stream(out, split="val", source="web"),
                stream(out, split="train", source="chats"),
            )
        for suffix in ("", "-work"):
            one, two = (contents(tmp_path / f"out-{number}-{name[0]}{suffix}") for name in ORDERS)
            assert one == two
    first = results[1, "in order"]
    assert all(result == first for result in results.values())
    assert len(first[0]) == 7


def test_a_slice_finished_by_another_attempt_is_not_repeated(corpus, out, tmp_path):
    job = recipe(corpus, out)
    training = training_of(job, make_plan(job))
    works = [training.work(each) for each in training.slices]
    sizes = [count_work(work) for work in works]
    lost = works[1]
    (tmp_path / f"out-work/{lost.name}.arrow").write_bytes(b"cut off")
    kept = {own.path for own in lost.slice.files}
    for path in corpus.glob("text/*"):  # other files cannot be counted again
        if path.name not in kept:
            path.unlink()

    def written():
        return [(tmp_path / f"out-work/{work.name}.arrow").stat().st_ino for work in works]

    before = written()
    assert [count_work(work) for work in works] == sizes
    changed = [old != new for old, new in zip(before, written(), strict=True)]
    assert changed == [work is lost for work in works]
    assert any({own.path for own in work.slice.files} - kept for work in works)


def test_a_sum_that_contradicts_its_records_is_refused(corpus, out, tmp_path):
    job = recipe(corpus, out)
    train(job)
    record = next((tmp_path / "out-work/counts/web").glob("*.json"))
    values = json.loads(record.read_text())
    record.write_text(json.dumps(values | {"spans": values["spans"] + 1}))
    shutil.rmtree(tmp_path / "out-work/run/checksums")
    (out / "records/learn.json").unlink()
    with pytest.raises(CorruptOutputError, match=r"spans, their records say"):
        train(job)


def test_a_run_that_loses_its_lease_before_it_publishes_writes_no_manifest(corpus, out):
    def take_over(event):
        if isinstance(event, Activity) and event.text == "publishing the manifest":
            number = max(lease_numbers(Folder(str(out))))
            other = Lease(Folder(str(out)), number + 1, command="prepare", me=ELSEWHERE)
            assert other.create()

    with pytest.raises(LeaseLostError, match="has taken over"):
        prepare(recipe(corpus, out), on_event=take_over)
    assert not (out / "manifest.json").exists()
    assert not (out / "shards.idx").exists()
