"""Encode texts with a tokenizer's file in this process; print the seconds and a hash of the ids.

    python benchmarks/one_tokenizer_file.py ENGINE FILE TEXTS

ENGINE is `nanotok_ray`, `tokenizers`, `sentencepiece`, `tiktoken` or `gigatoken`. FILE is a
tokenizer.json or a SentencePiece model, and for nanotok_ray and tiktoken any file that
`open_tokenizer` takes. TEXTS is an Arrow file with
one column of texts. The call encodes all texts on one thread without special tokens. Opening the
file, and converting the texts to the input of the engine, are not timed. Seconds are CPU seconds,
user and system. The script runs with the Python of any environment that has the engine.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

SEPARATOR = b"\0"
"""Between the documents of gigatoken's buffer; no text contains it."""

Work = Callable[[], Any]


def main() -> None:
    """Measure what the command line names."""
    engine, file, texts = sys.argv[1:]
    with pa.memory_map(texts) as source:
        column = pa.ipc.open_file(source).read_all().column(0).combine_chunks()
    version, work, rows = ENGINES[engine](file, column)
    start = time.process_time()
    result = work()
    seconds = time.process_time() - start
    digest = hashlib.sha256()
    for row in rows(result):
        digest.update(repr([*map(int, row)]).encode())
    print(json.dumps({"seconds": seconds, "ids": digest.hexdigest(), "version": version}))


def ours(file: str, texts: pa.Array) -> tuple[str, Work, Callable[[Any], Sequence[Any]]]:
    """Encode the Arrow array."""
    import nanotok_ray  # noqa: PLC0415 - peers run without

    tokenizer = nanotok_ray.open_tokenizer(file)

    def rows(result: Any) -> Sequence[Any]:
        ids, offsets = result
        pairs = pairwise(offsets)
        return [ids[start:stop] for start, stop in pairs]

    name = f"{nanotok_ray.__version__} {tokenizer.engine}"
    return name, lambda: tokenizer.encode_batch(texts), rows


def of_tokenizers(file: str, texts: pa.Array) -> tuple[str, Work, Callable[[Any], Sequence[Any]]]:
    """Encode strings one by one: a batch uses all cores. Reading `ids` is not timed."""
    import tokenizers  # noqa: PLC0415 - a peer

    tokenizer = tokenizers.Tokenizer.from_file(file)
    strings = texts.to_pylist()

    def work() -> Any:
        return [tokenizer.encode(text, add_special_tokens=False) for text in strings]

    return tokenizers.__version__, work, lambda result: [one.ids for one in result]


def of_sentencepiece(
    file: str, texts: pa.Array
) -> tuple[str, Work, Callable[[Any], Sequence[Any]]]:
    """Encode a list of strings with one thread."""
    import sentencepiece  # noqa: PLC0415 - a peer

    processor = sentencepiece.SentencePieceProcessor(model_file=file)
    strings = texts.to_pylist()
    version = sentencepiece.__version__
    return version, lambda: processor.encode(strings, num_threads=1), lambda result: result


def of_tiktoken(file: str, texts: pa.Array) -> tuple[str, Work, Callable[[Any], Sequence[Any]]]:
    """Encode strings one by one."""
    import tiktoken  # noqa: PLC0415 - a peer

    from nanotok_ray.tokenizer import open_tokenizer  # noqa: PLC0415 - knows the families

    encoding = open_tokenizer(file).to_tiktoken()
    strings = texts.to_pylist()

    def work() -> Any:
        return [encoding.encode_ordinary(text) for text in strings]

    return tiktoken.__version__, work, lambda result: result


def of_gigatoken(file: str, texts: pa.Array) -> tuple[str, Work, Callable[[Any], Sequence[Any]]]:
    """Encode one buffer, which is gigatoken's fastest interface."""
    import gigatoken  # noqa: PLC0415 - a peer

    if file.endswith(".json"):
        tokenizer = gigatoken.Tokenizer.from_json(Path(file).read_bytes())
    else:
        tokenizer = gigatoken.Tokenizer.from_sentencepiece(file)
    joined = SEPARATOR.join(text.as_buffer() for text in texts)
    source = gigatoken.BytesSource(joined, SEPARATOR)
    version = getattr(gigatoken, "__version__", "0.10.0")
    return version, lambda: tokenizer.encode_batch(source, parallel=False), lambda result: result


ENGINES = {
    "nanotok_ray": ours,
    "tokenizers": of_tokenizers,
    "sentencepiece": of_sentencepiece,
    "tiktoken": of_tiktoken,
    "gigatoken": of_gigatoken,
}

if __name__ == "__main__":
    main()
