"""Run one method of feeding a trainer from shards in this process, on one core.

    python benchmarks/one_reader.py WAY OUTPUT BATCHES HASHED STARTED
    python benchmarks/one_reader.py planned WAY OUTPUT BATCHES
    python benchmarks/one_reader.py index OUTPUT

WAYS lists the methods. Batches are filled into the same two arrays, as by a trainer that copies
them to its device. Prints the line of `packed_rows`; for `planned` the seconds per token if rows
are planned but not filled, as for resuming; for `index` the seconds of opening.
"""

import json
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nanotok_ray.loader import Loader, NanochatLoader, open_shards
from packed_rows import LENGTH, ROWS, NextBatch, keep_to_one_cpu, report

WAYS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "nanochat's rows": {"source": "text"},
        "best-fit": {"source": "text", "packing": "best-fit"},
        "windows": {"source": "text", "packing": "windows"},
        "conversations": {"source": "chat", "packing": "conversations"},
        "best-fit, shuffled": {"source": "text", "packing": "best-fit", "shuffle": "document"},
    }
)


def main() -> None:
    """Measure what the command line names."""
    what, *arguments = sys.argv[1:]
    keep_to_one_cpu()
    if what == "index":
        print(json.dumps(opened(*arguments)))
    elif what == "planned":
        way, output, batches = arguments
        print(json.dumps(planned(way, output, int(batches))))
    else:
        read(what, *arguments)


def read(way: str, output: str, batches: str, hashed: str, started: str) -> None:
    """Read batches with one method."""
    report(
        lambda: batch_reader(way, output),
        batches=int(batches),
        hashed=int(hashed),
        started=float(started),
    )


def batch_reader(way: str, output: str) -> NextBatch:
    """Open shards and loader; return a function that fills the next batch."""
    loader = loader_of(way, output)
    dtype = np.int32 if isinstance(loader, Loader) else np.int64
    both = np.empty((2, ROWS, LENGTH), dtype=dtype)

    def next_batch() -> tuple[Any, Any]:
        batch = loader.next_batch(into=(both[0], both[1]))
        assert batch is not None
        return batch.inputs, batch.targets

    return next_batch


def loader_of(way: str, output: str) -> Loader | NanochatLoader:
    """Open shards and loader."""
    settings = dict(WAYS[way])
    shards = open_shards(output, source=settings.pop("source"))
    if "packing" in settings:
        return Loader(shards, batch_size=ROWS, length=LENGTH, **settings)
    return NanochatLoader(shards, batch_size=ROWS, length=LENGTH)


def planned(way: str, output: str, batches: int) -> dict[str, Any]:
    """Plan batches without filling them; the first is not timed."""
    loader = loader_of(way, output)
    loader.skip_batches(1)
    start = time.perf_counter()
    loader.skip_batches(batches)
    seconds = time.perf_counter() - start
    return {"seconds": seconds / (batches * ROWS * LENGTH)}


def opened(output: str) -> dict[str, Any]:
    """Open an output and count its documents."""
    start = time.perf_counter()
    documents = len(open_shards(output))
    return {"seconds": time.perf_counter() - start, "documents": documents}


if __name__ == "__main__":
    main()
