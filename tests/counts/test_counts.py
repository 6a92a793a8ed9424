"""Count files: what is in them, in which order, and how they are read back range by range."""

import json
import random
from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.counts import (
    COUNTS_SCHEMA,
    NUM_RANGES,
    SPLIT_PATTERN,
    CountPart,
    CountProvenance,
    CountReader,
    CountSettings,
    pack_counts,
    reduce_counts,
    split,
)
from nanotok_ray.counts.count_slice import count_slice
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import NO_PAIR_LEFT, REACHED, Tokenizer
from tests.support.learned import learn_files, learn_reduced
from tests.support.reference import learn_merges as learn_plainly
from tests.support.small_corpus import recipe, texts, write_corpus

SETTINGS = CountSettings(pattern=SPLIT_PATTERN, gaps="spans")
ORIGIN = CountProvenance(pattern=SPLIT_PATTERN, texts=1, text_bytes=2, spans=3, num_gaps=0)
TEXTS = st.lists(st.text(alphabet="ab 1\n数", max_size=40), max_size=12)


def read_origin(source, *, name):
    return CountReader(source, name=name).origin()


def read_range(source, *, number, num_ranges, name):
    """Read one of so many hash ranges of a count file, by what its head says of them."""
    reader = CountReader(source, name=name)
    first, last = reader.starts(num_ranges)[number : number + 2].tolist()
    if first == last:
        return reader.run(pa.RecordBatch.from_pylist([], schema=COUNTS_SCHEMA))
    size = max(1, reader.batch(0).num_rows)
    batches = [reader.batch(each) for each in range(first // size, -(-last // size))]
    table = pa.Table.from_batches(batches).slice(first % size, last - first)
    return reader.run(table.combine_chunks().to_batches()[0])


def run_of(documents):
    counter = _core.SpanCounts(SPLIT_PATTERN, gaps="spans")
    batch = Documents.from_strings(documents)
    counter.update(batch.data, batch.offsets)
    return counter.sorted_run()


def plain_counts(documents):
    return Counter(span for text in documents for span in split(text))


def encoded(counts):
    return {span.encode(): count for span, count in counts.items()}


def spans_of(run):
    _, data, offsets, counts = run
    spans = [data[start:stop].tobytes() for start, stop in pairwise(offsets)]
    return dict(zip(spans, counts.tolist(), strict=True))


@given(TEXTS, st.sampled_from([1, 2, 16]))
def test_the_ranges_of_a_count_file_are_the_counts_sorted_by_hash(documents, num_ranges):
    data = pack_counts(run_of(documents), ORIGIN)
    seen, hashes = {}, []
    for number in range(num_ranges):
        own = read_range(pa.BufferReader(data), number=number, num_ranges=num_ranges, name="x")
        assert all(value * num_ranges >> 64 == number for value in map(int, own[0]))
        hashes += own[0].tolist()
        seen |= spans_of(own)
    expected = plain_counts(documents)
    assert seen == encoded(expected)
    assert hashes == sorted(xxhash.xxh3_64_intdigest(span.encode()) for span in expected)


def test_the_smallest_ranges_are_single_steps_of_the_offsets():
    data = pack_counts(run_of(["a bc def"]), ORIGIN)
    ranges = [
        read_range(pa.BufferReader(data), number=number, num_ranges=NUM_RANGES, name="x")
        for number in range(NUM_RANGES)
    ]
    assert sum(len(own[0]) for own in ranges) == 3
    assert all(int(value) >> 52 == n for n, own in enumerate(ranges) for value in own[0])


def test_a_count_file_of_many_batches_is_read_in_parts():
    letters = str.maketrans("0123456789", "abcdefghij")
    documents = [" ".join(str(number).translate(letters) for number in range(90_000))]
    run = run_of(documents)
    assert len(run[0]) > 65_536
    data = pack_counts(run, ORIGIN)
    joined = {}
    for number in range(8):
        joined |= spans_of(read_range(pa.BufferReader(data), number=number, num_ranges=8, name="x"))
    assert joined == spans_of(run)


def test_a_file_that_is_no_count_file_is_refused_by_name():
    with pytest.raises(CorruptOutputError, match=r"old\.arrow"):
        read_range(pa.BufferReader(b"nothing"), number=0, num_ranges=1, name="old.arrow")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema([("a", pa.int64())])):
        pass
    with pytest.raises(CorruptOutputError, match="nanotok-counts 2"):
        read_range(pa.BufferReader(sink.getvalue()), number=0, num_ranges=1, name="old.arrow")


def test_a_count_file_of_another_version_is_refused_with_both():
    data = pack_counts(run_of(["ab"]), ORIGIN).to_pybytes()
    old = data.replace(b"nanotok-counts 2", b"nanotok-counts 1")
    for read in (read_origin, lambda *a, **k: read_range(*a, number=0, num_ranges=1, **k)):
        with pytest.raises(CorruptOutputError) as caught:
            read(pa.BufferReader(old), name="old.arrow")
        for words in ("old.arrow", "'nanotok-counts 1'", "'nanotok-counts 2'", "again"):
            assert words in str(caught.value)


def test_a_count_file_says_what_it_was_made_from():
    data = pack_counts(run_of(["ab"]), ORIGIN)
    assert read_origin(pa.BufferReader(data), name="x") == ORIGIN


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"texts": 1', b'"texts": "'), (b'"texts": 1', b'"texts":-1'), (b'"spans"', b'"spams"')],
    ids=["no JSON", "a negative number", "another name"],
)
def test_an_origin_that_makes_no_sense_is_refused_with_the_files_name(old, new):
    data = pack_counts(run_of(["ab"]), ORIGIN).to_pybytes()
    with pytest.raises(CorruptOutputError, match=r"a\.arrow does not say what it was made from"):
        read_origin(pa.BufferReader(data.replace(old, new)), name="a.arrow")


def count_files(folder, parts):
    folder = Folder(str(folder))
    for number, documents in enumerate(parts):
        folder.write_whole(f"{number}.arrow", pack_counts(run_of(documents), ORIGIN))
    return [folder.join(f"{number}.arrow") for number in range(len(parts))]


@given(st.lists(TEXTS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_merges_of_all_files_are_those_of_all_documents_in_any_order(parts, rng):
    everything = [text for documents in parts for text in documents]
    urls = [f"memory://counts-{rng.random()}/{number}.arrow" for number in range(len(parts))]
    for url, documents in zip(urls, parts, strict=True):
        folder, _, name = url.rpartition("/")
        Folder(folder).write_whole(name, pack_counts(run_of(documents), ORIGIN))
    parts = [CountPart(url=url) for url in rng.sample(urls, len(urls))]
    reduced = reduce_counts(parts)
    learned = learn_reduced(reduced, num_merges=30)
    expected = learn_plainly(encoded(plain_counts(everything)), num_merges=30)
    assert [tuple(pair) for pair in learned.merges.tolist()] == [tuple(pair) for pair in expected]
    assert reduced.totals.spans == plain_counts(everything).total()
    assert learned.stop_reason == (REACHED if len(expected) == 30 else NO_PAIR_LEFT)


def test_counts_that_would_pass_64_bits_are_an_error(tmp_path):
    hashes, data, offsets, counts = run_of(["ab"])
    huge = counts.copy()
    huge[:] = 2**64 - 1
    folder = Folder(str(tmp_path))
    folder.write_whole("a.arrow", pack_counts((hashes, data, offsets, huge), ORIGIN))
    folder.write_whole("b.arrow", pack_counts((hashes, data, offsets, counts), ORIGIN))
    with pytest.raises(OverflowError, match=r"2\*\*64|64"):
        learn_files([folder.join("a.arrow"), folder.join("b.arrow")], num_merges=1)


def test_a_record_says_what_was_read_and_counted(tmp_path):
    write_corpus(tmp_path / "in")
    plan = make_plan(recipe(tmp_path / "in", tmp_path / "out", "limits.slice_bytes=1000000"))
    each = next(plan.slices(split="train"))
    folder = Folder(str(tmp_path / "work"))
    record = count_slice(each, SETTINGS, folder=folder, name="counts/x")
    documents = [*texts(40, seed=0), *texts(40, seed=1)]
    assert record["texts"] == record["documents"]["in"] == 80
    assert record["text_bytes"] == sum(len(text.encode()) for text in documents)
    assert record["code_points"] == sum(map(len, documents))
    assert record["spans"] == plain_counts(documents).total()
    assert record["distinct_spans"] == len(plain_counts(documents))
    assert [file["name"] for file in record["files"]] == ["counts/x.arrow"]
    assert folder.sha256("counts/x.arrow") == record["files"][0]["sha256"]
    data = folder.read_bytes("counts/x.arrow")
    assert read_origin(pa.BufferReader(data), name="x") == CountProvenance(
        pattern=SPLIT_PATTERN,
        gaps="spans",
        unicode=_core.UNICODE_VERSION,
        texts=record["texts"],
        text_bytes=record["text_bytes"],
        spans=record["spans"],
        num_gaps=record["gaps"],
    )
    assert [part["file"] for part in record["read"]] == [
        "shard_00000.parquet",
        "shard_00001.parquet",
    ]


def talk(*said):
    """Return a line of the user and the assistant in turn."""
    roles = ("user", "assistant")
    return json.dumps([{"role": roles[n % 2], "content": each} for n, each in enumerate(said)])


def counted(tmp_path, lines, *, kind="chat", **settings):
    """Return the record and the quarantine entries of counting a file of lines, and its spans."""
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    own = parse_recipe(
        f"""
        source = [{{ name = "a", kind = "{kind}", paths = ["{tmp_path}/a.jsonl"], count = true }}]
        output = {{ path = "{tmp_path}/out" }}
        """
    )
    [each] = make_plan(own).slices()
    folder = Folder(str(tmp_path / "work"))
    settings = CountSettings(**{"pattern": "[a-z]+", "gaps": "error"} | settings)
    record = count_slice(each, settings, folder=folder, name="x")
    listed = [file["name"] for file in record["files"] if file["name"].endswith(".jsonl")]
    entries = [json.loads(line) for name in listed for line in folder.read_bytes(name).splitlines()]
    table = pa.ipc.open_file(pa.BufferReader(folder.read_bytes("x.arrow"))).read_all()
    found = {row["span"]: row["count"] for row in table.to_pylist()}
    return record, [(entry["row"], entry["reason"]) for entry in entries], found


def test_texts_of_a_conversation_count_together_or_not_at_all(tmp_path):
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


def test_a_budget_ends_counting_beside_a_text_that_cannot_be_split(tmp_path):
    lines = [talk("a!", "bc"), talk("de", "fg"), talk("hi"), talk("jk")]
    record, entries, found = counted(tmp_path, lines, budget=5)
    assert [row for row, _ in entries] == [0]
    assert (record["texts"], record["text_bytes"], record["code_points"]) == (1, 2, 6)
    assert found == {b"de": 1}


@pytest.mark.parametrize(("budget", "texts"), [(1, 1), (2, 2), (4, 3), (5, 3), (6, 4), (9, 4)])
def test_a_budget_that_is_reached_exactly_is_not_passed(tmp_path, budget, texts):
    lines = [talk("ab"), talk("cd", "ef"), talk("gh")]
    assert counted(tmp_path, lines, budget=budget)[0]["texts"] == texts


def test_grounding_is_no_text_of_a_vision_document(tmp_path):
    lines = [json.dumps({"text": "<image>ab<|ref|>cd<image>", "image_token_counts": [2, 3]})]
    assert counted(tmp_path, lines, kind="vision", grounding=("<|ref|>",))[2] == {
        b"ab": 1,
        b"cd": 1,
    }


def test_every_setting_and_the_slice_are_in_the_key(tmp_path):
    write_corpus(tmp_path / "in")
    plan = make_plan(recipe(tmp_path / "in", tmp_path / "out"))
    first, second, *_ = plan.slices()
    variants = [
        SETTINGS,
        CountSettings(pattern=".", gaps="spans"),
        CountSettings(pattern=SPLIT_PATTERN, gaps="error"),
        CountSettings(pattern=SPLIT_PATTERN, gaps="spans", doc_cap=10),
        CountSettings(pattern=SPLIT_PATTERN, gaps="spans", budget=10),
        CountSettings(pattern=SPLIT_PATTERN, gaps="spans", grounding=("<|ref|>",)),
    ]
    keys = [settings.key(each) for settings in variants for each in (first, second)]
    assert len(set(keys)) == len(keys)


def test_learning_from_count_files_equals_learning_from_texts(tmp_path):
    rng = random.Random(3)
    documents = texts(200, seed=11)
    parts = [[text for text in documents if rng.random() < 2] for _ in range(1)]
    halves = [documents[0::2], documents[1::2]]
    expected = Tokenizer.train_from_iterator(documents, vocab_size=320).merges
    for number, split_up in enumerate([parts, halves, [[text] for text in documents]]):
        urls = count_files(tmp_path / str(number), split_up)
        merges = learn_files(urls, num_merges=320 - 256 - 9).merges
        assert [tuple(pair) for pair in merges.tolist()] == expected
