"""Slices that fail entirely: they fail the job, or are skipped by rule, counted and named."""

import json

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.errors import SliceError, SourceError
from nanotok_ray.job import count_work, tokenize_work, use_executor
from nanotok_ray.shards import quarantine_name, verify_output
from nanotok_ray.storage import Folder
from tests.support.executors import Replacing
from tests.support.run_job import run
from tests.support.s3_server import BUCKET, s3_behind_a_proxy
from tests.support.small_corpus import contents, recipe

ALLOWED = "limits.max_skipped_slices=1"


@pytest.fixture
def broken(breaking):
    """Let the work on the first slice of one file fail, in both stages, until it is fixed."""
    return breaking([count_work, tokenize_work], ("shard_00001", 0))


def test_a_failed_slice_fails_the_job_or_is_skipped_by_option_and_counted(corpus, tmp_path, broken):
    with pytest.raises(SliceError, match="this one never works"):
        prepare(recipe(corpus, tmp_path / "out"))
    assert not (tmp_path / "out/manifest.json").exists()
    summary, _, notes = run(recipe(corpus, tmp_path / "out", ALLOWED))
    assert summary.values["quarantined"] == {"skipped": 1}
    assert summary.values["documents"]["in"] == summary.values["documents"]["out"] + 1
    assert sum("this one never works" in note for note in notes) == 2
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())
    [name] = report["skipped_slices"]
    assert "shard_00001-00000" in name
    [listed] = list((tmp_path / "out/quarantine/web/train").iterdir())
    entry = json.loads(listed.read_text())
    assert (entry["file"], entry["reason"]) == ("shard_00001.parquet", "skipped: row groups 0 to 1")
    assert verify_output(Folder(str(tmp_path / "out"))).passed


@pytest.mark.xdist_group("s3")
def test_files_of_a_failed_attempt_do_not_prevent_skipping_its_slice(corpus, tmp_path):
    def fail_after_quarantine(work):
        if (work.slice.stem, work.slice.number) != ("shard_00001", 0):
            return tokenize_work(work)
        name = quarantine_name(work.slice, work.settings.key(work.slice))
        Folder(work.out).write_whole(name, b"what the attempt found\n")
        raise SourceError("this one never works")

    local = f'output.work="{tmp_path}/work"'
    with s3_behind_a_proxy(), use_executor(Replacing({tokenize_work: fail_after_quarantine})):
        out = Folder(f"s3://{BUCKET}/out")
        summary, *_ = run(recipe(corpus, out.url, ALLOWED, local))
        [name] = out.list("quarantine/")
        listed = json.loads(out.read_bytes(name))
    assert summary.values["quarantined"] == {"skipped": 1}
    assert listed["reason"].startswith("skipped: ")


def test_the_next_run_retries_skipped_slices(corpus, tmp_path, broken):
    run(recipe(corpus, tmp_path / "out", ALLOWED))
    broken()
    summary, _, notes = run(recipe(corpus, tmp_path / "out", ALLOWED))
    assert not any("never works" in note for note in notes)
    assert summary.values["quarantined"] == {}
    run(recipe(corpus, tmp_path / "whole", ALLOWED))
    assert contents(tmp_path / "whole").items() <= contents(tmp_path / "out").items()


def test_slices_skipped_in_several_rounds_are_summed(corpus, tmp_path, breaking):
    breaking([count_work], ("shard_00000", 0), ("shard_00001", 0))
    limits = ["limits.max_chars=300", "limits.doc_cap=5", "limits.slice_bytes=1500"]
    with pytest.raises(SliceError, match="web/shard_00001-00000"):
        prepare(recipe(corpus, tmp_path / "one", ALLOWED, *limits))
    two = "limits.max_skipped_slices=2"
    summary, *_ = run(recipe(corpus, tmp_path / "two", two, *limits))
    assert len(summary.values["learned"]["skipped_slices"]) == 2


def test_a_slice_missing_only_in_the_shards_is_retried_with_the_same_tokenizer(
    corpus, tmp_path, breaking
):
    fix = breaking([tokenize_work], ("shard_00001", 0))
    first, *_ = run(recipe(corpus, tmp_path / "out", ALLOWED))
    assert first.values["quarantined"] == {"skipped": 1}
    fix()
    second, *_ = run(recipe(corpus, tmp_path / "out", ALLOWED))
    assert second.values["quarantined"] == {}
    assert second.values["tokenizer_sha256"] == first.values["tokenizer_sha256"]
    assert "count" not in second.values["stages"]
