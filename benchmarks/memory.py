"""Measure the memory of one worker that encodes a gigabyte of text, keeping no result.

    python benchmarks/memory.py --corpus NAME:LEARN_GLOB:TIME_GLOB [--save]

A tokenizer (nanochat's pattern) is learned from the first files; a fresh process reads the second
files and encodes them repeatedly in batches of 8 MB (`one_worker.py` defines which memory counts).
The last line of stdout is one JSON document, which --save appends to results/memory.jsonl.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from about import about, finish
from corpus import make_folder, parse_corpus
from fresh import fresh

PATTERN = "nanochat"


def main() -> None:
    """Measure the corpus of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--corpus", type=parse_corpus, required=True, metavar="NAME:LEARN_GLOB:TIME_GLOB"
    )
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--bytes", type=int, default=10**9, help="to encode in all")
    parser.add_argument("--batch", type=int, default=8 * 10**6, help="bytes of a batch")
    parser.add_argument("--save", action="store_true", help="add to results/memory.jsonl")
    options = parser.parse_args()
    sizes = {"vocab_size": options.vocab_size}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = make_folder(options.corpus, folder, [PATTERN], **sizes)
        arguments = (folder, PATTERN, options.bytes, options.batch)
        rows = [print_row(fresh("one_worker.py", *arguments))]
    finish(
        about("memory", [options.corpus.name]) | sizes | facts | {"rows": rows}, save=options.save
    )


def print_row(row: dict[str, Any]) -> dict[str, Any]:
    """Print and return the figures of one process."""
    shown = {name: f"{row[name] / 1e6:.1f} MB" for name in row if name.endswith("_bytes")}
    print(
        f"{shown['encoded_bytes']} in {row['batches']} batches, "
        f"{row['megabytes_per_second']:.1f} MB/s. Private memory above that before the first call: "
        f"{shown['kept_bytes']} after a call, {shown['peak_bytes']} at most within one (buffers of "
        f"input and ids left out); loaded tokenizer {shown['tokenizer_bytes']}; "
        f"private pages of files {shown['file_bytes']}",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
