"""Inputs that cost far more to read than to store are refused or quarantined in bounded memory."""

import time
import tracemalloc

import pyarrow as pa
import pytest

from nanotok_ray.errors import SourceError
from nanotok_ray.job import planning
from nanotok_ray.job.planning import measured_rates
from nanotok_ray.recipe import LimitsRecipe, SourceRecipe
from nanotok_ray.sources import (
    DocumentRules,
    Piece,
    Slice,
    TimeIsUpError,
    check_sample,
    read_piece,
    resolve,
)
from nanotok_ray.sources.json_lines import MAX_VALUES
from nanotok_ray.sources.parquet_column import MAX_ROWS_PER_BYTE, MIN_LIMITED_ROWS
from nanotok_ray.sources.stored import MAX_DECODED_RATIO, MIN_LIMITED_BYTES
from tests.support.read_pieces import (
    ReadPiece,
    compressed,
    is_tail,
    json_lines,
    parquet_bytes,
    piece_of,
)

TEXTS = DocumentRules(kind="text", column="text")


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


BLANK = b"\n" * (64 << 20)
EXPANSION = f"decode to more than {MAX_DECODED_RATIO:,} times as many"


def test_blank_lines_are_counted_in_blocks(tmp_path):
    (tmp_path / "a").write_bytes(compressed(b'{"text":"a"}\n' + BLANK + b'{"text":"b"}', "zstd"))
    found = ReadPiece(piece_of(tmp_path / "a", compression="zstd"))
    assert (found.documents, found.blank, found.bad) == ([b"a", b"b"], len(BLANK), [])
    assert found.positions == [0, 13 + len(BLANK)]


def test_a_stream_that_decodes_to_thousands_of_times_its_size_ends_in_a_tail(tmp_path):
    members = compressed(BLANK, "zstd") * (MIN_LIMITED_BYTES // len(BLANK) + 9)
    stored = compressed(b'{"text":"a"}\n', "zstd") + members
    (tmp_path / "a").write_bytes(stored)
    found = ReadPiece(piece_of(tmp_path / "a", compression="zstd"))
    assert found.documents == [b"a"]
    (tail,) = found.bad
    assert is_tail(tail)
    assert f"{len(stored):,} stored bytes {EXPANSION}" in tail.reason
    assert MIN_LIMITED_BYTES < tail.position < MIN_LIMITED_BYTES + (1 << 20)
    assert found.num_bytes == len(stored)


def dictionary_of(num_bytes, rows):
    """Return a parquet file in which all rows are the same long text, which is stored once."""
    indexes, words = pa.array([0] * rows, pa.int32()), pa.array(["x" * num_bytes])
    column = pa.DictionaryArray.from_arrays(indexes, words)
    options = {"compression": "zstd", "store_schema": False, "write_statistics": False}
    return parquet_bytes({"text": column}, dictionary_pagesize_limit=1 << 30, **options)


def test_a_dictionary_that_decodes_to_thousands_of_times_its_size_ends_in_a_tail(tmp_path):
    size = 16 << 20
    (tmp_path / "a").write_bytes(dictionary_of(size, rows=1000))
    rows, bad = 0, []
    for batch in read_piece(piece_of(tmp_path / "a", form="parquet"), TEXTS):
        assert batch.documents.num_bytes == size * len(batch.documents)
        rows += len(batch.documents)
        bad += batch.bad
    assert 0 < rows <= MIN_LIMITED_BYTES // size
    (tail,) = bad
    assert tail.reason.startswith(f"tail: rows {rows} to 1000 cannot be read (")
    assert EXPANSION in tail.reason
    assert tail.rows == 1000 - rows


def test_a_constant_column_is_read(tmp_path):
    text = "a licence of some hundred bytes " * 40
    (tmp_path / "a").write_bytes(parquet_bytes({"text": [text] * 100_000}, compression="zstd"))
    found = ReadPiece(piece_of(tmp_path / "a", form="parquet"))
    assert len(found.documents) * len(text) > 5_000 * found.num_bytes
    assert not found.bad


def test_a_parquet_file_of_many_rows_a_byte_is_refused_by_name(tmp_path):
    path = tmp_path / "a.parquet"
    source = SourceRecipe(name="web", kind="text", paths=(str(tmp_path),))
    path.write_bytes(parquet_bytes({"text": pa.nulls(MIN_LIMITED_ROWS + 1, pa.string())}))
    assert path.stat().st_size * MAX_ROWS_PER_BYTE < MIN_LIMITED_ROWS
    with pytest.raises(SourceError, match=rf"{path} has 16,777,217 rows in [\d,]+ bytes"):
        resolve(source)


FORMATS = {
    "a.jsonl": json_lines([{"text": "a"}]),
    "a.jsonl.zst": compressed(json_lines([{"text": "a"}]), "zstd"),
    "a.parquet": parquet_bytes({"text": ["a"]}),
}


@pytest.mark.parametrize("name", FORMATS)
def test_reading_ends_at_its_deadline(tmp_path, name, monkeypatch):
    (tmp_path / name).write_bytes(FORMATS[name])
    source = SourceRecipe(name="web", kind="text", paths=(str(tmp_path),))
    (file,) = resolve(source).files
    piece = Piece.of(file)
    now = time.monotonic()
    assert ReadPiece(piece, deadline=now + 1000).documents == [b"a"]
    with pytest.raises(TimeIsUpError):
        ReadPiece(piece, deadline=now - 1)

    monkeypatch.setattr(planning, "MAX_SAMPLE_SECONDS", -1.0)
    slice_ = Slice(
        source="web",
        split="train",
        number=0,
        kind="text",
        column="text",
        share=None,
        stem="a",
        pieces=(piece,),
    )
    notes = []
    assert measured_rates([slice_], pattern="nanochat", tokenizer=None, on_event=notes.append) == {}
    assert f"source 'web': '{name}' gave 0.00 MB of text in" in notes[0].text


def test_the_first_rows_of_long_texts_use_bounded_memory(tmp_path):
    (tmp_path / "a.parquet").write_bytes(dictionary_of(48 << 20, rows=20))
    source = SourceRecipe(name="web", kind="text", paths=(str(tmp_path),))
    files = resolve(source).files
    before = pa.default_memory_pool().max_memory()
    assert check_sample(source, files, limits=LimitsRecipe()) == ()
    assert pa.default_memory_pool().max_memory() - before < 600 << 20
