"""Ids: the value of the id column is stored for each document."""

import gzip
import json
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.counts import CountSettings
from nanotok_ray.errors import RecipeError, SourceError
from nanotok_ray.sources import SliceReading, plan_from_json, plan_to_json
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import plan_of, shard_settings


def read(folder, **source) -> tuple[dict[bytes, bytes], list[tuple[int, str | None]]]:
    """Return the id of each document, and row and id of quarantined ones."""
    ids, bad = {}, []
    for each in plan_of(folder, **({"id_column": "id"} | source)).slices():
        reading = SliceReading(each, max_document_bytes=1000)
        for _, batch in reading:
            assert batch.document_ids is not None
            assert len(batch.document_ids) == len(batch.documents)
            ids |= dict(zip(batch.documents, batch.document_ids, strict=True))
        bad += [(entry.row, entry.id) for entry in reading.quarantined]
    return ids, bad


LINES = [
    ({"text": "a", "id": "one"}, b"one"),
    ({"text": "b", "id": 12345678901234567890123}, b"12345678901234567890123"),
    ({"text": "c", "id": -7}, b"-7"),
    ({"text": "d", "id": None}, b""),
    ({"text": "e"}, b""),
    ({"text": "f", "id": 1.5}, b""),
    ({"text": "g", "id": ["x"]}, b""),
    ({"text": "h", "id": "é\n\ud83d"}, "é\n\ufffd".encode()),
]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_the_id_of_a_line_is_a_string_or_an_integer_as_text(tmp_path, name):
    lines = [json.dumps(line) for line, _ in LINES]
    lines += ['{"text": null, "id": 5}', '{"text": 6, "id": "six"}', "oops", '{"text": 7}']
    data = "\n".join([*lines, "x" * 2000]).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    ids, bad = read(tmp_path)
    assert ids == {line["text"].encode(): own for line, own in LINES}
    assert bad == [(8, "5"), (9, "six"), (10, None), (11, None), (12, None)]


def test_a_long_id_is_cut_in_the_entry_of_a_bad_document(tmp_path):
    long = "é" * (9 << 20)
    lines = [json.dumps({"text": text, "id": long}) for text in (None, "a")]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (each,) = plan_of(tmp_path, id_column="id", slice_bytes=1 << 28).slices()
    reading = SliceReading(each)
    assert [list(batch.document_ids) for _, batch in reading] == [[long.encode()]]
    [entry] = reading.quarantined
    assert entry.id == long[:1000]
    assert len(entry.to_json()) < 10_000


def test_the_id_of_a_conversation_is_beside_its_messages(tmp_path):
    lines = [b'{"messages": [], "id": 3}', b'[{"role": "user"}]', b"{}"]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    assert read(tmp_path, kind="chat")[0] == dict(zip(lines, [b"3", b"", b""], strict=True))


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    ids=str,
)
def test_ids_in_a_parquet_string_column_are_read(tmp_path, kind):
    ids = pa.array(["one", None, "drei", "é", "five"]).cast(kind)
    table = pa.table({"id": ids, "n": [1] * 5, "text": ["a", "b", None, "d", "e" * 1001]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    found, bad = read(tmp_path)
    assert found == {b"a": b"one", b"b": b"", b"d": "é".encode()}
    assert bad == [(2, "drei"), (4, "five")]


def test_ids_in_a_parquet_integer_column_are_read_as_text(tmp_path):
    for kind in (pa.int8(), pa.uint64(), pa.int32()):
        table = pa.table({"text": ["a", "b", "c"], "id": pa.array([0, None, 100], kind)})
        pq.write_table(table, tmp_path / "a.parquet")
        assert read(tmp_path)[0] == {b"a": b"0", b"b": b"", b"c": b"100"}


def test_an_id_is_found_by_its_path_and_invalid_utf8_in_it_is_replaced(tmp_path):
    raw = pa.array([b"x\xff", b"y"], pa.binary())
    ids = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    body = pa.StructArray.from_arrays([ids, pa.array(["a", "b"])], ["id", "text"])
    pq.write_table(pa.table({"doc": body, "id": [1, 2]}), tmp_path / "a.parquet")
    found, _ = read(tmp_path, column="doc.text", id_column="doc.id")
    assert found == {b"a": "x\ufffd".encode(), b"b": b"y"}
    assert read(tmp_path, column="doc.text")[0] == {b"a": b"1", b"b": b"2"}
    same, _ = read(tmp_path, column="doc.text", id_column="doc.text")
    assert same == {b"a": b"a", b"b": b"b"}


@pytest.mark.parametrize("split", ["train", "val"])
def test_ids_follow_their_documents_through_a_share(tmp_path, split):
    lines = [json.dumps({"text": f"text {number}", "id": number}) for number in range(300)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for each in plan_of(tmp_path, split="share:0.4", id_column="id").slices(split=split):
        for piece, batch in (reading := SliceReading(each)):
            assert 50 < len(batch.documents) < 250
            pairs = dict(zip(batch.documents, batch.document_ids, strict=True))
            assert pairs == {b"text " + own: own for own in pairs.values()}
            reading.quarantine(piece, batch, 3, reason="x")
            assert next(iter(reading.quarantined)).id == batch.document_ids[3].decode()


@pytest.mark.parametrize(
    ("id_column", "reported"),
    [
        ("idd", "no column 'idd'.*set id_column"),
        ("n", "'n' is of type double"),
        ("l.list.element", "a list"),
    ],
)
def test_an_invalid_id_column_is_refused_during_planning(tmp_path, id_column, reported):
    pq.write_table(pa.table({"text": ["a"], "n": [1.5], "l": [["a"]]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=reported):
        plan_of(tmp_path, id_column=id_column)
    for form in ("lines", "document"):
        with pytest.raises(RecipeError, match=r"web\.id_column = 'id', but the format .*remove it"):
            plan_of(tmp_path, format=form, id_column="id")


def test_ids_are_only_in_the_plan_and_the_keys_of_shards(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a", "id": "x"}\n')
    plain, plan = plan_of(tmp_path), plan_of(tmp_path, id_column="id")
    assert b"id_column" not in plan_to_json(plain)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert pickle.loads(pickle.dumps(plan)) == plan
    (one,), (other,) = plain.slices(), plan.slices()
    counting = CountSettings(pattern=".", gaps="spans")
    shards = shard_settings(Tokenizer.train_from_iterator([], 300))
    assert counting.key(one) == counting.key(other)
    assert shards.key(one) != shards.key(other)
    for reading in (SliceReading(one), SliceReading(other, with_document_ids=False)):
        assert [batch.document_ids for _, batch in reading] == [None]
