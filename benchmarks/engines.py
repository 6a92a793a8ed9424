"""One engine in this process, timed: its first call and its last, and its ids by their hash.

    python benchmarks/engines.py ENGINE PATTERN CALLS FOLDER

Loads the tokenizer of a folder that `corpus.make_folder` made, and encodes all its texts CALLS
times on one thread. To load, and to turn the texts into what an engine takes, is not timed. ENGINES
says who there is. Prints one line of JSON.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpus import load_array
from nanotok_ray.tokenizer import Tokenizer

SEPARATOR = b"\0"
"""Between the documents of a buffer; documents that hold it are left out of a corpus."""

GIGATOKEN_NAMES = {"cl100k": "gpt4"}
"""What gigatoken calls the patterns it takes."""

Work = Callable[[], Any]
Ids = npt.NDArray[np.uint32]


def main() -> None:
    """Measure what the command line names."""
    engine, pattern, calls, folder = sys.argv[1:]
    print(json.dumps(measure(engine, pattern, int(calls), Path(folder))))


def measure(engine: str, pattern: str, calls: int, folder: Path) -> dict[str, Any]:
    """Time the first call and the last one, and name the ids by their hash."""
    prepare, flatten = ENGINES[engine]
    texts = load_array(folder)
    start = time.perf_counter()
    work = prepare(texts, pattern, folder / pattern)
    prepared = time.perf_counter() - start
    seconds: list[float] = []
    result: Any = None
    for _ in range(calls):
        result = None
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    ids = hashlib.sha256(flatten(result).astype("<u4").tobytes()).hexdigest()
    return {"prepare": prepared, "cold": seconds[0], "warm": seconds[-1], "ids": ids}


def prepare_ours(texts: pa.Array, _pattern: str, folder: Path) -> Work:
    """Encode the Arrow array, one buffer and its offsets, with every id worked out."""
    tokenizer = Tokenizer.load(folder)
    return lambda: tokenizer.encode_batch(texts)


def prepare_tiktoken(texts: pa.Array, _pattern: str, folder: Path) -> Work:
    """Encode Python strings one by one, as is tiktoken's way."""
    encoding = Tokenizer.load(folder).to_tiktoken()
    strings = texts.to_pylist()
    return lambda: [encoding.encode_ordinary(text) for text in strings]


def prepare_gigatoken(texts: pa.Array, pattern: str, folder: Path) -> Work:
    """Encode one buffer, gigatoken's fastest way."""
    import gigatoken  # noqa: PLC0415 - a peer that need not be there

    ranks = folder / "tokenizer.tiktoken"
    tokenizer = gigatoken.Tokenizer.from_tiktoken(ranks, pretokenizer=GIGATOKEN_NAMES[pattern])
    joined = SEPARATOR.join(text.as_buffer() for text in texts)
    source = gigatoken.BytesSource(joined, SEPARATOR)
    return lambda: tokenizer.encode_batch(source, parallel=False)


def flatten_ours(result: Any) -> Ids:
    """Return the ids of all documents."""
    return np.asarray(result[0], dtype=np.uint32)


def flatten_lists(result: Any) -> Ids:
    """Return the ids of all documents."""
    return np.fromiter((n for ids in result for n in ids), dtype=np.uint32)


def flatten_awkward(result: Any) -> Ids:
    """Return the ids of all documents."""
    import awkward  # noqa: PLC0415 - comes with gigatoken

    return np.asarray(awkward.flatten(result), dtype=np.uint32)


ENGINES = {
    "nanotok_ray": (prepare_ours, flatten_ours),
    "tiktoken": (prepare_tiktoken, flatten_lists),
    "gigatoken": (prepare_gigatoken, flatten_awkward),
}
"""How each engine is prepared, and what its result is as ids."""


if __name__ == "__main__":
    main()
