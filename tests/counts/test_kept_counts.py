"""Work folders: sets of counts with their records, other files, and removal."""

import uuid

import pytest

from nanotok_ray.api import train
from nanotok_ray.counts import cached_counts, remove_counts
from nanotok_ray.storage import Folder
from tests.support.small_corpus import recipe, write_corpus


@pytest.fixture
def work(tmp_path, in_process):
    """Return a work folder of ten sets of counts, one with a quarantine list."""
    write_corpus(tmp_path / "in")
    with (tmp_path / "in/chats/0.jsonl").open("a") as file:
        file.write("oops\n")
    overrides = ("source.chats.count=true", "limits.max_quarantined_share=1.0")
    train(recipe(tmp_path / "in", tmp_path / "out", *overrides))
    return tmp_path / "out-work"


def test_sets_have_their_records_and_all_their_files(work):
    found = cached_counts(str(work))
    assert {each.source for each in found.counts} == {"web", "chats"}
    assert [each.name for each in found.counts] == sorted(each.name for each in found.counts)
    assert sum(each.number("texts") for each in found.counts if each.source == "web") == 80
    files = {name: size for each in found.counts for name, size in each.files.items()}
    assert files == {
        path.relative_to(work).as_posix(): path.stat().st_size
        for path in work.rglob("*")
        if path.is_file()
    }
    assert sum(name.endswith(".quarantine.jsonl") for name in files) == 1
    assert (found.other, found.temporaries) == ({}, ())


def test_other_files_are_listed_separately(work):
    (work / "merged").mkdir()
    (work / "merged/all.arrow").write_bytes(b"12")
    (work / "counts/notes.txt").write_bytes(b"123")
    (work / "counts/web/notes.txt").write_bytes(b"1")
    (work / "counts/web/.a.arrow.host-1-2.tmp").write_bytes(b"1")
    found = cached_counts(str(work))
    assert found.other == {"counts/notes.txt": 3, "counts/web/notes.txt": 1, "merged/all.arrow": 2}
    assert found.temporaries == ("counts/web/.a.arrow.host-1-2.tmp",)


def test_an_incomplete_set_has_no_record(work):
    sets = cached_counts(str(work)).counts[:4]
    record, other_record, counts, other_counts = (
        work / f"{each.name}.{suffix}"
        for each, suffix in zip(sets, ("json", "json", "arrow", "arrow"), strict=True)
    )
    record.unlink()
    other_record.write_text("{")
    counts.write_bytes(counts.read_bytes()[:-1])
    other_counts.unlink()
    found = cached_counts(str(work)).counts[:4]
    assert [each.name for each in found] == [each.name for each in sets]
    for each in found:
        assert each.record is None
        assert each.number("texts") == 0
        assert each.num_bytes > 0


def test_removal_deletes_the_record_first_and_keeps_other_sets(work, monkeypatch):
    found = cached_counts(str(work))
    chosen = next(each for each in found.counts if len(each.files) == 3)
    removed = []
    remove = Folder.remove

    def watched(self, name):
        removed.append(name)
        remove(self, name)

    monkeypatch.setattr(Folder, "remove", watched)
    remove_counts(str(work), chosen)
    assert removed[0] == f"{chosen.name}.json"
    assert sorted(removed) == sorted(chosen.files)
    assert cached_counts(str(work)).counts == tuple(each for each in found.counts if each != chosen)


def test_remote_and_missing_work_folders_are_listed(tmp_path):
    folder = Folder(f"memory:///{uuid.uuid4().hex}")
    for url in (str(tmp_path / "none"), folder.url):
        found = cached_counts(url)
        assert (found.counts, found.other, found.temporaries) == ((), {}, ())
    folder.write_whole("counts/web/a-00000-0123456789abcdef.arrow", b"12345")
    (found,) = cached_counts(folder.url).counts
    assert (found.source, found.num_bytes, found.record) == ("web", 5, None)
    remove_counts(folder.url, found)
    assert folder.list() == []
