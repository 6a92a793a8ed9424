"""Garbage is exactly the files that no manifest names."""

import json
import socket
from pathlib import Path

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.errors import CorruptOutputError, IncompleteOutputError
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.shards import find_garbage, verify_output
from nanotok_ray.storage import CHECKSUMS, Folder, checked_name
from tests.support.small_corpus import contents, recipe, texts, write_parquet

HOST = socket.gethostname()[:40]
FOREIGN = [
    *("notes.txt", "web/train/README.md", "web/notes/a-00000-000-0123456789abcdef.bin"),
    *("mine/train/a-00000-000-0123456789abcdef.bin", "tokenizer/x.tmp", "work/a.tmp", "mine.tmp"),
    *("work/train/b-00000-000-0123456789abcdef.bin", "records/mine.json", "run/mine.txt"),
    *(f"work/.a.{HOST}-1-0123456789ab.tmp", "work/.a.host-1-0123456789ab.tmp"),
    f"run/lease/.000001.json.{HOST}-1-0123456789ab.tmp",
]
LEFT = [
    *("web/train/.a.bin.host-1-0123456789ab.tmp", ".manifest.json.a.b-1-0123456789ab.tmp"),
    *("records/tokenize/web/train/.a.json.host-1-0123456789ab.tmp", "run/probe/0123456789ab"),
    *("run/probe/0123456789ab-00ff", "run/lease/000000.json"),
    "web/train/a-00000-000-0123456789abcdef.bin",
    *("tokenizer/.tokenizer.pkl.host-1-0123456789ab.tmp", "export/llmc/.a.host-1-0123456789ab.tmp"),
    f"work/probe/.0123456789ab.{HOST}-4194305-0123456789ab.tmp",
    f"run/lease/.000001.json.{HOST}-4194305-0123456789ab.tmp",
]


@pytest.fixture
def out(corpus, tmp_path):
    prepare(recipe(corpus, tmp_path / "out"))
    return Folder(str(tmp_path / "out"))


def write(out, names):
    for name in names:
        path = Path(out.join(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("abc")


def test_only_files_of_killed_processes_are_garbage_in_a_finished_output(out):
    write(out, FOREIGN)
    garbage = find_garbage(out)
    assert (garbage.all, garbage.num_bytes) == ({}, 0)
    kept = [name for name in contents(Path(out.url)) if name.split("/")[0] in {"web", "chats"}]
    assert garbage.named_bytes > sum(Path(out.join(name)).stat().st_size for name in kept) - 100
    write(out, LEFT)
    garbage = find_garbage(out)
    assert sorted(garbage.all) == sorted(LEFT)
    assert garbage.num_bytes == 3 * len(LEFT)


def test_a_run_removes_temporary_files_of_killed_processes_at_its_end(corpus, tmp_path):
    other = tmp_path / "work"
    work = f'output.work="{other}"'
    prepare(recipe(corpus, tmp_path / "out", work))
    left = [name for name in LEFT if name.endswith(".tmp")]
    write(Folder(str(tmp_path / "out")), [*FOREIGN, *left])
    write(Folder(str(other)), names := [name for name in [*FOREIGN, *LEFT] if "work/" in name])
    (tmp_path / "out/manifest.json").unlink()
    prepare(recipe(corpus, tmp_path / "out", work))
    out = Folder(str(tmp_path / "out"))
    found = {*out.list(), *out.list_temporaries()}
    assert (set(FOREIGN) - found, set(left) & found) == (set(), set())
    work = Folder(str(other))
    assert set(names) - {*work.list(), *work.list_temporaries()} == set(left) & set(names)


def test_after_a_change_of_the_tokenizer_only_the_new_shards_are_kept(out, tmp_path):
    first = contents(tmp_path / "out")
    other = recipe(tmp_path / "in", tmp_path / "out", "tokenizer.vocab_size=320")
    prepare(other)
    garbage = find_garbage(out)
    records = [name for name in first if name.startswith("records/tokenize/")]
    shards = [name for name in first if name.split("/")[0] in {"web", "chats"}]
    assert sorted(garbage.records) == sorted(records)
    checksums = {name for name in garbage.files if name.startswith(CHECKSUMS)}
    assert {checked_name(name) for name in checksums} == {*records, "records/learn.json"}
    assert set(garbage.files) - checksums == set(shards)
    assert not garbage.last
    for name in garbage.all:
        out.remove(name)
    prepare(recipe(tmp_path / "in", tmp_path / "fresh", "tokenizer.vocab_size=320"))
    assert contents(tmp_path / "out").keys() == contents(tmp_path / "fresh").keys()
    assert verify_output(out).passed
    assert not find_garbage(out).all


def test_the_records_of_a_removed_source_are_deleted_last(out, tmp_path):
    write(out, ["chats/train/README.md", "chats/notes.txt", "records/tokenize/chats/notes.txt"])
    dropped = [name for name in contents(tmp_path / "out") if "chats/" in name]
    one = parse_recipe(
        f'[[source]]\nname = "web"\nkind = "text"\npaths = ["{tmp_path}/in/text/*.parquet"]\n'
        f'[tokenizer]\nvocab_size = 350\n[output]\npath = "{out.url}"\nwork = "{out.url}-work"\n'
        "allow_removed = true\n[limits]\nslice_bytes = 3000\n"
    )
    prepare(one)
    garbage = find_garbage(out)
    mine = {"chats/train/README.md", "chats/notes.txt", "records/tokenize/chats/notes.txt"}
    checksums = {name for name in garbage.files if name.startswith(CHECKSUMS)}
    assert {checked_name(name) for name in checksums} == {*garbage.last, "plan.json"}
    assert set(garbage.all) - checksums == set(dropped) - mine
    assert garbage.last.keys() == {n for n in garbage.all if n.startswith("records/")}
    for name in list(garbage.all)[:-1]:  # killed half-way
        out.remove(name)
    assert list(find_garbage(out).all) == list(garbage.all)[-1:]


def test_a_changed_file_leaves_its_old_quarantine_as_garbage(out, tmp_path):
    bad = tmp_path / "in/text/shard_00001.parquet"
    write_parquet(bad, [*texts(40, seed=9), None])
    roomy = recipe(tmp_path / "in", tmp_path / "out", "limits.max_quarantined_share=0.5")
    prepare(roomy)
    [quarantine] = out.list("quarantine/")
    assert quarantine not in find_garbage(out).all
    write_parquet(bad, texts(40, seed=1))
    prepare(roomy)
    assert quarantine in find_garbage(out).files


def test_without_a_manifest_nothing_is_garbage(out):
    out.remove("manifest.json")
    with pytest.raises(IncompleteOutputError, match="run the job again"):
        find_garbage(out)


@pytest.mark.parametrize("spoiled", ["plan", "record", "shard"])
def test_files_that_the_manifest_does_not_name_are_refused(out, spoiled):
    if spoiled == "plan":
        out.write_bytes("plan.json", out.read_bytes("plan.json") + b" ")
    elif spoiled == "record":
        name = out.list("records/tokenize/")[0]
        values = json.loads(out.read_bytes(name))
        out.write_bytes(name, json.dumps(values).encode())
    else:
        out.remove(next(name for name in out.list("web/") if name.endswith(".idx")))
    with pytest.raises(CorruptOutputError, match="cannot be determined"):
        find_garbage(out)
