"""Count files and their provenance, and the counts of one slice."""

import json
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from nanotok_ray import _core
from nanotok_ray.counts import (
    SPLIT_PATTERN,
    CountPart,
    CountProvenance,
    CountReader,
    CountSettings,
    SpanCounts,
    pack_counts,
    reduce_counts,
    split,
)
from nanotok_ray.counts.count_slice import count_slice
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from tests.support.small_corpus import plan_of, recipe, texts, write_corpus

SETTINGS = CountSettings(pattern=SPLIT_PATTERN, gaps="spans")
ORIGIN = CountProvenance(pattern=SPLIT_PATTERN, texts=1, text_bytes=2, spans=3, num_gaps=0)


def read_origin(source, *, name):
    return CountReader(source, name=name).origin()


def run_of(documents):
    counter = _core.SpanCounts(SPLIT_PATTERN, gaps="spans")
    batch = Documents.from_strings(documents)
    counter.update(batch.data, batch.offsets)
    return counter.sorted_run()


def test_a_count_file_of_another_version_is_refused_with_both_versions(tmp_path):
    data = pack_counts(run_of(["ab"]), ORIGIN).to_pybytes()
    path = tmp_path / "old.arrow"
    path.write_bytes(data.replace(b"nanotok-counts 2", b"nanotok-counts 1"))
    for read in (SpanCounts.load, lambda path: reduce_counts([CountPart(url=str(path))])):
        with pytest.raises(CorruptOutputError) as caught:
            read(path)
        for words in ("old.arrow", "'nanotok-counts 1'", "'nanotok-counts 2'", "again"):
            assert words in str(caught.value)


def test_an_invalid_origin_and_another_schema_are_refused_with_the_file_name():
    data = pack_counts(run_of(["ab"]), ORIGIN).to_pybytes()
    unnamed = pa.BufferOutputStream()
    with pa.ipc.new_file(unnamed, pa.schema([("a", pa.int64())])):
        pass
    origin = r"a\.arrow does not state what it was made from"
    for wrong, message in (
        (data.replace(b'"texts": 1', b'"texts": "'), origin),
        (data.replace(b'"texts": 1', b'"texts":-1'), origin),
        (data.replace(b'"spans"', b'"spams"'), origin),
        (unnamed.getvalue(), r"a\.arrow.*nanotok-counts 2"),
    ):
        with pytest.raises(CorruptOutputError, match=message):
            read_origin(pa.BufferReader(wrong), name="a.arrow")


def test_a_record_states_what_was_read_and_counted(tmp_path):
    write_corpus(tmp_path / "in")
    plan = make_plan(recipe(tmp_path / "in", tmp_path / "out", "limits.slice_bytes=1000000"))
    each = next(plan.slices(split="train"))
    folder = Folder(str(tmp_path / "work"))
    record = count_slice(each, SETTINGS, folder=folder, name="counts/x")
    documents = [*texts(40, seed=0), *texts(40, seed=1)]
    assert record["texts"] == record["documents"]["in"] == 80
    assert record["text_bytes"] == sum(len(text.encode()) for text in documents)
    assert record["code_points"] == sum(map(len, documents))
    spans = Counter(span for text in documents for span in split(text))
    assert (record["spans"], record["distinct_spans"]) == (spans.total(), len(spans))
    assert [file["name"] for file in record["files"]] == ["counts/x.arrow"]
    assert folder.sha256("counts/x.arrow") == record["files"][0]["sha256"]
    data = folder.read_bytes("counts/x.arrow")
    numbers = {name: record[name] for name in ("texts", "text_bytes", "spans")}
    assert read_origin(pa.BufferReader(data), name="x") == replace(
        ORIGIN, gaps="spans", unicode=_core.UNICODE_VERSION, num_gaps=record["gaps"], **numbers
    )
    read = [part["file"] for part in record["read"]]
    assert read == ["shard_00000.parquet", "shard_00001.parquet"]


def talk(*said):
    """Return a line of alternating texts of user and assistant."""
    roles = ("user", "assistant")
    return json.dumps([{"role": roles[n % 2], "content": each} for n, each in enumerate(said)])


def counted(tmp_path, lines, *, kind="chat", **settings):
    """Return record, quarantine entries and spans of counting a file of lines."""
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    [each] = plan_of(tmp_path / "a.jsonl", kind=kind).slices()
    folder = Folder(str(tmp_path / "work"))
    settings = CountSettings(**{"pattern": "[a-z]+", "gaps": "error"} | settings)
    record = count_slice(each, settings, folder=folder, name="x")
    listed = [file["name"] for file in record["files"] if file["name"].endswith(".jsonl")]
    entries = [json.loads(line) for name in listed for line in folder.read_bytes(name).splitlines()]
    table = pa.ipc.open_file(pa.BufferReader(folder.read_bytes("x.arrow"))).read_all()
    found = {row["span"]: row["count"] for row in table.to_pylist()}
    return record, [(entry["row"], entry["reason"]) for entry in entries], found


def test_the_texts_of_a_conversation_are_counted_together_or_not_at_all(tmp_path):
    lines = [
        talk("ab", "cd", "ab"),
        '[{"role": "tool", "content": "ef"}]',
        talk("ef", "gh", "i!"),
        talk("ab"),
        talk("kl", "kl"),
    ]
    record, entries, found = counted(tmp_path, lines)
    assert record["documents"] == {"in": 5, "quarantined": 2}
    assert [row for row, _ in entries] == [1, 2]
    assert entries[0][1] == "Message 0 is from tool but should be from user"
    assert entries[1][1].startswith("cannot be split: at byte 1: ")
    assert found == {b"ab": 3, b"cd": 1, b"kl": 2}


def test_a_budget_stops_counting_beside_a_text_that_cannot_be_split(tmp_path):
    lines = [talk("a!", "bc"), talk("de", "fg"), talk("hi"), talk("jk")]
    record, entries, found = counted(tmp_path, lines, budget=5)
    assert [row for row, _ in entries] == [0]
    assert (record["texts"], record["text_bytes"], record["code_points"]) == (1, 2, 6)
    assert found == {b"de": 1}


def test_a_budget_that_is_reached_exactly_is_not_exceeded(tmp_path):
    lines = [talk("ab"), talk("cd", "ef"), talk("gh")]
    for budget, number in ((1, 1), (2, 2), (4, 3), (5, 3), (6, 4), (9, 4)):
        assert counted(tmp_path, lines, budget=budget)[0]["texts"] == number


def test_grounding_of_a_vision_document_is_not_counted(tmp_path):
    lines = [json.dumps({"text": "<image>ab<|ref|>cd<image>", "image_token_counts": [2, 3]})]
    found = counted(tmp_path, lines, kind="vision", grounding=("<|ref|>",))[2]
    assert found == {b"ab": 1, b"cd": 1}


def test_every_setting_and_the_slice_change_the_key(tmp_path):
    write_corpus(tmp_path / "in")
    plan = make_plan(recipe(tmp_path / "in", tmp_path / "out"))
    first, second, *_ = plan.slices()
    changes = [{}, {"pattern": "."}, {"gaps": "error"}, {"doc_cap": 10}, {"budget": 10}]
    changes.append({"grounding": ("<|ref|>",)})
    variants = [replace(SETTINGS, **change) for change in changes]
    keys = [settings.key(each) for settings in variants for each in (first, second)]
    assert len(set(keys)) == len(keys)
