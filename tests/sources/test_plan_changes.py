"""The plan when inputs change, repeat, or disagree with the recipe."""

import gzip
import json
import os
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest

from nanotok_ray.api import prepare
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.formats import to_values
from nanotok_ray.job.events import Note, StageStarted
from nanotok_ray.job.frozen_plan import frozen_plan
from nanotok_ray.job.job_plan import decide
from nanotok_ray.recipe import OutputRecipe, Recipe, SourceRecipe, parse_recipe
from nanotok_ray.sources import (
    EarlierPlan,
    changes,
    losses,
    make_plan,
    slice_changes,
    start,
)
from nanotok_ray.sources.plan_build import MAX_INODE_LOOKUPS, duplicate_notes
from nanotok_ray.sources.plan_changes import FileChange
from nanotok_ray.storage import Folder, read_start
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import plan_of, recipe, texts, write_corpus, write_parquet


@pytest.fixture
def corpus(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    (tmp_path / "in/lines").mkdir()
    for number in range(3):
        lines = [f'{{"text": "line {n} of {number}"}}\n' for n in range(20)]
        (tmp_path / f"in/lines/{number}.jsonl").write_text("".join(lines))
    return tmp_path / "in"


def with_lines(corpus, out, *overrides):
    """Return the recipe of the small corpus with text in JSON lines, which have no footers."""
    paths = f'source.web.paths=["{corpus}/lines"]'
    return recipe(corpus, out, paths, "source.web.split=train", *overrides)


def run(job, *, relearn=False):
    """Run a job; return the numbers of done and kept slices of each stage."""
    events = []
    prepare(job, relearn=relearn, on_event=events.append)
    started = [event for event in events if isinstance(event, StageStarted)]
    return {event.stage: (event.todo, event.num_done) for event in started}


def touch(path):
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


def grow(path):
    """Change the size but not the time."""
    status = path.stat()
    path.write_text(path.read_text() + '{"text": "one more"}\n')
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "why"),
    [(touch, "modification time"), (grow, "size 490 -> 511")],
    ids=["same size, other time", "other size, same time"],
)
def test_only_a_changed_file_is_processed_again(corpus, tmp_path, change, why):
    job = with_lines(corpus, tmp_path / "out")
    first = run(job)
    assert first["count"] == (3, 0)
    change(corpus / "lines/1.jsonl")
    announced = decide(job, command="prepare", relearn=True)
    assert announced.values["changes"]["sources"] == [
        {"source": "web", "added": [], "removed": [], "changed": [{"file": "1.jsonl", "why": why}]}
    ]
    assert announced.values["changes"]["slices"] == {"same": 6, "new": 1, "gone": 1}
    assert (announced.values["count"]["todo"], announced.values["count"]["done"]) == (1, 2)
    assert f"changed     web: 1 changed (1.jsonl: {why})" in announced.text()
    assert [each.files[0].path for each in announced.todo["count"]] == ["1.jsonl"]
    assert announced.values["tokenize"]["todo"] == 7  # the result of learning is unknown
    assert "identical, 1 of 7 slices are tokenized, otherwise all" in announced.text()
    assert run(job, relearn=True)["count"] == (1, 2)
    assert decide(job, command="prepare").values["changes"]["sources"] == []


def test_a_source_read_by_other_rules_is_reported_in_plan_and_run(corpus, tmp_path):
    lines = [json.dumps({"text": text, "name": text[:3]}) for text in texts(20, seed=3)]
    (corpus / "named").mkdir()
    (corpus / "named/0.jsonl").write_text("\n".join(lines))
    paths = f"source.web.paths={corpus}/named"
    run(recipe(corpus, tmp_path / "out", paths))
    for column, was in (("name", "none"), ("text", "name")):
        job = recipe(corpus, tmp_path / "out", paths, f"source.web.id_column={column}")
        reported = f"changed     web: id_column is {column}, it was {was}"
        announced = decide(job, command="prepare")
        assert reported in announced.text()
        assert announced.values["count"]["todo"] == 0
        events = []
        prepare(job, on_event=events.append)
        assert " ".join(reported.split()) in [e.text for e in events if isinstance(e, Note)]
        assert announced.values["tokenize"]["todo"] == next(
            e.todo for e in events if isinstance(e, StageStarted) and e.stage == "tokenize"
        )
        assert reported not in decide(job, command="prepare").text()


def test_a_changed_parquet_file_is_detected_by_its_footer(corpus, tmp_path):
    job = recipe(corpus, tmp_path / "out")
    before, path = make_plan(job), corpus / "text/shard_00001.parquet"
    old = next(f for f in before.sources[0].files if f.path == path.name)
    write_parquet(path, texts(40, seed=1), row_group_size=9)
    after = make_plan(job)
    first, *rest = after.sources
    # Same size and time, as in a copy that keeps times: the footer differs.
    files = [
        replace(f, size=old.size, mtime_ns=old.mtime_ns) if f.path == path.name else f
        for f in first.files
    ]
    same_times = replace(after, sources=(replace(first, files=tuple(files)), *rest))
    (found,) = changes(before, same_times)
    assert found.changed == (FileChange(path.name, "footer"),)


def test_a_removed_file_no_longer_counts(corpus, tmp_path):
    job = with_lines(corpus, tmp_path / "out", "output.allow_removed=true")
    run(job)
    (corpus / "lines/0.jsonl").unlink()
    announced = decide(job, command="prepare").values
    assert announced["changes"]["sources"][0]["removed"] == ["0.jsonl"]
    assert announced["changes"]["slices"] == {"same": 6, "new": 0, "gone": 1}
    assert run(job, relearn=True)["count"] == (0, 2)
    alone = with_lines(corpus, tmp_path / "alone")
    run(alone)
    learned = [Tokenizer.load(tmp_path / f"{name}/tokenizer") for name in ("out", "alone")]
    assert learned[0] == learned[1]


def test_a_missing_val_file_gets_a_note_until_another_is_chosen(corpus, tmp_path):
    job = recipe(corpus, tmp_path / "out")
    before = make_plan(job)
    (corpus / "text/shard_00002.parquet").unlink()
    after = make_plan(job, earlier=EarlierPlan(plan=before))
    (removed,) = changes(before, after)
    assert (removed.source, removed.removed) == ("web", ("shard_00002.parquet",))
    (lost,) = losses(before, after)
    assert (lost.source, lost.files, lost.gone) == ("web", 3, removed.removed)
    sizes = [file.size for file in before.sources[0].files]
    assert (lost.num_bytes, lost.gone_bytes) == (sum(sizes), sizes[2])
    assert lost.share == max(1 / 3, sizes[2] / sum(sizes))
    assert not lost.is_complete
    (note,) = after.notes
    assert "'web' has no val split, because its validation file shard_00002.parquet is" in note
    assert make_plan(job, earlier=EarlierPlan(plan=before, resplit=True)).notes == ()


def test_added_and_removed_sources_are_reported_with_all_their_files(corpus, tmp_path):
    before = make_plan(recipe(corpus, tmp_path / "out"))
    source = f'[[source]]\nname = "other"\nkind = "text"\npaths = ["{corpus}/lines"]'
    after = make_plan(parse_recipe(f'{source}\n[output]\npath = "{tmp_path}/out"'))
    found = {each.source: to_values(each) for each in changes(before, after)}
    assert list(found) == ["other", "web", "chats"]
    assert found["other"]["added"] == ["0.jsonl", "1.jsonl", "2.jsonl"]
    assert found["chats"]["removed"] == ["0.jsonl", "1.jsonl"]
    assert slice_changes(before, after).same == 0


def test_another_slice_size_is_distinguished_from_changed_files(corpus, tmp_path):
    job = recipe(corpus, tmp_path / "out")
    prepare(job)
    assert frozen_plan(Folder(str(tmp_path / "out"))).slice_bytes == 3000
    other = decide(recipe(corpus, tmp_path / "out", "limits.slice_bytes=9000"), command="prepare")
    assert other.values["changes"]["sources"] == []
    assert "limits.slice_bytes was 3,000, is 9,000" in other.text()
    assert other.values["changes"]["slices"]["new"] > 0


LINE = b'{"text": "a"}\n'


def notes(*sources):
    """Plan sources of (name, paths, split) and return the notes on equal files."""
    planned = tuple(
        SourceRecipe(name=name, kind="text", paths=tuple(map(str, paths)), split=split)
        for name, paths, split in sources
    )
    plan = make_plan(Recipe(sources=planned, output=OutputRecipe(path="/out")))
    return [note for note in plan.notes if "same" in note]


@pytest.fixture
def equal_files(tmp_path):
    """Write three files with the same content to the folder of the test."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jsonl").write_bytes(LINE)
    return tmp_path


def test_a_file_in_two_sources_gets_a_note(equal_files):
    assert notes(("web", [equal_files], "train")) == []
    (note,) = notes(
        ("web", [equal_files], "train"),
        ("more", [equal_files / "b.jsonl"], "train"),
    )
    assert note == (
        "b.jsonl of source 'web' (train) and b.jsonl of source 'more' (train) are the same file: "
        "their documents are in the output more than once"
    )


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_links_get_a_note_and_one_in_train_and_val_a_separate_one(equal_files, kind):
    for number, name in enumerate(("a", "b")):
        getattr(equal_files / f"link{number}.jsonl", kind)(equal_files / f"{name}.jsonl")
    (note,) = notes(("web", [equal_files], "train"))
    assert note.startswith("a.jsonl of source 'web' (train) and link0.jsonl of source 'web' (train")
    assert "are the same file, and so are 1 more: " in note
    getattr(equal_files / "z.jsonl", kind)(equal_files / "c.jsonl")
    leak, other = notes(("web", [equal_files], "last-file"))
    assert leak == (
        "c.jsonl of source 'web' (train) and z.jsonl of source 'web' (val) are the same file: "
        "documents for validation are also in the training data"
    )
    assert "a.jsonl" in other


def test_one_document_in_two_splits_is_reported_unless_the_shares_are_equal(equal_files):
    own = [equal_files / "a.jsonl"]
    (note,) = notes(("x", own, "share:0.5"), ("y", own, "share:0.5"))
    assert "more than once" in note
    (note,) = notes(("x", own, "share:0.5"), ("y", own, "train"))
    assert "validation" in note


def test_on_a_store_size_and_etag_identify_a_file(equal_files):
    (source,) = plan_of(equal_files).sources
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


def test_a_remote_file_in_two_sources_gets_a_note():
    folder = Folder(f"memory:///{uuid.uuid4().hex}")
    folder.write_bytes("a.jsonl", LINE)
    path = folder.join("a.jsonl")
    (note,) = notes(("x", [path], "train"), ("y", [path], "train"))
    assert "a.jsonl of source 'x' (train) and a.jsonl of source 'y' (train)" in note


def test_a_bounded_number_of_files_of_one_size_and_time_is_compared(equal_files, monkeypatch):
    (source,) = plan_of(equal_files).sources
    count = 4 * MAX_INODE_LOOKUPS
    files = tuple(replace(source.files[0], url=f"/none/{n}", path=f"{n}") for n in range(count))
    looked = []

    def stat(path, **_):
        looked.append(path)
        raise FileNotFoundError

    monkeypatch.setattr("pathlib.Path.stat", stat)
    assert list(duplicate_notes([replace(source, files=files)])) == []
    assert len(looked) == MAX_INODE_LOOKUPS


def test_up_to_five_unreadable_files_are_named(corpus, tmp_path):
    for number in range(7):
        (corpus / f"text/bad{number}.parquet").write_bytes(b"PAR1 and no footer")
    with pytest.raises(SourceError) as caught:
        make_plan(recipe(corpus, tmp_path / "out"))
    reported = str(caught.value)
    assert "source 'web': 7 of 10 files cannot be used" in reported
    for number in range(5):
        assert f"bad{number}.parquet is not a readable parquet file" in reported
    assert "bad5" not in reported
    assert reported.endswith("and 2 more")


def test_a_single_bad_file_is_reported_in_one_line_with_the_cause(corpus, tmp_path):
    with pytest.raises(SourceError, match="3 of 3 files"):
        make_plan(recipe(corpus, tmp_path / "out", "source.web.column=body"))
    (corpus / "text/bad.parquet").write_bytes(b"")
    with pytest.raises(
        SourceError, match=rf"^{corpus}/text/bad\.parquet is not a readable parquet"
    ):
        make_plan(recipe(corpus, tmp_path / "out"))


def refusing(error):
    """Return a `read_start` that fails for files called refused.jsonl, like missing permissions."""

    def read(url, length):
        if url.endswith("refused.jsonl"):
            raise error
        return read_start(url, length)

    return read


def test_a_job_refuses_a_file_without_permission_before_it_starts(corpus, tmp_path, monkeypatch):
    (corpus / "chats/refused.jsonl").write_text("[]\n")
    refused = PermissionError(13, "Permission denied")
    monkeypatch.setattr(start, "read_start", refusing(refused))
    with pytest.raises(SourceError, match=r"cannot read .*/refused\.jsonl: Permission denied"):
        prepare(recipe(corpus, tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out-work").exists()


def test_a_temporary_storage_failure_is_not_an_unreadable_file(corpus, tmp_path, monkeypatch):
    (corpus / "chats/refused.jsonl").write_text("[]\n")
    failing = refusing(TransientIOError("cannot read refused.jsonl for now"))
    monkeypatch.setattr(start, "read_start", failing)
    with pytest.raises(TransientIOError, match="for now"):
        make_plan(recipe(corpus, tmp_path / "out"))


def test_a_file_with_a_wrong_compression_suffix_gets_a_note(corpus, tmp_path):
    line = b'[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]\n'
    (corpus / "chats/right.jsonl.gz").write_bytes(gzip.compress(line))
    (corpus / "chats/empty.jsonl.gz").write_bytes(b"")
    skipped = bytes.fromhex("502a4d18 00000000")  # a frame that readers skip can come first
    stored = skipped + pa.compress(line, codec="zstd", asbytes=True)
    (corpus / "chats/right.jsonl.zst").write_bytes(stored)
    assert make_plan(recipe(corpus, tmp_path / "out")).notes == ()
    (corpus / "chats/wrong.jsonl.gz").write_bytes(line)
    (corpus / "chats/wrong.jsonl.zst").write_bytes(gzip.compress(line))
    job = recipe(corpus, tmp_path / "out", "limits.max_tails=2", "limits.max_quarantined_share=1.0")
    (note,) = make_plan(job).notes
    assert "wrong.jsonl.gz is not gzip (it begins b'[{\"r')" in note
    assert "wrong.jsonl.zst is not zstd" in note
    assert "right" not in note
    assert "empty" not in note
    assert sum(prepare(job).values["quarantined"].values()) == 2
