"""The corpus of a benchmark: files to learn from, and other files to time.

From NAME:LEARN_GLOB:TIME_GLOB it makes a folder with a tokenizer for each pattern, learned from
the first files alone, and the texts of the other files. A file must not be on both sides, and a
timed document that is also among the learned ones is skipped.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer

TEXTS_NAME = "texts.arrow"


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Parquet files with a text column, by their use."""

    name: str
    learn: Sequence[Path]
    time: Sequence[Path]


def parse_corpus(argument: str) -> Corpus:
    """Parse NAME:LEARN_GLOB:TIME_GLOB for argparse."""
    name, *globs = argument.split(":")
    if len(globs) != 2:  # noqa: PLR2004 - the two sides
        raise argparse.ArgumentTypeError(f"{argument!r} is not NAME:LEARN_GLOB:TIME_GLOB")
    learn, timed = (sorted(Path(path).resolve() for path in glob(each)) for each in globs)  # noqa: PTH207 - absolute globs
    if not learn or not timed:
        raise argparse.ArgumentTypeError(f"{argument!r}: one of the globs matches no file")
    if both := set(learn) & set(timed):
        raise argparse.ArgumentTypeError(f"{argument!r}: learned from and timed: {min(both)}")
    return Corpus(name=name, learn=learn, time=timed)


def make_folder(
    corpus: Corpus, folder: Path, patterns: Iterable[str], *, vocab_size: int
) -> dict[str, Any]:
    """Write tokenizers and texts; return the sizes of the texts."""
    learn = read_texts(corpus.learn)
    known = set(learn)
    texts = [text for text in read_texts(corpus.time) if text and "\0" not in text]
    timed = [text for text in texts if text not in known]
    write_texts(timed, folder)
    facts: dict[str, Any] = {
        "learned_bytes": num_bytes(learn),
        "timed_bytes": num_bytes(timed),
        "known_documents_left_out": len(texts) - len(timed),
    }
    for pattern in patterns:
        learned = Tokenizer.train_from_iterator(learn, vocab_size, pattern=pattern)
        learned.save(folder / pattern)
    return facts


def read_texts(paths: Iterable[Path]) -> list[str]:
    """Read the text columns of parquet files."""
    tables = (pq.read_table(path, columns=["text"]) for path in paths)
    return [text for table in tables for text in table["text"].to_pylist()]


def write_texts(texts: list[str], folder: Path) -> None:
    """Write texts as the Arrow file that every process reads."""
    with pa.ipc.new_file(folder / TEXTS_NAME, pa.schema([("text", pa.large_string())])) as file:
        file.write(pa.record_batch({"text": pa.array(texts, pa.large_string())}))


def load_array(folder: Path) -> pa.Array:
    """Read the texts into memory; with a memory map, the first reader would wait for the pages."""
    with pa.OSFile(str(folder / TEXTS_NAME)) as source:
        return pa.ipc.open_file(source).read_all()["text"].chunk(0)


def load_texts(folder: Path) -> Documents:
    """Read the texts into memory as documents."""
    return Documents.from_arrow(load_array(folder))


def num_bytes(texts: Iterable[str]) -> int:
    """Count the UTF-8 bytes of texts."""
    return sum(len(text.encode()) for text in texts)
