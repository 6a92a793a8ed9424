"""Compare the core with rustbpe and tiktoken: answers of every document, and speed.

    python benchmarks/parity.py --vocab-size 32768 FILE.parquet FILE.parquet ...

Tokens are learned from the text column of all files but the last, with rustbpe and with
nanotok_ray on the same number of threads, and all are compared. Then tiktoken's `encode_ordinary`
and `encode_batch` encode every file on one thread each, and all ids are compared; only the last
file, from which nothing was learned, is timed. Both run in this process in turn; times are
medians. The last line of stdout is one JSON document, which --save appends to
results/parity.jsonl.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import rustbpe
import tiktoken

from about import about, finish
from corpus import num_bytes, read_texts
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer


def main() -> None:
    """Compare on the files named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="at least two parquet files")
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--threads", type=int, default=2, help="for learning")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="add to results/parity.jsonl")
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)  # the only setting of rustbpe
    files = [read_texts([path]) for path in options.files]
    learned_from = [text for texts in files[:-1] for text in texts]
    learned, learning = compare_learning(learned_from, options)
    for texts in files[:-1]:
        compare_ids(texts, learned)
    encoding = compare_encoding(files[-1], learned, options.repeats)
    ids_of = sum(map(len, files))
    print(f"ids of all {ids_of:,} documents equal tiktoken's")
    corpora = {path.parent.name for path in options.files}
    row = about("parity", corpora, ("rustbpe", "tiktoken"))
    finish({**row, **learning, **encoding, "documents": ids_of}, save=options.save)


def compare_learning(
    texts: list[str], options: argparse.Namespace
) -> tuple[Tokenizer, dict[str, Any]]:
    """Learn with both; stop at the first difference."""

    def with_peer() -> list[bytes]:
        peer = rustbpe.Tokenizer()
        ranks = options.vocab_size - len(SPECIAL_TOKENS)
        peer.train_from_iterator(iter(texts), ranks, pattern=SPLIT_PATTERN)
        return [bytes(token) for token, _ in peer.get_mergeable_ranks()]

    def with_ours() -> Tokenizer:
        return Tokenizer.train_from_iterator(texts, options.vocab_size, num_threads=options.threads)

    (peer_seconds, expected), (seconds, learned) = in_turn(with_peer, with_ours, options.repeats)
    assert list(learned.model.tokens) == expected, "the merges differ from rustbpe's"
    size = num_bytes(texts)
    print(
        f"learn {size / 1e6:.1f} MB, {len(expected):,} equal ranks: {seconds:.2f} s, "
        f"rustbpe {peer_seconds:.2f} s, {peer_seconds / seconds:.1f} times"
    )
    return learned, {
        "learned_bytes": size,
        "ranks": len(expected),
        "learn_seconds": round(seconds, 3),
        "rustbpe_seconds": round(peer_seconds, 3),
        "learn_ratio": round(peer_seconds / seconds, 2),
    }


def compare_encoding(texts: list[str], learned: Tokenizer, repeats: int) -> dict[str, Any]:
    """Encode with both; stop at the first difference."""
    peer = learned.to_tiktoken()
    array = pa.array(texts, pa.large_string())
    (peer_seconds, expected), (seconds, own) = in_turn(
        lambda: encode_with(peer, texts), lambda: learned.encode_batch(array), repeats
    )
    compare(own, expected)
    rate, peer_rate = (num_bytes(texts) / 1e6 / each for each in (seconds, peer_seconds))
    print(
        f"encode {num_bytes(texts) / 1e6:.1f} MB: {rate:.1f} MB/s, tiktoken {peer_rate:.1f} MB/s, "
        f"{rate / peer_rate:.1f} times"
    )
    return {
        "encoded_bytes": num_bytes(texts),
        "encode_megabytes_per_second": round(rate, 1),
        "tiktoken_megabytes_per_second": round(peer_rate, 1),
        "encode_ratio": round(rate / peer_rate, 2),
    }


def compare_ids(texts: list[str], learned: Tokenizer) -> None:
    """Compare every id of every text with tiktoken's."""
    compare(learned.encode_batch(texts), encode_with(learned.to_tiktoken(), texts))


def encode_with(peer: tiktoken.Encoding, texts: list[str]) -> list[list[int]]:
    """Encode texts one after the other."""
    return [peer.encode_ordinary(text) for text in texts]


def compare(own: tuple[Any, Any], expected: list[list[int]]) -> None:
    """Stop at the first document whose ids differ."""
    ids, offsets = own
    for number, peers in enumerate(expected):
        same = ids[offsets[number] : offsets[number + 1]].tolist() == peers
        assert same, f"the ids of document {number} differ from tiktoken's"


def in_turn(
    first: Callable[[], Any], second: Callable[[], Any], repeats: int
) -> tuple[tuple[float, Any], tuple[float, Any]]:
    """Run both in turn; return the median seconds and the last result of each."""
    seconds: tuple[list[float], list[float]] = ([], [])
    results: list[Any] = [None, None]
    for _ in range(repeats):
        for place, work in enumerate((first, second)):
            start = time.perf_counter()
            results[place] = work()
            seconds[place].append(time.perf_counter() - start)
    medians = [statistics.median(each) for each in seconds]
    return (medians[0], results[0]), (medians[1], results[1])


if __name__ == "__main__":
    main()
