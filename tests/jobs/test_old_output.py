"""Outputs of earlier versions."""

import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.job.decide import decide
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.shards import find_garbage, verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer, differing_files
from tests.support.golden_files import OLD_OUTPUT
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe

OLD_ROOT = b"/tmp/nanotok-old"

MODIFIED_NS = 1_700_000_000_000_000_000
"""The modification time of every input, which is part of the keys of local files."""

RECIPE = """
tokenizer = {{vocab_size = 320, span_table = 0}}
output = {{path = "{root}/out", work = "{root}/work"}}
limits = {{slice_bytes = 1000, max_quarantined_share = 0.1}}

[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/web/*.parquet"]
column = "text"
split = "last-file"

[[source]]
name = "notes"
kind = "text"
paths = ["{root}/in/notes/*.jsonl"]
column = "text"
id_column = "id"
split = "share:0.25"

[[source]]
name = "chats"
kind = "chat"
paths = ["{root}/in/chats/*.jsonl"]
split = "share:0.25"
"""


@pytest.fixture
def old(tmp_path, in_process):
    """Restore inputs, output and work folder as if the earlier version had run here."""
    for path in filter(Path.is_file, OLD_OUTPUT.rglob("*")):
        data, target = path.read_bytes(), tmp_path / path.relative_to(OLD_OUTPUT)
        if path.suffix == ".gz":
            data, target = gzip.decompress(data), target.with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    for path in filter(Path.is_file, (tmp_path / "in").rglob("*")):
        os.utime(path, ns=(MODIFIED_NS, MODIFIED_NS))
    plan, manifest = tmp_path / "out/plan.json", tmp_path / "out/manifest.json"
    before = plan.read_bytes()
    plan.write_bytes(before.replace(OLD_ROOT, str(tmp_path).encode()))
    manifest.write_bytes(
        manifest.read_bytes().replace(sha256(before), sha256(plan.read_bytes()), 1)
    )
    return tmp_path


def sha256(data):
    return hashlib.sha256(data).hexdigest().encode()


def todo_of(root):
    """Run the job; return the work of each stage."""
    stages = run(parse_recipe(RECIPE.format(root=root))).stages
    return {stage: todo for stage, (todo, _) in stages.items()}


def identities(*folders):
    """Return time and inode of every file of the folders."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def test_an_old_output_is_finished_and_no_byte_is_written(old):
    before = identities(old)
    assert todo_of(old) == {}
    assert identities(old) == before


def test_a_repeated_job_writes_the_old_output(old):
    expected = contents(old / "out")
    (old / "out").rename(old / "former")
    (old / "work").rename(old / "former-work")
    todo = todo_of(old)
    assert (todo["count"], todo["tokenize"]) == (8, 24)
    assert contents(old / "out") == expected


def run_without(old, removed, *, within):
    """Run the job without some files; of those in folders, only they may be written again.

    The output must be the old one. Return the work of each stage.
    """
    expected, before = contents(old / "out"), identities(*within)
    for path in removed:
        path.unlink()
    todo = todo_of(old)
    assert contents(old / "out") == expected
    after = identities(*within)
    written = {path for path in before if after[path] != before[path]}
    assert written == removed & before.keys()
    return todo


def test_only_missing_shards_are_written_again(old):
    removed = {old / "out/shards.idx", old / "out/manifest.json"}
    for record in sorted(old.glob("out/records/tokenize/*/*/*.json"))[::2]:
        files = json.loads(record.read_bytes())["files"]
        removed |= {record, *(old / "out" / file["name"] for file in files)}
    todo = run_without(old, removed, within=[old / "out", old / "work"])
    assert "count" not in todo
    assert "learn" not in todo
    assert todo["tokenize"] == 12


def test_existing_counts_are_not_computed_again(old):
    records = sorted((old / "work").rglob("*.json"))[::2]
    removed = {path for record in records for path in (record, record.with_suffix(".arrow"))}
    removed |= {*(old / "out/tokenizer").iterdir(), old / "out/records/learn.json"}
    todo = run_without(old, removed, within=[old / "work"])
    assert todo["count"] == 4
    assert todo["tokenize"] == 0


TABLE = "tokenizer/span_table.bin"
NOTE = "tokenizer.span_table no longer has an effect; delete it from the recipe"


@pytest.mark.parametrize("spans", ["0", "7"])
def test_the_key_has_no_effect_and_is_reported(corpus, out, spans):
    plain, named = recipe(corpus, out), recipe(corpus, out, f"tokenizer.span_table={spans}")
    assert NOTE in decide(named, command="prepare").values["notes"]
    assert NOTE not in decide(plain, command="prepare").values["notes"]
    assert run(named).notes.count(NOTE) == 1
    before = contents(out)
    assert TABLE not in before
    for job, reported in ((plain, 0), (named, 1)):
        summary, _, notes = run(job)
        assert (summary.values["status"], notes.count(NOTE)) == ("unchanged", reported)
    assert contents(out) == before


def test_an_output_with_a_table_is_finished_and_only_the_table_is_garbage(corpus, out):
    job, folder = recipe(corpus, out, "tokenizer.also=300"), Folder(str(out))
    prepare(job)
    tables = [TABLE, "tokenizer-300/span_table.bin"]
    for name in (*tables, "tokenizer/notes.bin", "tokenizer-mine/span_table.bin", "span_table.bin"):
        folder.write_whole(name, b"NANOSPAN")
    before = contents(out)
    assert prepare(job).values["status"] == "unchanged"
    assert not verify_output(folder).problems
    tokenizer = Tokenizer.load(out / "tokenizer")
    assert differing_files(tokenizer.model, out / "tokenizer") == []
    min((out / "web/train").glob("*.bin")).unlink()
    prepare(job)
    assert contents(out) == before
    garbage = find_garbage(folder)
    assert garbage.all == dict.fromkeys(sorted(tables), 8)
    for name in garbage.all:
        folder.remove(name)
    assert not verify_output(folder).problems
    assert not find_garbage(folder).all
