"""nanotok gc: removes files that no manifest names, while holding the lease, and reports them."""

from pathlib import Path

import pytest

from nanotok_ray.api import prepare
from tests.support.small_corpus import contents, recipe, write_corpus


@pytest.fixture
def out(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    prepare(recipe(tmp_path / "in", tmp_path / "out"))
    prepare(recipe(tmp_path / "in", tmp_path / "out", "tokenizer.vocab_size=320"))
    return tmp_path / "out"


def test_a_dry_run_removes_nothing_and_lists_what_a_run_removes(out, run):
    before = contents(out, leave_out=())
    code, planned, reported = run("gc", out, "--dry-run")
    assert (code, planned["status"]) == (0, "planned")
    assert "would free" in reported
    assert contents(out, leave_out=()) == before
    sizes = [Path(out, name).stat().st_size for name in planned["files"]]
    code, removed, reported = run("gc", out)
    assert (code, removed["status"]) == (0, "removed")
    assert removed["removed"] == planned["removed"]
    assert removed["removed"]["bytes"] == sum(sizes) > 0
    assert removed["removed"]["records"] + removed["removed"]["files"] == len(sizes)
    assert before.keys() - contents(out, leave_out=()).keys() >= set(planned["files"])
    assert run("verify", out)[0] == 0
    code, again, _ = run("gc", out)
    assert (code, again["removed"]) == (0, {"records": 0, "files": 0, "bytes": 0})
