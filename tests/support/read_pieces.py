"""Files of documents, and pieces of them read to their end, for tests of readers."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.formats import SourceFile
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources import DocumentRules, Piece, read_piece, resolve
from nanotok_ray.storage import open_input, version_of


def json_lines(values) -> bytes:
    """Return a line of JSON for each value."""
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def compressed(data: bytes, compression: str | None) -> bytes:
    """Return data as it is stored with a compression or none."""
    if compression is None:
        return data
    return pa.Codec(compression, compression_level=1).compress(data, asbytes=True)


def parquet_bytes(columns, **options) -> bytes:
    """Return a parquet file of columns, or of rows with equal keys."""
    table = pa.table(columns) if isinstance(columns, dict) else pa.Table.from_pylist(columns)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def chunk_bytes(path, group, column) -> bytes:
    """Return the stored bytes of a column in a row group."""
    chunk = pq.read_metadata(path).row_group(group).column(column)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return Path(path).read_bytes()[start : start + chunk.total_compressed_size]


def planned_file(path, *, kind="text", **fields) -> SourceFile:
    """Return a file as planned."""
    (file,) = resolve(SourceRecipe(name="web", kind=kind, paths=(str(path),), **fields)).files
    return file


def piece_of(url, *, start=0, stop=None, form="jsonl", compression=None, dialect=None) -> Piece:
    """Return a piece of a file, by default up to its end."""
    path = Path(url)
    if stop is None:
        is_parquet = form == "parquet"
        stop = pq.read_metadata(url).num_row_groups if is_parquet else path.stat().st_size
    file = SourceFile(
        path="a",
        url=str(url),
        size=_size_of(str(url)) or stop,
        format=form,
        compression=compression,
        dialect=dialect,
    )
    return Piece(file, start, stop)


def _size_of(url: str) -> int:
    """Return the size of a file, or 0 if it does not exist."""
    try:
        with open_input(url) as file:
            return version_of(file).size
    except FileNotFoundError:
        return 0


class ReadPiece:
    """All batches of a piece, concatenated."""

    def __init__(self, piece, *, kind="text", column="text", deadline=None, **options):
        rules = DocumentRules(kind=kind, column=column, **options)
        reader = read_piece(piece, rules, deadline=deadline)
        self.batches = list(reader)
        self.documents = [each for batch in self.batches for each in batch.documents]
        self.positions = [int(n) for batch in self.batches for n in batch.positions]
        self.numbers = [int(n) for batch in self.batches for n in batch.numbers]
        self.bad = [bad for batch in self.batches for bad in batch.bad]
        self.blank = sum(batch.blank for batch in self.batches)
        self.sha256, self.num_bytes = reader.sha256, reader.num_bytes


def same_pieces(one, other, **options) -> bool:
    """Return whether two files have the same documents, with numbers and hash."""
    found = [ReadPiece(piece_of(url, **options)) for url in (one, other)]
    first, second = ((own.documents, own.numbers, own.sha256, own.num_bytes) for own in found)
    return first == second


def is_tail(bad):
    """Return whether an entry is a tail."""
    return bad.reason.startswith("tail: ")
