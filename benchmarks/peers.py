"""Libraries that are compared, each in a process of its own, also with another interpreter.

Everything but the standard library is imported by the function that needs it.
"""

import hashlib
import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from frame import Figures, run, version_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

NUM_BYTES = 256
SEPARATOR = b"\0"
"""Between the documents of gigatoken's buffer; no text contains it."""

SMALL_CACHE = 32 * 2**20

Work = Callable[[], Any]
Prepare = Callable[["pa.Array"], Work]


class Spans(NamedTuple):
    """The bytes of all spans back to back, n + 1 positions in them, and n counts."""

    data: "npt.NDArray[np.uint8]"
    offsets: "npt.NDArray[np.int64]"
    counts: "npt.NDArray[np.uint64]"

    def strings(self) -> list[str]:
        """Return the spans as text; UnicodeDecodeError if one is not UTF-8."""
        data, ends = self.data.tobytes(), self.offsets.tolist()
        return [data[ends[n] : ends[n + 1]].decode() for n in range(len(self.counts))]

    def save(self, folder: Path) -> None:
        """Write the arrays into a folder, which is created."""
        import numpy as np

        folder.mkdir(parents=True, exist_ok=True)
        for name, array in self._asdict().items():
            np.save(folder / f"{name}.npy", array)


def load_spans(folder: str) -> Spans:
    """Read the arrays of a folder into memory."""
    import numpy as np

    return Spans(*(np.load(Path(folder) / f"{name}.npy") for name in Spans._fields))


def spell(merges: Iterable[tuple[int, int]]) -> list[bytes]:
    """Return the bytes of every token: the 256 bytes, then the merges in order."""
    tokens = [bytes([byte]) for byte in range(NUM_BYTES)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    return tokens


def sha256_of(tokens: Iterable[bytes]) -> str:
    """Return the hash of tokens in rank order; their lengths are hashed too."""
    hashed = hashlib.sha256()
    for token in tokens:
        hashed.update(len(token).to_bytes(8, "little") + token)
    return hashed.hexdigest()


def installed(*packages: str) -> Figures:
    """Return the versions of packages in this interpreter, or null if one is missing."""
    versions = {name: version_of(name) for name in packages}
    text = ", ".join(f"{name} {number}" for name, number in versions.items())
    return {"peer": text if all(versions.values()) else None}


def ffbpe_loop(num_merges: int, folder: str) -> Figures:
    """Merge with ffbpe, whose threads are RAYON_NUM_THREADS.

    Timed are `init_training` (pairs and their places) and `train` (the merges), both of which are
    part of `_core.learn`; passing it the spans is not. Of equal counts the smallest pair is first,
    as in nanotok_ray.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        ffbpe = importlib.import_module("ffbpe")
    spans = load_spans(folder)
    trainer = ffbpe.BpeTrainer([], initial_alphabet="raw", tie_break="smallest_pair_id")
    trainer.add_words(list(zip(spans.strings(), spans.counts.tolist(), strict=True)))
    start = time.perf_counter()
    trainer.init_training()
    trainer.train(NUM_BYTES + num_merges)
    seconds = time.perf_counter() - start
    tokens = sorted(trainer.vocab, key=trainer.vocab.__getitem__)
    return {
        "seconds": seconds,
        "merges": len(tokens) - NUM_BYTES,
        "sha256": sha256_of(tokens),
    }


def datatrove_job(folder: str, out: str, tokenizer: str) -> Figures:
    """Tokenize the parquet files of a folder with datatrove, one task and one worker.

    Seconds include the start of its executor.
    """
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    steps = [ParquetReader(folder), DocumentTokenizer(out, tokenizer, shuffle_documents=False)]
    executor = LocalPipelineExecutor(pipeline=steps, tasks=1, workers=1, logging_dir=f"{out}-logs")
    start, begin = time.perf_counter(), time.process_time()
    executor.run()
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - begin}


def encode_texts(engine: str, file: str, texts: str, calls: str) -> Figures:
    """Encode an Arrow file of texts on one thread, without special tokens.

    Calls are "first" (all texts once), "six" (six times) or "halves" (the first half, then the
    second, which alone is timed: new text for a process that has encoded before). Opening the file,
    and converting the texts to the input of an engine, are not timed. Seconds are CPU seconds, user
    and system, so that other processes of a busy machine do not count.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    with pa.OSFile(texts) as source:
        array = pa.ipc.open_file(source).read_all()["text"].combine_chunks()
    prepare = ENGINES[engine](file)
    if calls == "halves":
        half = _half_of(array)
        works = [prepare(array[:half]), prepare(array[half:])]
        array = array[half:]
    else:
        works = [prepare(array)] * {"first": 1, "six": 6}[calls]
    seconds, result = [], None
    for work in works:
        result = None
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    figures: Figures = {"half": seconds[-1]}
    if calls != "halves":
        figures = {"first": seconds[0], "sixth": seconds[-1]}
    package = engine.partition(",")[0]
    return figures | {
        "bytes": pc.sum(pc.binary_length(array)).as_py(),
        "ids": _hash(result),
        "version": version_of(package),
    }


def _half_of(texts: "pa.Array") -> int:
    """Return the number of texts with the first half of all bytes."""
    import numpy as np
    import pyarrow.compute as pc

    ends = np.cumsum(pc.binary_length(texts).to_numpy())
    return int(np.searchsorted(ends, ends[-1] // 2))


def _hash(result: Any) -> str:
    """Return the hash of ids and of their numbers in each document."""
    import numpy as np

    if isinstance(result, tuple):
        ids, lengths = result[0], np.diff(result[1])
    elif hasattr(result, "layout"):
        import awkward  # comes with gigatoken

        ids, lengths = awkward.flatten(result), awkward.num(result)
    else:
        lists = [getattr(each, "ids", each) for each in result]
        ids, lengths = np.fromiter((n for each in lists for n in each), "<u4"), [*map(len, lists)]
    parts = (np.asarray(part).astype("<u4").tobytes() for part in (ids, lengths))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _nanotok_ray(file: str, *, cache_bytes: int | None = None, as_list: bool = False) -> Prepare:
    """Encode the Arrow array, one buffer and its offsets, or a list of its strings."""
    from nanotok_ray.tokenizer import Tokenizer, open_tokenizer

    tokenizer = open_tokenizer(file)
    if cache_bytes is not None:
        tokenizer = Tokenizer(tokenizer.model, cache_bytes=cache_bytes)

    def prepare(texts: "pa.Array") -> Work:
        given = texts.to_pylist() if as_list else texts
        return lambda: tokenizer.encode_batch(given)

    return prepare


def _tiktoken(file: str) -> Prepare:
    """Encode Python strings one by one, which is tiktoken's usual interface."""
    from nanotok_ray.tokenizer import open_tokenizer  # knows the families of ranks

    encode = open_tokenizer(file).to_tiktoken().encode_ordinary
    return _each(encode)


def _tokenizers(file: str) -> Prepare:
    """Encode Python strings one by one: a batch uses all cores. Reading `ids` is not timed."""
    import tokenizers

    path = Path(file)
    path = path / "tokenizer.json" if path.is_dir() else path
    encode = tokenizers.Tokenizer.from_file(str(path)).encode
    return _each(lambda text: encode(text, add_special_tokens=False))


def _each(encode: Callable[[str], Any]) -> Prepare:
    def prepare(texts: "pa.Array") -> Work:
        strings = texts.to_pylist()
        return lambda: [encode(text) for text in strings]

    return prepare


def _sentencepiece(file: str) -> Prepare:
    """Encode a list of strings with one thread."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=file)

    def prepare(texts: "pa.Array") -> Work:
        strings = texts.to_pylist()
        return lambda: processor.encode(strings, num_threads=1)

    return prepare


def _gigatoken(file: str) -> Prepare:
    """Encode one buffer, which is gigatoken's fastest interface."""
    import gigatoken

    tokenizer = gigatoken_of(file)

    def prepare(texts: "pa.Array") -> Work:
        joined = SEPARATOR.join(text.as_buffer() for text in texts)
        source = gigatoken.BytesSource(joined, SEPARATOR)
        return lambda: tokenizer.encode_batch(source, parallel=False)

    return prepare


def gigatoken_of(file: str) -> Any:
    """Open a tokenizer.json, a SentencePiece model, or a folder of ranks with cl100k's pattern."""
    import gigatoken

    path, opened = Path(file), gigatoken.Tokenizer
    if path.is_dir():
        return opened.from_tiktoken(path / "tokenizer.tiktoken", pretokenizer="gpt4")
    if path.suffix == ".json":
        return opened.from_json(path.read_bytes())
    return opened.from_sentencepiece(file)


ENGINES: dict[str, Callable[[str], Prepare]] = {
    "nanotok_ray": _nanotok_ray,
    "nanotok_ray, 32 MiB": lambda file: _nanotok_ray(file, cache_bytes=SMALL_CACHE),
    "nanotok_ray, list": lambda file: _nanotok_ray(file, as_list=True),
    "tiktoken": _tiktoken,
    "gigatoken": _gigatoken,
    "tokenizers": _tokenizers,
    "sentencepiece": _sentencepiece,
}
"""What opens a file, and then prepares the work for a list of texts."""


if __name__ == "__main__":
    run()
