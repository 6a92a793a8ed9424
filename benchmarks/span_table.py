"""What a span table saves: encoding from cold with and without, in fresh processes, one thread.

    python benchmarks/span_table.py --learn A.parquet B.parquet --time C.parquet

Learns a tokenizer (nanochat's pattern) and its table from the text column of some files and encodes
others in calls of about 100 kB, then 1 MB. Shows medians of the MB/s since the start after the
first 0.1, 1 and 8 MB and at the end; the ids must be equal. The last line of stdout is JSON.
"""

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.documents.batch import Documents
from nanotok_ray.tokenizer import SPAN_TABLE_NAME, Tokenizer

MARKS = (100_000, 1_000_000, 8_000_000)


def main() -> None:
    """Measure, or, called by itself with --child, be one measurement."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--learn", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--time", nargs="+", type=Path, metavar="FILE", required=True)
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--max-spans", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, table = options.child
        print(json.dumps(measure(read(options.time), Path(folder), use_table=table == "with")))
        return
    with tempfile.TemporaryDirectory() as folder:
        row = set_up(Path(folder), options)
        print(json.dumps(row), flush=True)
        runs: dict[str, list[dict[str, Any]]] = {"without": [], "with": []}
        for _ in range(options.repeats):
            for name, each in runs.items():
                each.append(child(folder, name, options.time))
    assert len({run["ids"] for each in runs.values() for run in each}) == 1, "the ids differ"
    for name, each in runs.items():
        row[name] = told(name, each)
    print(json.dumps(row))


def set_up(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Learn the tokenizer, write its table, and say how much of the timed text is in it."""
    learn = read(options.learn).to_arrow().to_pylist()
    Tokenizer.train_from_iterator(learn, options.vocab_size).save(folder)
    start = time.perf_counter()
    plain = Tokenizer.load(folder)
    plain.write_span_table(folder, learn, max_spans=options.max_spans)
    seconds = time.perf_counter() - start
    timed = read(options.time)
    tokenizer = Tokenizer.load(folder)
    held = tokenizer._encoder.bytes_in_table(timed.data, timed.offsets)  # noqa: SLF001 - a figure
    return {
        "benchmark": "span_table",
        "corpus": sorted({path.parent.name for path in options.time}),
        "bytes": timed.num_bytes,
        "spans": tokenizer.span_table_size,
        "table_bytes": (folder / SPAN_TABLE_NAME).stat().st_size,
        "count_and_write_seconds": round(seconds, 2),
        "share_of_bytes_in_table": round(held / timed.num_bytes, 4),
    }


def read(paths: list[Path]) -> Documents:
    """Read the text columns of parquet files."""
    columns = [pq.read_table(path, columns=["text"])["text"] for path in paths]
    chunks = [chunk.cast(pa.large_string()) for each in columns for chunk in each.chunks]
    return Documents.from_arrow(pa.concat_arrays(chunks))


def child(folder: str, table: str, files: list[Path]) -> dict[str, Any]:
    """Measure in a fresh process."""
    names = [str(path) for path in files]
    command = [sys.executable, __file__, "--time", *names, "--child", folder, table]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    values: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return values


def measure(documents: Documents, folder: Path, *, use_table: bool) -> dict[str, Any]:
    """Time loading, and encoding up to each mark and to the end; name the ids by their hash."""
    start = time.perf_counter()
    tokenizer = Tokenizer.load(folder, span_table=use_table)
    load = time.perf_counter() - start
    digest, seconds, done, rates = hashlib.sha256(), 0.0, 0, {}
    offsets, first = documents.offsets, 0
    while first < len(documents):
        size = 100_000 if done < MARKS[1] else 1_000_000
        last = int(np.searchsorted(offsets, offsets[first] + size))
        last = min(max(last, first + 1), len(documents))
        part = Documents(data=documents.data, offsets=offsets[first : last + 1])
        start = time.perf_counter()
        ids, _ = tokenizer.encode_documents(part)
        seconds += time.perf_counter() - start
        digest.update(ids.astype("<u4").tobytes())
        done, first = done + part.num_bytes, last
        for mark in MARKS:
            if done >= mark and str(mark) not in rates:
                rates[str(mark)] = done / 1e6 / seconds
    rates["all"] = done / 1e6 / seconds
    return {"load_seconds": load, "rates": rates, "ids": digest.hexdigest()}


def told(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of some runs, and print them."""
    load = round(statistics.median(run["load_seconds"] for run in runs), 3)
    rates = {
        mark: round(statistics.median(run["rates"][mark] for run in runs), 1)
        for mark in runs[0]["rates"]
    }
    shown = ", ".join(f"{rate} after {mark}" for mark, rate in rates.items())
    print(f"{name:<8} loaded in {load} s; MB/s: {shown}", flush=True)
    return {"load_seconds": load, "megabytes_per_second": rates}


if __name__ == "__main__":
    main()
