"""Outputs of an earlier commit: they are finished, resumed, and made again with the same bytes."""

import json
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

from nanotok_ray.api import prepare, verify_export
from nanotok_ray.job.events import StageStarted
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from tests.support.golden_files import OLD_OUTPUTS
from tests.support.golden_jobs import PYARROW, STORE, restore
from tests.support.s3_server import s3_behind_a_proxy, upload

CASES = [path.name.removesuffix(".tar.gz") for path in sorted(OLD_OUTPUTS.iterdir())]
ON_S3 = "s3"


def is_of_run(name):
    """Return whether a file belongs to the run and not to its results."""
    return "/run/" in name or "/probe/" in name


class OldOutput:
    """An output that was restored as if its job had run here; names begin with `out/` or `work/`.

    With a proxy, output and work folder are on its store.
    """

    def __init__(self, case, root, proxy):
        self.recipe = parse_recipe(restore(OLD_OUTPUTS / f"{case}.tar.gz", root))
        self.folder, self.proxy = Folder(str(root) if proxy is None else STORE), proxy
        self.out = Folder(self.recipe.output.path)
        self.work = self.recipe.output.work.removeprefix(f"{self.folder.url}/")
        if proxy is not None:
            self.remove(self.folder.list())
            upload(root / "store", STORE)
        self.exports = [
            name.rpartition("/")[0] for name in self.names("out/export/", "/export.json")
        ]

    def names(self, prefix="", suffix=""):
        """Return the names of the files, except those of runs."""
        found = (name for name in self.folder.list(prefix) if name.endswith(suffix))
        return [name for name in found if not is_of_run(name)]

    def contents(self):
        """Return the sha256 of every file that has the same bytes with this version of pyarrow."""
        assert not self.folder.list_temporaries()
        other = () if pa.__version__ == PYARROW else ("out/export/parquet/",)
        return {
            name: self.folder.sha256(name) for name in self.names() if not name.startswith(other)
        }

    def export_problems(self):
        """Return the problems of the exports; every document is compared."""
        folders = [Folder(self.folder.join(top)) for top in self.exports]
        return [problem for each in folders for problem in verify_export(each, self.out)[1]]

    def halves(self, top, stage):
        """Return every second record of a stage in a folder, with the files that it names."""
        records = self.names(f"{top}/{stage}", ".json")[::2]
        return {record: self.named(top, record, "files") for record in records}

    def named(self, top, name, field):
        """Return the files that a field of a JSON file names, as files below a folder."""
        files = json.loads(self.folder.read_bytes(name))[field]
        return {f"{top}/{file['name']}" for file in files}

    @property
    def last(self):
        """The files that a job writes at its end, when it has all records."""
        names = {"out/manifest.json", "out/shards.idx"}
        for top in self.exports:
            name = f"{top}/export.json"
            names |= {name, *self.named(top, name, "joint_files")}
        return names

    def remove(self, names):
        for name in names:
            self.folder.remove(name)

    def run(self):
        """Run the job; return the work of each stage, and the written and removed files."""
        before, events, todo = self.identities(), [], Counter()
        prepare(self.recipe, on_event=events.append)
        for event in events:
            if isinstance(event, StageStarted):
                todo[event.stage] += event.todo
        changed = {name for name, _ in before ^ self.identities()}
        return dict(todo), {name for name in changed if not is_of_run(name)}

    def identities(self):
        """Return values that differ if a file is written: of a store, the requests so far."""
        if self.proxy is not None:
            top = f"/{STORE.removeprefix('s3://')}/"
            return {
                (unquote(path).removeprefix(top), number)
                for number, (method, path, _) in enumerate(self.proxy.requests)
                if method not in {"GET", "HEAD"}
            }
        root = Path(self.folder.url)
        return {
            (path.relative_to(root).as_posix(), (path.stat().st_mtime_ns, path.stat().st_ino))
            for path in root.rglob("*")
            if path.is_file()
        }


@pytest.fixture(scope="module")
def store():
    with s3_behind_a_proxy() as proxy:
        yield proxy


@pytest.fixture(params=CASES)
def old(request, tmp_path, in_process):
    proxy = request.getfixturevalue("store") if request.param == ON_S3 else None
    return OldOutput(request.param, tmp_path / "old", proxy)


def test_an_old_output_is_finished_and_no_byte_is_written(old):
    assert old.run() == ({}, set())
    assert [*verify_output(old.out, depth="full").problems, *old.export_problems()] == []


def test_a_repeated_job_writes_the_old_output(old):
    expected = old.contents()
    counts = old.names(f"{old.work}/counts/", ".json")
    records = old.names("out/records/tokenize/", ".json")
    old.remove({*old.names("out/"), *old.names(f"{old.work}/")})
    todo, _ = old.run()
    assert (todo.get("count", 0), todo["tokenize"]) == (len(counts), len(records))
    assert (old.contents(), old.export_problems()) == (expected, [])


def test_only_missing_shards_and_exports_are_written_again(old):
    expected = old.contents()
    shards = old.halves("out", "records/tokenize/")
    exported = [old.halves(top, "records/") for top in old.exports]
    removed = old.last
    for halves in (shards, *exported):
        removed |= halves.keys() | set().union(*halves.values())
    old.remove(removed)
    todo, changed = old.run()
    assert (changed, old.contents(), old.export_problems()) == (removed, expected, [])
    assert todo["tokenize"] == len(shards)
    assert not todo.keys() & {"count", "learn"}


def test_existing_counts_are_not_computed_again(old):
    expected = old.contents()
    counts = old.halves(old.work, "counts/")
    removed = old.last | counts.keys() | set().union(*counts.values())
    removed |= {*old.names("out/tokenizer"), *old.names("out/records/learn.json")}
    old.remove(removed)
    todo, changed = old.run()
    assert (changed, old.contents()) == (removed, expected)
    assert (todo.get("count", 0), todo["tokenize"]) == (len(counts), 0)
