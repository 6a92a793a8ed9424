"""Measure the memory of one worker that encodes a gigabyte of text, keeping no result.

    python benchmarks/memory.py --corpus NAME:LEARN_GLOB:TIME_GLOB [--save]

A tokenizer (nanochat's pattern) is learned from the first files; a new process reads the second
files and encodes them repeatedly in batches. Measured are resident bytes above those before the
first call, with the tokenizer loaded and all input in memory, minus the ids and offsets that the
call returns: after a call (`kept_bytes`), and the highest within one (`peak_bytes`).
"""

import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import numpy as np

from corpora import TEXTS_NAME, TIMED_FORM, load_texts, make_folder, timed_corpus
from frame import Figures, finish, fresh, parser, peak, reset_peak, resident, run, show
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer

PATTERN = "nanochat"


def main() -> None:
    """Measure the corpus of the command line."""
    command = parser(__doc__, vocab_size=32768, bytes=10**9, batch=8 * 10**6)
    command.add_argument("--corpus", type=timed_corpus, required=True, metavar=TIMED_FORM)
    options = command.parse_args()
    sizes = {"vocab_size": options.vocab_size}
    with tempfile.TemporaryDirectory() as name:
        facts = make_folder(options.corpus, Path(name), [PATTERN], **sizes)
        row = fresh(encode_bytes, name, options.bytes, options.batch)
    record = sizes | facts | {"rows": [show("one worker", row)]}
    finish("memory", [options.corpus.name], record, save=options.save)


def encode_bytes(folder: str, size: int, batch: int) -> Figures:
    """Encode `size` bytes; return the highest memory and the speed."""
    parts = [*batches(load_texts(Path(folder) / TEXTS_NAME), batch)]
    empty = reset_peak()
    tokenizer = Tokenizer.load(Path(folder) / PATTERN)
    before = reset_peak()
    kept = highest = done = calls = 0
    seconds = 0.0
    for part in cycle(parts):
        start = time.perf_counter()
        ids, offsets = tokenizer.encode_documents(part)
        seconds += time.perf_counter() - start
        output = ids.nbytes + offsets.nbytes
        kept = max(kept, resident() - before - output)
        highest = max(highest, peak() - before - output)
        del ids, offsets
        done, calls = done + part.num_bytes, calls + 1
        if done >= size:
            break
    return {
        "encoded_bytes": done,
        "batches": calls,
        "megabytes_per_second": round(done / 1e6 / seconds, 1),
        "kept_bytes": kept,
        "peak_bytes": highest,
        "tokenizer_bytes": before - empty,
    }


def batches(documents: Documents, size: int) -> Iterator[Documents]:
    """Yield the documents in batches of about `size` bytes, without copying."""
    offsets, first = documents.offsets, 0
    while first < len(documents):
        last = int(np.searchsorted(offsets, offsets[first] + size))
        last = min(max(last, first + 1), len(documents))
        yield Documents(data=documents.data, offsets=offsets[first : last + 1])
        first = last


if __name__ == "__main__":
    run(main)
