"""The count file: sorted spans and their counts as Arrow IPC, and ranges of hashes back.

Rows (hash64, span, count) sorted by (hash64, span), in record batches of 65,536 rows. The head has
the row offsets of 4,096 equal hash ranges, so that any power of two of ranges can be read without
re-partitioning, and what the counts were made from. Knows neither how spans are counted nor what is
learned from them.
"""

import json
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nanotok_ray import _core
from nanotok_ray.count_origin import CountOrigin
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError, CountsError, TransientIOError
from nanotok_ray.storage import open_input

COUNTS_FORMAT = "nanotok-counts 2"
"""Belongs to the key of every count file: it fixes xxh3_64 with seed 0 as the hash."""

NUM_RANGES = 4096
BATCH_ROWS = 65_536
SUM_RANGES = 16
"""Hash ranges in which count files are summed; a power of two."""

Run = tuple[
    npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint64]
]
"""Sorted counts: hashes [n], bytes of the spans, their offsets [n + 1], counts [n]."""

_FAMILY = b"nanotok-counts "
_SCHEMA = pa.schema([("hash64", pa.uint64()), ("span", pa.large_binary()), ("count", pa.uint64())])


def pack_counts(run: Run, origin: CountOrigin) -> pa.Buffer:
    """Write a sorted run as the bytes of a count file."""
    hashes, data, offsets, counts = run
    spans = Documents(data=data, offsets=offsets).to_arrow(as_bytes=True)
    bounds = np.arange(NUM_RANGES, dtype=np.uint64) << np.uint64(52)
    starts = [*np.searchsorted(hashes, bounds).tolist(), len(hashes)]
    metadata = {
        "format": COUNTS_FORMAT,
        "ranges": json.dumps(starts),
        "origin": origin.to_json(),
    }
    table = pa.table([pa.array(hashes), spans, pa.array(counts)], schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema.with_metadata(metadata)) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)
    return sink.getvalue()


def read_origin(source: pa.NativeFile, *, name: str) -> CountOrigin:
    """Read what the counts of an open count file were made from.

    Raises:
        CorruptOutputError: not a count file of this version.
    """
    try:
        metadata = _open(source, name=name).schema.metadata
    except TransientIOError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptOutputError(f"{name} cannot be read as a count file: {error}") from error
    try:
        return CountOrigin.from_json(metadata.get(b"origin", b""), name=name)
    except CountsError as error:
        raise CorruptOutputError(str(error)) from error


def read_range(source: pa.NativeFile, *, number: int, num_ranges: int, name: str) -> Run:
    """Read one of `num_ranges` (a power of two up to 4,096) hash ranges of an open count file.

    Raises:
        CorruptOutputError: not a count file of this version.
    """
    try:
        reader = _open(source, name=name)
        starts = json.loads(reader.schema.metadata[b"ranges"])
        step = NUM_RANGES // num_ranges
        first, last = starts[number * step], starts[(number + 1) * step]
        batches = range(first // BATCH_ROWS, -(-last // BATCH_ROWS))
        table = pa.Table.from_batches([reader.get_batch(each) for each in batches], reader.schema)
    except TransientIOError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptOutputError(f"{name} cannot be read as a count file: {error}") from error
    own = table.slice(first - (first // BATCH_ROWS) * BATCH_ROWS, last - first).combine_chunks()
    spans = Documents.from_arrow(_one_chunk(own["span"]))
    return (
        _one_chunk(own["hash64"]).to_numpy(),
        spans.data,
        spans.offsets,
        _one_chunk(own["count"]).to_numpy(),
    )


def origins_of(urls: Sequence[str]) -> dict[str, CountOrigin]:
    """Give what the counts of each file were made from, by path or URL.

    Raises:
        CorruptOutputError: a file is not a count file of this version.
        FileNotFoundError: there is no such file.
    """
    origins = {}
    for url in urls:
        with open_input(url) as file:
            origins[url] = read_origin(pa.PythonFile(file), name=url)
    return origins


def sum_ranges(urls: Sequence[str]) -> Iterator[Run]:
    """Give the summed counts of all files, one hash range after the other.

    Raises:
        CorruptOutputError: a file is not a count file of this version.
        CountOverflowError: a sum would pass 2**64 - 1.
    """
    for number in range(SUM_RANGES):
        yield _core.merge_runs([_read(url, number) for url in urls])


def join_runs(runs: Sequence[Run]) -> Run:
    """Put runs of rising hash ranges one after the other; there is at least one."""
    spans = Documents.joined([Documents(data=run[1], offsets=run[2]) for run in runs])
    hashes = np.concatenate([run[0] for run in runs])
    return hashes, spans.data, spans.offsets, np.concatenate([run[3] for run in runs])


def _read(url: str, number: int) -> Run:
    with open_input(url) as file:
        return read_range(pa.PythonFile(file), number=number, num_ranges=SUM_RANGES, name=url)


def _open(source: pa.NativeFile, *, name: str) -> pa.ipc.RecordBatchFileReader:
    reader = pa.ipc.open_file(source)
    found = (reader.schema.metadata or {}).get(b"format", b"")
    if found == COUNTS_FORMAT.encode():
        return reader
    if not found.startswith(_FAMILY):
        raise CorruptOutputError(f"{name} is not a count file of format {COUNTS_FORMAT!r}")
    raise CorruptOutputError(
        f"{name} is a count file of format {found.decode(errors='replace')!r}, this nanotok_ray "
        f"reads {COUNTS_FORMAT!r}: count the texts again"
    )


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
