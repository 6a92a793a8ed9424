"""Versions of formats: docs/formats.md lists them, and others are refused."""

import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from nanotok_ray.api import prepare
from nanotok_ray.errors import (
    DAMAGED,
    NEWER,
    OLDER,
    CorruptOutputError,
    TokenizerError,
    next_step,
    other_format,
)
from nanotok_ray.exports import read_export
from nanotok_ray.formats import (
    DocumentIds,
    DocumentImages,
    DocumentIndex,
    from_json,
    ids_parts,
    images_parts,
    index_parts,
    pack_shards_index,
    unpack_shards_index,
)
from nanotok_ray.job import journal
from nanotok_ray.job.holder import Holder
from nanotok_ray.job.journal import (
    JOURNAL_FORMAT,
    FailedAttempt,
    JournalledSlice,
    Stage,
    TimedNote,
    segment_name,
)
from nanotok_ray.job.lease import lease_in_force, lease_name, lease_numbers
from nanotok_ray.loader import open_shards
from nanotok_ray.sources import plan_from_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import recipe

ROOT = Path(__file__).parents[2]
DOCS = "\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
NAMED = re.compile(r'"(nanotok-[a-z-]+ \d+)"')
LAYOUT = re.compile(r'format: ClassVar\[str\] = "([a-z]+ \d+)"')
MAGIC = re.compile(r'^_MAGIC = b"([A-Z]+)', re.MULTILINE)
VERSION = re.compile(r"^_(?:INDEX_)?VERSION = (\d+)", re.MULTILINE)


def sources():
    paths = sorted((ROOT / "nanotok_ray").rglob("*.py"))
    return [path.read_text() for path in paths if path.name != "errors.py"]


def test_the_table_lists_every_format_of_the_code():
    found = {name for text in sources() for own in (NAMED, LAYOUT) for name in own.findall(text)}
    assert len(found) > 15
    assert {name for name in found if f"`{name}`" not in DOCS} == set()


def test_the_table_lists_every_version_of_a_binary_file():
    binary = [text for text in sources() if MAGIC.search(text)]
    assert len(binary) == 4
    for text in binary:
        magic, version = MAGIC.search(text)[1], VERSION.search(text)[1]
        assert re.search(rf"`{magic}` version {version}\b", DOCS), (magic, version)


@pytest.mark.parametrize(
    ("found", "step"),
    [
        ("nanotok-plan 2", NEWER),
        ("nanotok-plan 0", OLDER),
        ("nanotok-planet 2", DAMAGED),
        ("nanotok-plan", DAMAGED),
        (None, DAMAGED),
        (7, DAMAGED),
        ("nanotok-plan " + "9" * 40, DAMAGED),
    ],
)
def test_the_next_step_depends_on_the_writer_of_the_file(found, step):
    assert next_step(found, "nanotok-plan 1") == step
    reported = other_format("a/plan.json", found, "nanotok-plan 1")
    assert reported.startswith("a/plan.json has format ")
    assert "this version reads 'nanotok-plan 1'" in reported
    assert len(reported) < 300


def test_the_content_of_a_file_is_not_printed_unescaped():
    assert "\x1b" not in other_format("a", "\x1b[31m 1", "b 1")


def refuses(read, version, *, error=CorruptOutputError):
    """Check that a reader refuses a version with the version, its own and the next step."""
    with pytest.raises(error) as refused:
        read()
    reported = str(refused.value)
    assert version in reported
    assert "this version reads" in reported or "this nanotok_ray reads" in reported
    assert "; " in reported or ": " in reported
    assert NEWER in reported or OLDER in reported or "again" in reported


def bytes_of(parts):
    return np.frombuffer(b"".join(parts), np.uint8).copy()


@pytest.mark.parametrize("version", [0, 9])
def test_binary_files_of_another_version_are_refused(version):
    ids = bytes_of(ids_parts([(np.frombuffer(b"ab", np.uint8), np.array([0, 2]))]))
    images = bytes_of(images_parts([(1, np.array([[0, 1, 4]]))]))
    index = bytes_of(index_parts([np.array([3])], item_bytes=2))
    shards = bytes_of([pack_shards_index([], sources=[])])
    for data, at, read in (
        (ids, 8, lambda data: DocumentIds(data, name="a.ids", documents=1)),
        (images, 8, lambda data: DocumentImages(data, name="a.images", documents=1)),
        (index, 9, lambda data: DocumentIndex(data, name="a.idx")),
        (shards, 8, lambda data: unpack_shards_index(data.tobytes())),
    ):
        read(data)
        data[at] = version
        refuses(lambda data=data, read=read: read(data), f"version {version}")


@pytest.fixture
def out(out, in_process):
    return out


def change(path, version):
    """Set the version of a JSON file, whose name stays the same."""
    values = json.loads(path.read_bytes())
    name = values["format"].split(" ")[0]
    values["format"] = f"{name} {version}"
    path.write_text(json.dumps(values))
    return values["format"]


def prepared(finished, out):
    """Run the job of the finished output for a copy."""
    return prepare(recipe(finished.parent / "in", out, "limits.slice_bytes=60000"))


def test_a_manifest_of_another_version_is_refused_by_readers_and_rewritten_by_jobs(finished, out):
    before = (out / "manifest.json").read_bytes()
    version = change(out / "manifest.json", 9)
    refuses(lambda: open_shards(str(out)), version)
    prepared(finished, out)
    assert (out / "manifest.json").read_bytes() == before


def test_a_plan_of_another_version_is_refused_by_jobs(finished, out):
    version = change(out / "plan.json", 9)
    refuses(lambda: plan_from_json((out / "plan.json").read_bytes()), version)
    refuses(lambda: prepared(finished, out), version)


def test_a_slice_with_a_record_of_another_version_is_repeated(finished, out):
    path = min((out / "records" / "tokenize").rglob("*.json"))
    before = path.read_bytes()
    version = change(path, 9)
    data = path.read_bytes()
    refuses(lambda: from_json(data, name="a", expected_format="nanotok-record 1"), version)
    summary = prepared(finished, out)
    assert summary.values["status"] == "done"
    assert json.loads(path.read_bytes())["format"] == json.loads(before)["format"]


def test_a_lease_of_another_version_has_an_unknown_holder(out):
    path = out / lease_name(max(lease_numbers(Folder(str(out)))))
    change(path, 9)
    seen = lease_in_force(Folder(str(out)))
    assert seen is not None
    assert (seen.lease, seen.is_free(Holder())) == (None, False)


def test_a_tokenizer_of_another_version_is_refused(out):
    folder, path = str(out / "tokenizer"), out / "tokenizer/tokenizer.txt"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"nanotok-tokenizer 1\n", b"nanotok-tokenizer 5\n", 1))
    refuses(lambda: Tokenizer.load(folder), "nanotok-tokenizer 5", error=TokenizerError)
    path.write_bytes(re.sub(rb"unicode \S+", b"unicode 99.0.0", data, count=1))
    with pytest.raises(TokenizerError, match=r"99\.0\.0.*install"):
        Tokenizer.load(folder)


def test_an_export_of_another_version_is_refused(tmp_path):
    (tmp_path / "export.json").write_text('{"format": "nanotok-export 9"}')
    refuses(lambda: read_export(Folder(str(tmp_path))), "nanotok-export 9")


PAGE = (ROOT / "docs/formats.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `([a-z ]+)` \| (.*) \|$", PAGE, re.MULTILINE))
COUNTED = {"done", "failed", "done_bytes", "progress", "seconds"}
"""Fields that the event of a stage's begin lacks."""


@pytest.mark.parametrize(
    ("event", "model"),
    [("slice", JournalledSlice), ("attempt", FailedAttempt), ("note", TimedNote), ("stage", Stage)],
)
def test_an_event_on_the_page_equals_its_model(event, model):
    own = {each.name for each in fields(model)} - {"at"}
    if model is Stage:
        own = own - COUNTED
    assert own <= set(re.findall(r"`(\w+)`", ROWS[event]))


def test_every_event_is_on_the_page():
    assert journal.ROWS.keys() <= ROWS.keys()


def test_names_and_versions_match_the_code():
    assert f"OUT/{segment_name(17, 0)}" in PAGE
    assert f"`{JOURNAL_FORMAT}`" in PAGE


def test_the_example_reads_the_first_document(finished):
    shard = min(finished.glob("web/train/*.bin")).with_suffix("")
    example = re.search(r"```python\n(from pathlib.*?)```", PAGE, re.DOTALL)[1]
    names = {}
    exec(example.replace("/data/out/web/train/NAME", str(shard)), names)
    assert any(
        names["first"].tolist() == ids.tolist() for ids in open_shards(finished, "train", "web")
    )
