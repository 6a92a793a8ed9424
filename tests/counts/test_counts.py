"""Counting a slice: patterns, weights, documents, counts kept from an earlier job."""

import json
import uuid
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.api import train
from nanotok_ray.counts import (
    SHARE_UNIT,
    SPLIT_PATTERN,
    CountPart,
    CountProvenance,
    CountReader,
    CountSettings,
    SpanCounts,
    Weights,
    cached_counts,
    pack_counts,
    reduce_counts,
    remove_counts,
    split,
)
from nanotok_ray.counts.count_slice import count_slice
from nanotok_ray.errors import CorruptOutputError, SourceError
from nanotok_ray.formats import CountFlow
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from tests.support.count_runs import run_of
from tests.support.small_corpus import plan_of, recipe, texts, write_corpus

SETTINGS = CountSettings(pattern=SPLIT_PATTERN, gaps="spans")
ORIGIN = CountProvenance(pattern=SPLIT_PATTERN, texts=1, text_bytes=2, spans=3, num_gaps=0)


def read_origin(source, *, name):
    return CountReader(source, name=name).origin()


def test_a_count_file_of_another_version_is_refused_with_both_versions(tmp_path):
    data = pack_counts(run_of({b"ab": 1}), ORIGIN).to_pybytes()
    path = tmp_path / "old.arrow"
    path.write_bytes(data.replace(b"nanotok-counts 2", b"nanotok-counts 1"))
    for read in (SpanCounts.load, lambda path: reduce_counts([CountPart(url=str(path))])):
        with pytest.raises(CorruptOutputError) as caught:
            read(path)
        for words in ("old.arrow", "'nanotok-counts 1'", "'nanotok-counts 2'", "again"):
            assert words in str(caught.value)


def test_an_invalid_origin_and_another_schema_are_refused_with_the_file_name():
    data = pack_counts(run_of({b"ab": 1}), ORIGIN).to_pybytes()
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
    assert record.texts == record.documents.in_ == 80
    assert record.text_bytes == sum(len(text.encode()) for text in documents)
    assert record.code_points == sum(map(len, documents))
    spans = Counter(span for text in documents for span in split(text))
    assert (record.spans, record.distinct_spans) == (spans.total(), len(spans))
    assert [file.name for file in record.files] == ["counts/x.arrow"]
    assert folder.sha256("counts/x.arrow") == record.files[0].sha256
    data = folder.read_bytes("counts/x.arrow")
    numbers = {name: getattr(record, name) for name in ("texts", "text_bytes", "spans")}
    assert read_origin(pa.BufferReader(data), name="x") == replace(
        ORIGIN, gaps="spans", unicode=_core.UNICODE_VERSION, num_gaps=record.gaps, **numbers
    )
    read = [part.file for part in record.read]
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
    listed = [file.name for file in record.files if file.name.endswith(".jsonl")]
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
    assert record.documents == CountFlow(in_=5, quarantined=2)
    assert [row for row, _ in entries] == [1, 2]
    assert entries[0][1] == "Message 0 is from tool but should be from user"
    assert entries[1][1].startswith("cannot be split: at byte 1: ")
    assert found == {b"ab": 3, b"cd": 1, b"kl": 2}


def test_a_budget_stops_counting_beside_a_text_that_cannot_be_split(tmp_path):
    lines = [talk("a!", "bc"), talk("de", "fg"), talk("hi"), talk("jk")]
    record, entries, found = counted(tmp_path, lines, budget=5)
    assert [row for row, _ in entries] == [0]
    assert (record.texts, record.text_bytes, record.code_points) == (1, 2, 6)
    assert found == {b"de": 1}


def test_a_budget_that_is_reached_exactly_is_not_exceeded(tmp_path):
    lines = [talk("ab"), talk("cd", "ef"), talk("gh")]
    for budget, number in ((1, 1), (2, 2), (4, 3), (5, 3), (6, 4), (9, 4)):
        assert counted(tmp_path, lines, budget=budget)[0].texts == number


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


def multipliers(*weights, text_bytes=None):
    sizes = {f"s{number}": size for number, size in enumerate(text_bytes or [1] * len(weights))}
    sources = [
        SourceRecipe(name=name, kind="text", paths=("-",), weight=weight)
        for name, weight in zip(sizes, weights, strict=True)
    ]
    found = Weights.of(sources, text_bytes=sizes)
    return found.unit, [found.multipliers[f"s{number}"] for number in range(len(weights))]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (["1", "3"], (1, [1, 3])),
        (["2.5", "1"], (2, [5, 2])),
        (["0.1", "0.25", "1"], (20, [2, 5, 20])),
        (["0.000001", "1000000"], (10**6, [1, 10**12])),
        (["7"], (1, [1])),
        (["0.3", "0.30"], (1, [1, 1])),
    ],
)
def test_decimals_are_exact_in_the_smallest_unit(weights, expected):
    assert multipliers(*weights) == expected


decimals = st.integers(1, 10**9).map(lambda millionths: f"{millionths / 10**6:.6f}")


@given(st.lists(decimals, min_size=1, max_size=5))
def test_multipliers_have_the_ratios_of_the_weights(weights):
    unit, found = multipliers(*weights)
    exact = [Fraction(weight) for weight in weights]
    assert [Fraction(own, found[0]) for own in found] == [own / exact[0] for own in exact]
    assert unit >= 1


@given(st.lists(st.integers(1, 10**15), min_size=1, max_size=4), st.data())
def test_shares_equal_those_of_the_weighted_text_up_to_rounding(sizes, data):
    parts = data.draw(st.lists(st.integers(1, 50), min_size=len(sizes), max_size=len(sizes)))
    parts[-1] += 1000 - sum(parts)
    weights = [f"share:{part / 1000}" for part in parts]
    unit, found = multipliers(*weights, text_bytes=sizes)
    if len(set(found)) == 1:
        return
    assert unit == SHARE_UNIT
    for part, size, own in zip(parts, sizes, found, strict=True):
        wanted = Fraction(part, 1000) * sum(sizes) / size * SHARE_UNIT
        assert own == 1 if wanted < 1 else abs(own - wanted) <= Fraction(1, 2)


def test_a_source_without_text_cannot_have_a_share():
    with pytest.raises(SourceError, match=r"'s1' has weight = 'share:0\.5' and no text"):
        multipliers("share:0.5", "share:0.5", text_bytes=[10, 0])


@pytest.fixture
def work(tmp_path, in_process):
    """Return a work folder of ten sets of counts, one with a quarantine list."""
    write_corpus(tmp_path / "in")
    with (tmp_path / "in/chats/0.jsonl").open("a") as file:
        file.write("oops\n")
    overrides = ("source.chats.count=true", "limits.max_quarantined_share=1.0")
    train(recipe(tmp_path / "in", tmp_path / "out", *overrides))
    return tmp_path / "out-work"


def test_sets_have_their_records_and_all_their_files_and_no_others(work):
    found = cached_counts(Folder(str(work)))
    assert [each.name for each in found] == sorted(each.name for each in found)
    assert sum(each.number("texts") for each in found if "/web/" in each.name) == 80
    files = {name: size for each in found for name, size in each.files.items()}
    assert files == {
        path.relative_to(work).as_posix(): path.stat().st_size
        for path in work.rglob("*")
        if path.is_file()
    }
    assert sum(name.endswith(".quarantine.jsonl") for name in files) == 1
    for name in ("merged/all.arrow", "counts/notes.txt", "counts/web/notes.txt"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_bytes(b"12")
    (work / "counts/web/.a.arrow.host-1-2.tmp").write_bytes(b"1")
    assert cached_counts(Folder(str(work))) == found


def test_an_incomplete_set_has_no_record(work):
    sets = cached_counts(Folder(str(work)))[:4]
    record, other_record, counts, other_counts = (
        work / f"{each.name}.{suffix}"
        for each, suffix in zip(sets, ("json", "json", "arrow", "arrow"), strict=True)
    )
    record.unlink()
    other_record.write_text("{")
    counts.write_bytes(counts.read_bytes()[:-1])
    other_counts.unlink()
    found = cached_counts(Folder(str(work)))[:4]
    assert [each.name for each in found] == [each.name for each in sets]
    for each in found:
        assert each.record is None
        assert each.number("texts") == 0
        assert each.num_bytes > 0


def test_removal_deletes_the_record_first_and_keeps_other_sets(work, monkeypatch):
    found = cached_counts(Folder(str(work)))
    chosen = next(each for each in found if len(each.files) == 3)
    removed = []
    remove = Folder.remove

    def watched(self, name):
        removed.append(name)
        remove(self, name)

    monkeypatch.setattr(Folder, "remove", watched)
    remove_counts(Folder(str(work)), chosen)
    assert removed[0] == f"{chosen.name}.json"
    assert sorted(removed) == sorted(chosen.files)
    assert cached_counts(Folder(str(work))) == [each for each in found if each != chosen]


def test_remote_and_missing_work_folders_are_listed(tmp_path):
    folder = Folder(f"memory:///{uuid.uuid4().hex}")
    for missing in (Folder(str(tmp_path / "none")), folder):
        assert cached_counts(missing) == []
    folder.write_bytes("counts/web/a-00000-0123456789abcdef.arrow", b"12345")
    (found,) = cached_counts(folder)
    assert (found.num_bytes, found.record) == (5, None)
    remove_counts(folder, found)
    assert folder.list() == []
