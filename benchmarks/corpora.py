"""The corpora of the benchmarks: files to learn from, and other files that are timed.

A file must not be on both sides, and a timed document that is also among the learned ones is
skipped.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from frame import Figures, files_of
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer

TEXTS_NAME = "texts.arrow"
TIMED_FORM = "NAME:LEARN_GLOB:TIME_GLOB"
FORM = "NAME:GLOB[,GLOB...]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Parquet files with a text column, by their use."""

    name: str
    learn: Sequence[Path]
    time: Sequence[Path] = ()


def corpus(argument: str) -> Corpus:
    """Parse NAME:GLOB[,GLOB...] for argparse."""
    name, _, globs = argument.partition(":")
    return Corpus(name=name, learn=files_of(globs))


def timed_corpus(argument: str) -> Corpus:
    """Parse NAME:LEARN_GLOB:TIME_GLOB for argparse."""
    name, *globs = argument.split(":")
    if len(globs) != 2:  # noqa: PLR2004 - the two sides
        raise argparse.ArgumentTypeError(f"{argument!r} is not {TIMED_FORM}")
    learn, timed = map(files_of, globs)
    if both := {*learn} & {*timed}:
        raise argparse.ArgumentTypeError(f"{argument!r}: learned from and timed: {min(both)}")
    return Corpus(name=name, learn=learn, time=timed)


def make_folder(own: Corpus, folder: Path, patterns: Iterable[str], vocab_size: int) -> Figures:
    """Write the timed texts and a tokenizer for each pattern; return the sizes of the texts."""
    learn = read_texts(own.learn)
    known = set(learn)
    texts = [text for text in read_texts(own.time) if text and "\0" not in text]
    timed = [text for text in texts if text not in known]
    write_texts(timed, folder / TEXTS_NAME)
    for pattern in patterns:
        learned = Tokenizer.train_from_iterator(learn, vocab_size, pattern=pattern)
        learned.save(folder / pattern)
    return {
        "learned_bytes": num_bytes(learn),
        "timed_bytes": num_bytes(timed),
        "known_documents_left_out": len(texts) - len(timed),
    }


def read_texts(paths: Iterable[Path]) -> list[str]:
    """Read the text columns of parquet files."""
    tables = (pq.read_table(path, columns=["text"]) for path in paths)
    return [text for table in tables for text in table["text"].to_pylist()]


def write_texts(texts: list[str], path: Path) -> None:
    """Write texts as the Arrow file that every process reads."""
    with pa.ipc.new_file(path, pa.schema([("text", pa.large_string())])) as file:
        file.write(pa.record_batch({"text": pa.array(texts, pa.large_string())}))


def load_texts(path: Path) -> Documents:
    """Read texts into memory as documents; with a map, the first reader waits for the pages."""
    with pa.OSFile(str(path)) as source:
        return Documents.from_arrow(pa.ipc.open_file(source).read_all()["text"].chunk(0))


def num_bytes(texts: Iterable[str]) -> int:
    """Count the UTF-8 bytes of texts."""
    return sum(len(text.encode()) for text in texts)
