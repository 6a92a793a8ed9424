"""Encoding in fresh processes, beside tiktoken and gigatoken: one thread, answers compared.

    python benchmarks/encode.py --learn A.parquet B.parquet --time C.parquet D.parquet

Learns tokenizers from the text column of some files (nanochat's pattern, and cl100k for gigatoken,
which refuses the other) and times the encoding of other files. Each measurement is a process of its
own that loads its tokenizer, then encodes all documents once (cold) and five times more (warm: the
last one counts); engines take turns, and medians are shown. The ids of all engines with
one pattern must be equal. gigatoken is left out, with a word, where it is not installed. The last
line of stdout is one JSON document.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.tokenizer import Tokenizer

SEPARATOR = b"\0"
"""Between the documents of a buffer; documents that hold it are left out."""

WARM_CALLS = 5
ENGINES = {"nanochat": ("nanotok_ray", "tiktoken"), "cl100k": ("nanotok_ray", "gigatoken")}
"""Engines by pattern. gigatoken calls cl100k gpt4."""

Work = Callable[[], Any]
Ids = npt.NDArray[np.uint32]


def main() -> None:
    """Measure, or, called by itself with --child, be one measurement."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--learn", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--time", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        engine, pattern, folder = options.child
        print(json.dumps(measure(engine, pattern, Path(folder))))
        return
    with tempfile.TemporaryDirectory() as folder:
        size = set_up(Path(folder), options)
        print(f"{size / 1e6:.1f} MB timed, nothing of it learned from", flush=True)
        rows = [compare(pattern, Path(folder), size, options.repeats) for pattern in ENGINES]
    print(json.dumps({**about(options.time), "bytes": size, "rows": rows}))


def set_up(folder: Path, options: argparse.Namespace) -> int:
    """Learn the tokenizers and write the documents to be timed; give their bytes."""
    learn = [text for path in options.learn for text in read_texts(path)]
    for pattern in ENGINES:
        learned = Tokenizer.train_from_iterator(learn, options.vocab_size, pattern=pattern)
        learned.save(folder / pattern)
    texts = [text for path in options.time for text in read_texts(path)]
    texts = [text for text in texts if text and "\0" not in text]
    with pa.ipc.new_file(folder / "texts.arrow", pa.schema([("text", pa.large_string())])) as file:
        file.write(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    return sum(len(text.encode()) for text in texts)


def read_texts(path: Path) -> list[str]:
    """Read the text column of a parquet file."""
    texts: list[str] = pq.read_table(path, columns=["text"])["text"].to_pylist()
    return texts


def compare(pattern: str, folder: Path, size: int, repeats: int) -> dict[str, Any]:
    """Run the engines of a pattern in turn; stop if their ids differ."""
    engines = [name for name in ENGINES[pattern] if importlib.util.find_spec(name)]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
    for _ in range(repeats):
        for name in engines:
            runs[name].append(child(name, pattern, folder))
    digests = {run["ids"] for each in runs.values() for run in each}
    assert len(digests) == 1, f"{pattern}: the ids of {engines} differ"
    row: dict[str, Any] = {"pattern": pattern}
    for name, each in runs.items():
        for kind in ("cold", "warm"):
            seconds = statistics.median(run[kind] for run in each)
            row[f"{name}_{kind}_megabytes_per_second"] = round(size / 1e6 / seconds, 1)
    told(row, engines)
    return row


def told(row: dict[str, Any], engines: list[str]) -> None:
    """Print a row, and the ratios to the peer."""
    rates = {
        (name, kind): row[f"{name}_{kind}_megabytes_per_second"]
        for name in engines
        for kind in ("cold", "warm")
    }
    ours, *peers = engines
    for peer in peers:
        for kind in ("cold", "warm"):
            row[f"{kind}_ratio"] = round(rates[ours, kind] / rates[peer, kind], 2)
    parts = [f"{name} {rates[name, 'cold']} cold, {rates[name, 'warm']} warm" for name in engines]
    print(f"{row['pattern']}: " + "; ".join(parts) + " MB/s", flush=True)
    if not peers:
        print(f"{row['pattern']}: {ENGINES[row['pattern']][1]} is not installed: no comparison")


def child(engine: str, pattern: str, folder: Path) -> dict[str, Any]:
    """Measure in a fresh process."""
    command = [sys.executable, __file__, "--child", engine, pattern, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    values: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return values


def measure(engine: str, pattern: str, folder: Path) -> dict[str, Any]:
    """Time the first call and a later one, and name the ids by their hash."""
    with pa.memory_map(str(folder / "texts.arrow")) as source:
        texts = pa.ipc.open_file(source).read_all()["text"].chunk(0)
        prepare, flatten = WORK[engine]
        work = prepare(texts, pattern, folder / pattern)
        seconds: list[float] = []
        result: Any = None
        for _ in range(1 + WARM_CALLS):
            start = time.perf_counter()
            result = work()
            seconds.append(time.perf_counter() - start)
        ids = flatten(result).astype("<u4").tobytes()
    return {"cold": seconds[0], "warm": seconds[-1], "ids": hashlib.sha256(ids).hexdigest()}


def prepare_ours(texts: pa.Array, _pattern: str, folder: Path) -> Work:
    """Encode the Arrow array."""
    tokenizer = Tokenizer.load(folder)
    return lambda: tokenizer.encode_batch(texts)


def prepare_tiktoken(texts: pa.Array, _pattern: str, folder: Path) -> Work:
    """Encode Python strings one by one, as is tiktoken's way."""
    encoding = Tokenizer.load(folder).to_tiktoken()
    strings = texts.to_pylist()
    return lambda: [encoding.encode_ordinary(text) for text in strings]


def prepare_gigatoken(texts: pa.Array, pattern: str, folder: Path) -> Work:
    """Encode one buffer, gigatoken's fastest way."""
    import gigatoken as peer  # noqa: PLC0415 - a peer that need not be there

    tokenizer = peer.Tokenizer.from_tiktoken(folder / "tokenizer.tiktoken", pretokenizer=pattern)
    source = peer.BytesSource(SEPARATOR.join(text.as_buffer() for text in texts), SEPARATOR)
    return lambda: tokenizer.encode_batch(source, parallel=False)


def flatten_ours(result: Any) -> Ids:
    """Give the ids of all documents."""
    return np.asarray(result[0], dtype=np.uint32)


def flatten_lists(result: Any) -> Ids:
    """Give the ids of all documents."""
    return np.fromiter((n for ids in result for n in ids), dtype=np.uint32)


def flatten_awkward(result: Any) -> Ids:
    """Give the ids of all documents."""
    import awkward  # noqa: PLC0415 - comes with gigatoken

    return np.asarray(awkward.flatten(result), dtype=np.uint32)


WORK = {
    "nanotok_ray": (prepare_ours, flatten_ours),
    "tiktoken": (prepare_tiktoken, flatten_lists),
    "gigatoken": (prepare_gigatoken, flatten_awkward),
}
"""How each engine is prepared, and what its result is as ids."""


def about(files: list[Path]) -> dict[str, Any]:
    """Say what ran where, on what."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    return {
        "benchmark": "encode",
        "corpus": sorted({path.parent.name for path in files}),
        "commit": commit.stdout.strip(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


if __name__ == "__main__":
    main()
