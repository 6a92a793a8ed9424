"""Very many count files are merged, and large ones summed by tasks: the tokenizer is the same."""

import json
import os
from functools import partial

import pytest

from nanotok_ray.api import train
from nanotok_ray.cli import main
from nanotok_ray.counts import merge_groups
from nanotok_ray.job import reducing
from tests.support.run_job import run
from tests.support.small_corpus import RECIPE, contents, recipe, texts, write_parquet


@pytest.fixture(autouse=True)
def times(corpus):
    """Set the times of files, which are part of the keys by which files are grouped."""
    for path in corpus.rglob("*.*"):
        os.utime(path, (2, 2))


@pytest.fixture
def merging(monkeypatch):
    """Merge if there are at least 4 count files, about 3 of them into one."""
    monkeypatch.setattr(reducing, "MERGE_ABOVE", 3)
    monkeypatch.setattr(reducing, "merge_groups", partial(merge_groups, target=3))


@pytest.fixture
def in_parts(monkeypatch):
    """Sum about 1,000 bytes of count files per part."""
    monkeypatch.setattr(reducing, "PART_BYTES", 1000)


OVERRIDES = (
    "limits.slice_bytes=1000",
    "source.chats.count=true",
    "source.chats.weight=3",
    "tokenizer.min_count=2",
)


def test_another_vocabulary_merges_nothing_and_a_new_file_only_its_group(corpus, tmp_path, merging):
    first = run(recipe(corpus, tmp_path / "out", *OVERRIDES), train).stages
    groups = first["merge"][0]
    again = run(
        recipe(corpus, tmp_path / "out", *OVERRIDES, "tokenizer.vocab_size=340"), train
    ).stages
    assert (again["count"][0], again["merge"]) == (0, (0, groups))
    write_parquet(corpus / "text/shard_00000b.parquet", texts(8, seed=8))
    more = run(recipe(corpus, tmp_path / "out", *OVERRIDES), train).stages
    assert more["count"][0] == 1
    assert 1 <= more["merge"][0] <= 2
    assert more["merge"][1] >= groups - 1


def test_merged_files_and_sums_are_listed_and_stale_ones_removed(
    corpus, tmp_path, merging, in_parts, capsys
):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(root=corpus, out=tmp_path / "out"))

    def reported(command, *more):
        sets = [f"--set={override}" for override in (*OVERRIDES, *more)]
        assert main(["cache", command, str(path), *sets]) == 0
        return json.loads(capsys.readouterr().out)

    num_parts = run(recipe(corpus, tmp_path / "out", *OVERRIDES), train).stages["reduce"][0]
    listed = reported("ls")
    sums = [source for source in listed["sources"] if source["name"] == "all sources"]
    assert [(source["merged"], source["stale"]) for source in sums] == [(num_parts, 0)]
    merged = listed["total"]["merged"] - num_parts
    assert merged > 1
    assert listed["total"]["stale"] == 0
    removed = reported("rm", "tokenizer.min_count=3")["removed"]
    assert (removed["slices"], removed["merged"]) == (0, num_parts)
    assert not list((tmp_path / "out-work/reduced").rglob("*.*"))
    write_parquet(corpus / "text/shard_00000b.parquet", texts(8, seed=8))
    removed = reported("rm")["removed"]
    assert (removed["slices"], removed["merged"]) == (0, merged)
    again = run(recipe(corpus, tmp_path / "out", *OVERRIDES), train).stages
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


def test_existing_parts_are_not_summed_again(corpus, tmp_path, in_parts):
    job = recipe(corpus, tmp_path / "out", *OVERRIDES, "tokenizer.vocab_size=340")
    num_parts = run(recipe(corpus, tmp_path / "out", *OVERRIDES), train).stages["reduce"][0]
    [lost, damaged, *_] = sorted((tmp_path / "out-work/reduced").rglob("*.json"))
    lost.unlink()
    damaged.with_suffix(".arrow").write_bytes(b"")
    assert run(job, train).stages["reduce"] == (2, num_parts - 2)
    other = recipe(corpus, tmp_path / "out", *OVERRIDES, "tokenizer.min_count=3")
    assert run(other, train).stages["reduce"] == (num_parts, 0)
