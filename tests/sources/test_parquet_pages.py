"""Page headers are checked before Arrow allocates memory for them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.sources import Piece, read_piece
from nanotok_ray.sources.parquet_pages import Page, PageHeaders

MIB = 1 << 20


def chunk_of(path) -> tuple[pq.ColumnChunkMetaData, bytes]:
    chunk = pq.read_metadata(path).row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return chunk, path.read_bytes()[start : start + chunk.total_compressed_size]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_page_headers_match_the_footer_for_any_block_size(tmp_path, version, dictionary, step):
    table = pa.table({"text": [f"text {number}" for number in range(1000)]})
    pages = {"data_page_version": version, "data_page_size": 1000, "write_batch_size": 100}
    options = {"use_dictionary": dictionary, "write_page_checksum": True}
    pq.write_table(table, tmp_path / "a", **pages, **options)
    chunk, stored = chunk_of(tmp_path / "a")
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
        ({"values": -1}, "SNAPPY", "less than nothing"),
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
    chunk, stored = chunk_of(path)
    assert stored.startswith(b"\x15\x00\x15")  # a data page, and its size as a varint
    size_end = next(place for place in range(3, 9) if stored[place] < 128) + 1
    start = chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[start + 3 : start + size_end] = b"\xfe\xff\xff\xff\x0f"  # 2**31 - 1
    path.write_bytes(content)
    piece = Piece(url=str(path), path="a", format="parquet", compression=None, start=0, stop=1)
    ((bad,),) = (batch.bad for batch in read_piece(piece, kind="text", column="text"))
    assert bad.reason.startswith("tail: rows 0 to 100 cannot be read (")
    assert "stored bytes cannot be a page of 2147483647" in bad.reason


@pytest.mark.parametrize("data", [b"\xff" * 100, b"\x00", b"\x15" + b"\x80" * 30])
def test_after_an_invalid_header_no_page_is_found(tmp_path, data):
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "a")
    _, stored = chunk_of(tmp_path / "a")
    headers = PageHeaders()
    headers.update(data)
    headers.update(stored)
    assert headers.pages == []
