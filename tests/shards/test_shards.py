"""Shards: writing a slice, the map of sources."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.documents import Documents
from nanotok_ray.errors import SampleCheckError, TransientIOError
from nanotok_ray.formats import DocumentBatch, Flow, SourceFile, SourceRows
from nanotok_ray.shards import (
    RenderedDocuments,
    ShardWriter,
    SourceMap,
    mapped_rows,
    render,
    tokenize_slices,
)
from nanotok_ray.sources import Piece, make_plan
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import plan_of, recipe, shard_settings, texts

PIECE = Piece(SourceFile(path="a", url="/a", size=9, format="lines"), 0, 9)


class MemoryFiles:
    """The files of a shard in memory."""

    name = "memory"

    def __init__(self):
        self.ids, self.lengths, self.mask, self.names, self.images = [], [], [], [], []

    def write(self, documents):
        first = len(self.lengths)
        self.images += [(first + number, *span) for number, *span in documents.images.tolist()]
        self.names += [int(documents.document_id(number)) for number in range(len(documents))]
        self.ids += documents.ids.tolist()
        self.lengths += documents.lengths.tolist()
        self.mask += documents.mask.tolist()

    def close(self):
        return []

    def discard(self):
        self.ids = None


@given(st.lists(st.lists(st.integers(0, 12), max_size=8), max_size=5), st.integers(1, 30))
def test_shards_contain_whole_documents_in_order_under_the_limit(batches, limit):
    sinks = []

    def open_files(number):
        assert number == len(sinks)
        sinks.append(MemoryFiles())
        return sinks[-1]

    writer = ShardWriter(open_files, pieces=(PIECE,), max_shard_tokens=limit)
    next_id = next_row = 0
    for lengths in batches:
        total = sum(lengths)
        rows = range(next_row, next_row + len(lengths))
        names = Documents.from_strings([str(row) for row in rows])
        writer.write(
            RenderedDocuments(
                documents=DocumentBatch(
                    ids=np.arange(next_id, next_id + total, dtype=np.uint16),
                    positions=np.cumsum([0, *lengths]),
                    mask=np.arange(next_id, next_id + total).astype(np.uint8) % 2,
                    images=np.array(
                        [
                            (number, place, place + 1)
                            for number, length in enumerate(lengths)
                            for place in range(1, length, 3)
                        ],
                        dtype=np.int64,
                    ).reshape(-1, 3),
                    document_ids=(names.data, names.offsets),
                ),
                sizes=np.array(lengths, dtype=np.int64) * 3,
                piece=0,
                group=None,
                selected=np.arange(len(lengths)),
                rows=np.arange(next_row, next_row + len(lengths)),
            )
        )
        next_id += total
        next_row += len(lengths)
    writer.finish()
    assert [n for sink in sinks for n in sink.lengths] == [n for own in batches for n in own]
    assert [n for sink in sinks for n in sink.ids] == [*range(next_id)]
    assert [n for sink in sinks for n in sink.mask] == [n % 2 for n in range(next_id)]
    assert [name for sink in sinks for name in sink.names] == [*range(next_row)]
    assert [image for sink in sinks for image in sink.images] == [
        (number, place, place + 1)
        for sink in sinks
        for number, length in enumerate(sink.lengths)
        for place in range(1, length, 3)
    ]
    rows = [mapped_rows(entry) for shard in writer.shards for entry in shard.source_map]
    assert np.concatenate([*rows, np.zeros(0)]).tolist() == [*range(next_row)]
    assert [shard.bytes for shard in writer.shards] == [3 * len(sink.ids) for sink in sinks]
    for number, sink in enumerate(sinks):
        assert sum(sink.lengths) <= limit or len(sink.lengths) == 1
        if number + 1 < len(sinks):
            # No shard ends early: the next document would not fit.
            assert sum(sink.lengths) + sinks[number + 1].lengths[0] > limit


@pytest.fixture
def job(corpus, tmp_path):
    """Return the slices of a small corpus, a tokenizer, and settings."""
    tokenizer = Tokenizer.train_from_iterator(texts(40, seed=0), vocab_size=320)
    settings = shard_settings(tokenizer)
    plan = make_plan(recipe(corpus, tmp_path / "out", "limits.slice_bytes=1000000"))
    return {each.source: each for each in plan.slices(split="train")}, tokenizer, settings


def test_a_record_is_consistent_and_names_its_files(job, tmp_path):
    slices, tokenizer, settings = job
    out = Folder(str(tmp_path / "out"))
    [record] = tokenize_slices([slices["web"]], settings, tokenizer=tokenizer, out=out)
    documents = [*texts(40, seed=0), *texts(40, seed=1)]
    ids = [[tokenizer.get_bos_token_id(), *tokenizer.encode(text)] for text in documents]
    assert record.documents == Flow(in_=80, out=80, quarantined=0)
    assert record.tokens == sum(map(len, ids))
    assert record.text_bytes == sum(len(text.encode()) for text in documents)
    assert record.special_text == sum(text.count("<|bos|>") for text in documents) > 0
    checked = record.proof
    assert checked.documents == checked.encoded_again == 3
    assert checked.not_encoded_again == {}
    assert 0 < checked.bytes < record.text_bytes == record.shards[0].bytes
    [shard] = record.shards
    stored = np.frombuffer(out.read_bytes(f"{shard.name}.bin"), dtype="<u2")
    assert stored.tolist() == [n for own in ids for n in own]
    for file in record.files:
        assert out.size(file.name) == file.size
        assert out.sha256(file.name) == file.sha256
    assert sorted(out.list()) == sorted(file.name for file in record.files)


def composed(tmp_path, files, *, kind="chat", **rules):
    """Return the record of one slice of files of lines, and the tokenizer."""
    for name, rows in files.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    [each] = plan_of(f"{tmp_path}/*.jsonl", kind=kind).slices()
    tokenizer = Tokenizer.train_from_iterator([], vocab_size=265).extended(["<image>"])
    settings = shard_settings(tokenizer, prepend=(), **rules)
    out = Folder(str(tmp_path / "out"))
    [record] = tokenize_slices([each], settings, tokenizer=tokenizer, out=out)
    return record


def test_an_account_covers_what_is_kept(tmp_path):
    rows = [
        [{"role": "user", "content": "<|bos|>"}, {"role": "assistant", "content": said}]
        for said in ("yes", "<|bos|>" * 9, "no")
    ]
    record = composed(tmp_path, {"a.jsonl": rows}, max_tokens=50, too_long="drop")
    assert record.documents == Flow(in_=3, out=2, quarantined=1)
    assert record.text_bytes == 2 * len("<|bos|>") + len("yes") + len("no")
    assert record.special_text == 2
    assert record.trainable_tokens == len("yes") + len("no") + 2
    assert record.special_tokens == dict.fromkeys(
        ["<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"], 2
    )


def test_roles_and_images_of_all_files_and_dialects_of_a_slice_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(render, "COUNTED_AT_ONCE", 3)
    files = {
        "a.jsonl": [{"text": "<image>abc", "image_token_counts": [4]}],
        "b.jsonl": [{"prompt": "<image><image>", "response": "d"}],
    }
    record = composed(tmp_path, files, kind="vision", image_token="<image>")
    assert record.images == 3
    assert record.roles == {"bos": 2, "user": 3, "assistant": 2, "image": 6}
    assert record.special_tokens == {"<|bos|>": 2, "<image>": 6, "<|assistant_end|>": 1}


def test_an_error_while_writing_leaves_no_file(job, tmp_path, monkeypatch):
    slices, tokenizer, settings = job
    out = Folder(str(tmp_path / "out"))
    calls, original = [], render.Renderer.render

    def fail_later(self, piece, batch):
        calls.append(piece)
        if len(calls) == 3:
            raise TransientIOError("the line went dead")
        return original(self, piece, batch)

    monkeypatch.setattr(render.Renderer, "render", fail_later)
    with pytest.raises(TransientIOError):
        tokenize_slices([slices["web"]], settings, tokenizer=tokenizer, out=out)
    assert out.list() == out.list_temporaries() == []


def test_wrong_ids_fail_a_slice_and_nothing_is_published(job, tmp_path, monkeypatch):
    slices, tokenizer, settings = job
    out = Folder(str(tmp_path / "out"))
    right = Tokenizer.encode_documents

    def wrong(self, documents, **options):
        ids, offsets = right(self, documents, **options)
        return np.where(ids < 256, ids ^ 1, ids).astype(ids.dtype), offsets

    monkeypatch.setattr(Tokenizer, "encode_documents", wrong)
    with pytest.raises(SampleCheckError, match=r"parquet, row \d+: bytes 0 to \d+ are not what"):
        tokenize_slices([slices["web"]], settings, tokenizer=tokenizer, out=out)
    assert out.list() == out.list_temporaries() == []


PIECES = tuple(
    Piece(SourceFile(path=name, url=f"/data/{name}", size=9, format="parquet"), 0, 2)
    for name in ("a", "b")
)
ROWS = st.sets(st.integers(0, 60), min_size=1, max_size=40).map(sorted)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), ROWS), min_size=1, max_size=6))
def test_every_document_has_its_row(parts):
    # Rows increase within a row group, as from a reader.
    parts = [(p, g, rows) for (p, g), rows in {(p, g): rows for p, g, rows in parts}.items()]
    source_map = SourceMap(PIECES)
    for piece, group, rows in parts:
        half = len(rows) // 2
        for part in (rows[:half], rows[half:]):
            if part:
                source_map.add(piece, group, np.array(part))
    entries = source_map.entries()
    assert [entry.file for entry in entries] == [PIECES[p].file.path for p, _, _ in parts]
    assert [mapped_rows(entry).tolist() for entry in entries] == [rows for _, _, rows in parts]
    for entry in entries:
        assert len(entry.absent or ()) + len(entry.present or ()) <= entry.rows


@pytest.mark.parametrize(
    ("rows", "listed"),
    [
        ([0, 2, 3], {"absent": (1,)}),
        ([0, 3], {"absent": (1, 2)}),
        ([0, 4], {"present": (0, 4)}),
        ([0, 1, 6, 7], {"absent": (2, 3, 4, 5)}),
        ([0, 1, 7, 8], {"present": (0, 1, 7, 8)}),
    ],
)
def test_the_shorter_list_is_written_and_of_equal_lists_the_absent_rows(rows, listed):
    source_map = SourceMap(PIECES)
    source_map.add(0, 3, np.array(rows))
    (entry,) = source_map.entries()
    assert entry == SourceRows(file="a", row_group=3, first_row=0, rows=len(rows), **listed)
