"""An output of an earlier version counts as finished, and is made again byte for byte.

`golden/output_c7d7598` holds inputs, output and work folder of a job of commit c7d7598 with
`RECIPE`, made in the folder `OLD_ROOT`:

    python -m jobs.prepare /tmp/nanotok-old/recipe.toml --cpus 2

`out/run` is missing, which has hosts and times, and the count files are compressed by gzip.

A test restores the files in its own folder. Keys contain the path of a file relative to its
source, with size, modification time and, for parquet, the hash of the footer. Therefore the
inputs are stored and get their original modification time. `plan.json` has the URL of every file:
`OLD_ROOT` is replaced in it, and its sha256 in `manifest.json`.
"""

import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest

from nanotok_ray.recipe import parse_recipe
from tests.support.golden_files import OLD_OUTPUT
from tests.support.run_job import run
from tests.support.small_corpus import contents

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


def test_only_missing_shards_are_written_again(old):
    expected, before = contents(old / "out"), identities(old / "out", old / "work")
    removed = {old / "out/shards.idx", old / "out/manifest.json"}
    for record in sorted(old.glob("out/records/tokenize/*/*/*.json"))[::2]:
        files = json.loads(record.read_bytes())["files"]
        removed |= {record, *(old / "out" / file["name"] for file in files)}
    for path in removed:
        path.unlink()
    todo = todo_of(old)
    assert "count" not in todo
    assert "learn" not in todo
    assert todo["tokenize"] == 12
    assert contents(old / "out") == expected
    after = identities(old / "out", old / "work")
    written = {path for path in before if after[path] != before[path]}
    assert written == removed


def test_existing_counts_are_not_computed_again(old):
    expected, before = contents(old / "out"), identities(old / "work")
    for path in (*(old / "out/tokenizer").iterdir(), old / "out/records/learn.json"):
        path.unlink()
    records = sorted((old / "work").rglob("*.json"))[::2]
    removed = {path for record in records for path in (record, record.with_suffix(".arrow"))}
    for path in removed:
        path.unlink()
    todo = todo_of(old)
    assert todo["count"] == 4
    assert todo["tokenize"] == 0
    assert contents(old / "out") == expected
    after = identities(old / "work")
    assert {path for path in before if after[path] != before[path]} == removed
