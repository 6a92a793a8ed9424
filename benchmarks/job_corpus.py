"""The folder of a job's benchmark: a tokenizer, parquet files to tokenize, a recipe, and a part.

The corpora have files to learn from and files to time without common documents: a document that is
also among the learned ones is skipped. The timed files are written once and linked under new names
until there is enough text. The part consists of every n-th non-empty document, in two sizes, for
slow peers and for comparing answers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from corpus import Corpus, num_bytes, read_texts
from nanotok_ray.tokenizer import Tokenizer

GROUP_ROWS = 1024

RECIPE = """
[[source]]
name = "text"
kind = "text"
paths = ["{folder}/text"]
split = "train"

[tokenizer]
path = "{folder}/tokenizer"

[output]
path = "{folder}/out"

[limits]
slice_bytes = {slice_bytes}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCorpus:
    """The written files, and the texts for comparison."""

    folder: Path
    texts: list[str]
    """The texts of the first copy of all files, in the order of the job's documents."""
    part: list[int]
    """The indexes of the large part."""
    part_bytes: tuple[int, int]
    """Bytes of the small and of the large part."""
    left_out: int
    """Number of documents that were also among the learned ones."""

    @property
    def recipe(self) -> Path:
        """The recipe of the job."""
        return self.folder / "recipe.toml"

    @property
    def output(self) -> Path:
        """The output folder of the job."""
        return self.folder / "out"

    @property
    def largest(self) -> int:
        """Bytes of the largest document."""
        return max(len(text.encode()) for text in self.texts)


def make_corpus(
    folder: Path,
    corpora: Sequence[Corpus],
    *,
    least: int,
    slice_bytes: int,
    vocab_size: int,
    part_bytes: int,
) -> JobCorpus:
    """Write everything under a folder; `least` and `part_bytes` are bytes of text."""
    learn = [text for corpus in corpora for text in read_texts(corpus.learn)]
    tokenizer = Tokenizer.train_from_iterator(learn, vocab_size)
    tokenizer.save(folder / "tokenizer")
    (folder / "text").mkdir()
    files = [path for corpus in corpora for path in corpus.time]
    texts, left_out = _write_files(folder, files, known=set(learn), least=least)
    (folder / "recipe.toml").write_text(RECIPE.format(folder=folder, slice_bytes=slice_bytes))
    large = choose_part(texts, part_bytes)
    small = large[::3]
    sizes = [
        _write_part(folder / name, [texts[number] for number in part])
        for name, part in (("part-small", small), ("part-large", large))
    ]
    return JobCorpus(
        folder=folder,
        texts=texts,
        part=large,
        part_bytes=(sizes[0], sizes[1]),
        left_out=left_out,
    )


def _write_files(
    folder: Path, files: Iterable[Path], *, known: set[str], least: int
) -> tuple[list[str], int]:
    """Write the files without known documents, and link them; return (texts, number skipped)."""
    (folder / "files").mkdir()
    texts: list[str] = []
    own: list[Path] = []
    left_out = 0
    for number, path in enumerate(files):
        found = read_texts([path])
        kept = [text for text in found if text not in known]
        left_out += len(found) - len(kept)
        texts += kept
        own.append(write_parquet(folder / f"files/{number:03}.parquet", kept))
    for copy in range(-(-least // num_bytes(texts))):
        for path in own:
            (folder / f"text/{copy:03}-{path.name}").hardlink_to(path)
    return texts, left_out


def write_parquet(path: Path, texts: list[str]) -> Path:
    """Write texts like published corpora: zstd, row groups of 1,024 documents."""
    table = pa.table({"text": pa.array(texts, pa.string())})
    pq.write_table(table, path, compression="zstd", row_group_size=GROUP_ROWS)
    return path


def choose_part(texts: Sequence[str], size: int) -> list[int]:
    """Choose non-empty documents at even distances, of about `size` bytes together.

    >>> choose_part(["aa", "", "bb", "cc", "dd"], 4)
    [0, 3]
    """
    filled = [number for number, text in enumerate(texts) if text]
    total = num_bytes(texts)
    return filled[:: max(1, total // max(1, size))]


def _write_part(folder: Path, texts: list[str]) -> int:
    folder.mkdir()
    write_parquet(folder / "part.parquet", texts)
    return num_bytes(texts)
