"""The core beside rustbpe and tiktoken on the same documents: equal answers, and how fast.

    python benchmarks/parity.py --vocab-size 32768 FILE.parquet ...

Learns a tokenizer of the text column of all files with rustbpe and with this project (the same
number of threads), compares every token; then encodes every document with tiktoken's
`encode_ordinary` and with `encode_batch`, one thread each, and compares every id. The files timed
for encoding are those learned from, so this is a check of answers first; peers run in the same
process, one after the other. The last line of stdout is one JSON document.
"""

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import rustbpe

from nanotok_ray.patterns import SPLIT_PATTERN
from nanotok_ray.tokenizer import SPECIAL_TOKENS, Tokenizer


def main() -> None:
    """Compare on the files named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--threads", type=int, default=2, help="for learning")
    options = parser.parse_args()
    texts = [text for path in options.files for text in read_texts(path)]
    size = sum(len(text.encode()) for text in texts)
    print(f"{len(texts):,} documents, {size / 1e6:.1f} MB of text", flush=True)
    learned, learning = compare_learning(texts, options.vocab_size, options.threads)
    encoding = compare_encoding(texts, learned, size)
    measured = {"files": len(options.files), "bytes": size, **learning, **encoding}
    print(json.dumps({**about(), **measured}))


def read_texts(path: Path) -> list[str]:
    """Read the text column of a parquet file."""
    texts: list[str] = pq.read_table(path, columns=["text"])["text"].to_pylist()
    return texts


def compare_learning(
    texts: list[str], vocab_size: int, threads: int
) -> tuple[Tokenizer, dict[str, Any]]:
    """Learn with both; stop at the first difference."""
    num_ranks = vocab_size - len(SPECIAL_TOKENS)
    peer = rustbpe.Tokenizer()
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    peer_seconds, _ = timed(
        lambda: peer.train_from_iterator(iter(texts), num_ranks, pattern=SPLIT_PATTERN)
    )
    seconds, learned = timed(
        lambda: Tokenizer.train_from_iterator(texts, vocab_size, threads=threads)
    )
    expected = [bytes(token) for token, _ in peer.get_mergeable_ranks()]
    assert list(learned.model.tokens) == expected, "the merges differ from rustbpe's"
    ratio = peer_seconds / seconds
    print(f"learn: {seconds:.2f} s, rustbpe {peer_seconds:.2f} s ({ratio:.1f} times), equal merges")
    return learned, {
        "ranks": len(expected),
        "learn_seconds": round(seconds, 3),
        "rustbpe_seconds": round(peer_seconds, 3),
        "learn_ratio": round(ratio, 2),
    }


def compare_encoding(texts: list[str], learned: Tokenizer, size: int) -> dict[str, Any]:
    """Encode every document with both; stop at the first difference."""
    peer = learned.to_tiktoken()
    array = pa.array(texts, pa.large_string())
    seconds, (ids, offsets) = timed(lambda: learned.encode_batch(array))
    peer_seconds, expected = timed(lambda: [peer.encode_ordinary(text) for text in texts])
    for number, own in enumerate(expected):
        assert ids[offsets[number] : offsets[number + 1]].tolist() == own, f"document {number}"
    ratio = peer_seconds / seconds
    print(
        f"encode: {size / 1e6 / seconds:.1f} MB/s, tiktoken {size / 1e6 / peer_seconds:.1f} MB/s "
        f"({ratio:.1f} times), {len(ids):,} equal ids"
    )
    return {
        "documents": len(texts),
        "ids": len(ids),
        "encode_megabytes_per_second": round(size / 1e6 / seconds, 1),
        "tiktoken_megabytes_per_second": round(size / 1e6 / peer_seconds, 1),
        "encode_ratio": round(ratio, 2),
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Give seconds and result of a call."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def about() -> dict[str, Any]:
    """Say what ran where."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    peers = {name: version(name) for name in ("rustbpe", "tiktoken")}
    return {
        "commit": commit.stdout.strip(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "peers": peers,
    }


if __name__ == "__main__":
    main()
