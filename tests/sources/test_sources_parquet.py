"""Documents of parquet files."""

import hashlib
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.sources import DocumentRules, parquet_pages, read_piece
from nanotok_ray.sources.parquet_pages import Page, PageHeaders
from tests.support.read_pieces import ReadPiece, chunk_bytes, is_tail, piece_of, planned_file

TEXTS = DocumentRules(kind="text", column="text")


STRINGS = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "dictionary of large": pa.dictionary(pa.int8(), pa.large_string()),
}


def read(url, start=0, stop=None, **options):
    """Return what row groups of a file hold, by default all."""
    return ReadPiece(piece_of(url, start=start, stop=stop, form="parquet"), **options)


def write(path, texts, kind=None, **options) -> pq.FileMetaData:
    """Write texts between two other columns; return the metadata."""
    column = pa.array(texts, pa.string()).cast(kind or pa.string())
    numbers = pa.array(range(len(texts)), pa.int64())
    table = pa.table({"id": numbers, "text": column, "more": numbers})
    pq.write_table(table, path, **{"row_group_size": 10, **options})
    return pq.read_metadata(path)


@pytest.mark.parametrize("kind", STRINGS)
def test_every_type_of_string_column_is_read(tmp_path, kind):
    texts = [f"é{number % 7}" for number in range(25)]
    write(tmp_path / "a", texts, STRINGS[kind])
    result = read(tmp_path / "a")
    assert result.documents == [text.encode() for text in texts]
    assert result.positions == result.numbers == list(range(25))
    groups = [(batch.group, len(batch.documents)) for batch in result.batches]
    assert groups == [(0, 10), (1, 10), (2, 5)]
    assert result.bad == []


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_the_hash_covers_the_stored_bytes_of_the_column(tmp_path, compression, dictionary):
    path = tmp_path / "a"
    write(path, ["aaa", "b"] * 15, compression=compression, use_dictionary=dictionary)
    stored = chunk_bytes(path, 1, 1) + chunk_bytes(path, 2, 1)
    result = read(path, 1, 3)
    assert result.sha256 == hashlib.sha256(stored).hexdigest()
    assert result.num_bytes == len(stored)
    assert result.positions == list(range(10, 30))


def test_nulls_and_invalid_utf8_are_quarantined_with_their_rows(tmp_path):
    values = [b"a", None, b"b\xffc", b"", b"\xed\xa0\x80", None, "é".encode()]
    buffers = pa.array(values, pa.binary()).buffers()
    column = pa.Array.from_buffers(pa.string(), len(values), buffers, null_count=2)
    pq.write_table(pa.table({"text": column}), tmp_path / "a", row_group_size=4)
    for batch_documents in (1, 3, 1024):
        result = read(tmp_path / "a", batch_documents=batch_documents)
        assert result.documents == [b"a", b"", "é".encode()]
        assert result.positions == result.numbers == [0, 3, 6]
        assert [(bad.number, bad.reason, bad.num_bytes, bad.hash64) for bad in result.bad] == [
            (1, "field is null: 'text'", 0, None),
            (2, "invalid UTF-8: at byte 1", 3, _core.hash64(b"b\xffc")),
            (4, "invalid UTF-8: at byte 0", 3, _core.hash64(b"\xed\xa0\x80")),
            (5, "field is null: 'text'", 0, None),
        ]
        assert [bad.position for bad in result.bad] == [1, 2, 4, 5]
    pq.write_table(pa.table({"text": pa.nulls(2)}), tmp_path / "a")
    reasons = [(bad.number, bad.reason) for bad in read(tmp_path / "a").bad]
    assert reasons == [(number, "field is null: 'text'") for number in (0, 1)]


def test_a_text_inside_a_struct_is_found_by_its_path(tmp_path):
    rows = [{"body": {"text": "a", "n": 1}}, None, {"body": None}, {"body": {"text": None, "n": 2}}]
    table = pa.table({"doc": pa.array(rows), "text": ["x"] * 4, "a.b": ["y"] * 4})
    pq.write_table(table, tmp_path / "a")
    nested = read(tmp_path / "a", column="doc.body.text")
    assert nested.documents == [b"a"]
    assert [bad.number for bad in nested.bad] == [1, 2, 3]
    assert read(tmp_path / "a", column="text").documents == [b"x"] * 4
    assert read(tmp_path / "a", column="a.b").documents == [b"y"] * 4


@given(
    texts=st.lists(st.none() | st.text(max_size=6), min_size=1, max_size=40),
    group=st.integers(1, 15),
    batch=st.integers(1, 15),
    data=st.data(),
)
def test_ranges_of_row_groups_yield_the_rows_of_the_whole_file(
    tmp_path_factory, texts, group, batch, data
):
    path = tmp_path_factory.mktemp("runs") / "a"
    num_groups = write(path, texts, row_group_size=group).num_row_groups
    cuts = data.draw(st.sets(st.integers(0, num_groups)))
    bounds = sorted({0, *cuts, num_groups})
    runs = [read(path, a, b, batch_documents=batch) for a, b in zip(bounds, bounds[1:])]  # noqa: B905, RUF007
    found = {p: d.decode() for run in runs for p, d in zip(run.positions, run.documents)}  # noqa: B905
    assert found == {row: text for row, text in enumerate(texts) if text is not None}
    assert [bad.number for run in runs for bad in run.bad] == [
        row for row, text in enumerate(texts) if text is None
    ]
    for run in runs:
        assert all(len(each.documents) + len(each.bad) <= batch for each in run.batches)


def test_long_texts_make_short_batches(tmp_path):
    generator = np.random.default_rng(1)
    texts = [generator.bytes(1 << 20).hex() for _ in range(24)]
    write(tmp_path / "a", texts, row_group_size=100, use_dictionary=False)
    result = read(tmp_path / "a")
    assert result.documents == [text.encode() for text in texts]
    assert max(batch.documents.num_bytes for batch in result.batches) <= 16 << 20


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_row_group_without_rows_has_no_documents(tmp_path, use_dictionary):
    schema = pa.schema([("text", pa.string())])
    with pq.ParquetWriter(tmp_path / "a", schema, use_dictionary=use_dictionary) as writer:
        for texts in (["one"], [], ["two", "three"], []):
            writer.write_table(pa.table({"text": pa.array(texts, pa.string())}))
    result = read(tmp_path / "a")
    assert result.documents == [b"one", b"two", b"three"]
    assert (result.positions, result.bad) == ([0, 1, 2], [])
    assert read(tmp_path / "a", 1, 2).num_bytes == (
        len(chunk_bytes(tmp_path / "a", 1, 0)) if use_dictionary else 0
    )


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("checksum", [True, False])
def test_damage_ends_a_row_group_in_a_tail_that_names_its_rows(tmp_path, compression, checksum):
    path = tmp_path / "a"
    texts = [f"text {number} {'x' * 50}" for number in range(40)]
    metadata = write(
        path,
        texts,
        compression=compression,
        use_dictionary=False,
        write_page_checksum=checksum,
    )
    chunk = metadata.row_group(2).column(1)
    content = bytearray(path.read_bytes())
    header = chunk.data_page_offset
    content[header : header + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)
    result = read(path, 1, 4)
    assert result.documents == [text.encode() for text in texts[10:20] + texts[30:]]
    assert result.numbers == [*range(10, 20), *range(30, 40)]
    (tail,) = result.bad
    assert is_tail(tail)
    assert tail.reason.startswith("tail: rows 20 to 30 cannot be read (")
    assert (tail.number, tail.position, tail.hash64) == (20, 20, None)
    assert tail.num_bytes == len(chunk_bytes(path, 2, 1))
    stored = b"".join(chunk_bytes(path, group, 1) for group in (1, 2, 3))
    assert result.sha256 == hashlib.sha256(stored).hexdigest()
    assert read(path, 3, 4).documents == [text.encode() for text in texts[30:]]


def test_each_damaged_row_group_has_a_tail_and_keeps_the_rows_before_the_damage(tmp_path):
    path = tmp_path / "a"
    texts = [f"text {number:02}" for number in range(40)]
    pages = {"data_page_size": 1, "write_batch_size": 5}  # five rows per page
    checked = {"use_dictionary": False, "write_page_checksum": True}
    write(path, texts, compression="none", **pages, **checked)
    content = path.read_bytes().replace(b"text 07", b"test 07").replace(b"text 33", b"test 33")
    path.write_bytes(content)
    result = read(path, batch_documents=5)
    assert result.numbers == [*range(5), *range(10, 30)]
    assert result.documents == [texts[number].encode() for number in result.numbers]
    assert [(bad.number, bad.position, bad.hash64, bad.num_bytes) for bad in result.bad] == [
        (5, 5, None, len(chunk_bytes(path, 0, 1))),
        (30, 30, None, len(chunk_bytes(path, 3, 1))),
    ]
    assert result.bad[0].reason.startswith("tail: rows 5 to 10 cannot be read (")
    assert result.bad[1].reason.startswith("tail: rows 30 to 40 cannot be read (")
    stored = b"".join(chunk_bytes(path, group, 1) for group in range(4))
    assert result.sha256 == hashlib.sha256(stored).hexdigest()


def test_a_text_over_the_limit_is_quarantined_and_one_at_the_limit_is_not(tmp_path):
    write(tmp_path / "a", ["a" * 9, "é" * 5, None, "b" * 10, "c" * 11])
    result = read(tmp_path / "a", max_document_bytes=10)
    assert result.documents == [b"a" * 9, "é".encode() * 5, b"b" * 10]
    assert [(bad.number, bad.reason, bad.num_bytes) for bad in result.bad] == [
        (2, "field is null: 'text'", 0),
        (4, "too large: 11 bytes, limits.max_document_bytes = 10", 11),
    ]
    assert result.bad[1].hash64 is None


def test_rows_that_are_large_only_in_memory_are_decoded_a_few_at_a_time(tmp_path):
    large = "x" * (40 << 20)
    column = pa.array([0] * 50, pa.int32())
    texts = pa.DictionaryArray.from_arrays(column, pa.array([large]))
    pq.write_table(pa.table({"text": texts}), tmp_path / "a", dictionary_pagesize_limit=1 << 30)
    assert (tmp_path / "a").stat().st_size < 10 << 20
    reader = read_piece(piece_of(tmp_path / "a", form="parquet"), TEXTS)
    batch = next(iter(reader))
    assert batch.documents.num_bytes <= 256 << 20


@given(position=st.integers(0, 10_000), value=st.integers(0, 255))
@example(position=75, value=1)
def test_one_wrong_byte_never_raises_or_loses_a_row_silently(tmp_path_factory, position, value):
    path = tmp_path_factory.mktemp("byte") / "a"
    texts = [f"text {number}" for number in range(30)]
    write(path, texts, compression="snappy", write_page_checksum=True)
    start = pq.read_metadata(path).row_group(0).column(1).dictionary_page_offset
    end = pq.read_metadata(path).row_group(2).column(2).data_page_offset
    content = bytearray(path.read_bytes())
    content[start + position % (end - start)] = value
    path.write_bytes(content)
    result = read(path)
    tails = {bad.number // 10: bad.number for bad in result.bad if is_tail(bad)}
    good = [row for row in range(30) if row < tails.get(row // 10, 30)]
    assert result.positions == good
    assert result.documents == [texts[row].encode() for row in good]


@pytest.mark.parametrize(
    ("table", "column", "reason"),
    [
        ({"id": [1], "text": ["a"]}, "txt", "/a has no column 'txt'.* 'id', 'text'.*set column"),
        ({"id": [1], "text": ["a"]}, "id", "/a: column 'id' is of type int64.*cast to string"),
        ({"text": pa.array([b"a"])}, "text", "of type binary"),
        ({"text": pa.array([["a"]])}, "text", "no column 'text'"),
        ({"text": pa.array([["a"]])}, "text.list.element", "inside a list"),
        ({"text": pa.array([{"a": "b"}])}, "text", "no column 'text'; its columns are 'text.a'"),
        ({"text": pa.array([b"abcd"], pa.binary(4))}, "text", "fixed_size_binary"),
    ],
    ids=range(7),
)
def test_a_column_of_another_type_is_refused(tmp_path, table, column, reason):
    pq.write_table(pa.table(table), tmp_path / "a")
    for use in (partial(planned_file, format="parquet"), read):
        with pytest.raises(SourceError, match=reason):
            use(tmp_path / "a", column=column)


def test_the_footer_states_rows_and_bytes_of_the_column_and_has_a_hash(tmp_path):
    path = tmp_path / "a"
    metadata = write(path, [f"text {number}" for number in range(25)])
    footer = planned_file(path, format="parquet")
    assert [group.rows for group in footer.layout] == [10, 10, 5]
    assert [group.num_bytes for group in footer.layout] == [
        metadata.row_group(group).column(1).total_uncompressed_size for group in range(3)
    ]
    stored = path.read_bytes()[-metadata.serialized_size - 8 :]
    assert footer.footer_sha256 == hashlib.sha256(stored).hexdigest()
    write(path, [f"text {number}!" for number in range(25)])
    assert planned_file(path, format="parquet").footer_sha256 != footer.footer_sha256


def test_a_file_with_fewer_row_groups_than_planned_is_named(tmp_path):
    write(tmp_path / "a", ["a"] * 25)
    with pytest.raises(SourceError, match=r"/a changed .* 3 row groups, 4 were planned"):
        read(tmp_path / "a", 2, 4)
    with pytest.raises(SourceError, match=r"cannot read .*/b"):
        read(tmp_path / "b", 0, 1)


def test_a_temporary_storage_failure_is_no_damage(tmp_path, monkeypatch):
    write(tmp_path / "a", ["a"] * 25)

    def fail(*_):
        raise TransientIOError("try again")

    piece = piece_of(tmp_path / "a", form="parquet")
    batches = iter(read_piece(piece, TEXTS))
    next(batches)
    headers = parquet_pages.PageHeaders()
    monkeypatch.setattr(parquet_pages.ChunkFile, "load", lambda *_, **__: headers)
    monkeypatch.setattr(parquet_pages.ChunkFile, "read", fail)
    with pytest.raises(TransientIOError, match="try again"):
        next(batches)


MIB = 1 << 20


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_page_headers_match_the_footer_for_any_block_size(tmp_path, version, dictionary, step):
    table = pa.table({"text": [f"text {number}" for number in range(1000)]})
    pages = {"data_page_version": version, "data_page_size": 1000, "write_batch_size": 100}
    options = {"use_dictionary": dictionary, "write_page_checksum": True}
    pq.write_table(table, tmp_path / "a", **pages, **options)
    chunk = pq.read_metadata(tmp_path / "a").row_group(0).column(0)
    stored = chunk_bytes(tmp_path / "a", 0, 0)
    headers = PageHeaders()
    for start in range(0, len(stored), step):
        headers.update(stored[start : start + step])
    data = [page for page in headers.pages if not page.is_dictionary]
    assert sum(page.values for page in data) == 1000
    assert len(data) > 1
    assert [page.values for page in headers.pages if page.is_dictionary] == [1000] * dictionary
    assert 0 < sum(page.stored_bytes for page in headers.pages) < len(stored)
    header_bytes = len(stored) - sum(page.stored_bytes for page in headers.pages)
    total = sum(page.num_bytes for page in headers.pages) + header_bytes
    assert total == chunk.total_uncompressed_size
    assert headers.problem(chunk.compression, max_document_bytes=1000) is None


@pytest.mark.parametrize(
    ("page", "codec", "reported"),
    [
        ({"num_bytes": 2**31 - 1, "stored_bytes": 1000}, "ZSTD", "cannot be a page of"),
        ({"num_bytes": 2**31 - 1, "stored_bytes": 1000}, "UNCOMPRESSED", "cannot be a page of"),
        ({"num_bytes": 70 * MIB, "stored_bytes": 70 * MIB}, "SNAPPY", "max_document_bytes is"),
        ({"values": 2**31 - 1, "is_dictionary": True}, "SNAPPY", "cannot be in a page of 4000"),
        ({"values": -1}, "SNAPPY", "a negative size"),
    ],
    ids=range(5),
)
def test_a_false_or_oversized_header_is_reported(page, codec, reported):
    headers = PageHeaders()
    values = {"is_dictionary": False, "values": 10, "num_bytes": 4000, "stored_bytes": 1000}
    headers.pages.append(Page(**{**values, **page}))
    assert reported in (headers.problem(codec, max_document_bytes=MIB) or "")


@pytest.mark.parametrize(
    ("pages", "rows"),
    [
        ([], 1024),
        ([(10_000, MIB)] * 10_000, 1024),
        ([(10_000, MIB), (1, 300 * MIB), (10_000, MIB)], 1),
        ([(1, 10 * MIB)] * 1000, 16),
        ([(1, 10 * MIB)] + [(100_000, MIB)] * 9, 1024),
    ],
    ids=range(5),
)
def test_a_batch_has_as_many_rows_as_fit(pages, rows):
    headers = PageHeaders()
    headers.pages += [
        Page(is_dictionary=False, values=values, num_bytes=size, stored_bytes=size)
        for values, size in pages
    ]
    assert headers.batch_rows(max_rows=1024) == rows


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_forged_page_size_is_a_tail_and_uses_no_memory(tmp_path, codec):
    path = tmp_path / "a"
    table = pa.table({"text": ["x" * 70] * 100})
    pq.write_table(table, path, compression=codec, use_dictionary=False, write_statistics=False)
    stored = chunk_bytes(path, 0, 0)
    assert stored.startswith(b"\x15\x00\x15")  # a data page, and its size as a varint
    size_end = next(place for place in range(3, 9) if stored[place] < 128) + 1
    forged = stored[:3] + b"\xfe\xff\xff\xff\x0f" + stored[size_end:]  # 2**31 - 1
    path.write_bytes(path.read_bytes().replace(stored, forged[: len(stored)]))
    ((bad,),) = (batch.bad for batch in read(path).batches)
    assert bad.reason.startswith("tail: rows 0 to 100 cannot be read (")
    assert "stored bytes cannot be a page of 2147483647" in bad.reason


@pytest.mark.parametrize("data", [b"\xff" * 100, b"\x00", b"\x15" + b"\x80" * 30])
def test_after_an_invalid_header_no_page_is_found(tmp_path, data):
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "a")
    headers = PageHeaders()
    headers.update(data)
    headers.update(chunk_bytes(tmp_path / "a", 0, 0))
    assert headers.pages == []
