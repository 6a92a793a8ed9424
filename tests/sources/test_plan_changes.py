"""Changed inputs are detected by comparing plans; only they are counted and tokenized again."""

import json
import os
from dataclasses import replace

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.job import Note, StageStarted, frozen_plan
from nanotok_ray.job.decide import decide
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.sources import changes, losses, make_plan, slice_changes
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import recipe, texts, write_corpus, write_parquet


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
    assert found.changed == (path.name,)
    assert found.reasons[path.name] == "footer"


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
    after = make_plan(job, previous=before)
    (removed,) = changes(before, after)
    assert (removed.source, removed.removed) == ("web", ("shard_00002.parquet",))
    (lost,) = losses(before, after)
    assert (lost.source, lost.files, lost.gone) == ("web", 3, removed.removed)
    sizes = [file.size for file in before.sources[0].files]
    assert (lost.num_bytes, lost.gone_bytes) == (sum(sizes), sizes[2])
    assert lost.share == max(1 / 3, sizes[2] / sum(sizes))
    assert not lost.is_whole
    (note,) = after.notes
    assert "'web' has no val split, because its validation file shard_00002.parquet is" in note
    assert make_plan(job, previous=before, resplit=True).notes == ()


def test_added_and_removed_sources_are_reported_with_all_their_files(corpus, tmp_path):
    before = make_plan(recipe(corpus, tmp_path / "out"))
    source = f'[[source]]\nname = "other"\nkind = "text"\npaths = ["{corpus}/lines"]'
    after = make_plan(parse_recipe(f'{source}\n[output]\npath = "{tmp_path}/out"'))
    found = {each.source: each.to_dict() for each in changes(before, after)}
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
