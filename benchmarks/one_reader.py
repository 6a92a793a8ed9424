"""One way to feed a trainer from shards, in this process, on one core: output to batches.

    python benchmarks/one_reader.py WAY OUTPUT BATCHES HASHED STARTED
    python benchmarks/one_reader.py index OUTPUT

WAYS says which there are. Batches are filled into the same two arrays, as a trainer does that
copies them to its device. Prints the line of `packed_rows`; of `index` the seconds that opening
takes.
"""

import json
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nanotok_ray.packing import Loader
from nanotok_ray.packing.nanochat import NanochatLoader
from nanotok_ray.reader import open_shards
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
    way, output, *numbers = sys.argv[1:]
    keep_to_one_cpu()
    if way == "index":
        print(json.dumps(opened(output)))
        return
    batches, hashed, started = numbers
    report(
        lambda: batch_reader(way, output),
        batches=int(batches),
        hashed=int(hashed),
        started=float(started),
    )


def batch_reader(way: str, output: str) -> NextBatch:
    """Open shards and loader; give what fills the next batch."""
    settings = dict(WAYS[way])
    shards = open_shards(output, source=settings.pop("source"))
    loader: Loader | NanochatLoader
    if "packing" in settings:
        loader = Loader(shards, batch_size=ROWS, length=LENGTH, **settings)
        both = np.empty((2, ROWS, LENGTH), dtype=np.int32)
    else:
        loader = NanochatLoader(shards, batch_size=ROWS, length=LENGTH)
        both = np.empty((2, ROWS, LENGTH), dtype=np.int64)

    def next_batch() -> tuple[Any, Any]:
        batch = loader.next_batch(into=(both[0], both[1]))
        assert batch is not None
        return batch.inputs, batch.targets

    return next_batch


def opened(output: str) -> dict[str, Any]:
    """Open an output and count its documents."""
    start = time.perf_counter()
    documents = len(open_shards(output))
    return {"seconds": time.perf_counter() - start, "documents": documents}


if __name__ == "__main__":
    main()
