"""nanotok cache: counts in use, stale counts, and the effect of removal."""

import json
import re

import pytest

from nanotok_ray.cli import main
from tests.support.small_corpus import RECIPE, contents, texts, write_corpus, write_parquet


@pytest.fixture
def job(tmp_path, in_process):
    """Return the path of a recipe that was run, and its work folder."""
    write_corpus(tmp_path / "in")
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(root=tmp_path / "in", out=tmp_path / "out"))
    assert main(["train", str(path)]) == 0
    return str(path), tmp_path / "out-work"


def reported(capsys, *arguments):
    """Run `nanotok cache`; return its JSON line and its text."""
    capsys.readouterr()
    assert main(["cache", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    return json.loads(captured.out), captured.err


def counted(capsys, path, *overrides):
    """Run `nanotok train` again; return the number of counted slices."""
    capsys.readouterr()
    assert main(["train", path, *overrides]) == 0
    lines = capsys.readouterr().err.splitlines()
    (line,) = [line for line in lines if re.match(r"count( \(1 of \d\))?: \d+ slice", line)]
    return int(line.partition(": ")[2].split()[0])


def change_one(tmp_path):
    """Change one file, so that its slices have other keys."""
    write_parquet(tmp_path / "in/text/shard_00001.parquet", texts(40, seed=11))


def test_all_counts_of_a_run_are_in_use(job, capsys):
    path, work = job
    values, shown = reported(capsys, "ls", path)
    (web,) = values["sources"]
    assert (web["slices"], web["texts"], web["in_use"], web["stale"]) == (10, 80, 10, 0)
    assert web["text_bytes"] == sum(len(t.encode()) for n in (0, 1) for t in texts(40, seed=n))
    assert web["bytes"] == sum(p.stat().st_size for p in work.rglob("*") if p.is_file())
    assert web["distinct_spans"] > 0
    assert values["total"] == {key: web[key] for key in web if key != "name"}
    assert "web: 10 slices, 80 texts" in shown
    assert "10 in use, 0 stale" in shown


def test_a_folder_without_an_output_is_listed_without_use(job, capsys):
    _, work = job
    for place in (str(work), f"{work}/counts", f"{work}/counts/"):
        values, shown = reported(capsys, "ls", place, "--files")
        assert values["sources"][0]["slices"] == 10
        assert values["sources"][0]["in_use"] is None
        assert "stale" not in shown
        assert len(values["files"]) == 10
        assert {file["state"] for file in values["files"]} == {"kept"}


def test_a_location_without_counts_is_refused_and_an_unused_work_folder_is_not(
    job, capsys, tmp_path
):
    path, _ = job
    assert main(["cache", "ls", str(tmp_path / "in")]) == 2
    assert "has no counts" in capsys.readouterr().err
    values, shown = reported(capsys, "ls", path, "--set", f"output.work={tmp_path}/none")
    assert values["sources"] == []
    assert "counts      none" in shown


def test_counts_of_changed_inputs_and_other_caps_are_stale_and_only_they_are_removed(
    job, capsys, tmp_path
):
    path, work = job
    old = set(contents(work))
    change_one(tmp_path)
    values, _ = reported(capsys, "ls", path, "--files")
    stale = {file["name"] for file in values["files"] if file["state"] == "stale"}
    assert values["total"]["stale"] == len(stale) == 5
    assert all("shard_00001" in name for name in stale)
    counted(capsys, path, "--doc-cap", "40")  # same folder: ten more counts, all stale
    assert counted(capsys, path) == 5
    before = contents(work)
    planned, shown = reported(capsys, "rm", path, "--dry-run")
    assert contents(work) == before
    assert (planned["status"], planned["removed"]["slices"]) == ("planned", 15)
    assert "would free  counts of 15 slices" in shown
    values, shown = reported(capsys, "rm", path)
    assert (values["status"], values["kept"]["slices"]) == ("removed", 10)
    assert values["removed"] == planned["removed"]
    assert "removed     counts of 15 slices" in shown
    left = contents(work)
    assert set(left) == set(before) - set(values["files"])
    assert all(before[name] == data for name, data in left.items())
    assert len(set(left) & old) == 10  # five sets of two files
    assert reported(capsys, "ls", path)[0]["total"]["stale"] == 0
    assert counted(capsys, path, "--vocab-size", "300") == 0


def test_removed_counts_are_computed_again(job, capsys, tmp_path):
    path, work = job
    (work / "merged").mkdir()
    (work / "merged/part.arrow").write_bytes(b"12")
    (work / "counts/web/.x.tmp").write_bytes(b"1")
    shard = tmp_path / "in/text/shard_00001.parquet"
    shard.write_bytes(b"")  # a plan is impossible, and not needed
    values, _ = reported(capsys, "rm", path, "--all")
    assert values["removed"]["slices"] == 10
    assert {p.name for p in work.rglob("*") if p.is_file()} == {"part.arrow", ".x.tmp"}
    change_one(tmp_path)
    listed, shown = reported(capsys, "ls", path)
    assert (listed["other"], listed["temporaries"]) == ({"files": 1, "bytes": 2}, 1)
    assert "other       1 file, 2 bytes" in shown
    assert counted(capsys, path) > 0


def test_without_a_plan_no_counts_are_stale(job, capsys, tmp_path):
    path, work = job
    (tmp_path / "in/text/shard_00001.parquet").write_bytes(b"")
    before = contents(work)
    assert main(["cache", "rm", path]) == 2
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["status"] == "failed"
    assert main(["cache", "rm", path, "--set", "source.web.split=val"]) == 2
    assert contents(work) == before


def test_the_slice_that_max_chars_cuts_is_in_use_with_those_before_it(job, capsys, tmp_path):
    path, _ = job
    other = ["--set", f"output.work={tmp_path}/cut", "--set", "limits.max_chars=4000"]
    assert main(["train", path, *other]) == 0
    work = tmp_path / "cut"
    values, _ = reported(capsys, "ls", path, *other, "--files")
    assert values["total"]["stale"] == 0
    assert main(["train", path, *other[:3], "limits.max_chars=4001"]) == 0  # another cut
    assert reported(capsys, "ls", path, *other)[0]["total"]["stale"] == 1
    removed = reported(capsys, "rm", path, *other)[0]
    assert removed["removed"]["slices"] == 1
    names = [file["name"] for file in values["files"]]
    assert {p.name for p in work.rglob("*.arrow")} == {f"{n.split('/')[-1]}.arrow" for n in names}
    # Counts of whole slices serve any max_chars; those of the cut slice are stale without it.
    assert reported(capsys, "ls", path, *other[:2])[0]["total"]["stale"] == 1
    first = min(work.rglob("*-00000-*.json"))
    first.unlink()
    after = reported(capsys, "ls", path, *other)[0]["total"]
    assert (after["without_record"], after["stale"]) == (1, 1)
