"""ffbpe's merge loop in this process, timed: for an interpreter that has ffbpe, or its old name.

    PYTHON benchmarks/one_peer_loop.py [NUM_MERGES FOLDER]

Reads a folder of `span_file.py` and gives the spans to ffbpe's trainer, not timed; then times
`init_training` (its pairs and where they are) and `train` (the merges), both of which `_core.learn`
does too. Raw bytes are its alphabet and among ties the smallest pair comes first: our rule. Its
threads are RAYON_NUM_THREADS. Without arguments it says which peer this interpreter has, or null.
Prints one line of JSON. Knows nothing of nanotok_ray: its interpreter need not have it.
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
"""What is imported, and its name as a package; the first that is there is used."""


def main() -> None:
    """Measure, or say who is there."""
    print(json.dumps(measure(int(sys.argv[1]), Path(sys.argv[2])) if sys.argv[1:] else here()))


def here() -> dict[str, Any]:
    """Name the peer that can be imported."""
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
    initialised = time.perf_counter()
    trainer.train(NUM_BYTES + num_merges)
    end = time.perf_counter()
    tokens = sorted(trainer.vocab, key=trainer.vocab.__getitem__)
    return {
        "seconds": end - start,
        "stages": {"init_training": initialised - start, "train": end - initialised},
        "merges": len(tokens) - NUM_BYTES,
        "sha256": sha256_of(tokens),
    }


def peer() -> Any:
    """Import the peer; the old name warns that it is old."""
    name = next(name for name in PACKAGES if importlib.util.find_spec(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return importlib.import_module(name)


if __name__ == "__main__":
    main()
