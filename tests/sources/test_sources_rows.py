"""Rows, ids of documents, batches of documents."""

import gzip
import hashlib
import json
import pickle
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.counts import CountSettings
from nanotok_ray.documents import Documents, to_utf8
from nanotok_ray.errors import RecipeError, SourceError
from nanotok_ray.shards.settings import shard_key
from nanotok_ray.sources import (
    ReadingRules,
    SliceReading,
    find_named,
    parquet_pages,
    plan_from_json,
    plan_to_json,
)
from nanotok_ray.tokenizer import Tokenizer
from tests.support.read_pieces import ReadPiece, chunk_bytes, json_lines, piece_of, planned_file
from tests.support.small_corpus import plan_of, shard_settings

MESSAGE = pa.struct({"content": pa.string(), "role": pa.string()})
TURNS = pa.list_(MESSAGE)
ROWS = {
    ("chat", "messages"): [{"messages": [{"content": "hi", "role": "user"}, None]}] * 3,
    ("chat", "sharegpt"): [
        {"conversations": [{"from": "human", "value": 'a"b'}], "system": "s"},
        {"conversations": [], "system": None},
    ],
    ("chat", "gsm8k"): [{"question": "1\n+ 1", "answer": "<<1+1=2>>#### 2"}],
    ("chat", "prompt-response"): [{"prompt": "a", "completion": "b"}],
    ("vision", "messages"): [{"messages": [], "image_token_counts": [1, 2]}],
    ("vision", "prompt-response"): [
        {"text": "<image>", "response": "", "image_token_counts": [7]},
        {"text": None, "response": "é", "image_token_counts": None},
    ],
    ("vision", "text"): [{"text": "<image>", "image_token_counts": [3]}],
}


def rows_of(path, *, kind="chat", dialect="messages", **options):
    """Return the conversations of a file, and their values."""
    piece = piece_of(path, form="parquet", dialect=dialect)
    result = ReadPiece(piece, kind=kind, column="", **options)
    return result, [json.loads(document) for document in result.documents]


def write(path, conversations, *, kind=TURNS, **options):
    """Write conversations between two other columns, as in SmolTalk."""
    names = [f"set {number % 3}" for number in range(len(conversations))]
    columns = {"id": range(len(names)), "messages": pa.array(conversations, kind), "source": names}
    pq.write_table(pa.table(columns), path, **{"row_group_size": 10, **options})
    return path


def talk(number: int) -> list[dict[str, str]]:
    return [
        {"content": f'question "{number}"\n', "role": "user"},
        {"content": f"answer \\ {number}" * (number % 5), "role": "assistant"},
    ]


planned_chat = partial(planned_file, format="parquet", kind="chat")


@pytest.mark.parametrize(("kind", "dialect"), ROWS, ids=str)
def test_a_row_equals_the_line_with_the_same_content(tmp_path, kind, dialect):
    rows = ROWS[kind, dialect]
    extra = pa.array([b"\xff"] * len(rows), pa.binary())
    pq.write_table(pa.Table.from_pylist(rows).append_column("image", extra), tmp_path / "a")
    assert planned_chat(tmp_path / "a", kind=kind).dialect == dialect
    assert rows_of(tmp_path / "a", kind=kind, dialect=dialect)[1] == rows
    (tmp_path / "b").write_bytes(json_lines(rows))
    read = ReadPiece(piece_of(tmp_path / "b", dialect=dialect), kind=kind, column="").documents
    assert [json.loads(document) for document in read] == rows


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("group", [1, 7, 100])
def test_conversations_of_every_row_group_are_read_and_accounted_for(tmp_path, group, version):
    talks = [talk(number) for number in range(25)]
    path = write(
        tmp_path / "a", talks, row_group_size=group, data_page_version=version, data_page_size=64
    )
    result, values = rows_of(path, id_column="id", batch_documents=4)
    assert values == [{"messages": each} for each in talks]
    assert result.documents[0] == (
        b'{"messages":[{"content":"question \\"0\\"\\n","role":"user"},'
        b'{"content":"","role":"assistant"}]}'
    )
    assert result.numbers == list(range(25))
    ids = [own for batch in result.batches for own in batch.document_ids]
    assert ids == [b"%d" % number for number in range(25)]
    assert all(len(batch.documents) <= 4 for batch in result.batches)
    assert [batch.group for batch in result.batches] == sorted(b.group for b in result.batches)
    metadata = pq.read_metadata(path)
    groups = range(metadata.num_row_groups)
    read = b"".join(chunk_bytes(path, each, column) for each in groups for column in (0, 1, 2))
    assert (result.num_bytes, result.sha256) == (len(read), hashlib.sha256(read).hexdigest())
    first = metadata.row_group(0)
    assert planned_chat(path).layout[0].num_bytes == sum(
        first.column(n).total_uncompressed_size for n in (1, 2)
    )


def test_chunks_are_fetched_once_if_they_fit_and_are_equal_if_not(tmp_path, monkeypatch):
    path = write(tmp_path / "a", [talk(number) for number in range(30)])
    fetched = []
    read = parquet_pages.ChunkFile.read

    def counted(self, size=-1):
        fetched.append(self._from_cache(size) is None)
        return read(self, size)

    monkeypatch.setattr(parquet_pages.ChunkFile, "read", counted)
    kept, _ = rows_of(path, id_column="id")
    in_footer = 2  # the length of the footer, and the footer
    assert sum(fetched) <= in_footer
    monkeypatch.setattr(parquet_pages, "_MAX_WINDOW_BYTES", 300)
    monkeypatch.setattr(parquet_pages, "_BLOCK_BYTES", 7)
    fetched.clear()
    again, _ = rows_of(path, id_column="id")
    assert sum(fetched) > in_footer
    assert again.documents == kept.documents
    assert (again.sha256, again.num_bytes) == (kept.sha256, kept.num_bytes)


def test_a_dictionary_encoded_role_and_large_types_are_read(tmp_path):
    role = pa.dictionary(pa.int8(), pa.string())
    message = pa.struct({"role": role, "content": pa.large_string(), "turn": pa.int32()})
    talks = [[{**turn, "turn": None} for turn in talk(number)] for number in range(12)]
    for kind in (pa.list_(message), pa.large_list(message)):
        path = write(tmp_path / "a", talks, kind=kind)
        assert rows_of(path)[1] == [{"messages": each} for each in talks]


def test_a_row_that_is_too_large_or_not_utf8_is_quarantined(tmp_path):
    contents = pa.array([b"a", b"\xff", b"b" * 99, b"c"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 4, contents.buffers())
    turns = pa.StructArray.from_arrays([texts], ["content"])
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), turns)
    pq.write_table(pa.table({"messages": column, "id": ["x", "y", "z", "w"]}), tmp_path / "a")
    result, _ = rows_of(tmp_path / "a", max_document_bytes=60, id_column="id")
    assert result.numbers == [0, 3]
    assert [(bad.number, bad.id, bad.reason) for bad in result.bad] == [
        (1, "y", "invalid UTF-8: at byte 25"),
        (2, "z", "too large: 128 bytes, limits.max_document_bytes = 60"),
    ]


@pytest.mark.parametrize("column", range(1, 3))
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_damaged_page_ends_its_row_group_and_mixes_no_rows(tmp_path, column, version):
    talks = [talk(number) for number in range(9)]
    pages = {"data_page_version": version, "data_page_size": 40, "write_batch_size": 2}
    stored = {"write_page_checksum": True, "compression": "none", "use_dictionary": False}
    path = write(tmp_path / "a", talks, row_group_size=3, **pages, **stored)
    chunk = pq.read_metadata(path).row_group(1).column(column)
    stored = bytearray(path.read_bytes())
    expected = [{"messages": each} for each in talks]
    first = chunk.data_page_offset
    for place in range(first, first + chunk.total_compressed_size, 3):
        hurt = stored.copy()
        hurt[place] ^= 0x20
        path.write_bytes(hurt)
        result, values = rows_of(path)
        assert values == [expected[number] for number in result.numbers]
        for bad in result.bad:
            assert bad.reason.startswith(f"tail: rows {bad.number} to 6 cannot be read")
            assert 3 <= bad.number < 6
            assert 0 < bad.num_bytes < len(stored)
        lost = range(result.bad[0].number, 6) if result.bad else ()
        assert result.numbers == [number for number in range(9) if number not in lost]


@pytest.mark.parametrize(
    ("columns", "fields", "reported"),
    [
        ({"messages": ["[]"]}, {}, r"'messages' is of type string, .*'messages' needs a list"),
        ({"prompt": [["a"]], "response": ["b"]}, {}, r"'prompt' is of type list<.*needs a string"),
        ({"messages": [[{"role": "a", "image": b"x"}]]}, {}, r"'messages' holds .* type binary"),
        ({"a": [1], "b": [2]}, {}, r"no dialect of chat is known for its columns, 'a', 'b'; set"),
        ({"a": [1]}, {"dialect": "gsm8k"}, r"'gsm8k' need the columns 'question', 'answer'"),
        ({"messages": [[]], "messages.b": [1]}, {}, r"'messages', 'messages\.b', which cannot"),
        ({"messages": [[]]}, {"id_column": "id"}, r"no column 'id'.*set id_column"),
    ],
    ids=range(7),
)
def test_columns_that_a_dialect_cannot_use_are_refused_by_name(tmp_path, columns, fields, reported):
    pq.write_table(pa.table(columns), tmp_path / "a")
    with pytest.raises(SourceError, match=reported):
        planned_chat(tmp_path / "a", **fields)


def test_columns_without_values_are_read(tmp_path):
    path = write(tmp_path / "a", [None] * 3, kind=pa.null())
    assert planned_chat(path).dialect == "messages"
    assert rows_of(path)[1] == [{"messages": None}] * 3
    assert rows_of(write(tmp_path / "b", []))[1] == []


def test_the_id_may_be_a_column_of_the_document(tmp_path):
    pq.write_table(pa.table({"prompt": ["a"], "response": ["b"]}), tmp_path / "a")
    result, values = rows_of(tmp_path / "a", dialect="prompt-response", id_column="prompt")
    assert values == [{"prompt": "a", "response": "b"}]
    assert list(result.batches[0].document_ids) == [b"a"]


def test_a_column_of_named_conversations_is_refused_and_never_ignored(tmp_path):
    pq.write_table(pa.table({"messages": pa.array([[]], TURNS)}), tmp_path / "a.parquet")
    (slice_,) = find_named([str(tmp_path)], ReadingRules(kind="chat")).slices
    assert slice_.column == ""
    with pytest.raises(RecipeError, match="'messages' has no use for a chat source"):
        find_named([str(tmp_path)], ReadingRules(kind="chat", column="messages"))


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
    assert shard_key(one, shards) != shard_key(other, shards)
    for reading in (SliceReading(one), SliceReading(other, with_document_ids=False)):
        assert [batch.document_ids for _, batch in reading] == [None]


@given(st.lists(st.text()), st.data())
def test_documents_convert_to_arrow_and_back(strings, data):
    documents = Documents.from_strings(strings)
    array = documents.to_arrow()
    assert array.type == pa.large_string()
    assert array.to_pylist() == strings
    cut = data.draw(st.integers(0, len(strings)))
    chunks = pa.chunked_array([strings[:cut], strings[cut:]], pa.string())
    for own in (array, chunks, pa.chunked_array([strings], pa.string())):
        assert list(Documents.from_arrow(own)) == [text.encode() for text in strings]
    chosen = data.draw(st.lists(st.integers(0, len(strings) - 1))) if strings else []
    taken = documents.take(np.array(chosen, dtype=np.int64))
    assert list(taken) == [documents[index] for index in chosen]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array(["a", None, None]), "holds 2 nulls"),
        (pa.array([1]), "large_string or string, got int64"),
        ("one text", "got <class 'str'>"),
    ],
    ids=["nulls", "numbers", "str"],
)
def test_values_that_are_not_text_are_refused(array, message):
    with pytest.raises(SourceError, match=message):
        Documents.from_arrow(array)


def test_documents_in_a_larger_buffer_are_those_between_the_offsets():
    data = np.frombuffer(b"xxabcxx", dtype=np.uint8)
    documents = Documents(data=data, offsets=np.array([2, 4, 5]))
    assert list(documents) == [b"ab", b"c"]
    assert documents.num_bytes == 3
    assert documents.to_arrow().to_pylist() == ["ab", "c"]


@pytest.mark.parametrize("index", [-1, 2])
def test_a_missing_document_is_an_index_error(index):
    with pytest.raises(IndexError, match=f"document {index} of 2"):
        Documents.from_strings(["a", "b"])[index]


def test_surrogates_become_their_character_or_the_replacement_character():
    assert to_utf8("\ud83d\ude42") == "🙂".encode()
    assert to_utf8("a\ud83d") == "a\ufffd".encode()
    assert to_utf8("\ude42\ud83d") == "\ufffd\ufffd".encode()
    assert to_utf8("\ufeffx\ud83d") == "\ufeffx\ufffd".encode()
