"""Encode one span with one engine in this process: seconds of the first call, and hash of the ids.

    python benchmarks/one_span.py ENGINE TOKENIZER_FOLDER SPAN_FILE

The span must not be split: nanotok_ray encodes with a pattern that matches everything
(`whole_text`), tiktoken with `_encode_single_piece`, which has no pattern. gigatoken uses its own
pattern cl100k, so the caller uses only spans that the pattern keeps whole. Prints one line of
JSON.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer

EVERYTHING = r"(?s:.)+"

Work = Callable[[], Any]


def main() -> None:
    """Measure what the command line names."""
    engine, folder, file = sys.argv[1:]
    work = ENGINES[engine](Path(folder), Path(file).read_bytes())
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "ids": digest(flat(result))}))


def whole_text(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer of the same merges for which every text is one span."""
    return Tokenizer(replace(tokenizer.byte_level_model, pattern=EVERYTHING))


def prepare_ours(folder: Path, span: bytes) -> Work:
    """Encode one document."""
    tokenizer = whole_text(Tokenizer.load(folder))
    documents = Documents.from_bytes([span])
    return lambda: tokenizer.encode_documents(documents)[0]


def prepare_tiktoken(folder: Path, span: bytes) -> Work:
    """Encode without a pattern."""
    encoding = Tokenizer.load(folder).to_tiktoken()
    return lambda: encoding._encode_single_piece(span)  # noqa: SLF001 - the only way past its pattern


def prepare_gigatoken(folder: Path, span: bytes) -> Work:
    """Encode one buffer that is one document."""
    import gigatoken  # noqa: PLC0415 - a peer that need not be there

    ranks = folder / "tokenizer.tiktoken"
    tokenizer = gigatoken.Tokenizer.from_tiktoken(ranks, pretokenizer="gpt4")
    source = gigatoken.BytesSource(span)
    return lambda: tokenizer.encode_batch(source, parallel=False)


def flat(result: Any) -> Any:
    """Return the ids without documents."""
    return result[0] if hasattr(result, "layout") else result


def digest(ids: Any) -> str:
    """Return the hash of ids."""
    return hashlib.sha256(np.asarray(ids, dtype="<u4").tobytes()).hexdigest()


ENGINES = {
    "nanotok_ray": prepare_ours,
    "tiktoken": prepare_tiktoken,
    "gigatoken": prepare_gigatoken,
}


if __name__ == "__main__":
    main()
