"""Measure the memory of rustbpe in this process while it learns from spans that occur once.

    python benchmarks/one_peer_growth.py NUM_MERGES FOLDER

The script reads a folder of `span_file.py`. rustbpe does not accept counts, so each distinct span
is a text, and the pattern matches any text as a whole: its counts are these spans, each once.
Measurement is the peak above the resident memory before, including the spans as Python strings; the
memory that rustbpe uses for counts before learning is included, and reported separately: resident
memory when it logs the end of counting. Prints one line of JSON.
"""

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import resident
import span_file
from ranks import NUM_BYTES, sha256_of

WHOLE = r"(?s:.+)"


class Counted(logging.Handler):
    """Records the memory when rustbpe has counted."""

    resident = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Record the memory."""
        if record.getMessage().startswith("Processed "):
            self.resident = resident.now()


def main() -> None:
    """Measure what the command line names."""
    print(json.dumps(measure(int(sys.argv[1]), Path(sys.argv[2]))))


def measure(num_merges: int, folder: Path) -> dict[str, Any]:
    """Learn once."""
    logging.getLogger().setLevel(logging.INFO)
    import rustbpe  # noqa: PLC0415 - asks for the level when it is imported

    counted = Counted()
    logging.getLogger("rustbpe").addHandler(counted)
    texts = span_file.load(folder).strings()
    peer = rustbpe.Tokenizer()
    before = resident.reset_peak()
    start = time.perf_counter()
    peer.train_from_iterator(iter(texts), NUM_BYTES + num_merges, pattern=WHOLE)
    seconds = time.perf_counter() - start
    growth = resident.peak() - before
    tokens = [bytes(token) for token, _ in peer.get_mergeable_ranks()]
    return {
        "seconds": seconds,
        "peak_bytes": growth,
        "counted_bytes": counted.resident - before,
        "merges": len(tokens) - NUM_BYTES,
        "sha256": sha256_of(tokens),
    }


if __name__ == "__main__":
    main()
