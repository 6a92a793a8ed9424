"""Inputs that cost far more to read than to store are refused or quarantined in bounded memory."""

import tracemalloc

import pyarrow as pa
import pytest

from nanotok_ray.sources.json_lines import MAX_VALUES
from tests.support.read_pieces import ReadPiece, parquet_bytes, piece_of

MESSAGES = b'[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]'
MANY = {
    "lists": b"[" + b"[]," * MAX_VALUES + b"[]]",
    "numbers": b"[" + b"1," * (5 * MAX_VALUES) + b"1]",  # a line of more than 16 MiB
    "members": b"{" + b'"":0,' * MAX_VALUES + b'"":0}',
    "cut": b"[" + b"[]," * MAX_VALUES,
}
READ_AS = {
    "text": {"kind": "text"},
    "text with id": {"kind": "text", "id_column": "id"},
    "chat": {"kind": "chat"},
    "chat with id": {"kind": "chat", "id_column": "id"},
}


@pytest.mark.parametrize("read_as", READ_AS)
@pytest.mark.parametrize("values", MANY)
def test_a_line_of_millions_of_values_is_quarantined_in_little_memory(tmp_path, values, read_as):
    path, options = tmp_path / "a.jsonl", READ_AS[read_as]
    good = b'{"text":"good","id":"1","messages":' + MESSAGES + b"}\n"
    line = b'{"text":"bad","id":"2","messages":' + MESSAGES + b',"more":' + MANY[values] + b"}"
    path.write_bytes(good + line + b"\n" + good)
    piece = piece_of(path, dialect="messages" if options["kind"] == "chat" else None)
    tracemalloc.start()
    found = ReadPiece(piece, **options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.numbers == [0, 2]
    (bad,) = found.bad
    assert bad.reason.startswith("too many values: up to ")
    assert bad.reason.endswith(f", a document of JSON may have {MAX_VALUES:,}")
    assert (bad.number, bad.num_bytes) == (1, len(line))
    assert peak < 3 * len(line) + (8 << 20)


@pytest.mark.parametrize("kind", ["text", "chat"])
def test_commas_and_brackets_in_strings_are_no_values(tmp_path, kind):
    text = ',[{\\"\\\\' * (MAX_VALUES // 2)
    line = b'{"text":"%b","messages":%b}\n' % (text.encode(), MESSAGES)
    (tmp_path / "a").write_bytes(line)
    found = ReadPiece(piece_of(tmp_path / "a", dialect="messages"), kind=kind)
    assert not found.bad
    expected = text.replace('\\"', '"').replace("\\\\", "\\").encode()
    assert found.documents == [expected if kind == "text" else line.rstrip()]


def test_a_text_of_millions_of_commas_is_read(tmp_path):
    line = b"[," * MAX_VALUES
    (tmp_path / "a").write_bytes(line + b"\n")
    assert ReadPiece(piece_of(tmp_path / "a", form="lines")).documents == [line]


def test_a_row_of_millions_of_values_is_quarantined(tmp_path):
    counts = pa.array([[1], [1] * (MAX_VALUES + 1), [2]], pa.list_(pa.int64()))
    columns = {"prompt": ["a <image>"] * 3, "response": ["b"] * 3, "image_token_counts": counts}
    (tmp_path / "a").write_bytes(parquet_bytes(columns))
    piece = piece_of(tmp_path / "a", form="parquet", dialect="prompt-response")
    found = ReadPiece(piece, kind="vision")
    assert found.numbers == [0, 2]
    assert [bad.reason.partition(":")[0] for bad in found.bad] == ["too many values"]
