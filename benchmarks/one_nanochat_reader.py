"""Run nanochat's method of feeding a trainer in this process, on one core: parquet to batches.

    python benchmarks/one_nanochat_reader.py TEXTS TOKENIZER BATCHES HASHED STARTED

The rules are implemented again, without torch: row groups of all files but the last by pyarrow,
128 texts at a time by tiktoken with a bos before each, a buffer of 1,000 documents that is
searched for each choice, rows of int64 in one buffer for inputs and targets. The tokenizer is the
pickle that nanochat loads. The script does not import nanotok_ray. Prints the line of
`packed_rows`.
"""

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packed_rows import LENGTH, ROWS, NextBatch, keep_to_one_cpu, report

TEXTS_AT_ONCE = 128
BUFFER = 1000


def main() -> None:
    """Measure what the command line names."""
    texts, tokenizer, batches, hashed, started = sys.argv[1:]
    keep_to_one_cpu()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)

    def open_rows() -> NextBatch:
        encoding = pickle.loads((Path(tokenizer) / "tokenizer.pkl").read_bytes())
        files = sorted(Path(texts).glob("*.parquet"))[:-1]
        return batch_reader(documents(files, encoding))

    report(open_rows, batches=int(batches), hashed=int(hashed), started=float(started))


def documents(files: list[Path], encoding: Any) -> Iterator[list[list[int]]]:
    """Yield the documents of all row groups, epoch after epoch, in batches of the encoder."""
    bos = encoding.encode_single_token("<|bos|>")
    while True:
        for path in files:
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                texts = file.read_row_group(group).column("text").to_pylist()
                for start in range(0, len(texts), TEXTS_AT_ONCE):
                    batch = texts[start : start + TEXTS_AT_ONCE]
                    encoded = encoding.encode_ordinary_batch(batch, num_threads=1)
                    yield [[bos, *ids] for ids in encoded]


def batch_reader(source: Iterator[list[list[int]]]) -> NextBatch:
    """Return a function that fills the next batch."""
    buffer: list[list[int]] = []
    rows = np.empty((ROWS, LENGTH + 1), dtype=np.int64)
    both = np.empty((2, ROWS, LENGTH), dtype=np.int64)

    def next_batch() -> tuple[Any, Any]:
        for row in rows:
            fill(row, buffer, source)
        both[0], both[1] = rows[:, :-1], rows[:, 1:]
        return both[0], both[1]

    return next_batch


def fill(row: Any, buffer: list[list[int]], source: Iterator[list[list[int]]]) -> None:
    """Fill one row: the largest document that fits, else the shortest, cut."""
    place = 0
    while place < len(row):
        while len(buffer) < BUFFER:
            buffer += next(source)
        room = len(row) - place
        ids = buffer.pop(pick(buffer, room))[:room]
        row[place : place + len(ids)] = ids
        place += len(ids)


def pick(buffer: list[list[int]], room: int) -> int:
    """Return the first of the largest documents that fit, or if none fits, of the shortest."""
    best, largest = -1, 0
    for number, ids in enumerate(buffer):
        if largest < len(ids) <= room:
            best, largest = number, len(ids)
    if best >= 0:
        return best
    return min(range(len(buffer)), key=lambda number: len(buffer[number]))


if __name__ == "__main__":
    main()
