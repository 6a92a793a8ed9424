"""Measure the floor of a job in one process: decode the column, encode it, write the bytes.

    python benchmarks/one_tokenize_floor.py FOLDER FILES BYTES

Every parquet file of FOLDER/text is decoded by pyarrow on one thread, one row group at a time, and
passed to `Tokenizer.encode_batch`; the ids are written to a file, filled up to BYTES and followed
by as many fsyncs as a job makes for FILES files. After a warm-up on the first file, decoding and
writing are timed alone, and then all steps in one loop, in which encoding is timed. Prints one
line of JSON.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nanotok_ray.tokenizer import Tokenizer


def main() -> None:
    """Measure what the command line names."""
    folder, files, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    tokenizer = Tokenizer.load(folder / "tokenizer")
    paths = sorted((folder / "text").glob("*.parquet"))
    for array in decoded(paths[:1]):
        tokenizer.encode_batch(array)
    decode = decode_alone(paths)
    write = write_alone(folder, files, size)
    begin = time.process_time()
    loop, encode, num_bytes = one_loop(folder, tokenizer, paths, files, size)
    cpu = time.process_time() - begin
    parts = {"decode": decode, "encode": encode, "write": write}
    print(
        json.dumps(
            {
                "parts": parts,
                "sum": sum(parts.values()),
                "seconds": loop,
                "cpu": cpu,
                "text_bytes": num_bytes,
            }
        )
    )


def decoded(paths: list[Path]) -> Iterator[pa.Array]:
    """Yield the texts of files as Arrow arrays, one for each row group."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                for batch in file.iter_batches(
                    batch_size=max(1, rows), row_groups=[group], columns=["text"], use_threads=False
                ):
                    yield batch.column(0)


def decode_alone(paths: list[Path]) -> float:
    """Return the seconds of decoding alone."""
    start = time.perf_counter()
    for _ in decoded(paths):
        pass
    return time.perf_counter() - start


def write_alone(folder: Path, files: int, size: int) -> float:
    """Return the seconds of writing `size` bytes to `files` files, each with its fsync."""
    block = np.random.default_rng(1).integers(0, 256, 1 << 20, dtype=np.uint8)
    start = time.perf_counter()
    for number in range(files):
        with (folder / "floor.bin").open("wb") as file:
            fill(file, -(-size // files), block)
            sync(file)
        (folder / "floor.bin").rename(folder / f"floor-{number % 2}.bin")
    return time.perf_counter() - start


def one_loop(
    folder: Path, tokenizer: Tokenizer, paths: list[Path], files: int, size: int
) -> tuple[float, float, int]:
    """Run all steps; return (seconds, those of encoding, bytes of text)."""
    written = num_bytes = 0
    encoding = 0.0
    start = time.perf_counter()
    with (folder / "floor.bin").open("wb") as file:
        for array in decoded(paths):
            before = time.perf_counter()
            ids, _ = tokenizer.encode_batch(array)
            encoding += time.perf_counter() - before
            file.write(ids.data)
            if written // (size // files) != (written + ids.nbytes) // (size // files):
                sync(file)
            written += ids.nbytes
            num_bytes += pc.sum(pc.binary_length(array)).as_py()
        fill(file, size - written, np.zeros(1 << 20, dtype=np.uint8))
        sync(file)
    return time.perf_counter() - start, encoding, num_bytes


def fill(file: BinaryIO, size: int, block: NDArray[np.uint8]) -> None:
    """Append `size` bytes."""
    while size > 0:
        file.write(block[:size].data)
        size -= len(block)


def sync(file: BinaryIO) -> None:
    """Synchronize a file to disk."""
    file.flush()
    os.fsync(file.fileno())


if __name__ == "__main__":
    main()
