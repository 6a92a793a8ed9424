"""Time splitting alone in this process: nanochat's pattern, all texts as one document.

    NANOTOK_CPU=avx2 python benchmarks/splitting.py CALLS FOLDER

`Splitter.count_gaps` visits all spans of a document without storing them, so nothing else is
timed; it takes one document, so all texts are joined. The spans themselves are compared for the
first bytes. Prints one line of JSON: the median of the calls, the gaps, and the hash of the spans.
"""

import hashlib
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from corpus import load_texts
from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN

COMPARED = 4 * 2**20
"""Bytes whose spans are kept for the comparison of levels."""


def main() -> None:
    """Measure what the command line names."""
    calls, folder = sys.argv[1:]
    print(json.dumps(measure(int(calls), Path(folder))))


def measure(calls: int, folder: Path) -> dict[str, Any]:
    """Time calls, and return the hash of the spans."""
    splitter = _core.Splitter(SPLIT_PATTERN)
    document = load_texts(folder).data.tobytes()
    seconds, gaps = [], 0
    for _ in range(calls):
        start = time.perf_counter()
        gaps = splitter.count_gaps(document)
        seconds.append(time.perf_counter() - start)
    spans = splitter.split(document[:COMPARED])
    lengths = json.dumps([len(span) for span in spans]).encode()
    return {
        "level": _core.cpu_level(),
        "bytes": len(document),
        "seconds": statistics.median(seconds),
        "answers": f"{gaps} gaps, {len(spans)} spans, {hashlib.sha256(lengths).hexdigest()}",
    }


if __name__ == "__main__":
    main()
