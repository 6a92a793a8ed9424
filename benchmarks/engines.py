"""Run one engine in this process; print its time and the hash of its ids.

    python benchmarks/engines.py ENGINE PATTERN PASSES FOLDER

The script loads the tokenizer of a folder from `corpus.make_folder` and encodes its texts on one
thread. PASSES is `first` (all texts once), `six` (all texts six times) or `halves` (the first half
of the texts, then the second, which alone is timed: new text for a process that has encoded
before). Loading, and converting the texts to the input of an engine, are not timed. Seconds are
CPU seconds, user and system, so that other processes of a busy machine do not count. `ENGINES`
lists the engines. Prints one line of JSON.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpus import load_array
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.tokenizer import CACHE_BYTES

SEPARATOR = b"\0"
"""Between the documents of a buffer; documents that contain it are skipped in a corpus."""

GIGATOKEN_NAMES = {"cl100k": "gpt4"}
"""gigatoken's names of the patterns that it supports."""

SMALL_CACHE = 32 * 2**20
SIX = 6

Work = Callable[[], Any]
Ids = npt.NDArray[np.uint32]
Load = Callable[[str, Path], Callable[[pa.Array], Work]]


def main() -> None:
    """Measure what the command line names."""
    engine, pattern, passes, folder = sys.argv[1:]
    print(json.dumps(measure(engine, pattern, passes, Path(folder))))


def measure(engine: str, pattern: str, passes: str, folder: Path) -> dict[str, Any]:
    """Return the seconds of the timed passes, the bytes of each, and the hash of the last ids."""
    load, flatten = ENGINES[engine]
    texts = load_array(folder)
    prepare = load(pattern, folder / pattern)
    if passes == "halves":
        half = half_of(texts)
        seconds, result = run([prepare(texts[:half]), prepare(texts[half:])])
        texts = texts[half:]
        figures = {"half": seconds[-1]}
    else:
        seconds, result = run([prepare(texts)] * (SIX if passes == "six" else 1))
        figures = {"first": seconds[0], "sixth": seconds[-1]}
    ids = hashlib.sha256(flatten(result).astype("<u4").tobytes()).hexdigest()
    return {**figures, "bytes": num_bytes(texts), "ids": ids}


def run(works: list[Work]) -> tuple[list[float], Any]:
    """Run works one after the other; return the CPU seconds of each, and the last result."""
    seconds, result = [], None
    for work in works:
        result = None
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return seconds, result


def half_of(texts: pa.Array) -> int:
    """Return the number of texts with the first half of all bytes."""
    ends = np.cumsum(pc.binary_length(texts).to_numpy())
    return int(np.searchsorted(ends, ends[-1] // 2))


def num_bytes(texts: pa.Array) -> int:
    """Return the UTF-8 bytes of texts."""
    return int(pc.sum(pc.binary_length(texts)).as_py())


def load_ours(
    _pattern: str, folder: Path, *, cache_bytes: int = CACHE_BYTES, as_list: bool = False
) -> Callable[[pa.Array], Work]:
    """Encode the Arrow array, one buffer and its offsets, or a list of its strings."""
    tokenizer = Tokenizer.load(folder, cache_bytes=cache_bytes)

    def prepare(texts: pa.Array) -> Work:
        given = texts.to_pylist() if as_list else texts
        return lambda: tokenizer.encode_batch(given)

    return prepare


def load_tiktoken(_pattern: str, folder: Path) -> Callable[[pa.Array], Work]:
    """Encode Python strings one by one, which is tiktoken's usual interface."""
    encoding = Tokenizer.load(folder).to_tiktoken()

    def prepare(texts: pa.Array) -> Work:
        strings = texts.to_pylist()
        return lambda: [encoding.encode_ordinary(text) for text in strings]

    return prepare


def load_gigatoken(pattern: str, folder: Path) -> Callable[[pa.Array], Work]:
    """Encode one buffer, which is gigatoken's fastest interface."""
    import gigatoken  # noqa: PLC0415 - a peer that need not be there

    ranks = folder / "tokenizer.tiktoken"
    tokenizer = gigatoken.Tokenizer.from_tiktoken(ranks, pretokenizer=GIGATOKEN_NAMES[pattern])

    def prepare(texts: pa.Array) -> Work:
        joined = SEPARATOR.join(text.as_buffer() for text in texts)
        source = gigatoken.BytesSource(joined, SEPARATOR)
        return lambda: tokenizer.encode_batch(source, parallel=False)

    return prepare


def load_tokenizers(_pattern: str, folder: Path) -> Callable[[pa.Array], Work]:
    """Encode Python strings one by one: a batch uses all cores. Reading `ids` is not timed."""
    import tokenizers  # noqa: PLC0415 - a peer that need not be there

    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))

    def prepare(texts: pa.Array) -> Work:
        strings = texts.to_pylist()
        return lambda: [tokenizer.encode(text, add_special_tokens=False) for text in strings]

    return prepare


def flatten_ours(result: Any) -> Ids:
    """Return the ids of all documents."""
    return np.asarray(result[0], dtype=np.uint32)


def flatten_lists(result: Any) -> Ids:
    """Return the ids of all documents."""
    return np.fromiter((n for ids in result for n in ids), dtype=np.uint32)


def flatten_encodings(result: Any) -> Ids:
    """Return the ids of all documents."""
    return flatten_lists(encoding.ids for encoding in result)


def flatten_awkward(result: Any) -> Ids:
    """Return the ids of all documents."""
    import awkward  # noqa: PLC0415 - comes with gigatoken

    return np.asarray(awkward.flatten(result), dtype=np.uint32)


ENGINES: dict[str, tuple[Load, Callable[[Any], Ids]]] = {
    "nanotok_ray": (load_ours, flatten_ours),
    "nanotok_ray, 32 MiB": (partial(load_ours, cache_bytes=SMALL_CACHE), flatten_ours),
    "nanotok_ray, list": (partial(load_ours, as_list=True), flatten_ours),
    "tiktoken": (load_tiktoken, flatten_lists),
    "gigatoken": (load_gigatoken, flatten_awkward),
    "tokenizers": (load_tokenizers, flatten_encodings),
}
"""The loader of each engine, and the conversion of its result to ids."""


if __name__ == "__main__":
    main()
