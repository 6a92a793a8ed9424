"""Measure the memory of one worker in this process, which encodes batches repeatedly.

    python benchmarks/one_worker.py FOLDER PATTERN BYTES BATCH_BYTES

Measurement is anonymous memory: private pages without a file, which are `Anonymous` of
/proc/self/smaps_rollup after each call (the same as RssAnon) and resident minus shared pages of
/proc/self/statm during a call, read every few ms by another thread (a call releases the GIL). Both
are relative to the memory before the first call, with the tokenizer loaded and all input in
memory, minus the ids and offsets that the call returns: input and output belong to the caller.
While ids grow during a call, the final size is subtracted, so a larger buffer counts. Private
pages of files (Private_Clean + Private_Dirty - Anonymous: libraries) can be dropped at any time
and are reported separately. Prints one line of JSON.
"""

import json
import mmap
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from corpus import load_texts
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer

EVERY = 0.005
"""Seconds between two reads during a call."""


def main() -> None:
    """Measure what the command line names."""
    folder, pattern, size, batch = sys.argv[1:]
    documents = load_texts(Path(folder))
    before = rollup()["Anonymous"]
    tokenizer = Tokenizer.load(Path(folder) / pattern)
    loaded = rollup()["Anonymous"] - before
    row = measure(tokenizer, list(batches(documents, int(batch))), int(size))
    print(json.dumps(row | {"tokenizer_bytes": loaded}))


def batches(documents: Documents, size: int) -> Iterator[Documents]:
    """Yield the documents in batches of about `size` bytes, without copying."""
    offsets, first = documents.offsets, 0
    while first < len(documents):
        last = int(np.searchsorted(offsets, offsets[first] + size))
        last = min(max(last, first + 1), len(documents))
        yield Documents(data=documents.data, offsets=offsets[first : last + 1])
        first = last


def measure(tokenizer: Tokenizer, parts: list[Documents], size: int) -> dict[str, Any]:
    """Encode `size` bytes; return the highest memory and the speed."""
    kept = peak = done = calls = 0
    seconds = 0.0
    sampler = Sampler()
    before, first_look = rollup()["Anonymous"], anonymous_now()
    while done < size:
        part = parts[calls % len(parts)]
        start = time.perf_counter()
        with sampler:
            ids, offsets = tokenizer.encode_documents(part)
        seconds += time.perf_counter() - start
        output = ids.nbytes + offsets.nbytes
        kept = max(kept, rollup()["Anonymous"] - before - output)
        peak = max(peak, sampler.highest - first_look - output)
        del ids, offsets
        done, calls = done + part.num_bytes, calls + 1
    now = rollup()
    return {
        "encoded_bytes": done,
        "batches": calls,
        "megabytes_per_second": round(done / 1e6 / seconds, 1),
        "kept_bytes": kept,
        "peak_bytes": max(peak, kept),
        "file_bytes": now["Private_Clean"] + now["Private_Dirty"] - now["Anonymous"],
    }


class Sampler:
    """A thread that records the highest anonymous memory of a `with` block."""

    def __init__(self) -> None:
        self.highest = 0
        self._inside = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def __enter__(self) -> None:
        self.highest = 0
        self._inside.set()

    def __exit__(self, *_: object) -> None:
        self._inside.clear()

    def _look(self) -> None:
        while self._inside.wait():
            self.highest = max(self.highest, anonymous_now())
            time.sleep(EVERY)


def anonymous_now() -> int:
    """Return resident minus shared bytes: fast, and exact to a few pages."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * mmap.PAGESIZE


def rollup() -> dict[str, int]:
    """Return the bytes of /proc/self/smaps_rollup by name, which visits all pages."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


if __name__ == "__main__":
    main()
