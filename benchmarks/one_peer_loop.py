"""Run ffbpe's merge loop in this process; for an interpreter with ffbpe, or its old name.

    PYTHON benchmarks/one_peer_loop.py [NUM_MERGES FOLDER]

The script reads a folder of `span_file.py` and passes the spans to ffbpe's trainer, which is not
timed; then it times `init_training` (pairs and their places) and `train` (the merges), both of
which are part of `_core.learn`. The alphabet is raw bytes, and of equal counts the smallest pair
comes first, as in nanotok_ray. The number of threads is RAYON_NUM_THREADS. Without arguments it
prints the installed peer, or null. Prints one line of JSON. The script does not need nanotok_ray.
"""

import importlib
import importlib.util
import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = {"ffbpe": "ffbpe", "uni_tokenizer": "uni-tokenizer"}
"""Module names and package names; the first installed one is used."""


def main() -> None:
    """Measure, or print the installed peer."""
    print(json.dumps(measure(int(sys.argv[1]), Path(sys.argv[2])) if sys.argv[1:] else here()))


def here() -> dict[str, Any]:
    """Return the peer that can be imported."""
    if importlib.util.find_spec("numpy") is None:
        return {"peer": None}
    found = [name for name in PACKAGES if importlib.util.find_spec(name)]
    return {"peer": f"{PACKAGES[found[0]]} {version(PACKAGES[found[0]])}" if found else None}


def measure(num_merges: int, folder: Path) -> dict[str, Any]:
    """Learn once."""
    import span_file  # noqa: PLC0415 - needs numpy, which may be missing too
    from ranks import NUM_BYTES, sha256_of  # noqa: PLC0415 - beside the other

    spans = span_file.load(folder)
    words = list(zip(spans.strings(), spans.counts.tolist(), strict=True))
    trainer = peer().BpeTrainer([], initial_alphabet="raw", tie_break="smallest_pair_id")
    trainer.add_words(words)
    start = time.perf_counter()
    trainer.init_training()
    initialized = time.perf_counter()
    trainer.train(NUM_BYTES + num_merges)
    end = time.perf_counter()
    tokens = sorted(trainer.vocab, key=trainer.vocab.__getitem__)
    return {
        "seconds": end - start,
        "stages": {"init_training": initialized - start, "train": end - initialized},
        "merges": len(tokens) - NUM_BYTES,
        "sha256": sha256_of(tokens),
    }


def peer() -> Any:
    """Import the peer; the old name emits a warning."""
    name = next(name for name in PACKAGES if importlib.util.find_spec(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return importlib.import_module(name)


if __name__ == "__main__":
    main()
