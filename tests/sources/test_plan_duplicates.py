"""Files that are read more than once, or belong to train and val: a note instead of an error."""

import uuid
from dataclasses import replace

import pytest

from nanotok_ray.recipe import parse_recipe
from nanotok_ray.sources import make_plan
from nanotok_ray.sources.plan_build import MAX_INODE_LOOKUPS, duplicate_notes
from nanotok_ray.storage import Folder

SOURCE = '[[source]]\nname = "{name}"\nkind = "text"\npaths = {paths}\nsplit = "{split}"\n'
REST = '[tokenizer]\nvocab_size = 300\n[output]\npath = "{out}"\n'
LINE = b'{"text": "a"}\n'


def notes(tmp_path, *sources):
    """Plan sources of (name, paths, split) and return the notes on equal files."""
    text = "".join(
        SOURCE.format(name=name, paths=[str(path) for path in paths], split=split)
        for name, paths, split in sources
    )
    plan = make_plan(parse_recipe(text.replace("'", '"') + REST.format(out=tmp_path / "_out")))
    return [note for note in plan.notes if "same" in note]


@pytest.fixture
def corpus(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jsonl").write_bytes(LINE)
    return tmp_path


def test_a_file_in_two_sources_gets_a_note(corpus, tmp_path):
    assert notes(tmp_path, ("web", [corpus], "train")) == []  # equal files are not the same file
    (note,) = notes(tmp_path, ("web", [corpus], "train"), ("more", [corpus / "b.jsonl"], "train"))
    assert note == (
        "b.jsonl of source 'web' (train) and b.jsonl of source 'more' (train) are the same file: "
        "their documents are in the output more than once"
    )


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_links_get_a_note_and_one_in_train_and_val_a_separate_one(corpus, tmp_path, kind):
    for number, name in enumerate(("a", "b")):
        getattr(corpus / f"link{number}.jsonl", kind)(corpus / f"{name}.jsonl")
    (note,) = notes(tmp_path, ("web", [corpus], "train"))
    assert note.startswith("a.jsonl of source 'web' (train) and link0.jsonl of source 'web' (train")
    assert "are the same file, and so are 1 more: " in note
    getattr(corpus / "z.jsonl", kind)(corpus / "c.jsonl")
    leak, other = notes(tmp_path, ("web", [corpus], "last-file"))
    assert leak == (
        "c.jsonl of source 'web' (train) and z.jsonl of source 'web' (val) are the same file: "
        "documents for validation are also in the training data"
    )
    assert "a.jsonl" in other


def test_one_document_in_two_splits_is_reported_unless_the_shares_are_equal(corpus, tmp_path):
    own = [corpus / "a.jsonl"]
    (note,) = notes(tmp_path, ("x", own, "share:0.5"), ("y", own, "share:0.5"))
    assert "more than once" in note
    (note,) = notes(tmp_path, ("x", own, "share:0.5"), ("y", own, "train"))
    assert "validation" in note


@pytest.fixture
def source(corpus, tmp_path):
    """The planned source of the corpus."""
    text = SOURCE.format(name="web", paths=f'["{corpus}/*.jsonl"]', split="train")
    (source,) = make_plan(parse_recipe(text + REST.format(out=tmp_path / "out"))).sources
    return source


def test_on_a_store_size_and_etag_identify_a_file(source):
    root = f"s3://bucket/{uuid.uuid4().hex}"
    files = [
        replace(file, url=f"{root}/{file.path}", etag=etag, mtime_ns=None)
        for file, etag in zip(source.files, ("1", "2", "1"), strict=True)
    ]
    (note,) = duplicate_notes([replace(source, files=tuple(files))])
    assert "a.jsonl of source 'web' (train) and c.jsonl of source 'web' (train) have the" in note
    same = tuple(replace(file, etag=None) for file in files)
    assert list(duplicate_notes([replace(source, files=same)])) == []
    assert "a.jsonl" in next(duplicate_notes([replace(source, files=(*same[:2], same[0]))]))


def test_a_remote_file_in_two_sources_gets_a_note(tmp_path):
    folder = Folder(f"memory:///{uuid.uuid4().hex}")
    folder.write_whole("a.jsonl", LINE)
    path = folder.join("a.jsonl")
    (note,) = notes(tmp_path, ("x", [path], "train"), ("y", [path], "train"))
    assert "a.jsonl of source 'x' (train) and a.jsonl of source 'y' (train)" in note


def test_a_bounded_number_of_files_of_one_size_and_time_is_compared(source, monkeypatch):
    count = 4 * MAX_INODE_LOOKUPS
    files = tuple(replace(source.files[0], url=f"/none/{n}", path=f"{n}") for n in range(count))
    looked = []

    def stat(path, **_):
        looked.append(path)
        raise FileNotFoundError

    monkeypatch.setattr("pathlib.Path.stat", stat)
    assert list(duplicate_notes([replace(source, files=files, splits=("train",) * count)])) == []
    assert len(looked) == MAX_INODE_LOOKUPS
