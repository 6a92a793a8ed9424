"""nanotok cache: counts in use, stale counts, and the effect of removal."""

import re

import pytest

from tests.support.small_corpus import contents, texts, write_parquet


@pytest.fixture
def job(job, tmp_path, run):
    """Return the path of a recipe that was run, and its work folder."""
    assert run("train", job[0])[0] == 0
    return job[0], tmp_path / "out-work"


@pytest.fixture
def cache(run):
    """Return a function that runs `nanotok cache` and returns its JSON line and its text."""

    def run_command(*words):
        code, values, shown = run("cache", *words)
        assert code == 0
        return values, shown

    return run_command


@pytest.fixture
def counted(run):
    """Return a function that runs `nanotok train` again and returns the number of new slices."""

    def train(path, *overrides):
        code, _, shown = run("train", path, *overrides)
        assert code == 0
        return int(re.search(r"^count(?: \(1 of \d\))?: (\d+) slice", shown, re.MULTILINE)[1])

    return train


def change_one(tmp_path):
    """Change one file, so that its slices have other keys."""
    write_parquet(tmp_path / "in/text/shard_00001.parquet", texts(40, seed=11))


def test_all_counts_of_a_run_are_in_use(job, cache):
    path, work = job
    values, shown = cache("ls", path)
    (web,) = values["sources"]
    assert (web["slices"], web["texts"], web["in_use"], web["stale"]) == (10, 80, 10, 0)
    assert web["text_bytes"] == sum(len(t.encode()) for n in (0, 1) for t in texts(40, seed=n))
    assert web["bytes"] == sum(p.stat().st_size for p in work.rglob("*") if p.is_file())
    assert web["distinct_spans"] > 0
    assert values["total"] == {key: web[key] for key in web if key != "name"}
    assert "web: 10 slices, 80 texts" in shown
    assert "10 in use, 0 stale" in shown


def test_a_folder_without_an_output_is_listed_without_use(job, cache):
    _, work = job
    for place in (str(work), f"{work}/counts", f"{work}/counts/"):
        values, shown = cache("ls", place, "--files")
        assert values["sources"][0]["slices"] == 10
        assert values["sources"][0]["in_use"] is None
        assert "stale" not in shown
        assert len(values["files"]) == 10
        assert {file["state"] for file in values["files"]} == {"kept"}


def test_an_unused_work_folder_has_no_counts(job, cache, tmp_path):
    values, shown = cache("ls", job[0], "--set", f"output.work={tmp_path}/none")
    assert values["sources"] == []
    assert "counts      none" in shown


def test_counts_of_changed_inputs_and_other_caps_are_stale_and_only_they_are_removed(
    job, cache, counted, tmp_path
):
    path, work = job
    old = set(contents(work))
    change_one(tmp_path)
    values, _ = cache("ls", path, "--files")
    stale = {file["name"] for file in values["files"] if file["state"] == "stale"}
    assert values["total"]["stale"] == len(stale) == 5
    assert all("shard_00001" in name for name in stale)
    counted(path, "--doc-cap", "40")  # same folder: ten more counts, all stale
    assert counted(path) == 5
    before = contents(work)
    planned, shown = cache("rm", path, "--dry-run")
    assert contents(work) == before
    assert (planned["status"], planned["removed"]["slices"]) == ("planned", 15)
    assert "would free  counts of 15 slices" in shown
    values, shown = cache("rm", path)
    assert (values["status"], values["kept"]["slices"]) == ("removed", 10)
    assert values["removed"] == planned["removed"]
    assert "removed     counts of 15 slices" in shown
    left = contents(work)
    assert set(left) == set(before) - set(values["files"])
    assert all(before[name] == data for name, data in left.items())
    assert len(set(left) & old) == 10  # five sets of two files
    assert cache("ls", path)[0]["total"]["stale"] == 0
    assert counted(path, "--vocab-size", "300") == 0


def test_removed_counts_are_computed_again(job, cache, counted, tmp_path):
    path, work = job
    (work / "merged").mkdir()
    (work / "merged/part.arrow").write_bytes(b"12")
    (work / "counts/web/.x.tmp").write_bytes(b"1")
    shard = tmp_path / "in/text/shard_00001.parquet"
    shard.write_bytes(b"")  # a plan is impossible, and not needed
    values, _ = cache("rm", path, "--all")
    assert values["removed"]["slices"] == 10
    assert {p.name for p in work.rglob("*") if p.is_file()} == {"part.arrow", ".x.tmp"}
    change_one(tmp_path)
    listed, shown = cache("ls", path)
    assert (listed["other"], listed["temporaries"]) == ({"files": 1, "bytes": 2}, 1)
    assert "other       1 file, 2 bytes" in shown
    assert counted(path) > 0


def test_without_a_plan_no_counts_are_stale(job, run, tmp_path):
    path, work = job
    (tmp_path / "in/text/shard_00001.parquet").write_bytes(b"")
    before = contents(work)
    for more in ([], ["--set", "source.web.split=val"]):
        code, values, _ = run("cache", "rm", path, *more)
        assert (code, values["status"]) == (2, "failed")
    assert contents(work) == before


def test_the_slice_that_max_chars_cuts_is_in_use_with_those_before_it(job, run, cache, tmp_path):
    path, _ = job
    other = ["--set", f"output.work={tmp_path}/cut", "--set", "limits.max_chars=4000"]
    assert run("train", path, *other)[0] == 0
    work = tmp_path / "cut"
    values, _ = cache("ls", path, *other, "--files")
    assert values["total"]["stale"] == 0
    assert run("train", path, *other[:3], "limits.max_chars=4001")[0] == 0  # another cut
    assert cache("ls", path, *other)[0]["total"]["stale"] == 1
    removed = cache("rm", path, *other)[0]
    assert removed["removed"]["slices"] == 1
    names = [file["name"] for file in values["files"]]
    assert {p.name for p in work.rglob("*.arrow")} == {f"{n.split('/')[-1]}.arrow" for n in names}
    # Counts of whole slices serve any max_chars; those of the cut slice are stale without it.
    assert cache("ls", path, *other[:2])[0]["total"]["stale"] == 1
    first = min(work.rglob("*-00000-*.json"))
    first.unlink()
    after = cache("ls", path, *other)[0]["total"]
    assert (after["without_record"], after["stale"]) == (1, 1)
