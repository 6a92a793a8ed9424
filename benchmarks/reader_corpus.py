"""The corpus of the reader's benchmark: texts as parquet, their shards, and a very large index.

A tokenizer is learned from the first of the given parquet files, the job runs over all of them and
the JSON lines, and the index of an output of very many shards is written.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from corpus import read_texts
from nanotok_ray.formats import (
    MANIFEST_NAME,
    SHARDS_INDEX_NAME,
    StoredShard,
    index_bytes,
    pack_shards_index,
    to_json,
)
from nanotok_ray.tokenizer import Tokenizer

HERE = Path(__file__).resolve().parent

RECIPE = """
[[source]]
name = "text"
kind = "text"
paths = ["{folder}/text"]
split = "last-file"

[[source]]
name = "chat"
kind = "chat"
paths = ["{folder}/chat"]
split = "train"

[tokenizer]
path = "{folder}/tokenizer"

[output]
path = "{folder}/out"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderCorpus:
    """The paths of all files."""

    folder: Path

    @property
    def texts(self) -> Path:
        """The folder of the parquet files: train, and the last one val."""
        return self.folder / "text"

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer."""
        return self.folder / "tokenizer"

    @property
    def output(self) -> Path:
        """The output of the job."""
        return self.folder / "out"

    @property
    def many(self) -> Path:
        """An output of very many shards, of which only the manifest and shards.idx exist."""
        return self.folder / "many"


def make_corpus(
    folder: Path, texts: Sequence[Path], chats: Sequence[Path], *, vocab_size: int, shards: int
) -> ReaderCorpus:
    """Write everything under a folder."""
    corpus = ReaderCorpus(folder=folder)
    Tokenizer.train_from_iterator(read_texts(texts[:1]), vocab_size).save(corpus.tokenizer)
    for name, files in (("text", texts), ("chat", chats)):
        (folder / name).mkdir()
        for number, path in enumerate(files):
            (folder / name / f"{number:03}{path.suffix}").symlink_to(path.resolve())
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.format(folder=folder))
    command = [sys.executable, "-m", "jobs.prepare", str(recipe)]
    subprocess.run(command, check=True, cwd=HERE.parent, stdout=subprocess.DEVNULL)
    _write_many(corpus, shards)
    return corpus


def _write_many(corpus: ReaderCorpus, shards: int) -> None:
    """Write shards.idx and the manifest of an output of `shards` shards of one document."""
    manifest = json.loads((corpus.output / MANIFEST_NAME).read_bytes())
    index = pack_shards_index([_row(number) for number in range(shards)], sources=["text"])
    manifest |= {
        "sources": ["text"],
        "kinds": {"text": "text"},
        "settings": {"text": manifest["settings"]["text"]},
        "shards": shards,
        "slices": shards,
        "item_bytes": 2,
        "shards_index_sha256": sha256(index).hexdigest(),
    }
    corpus.many.mkdir()
    (corpus.many / SHARDS_INDEX_NAME).write_bytes(index)
    (corpus.many / MANIFEST_NAME).write_bytes(to_json(manifest))


def _row(number: int) -> StoredShard:
    key = sha256(str(number).encode()).hexdigest()
    return StoredShard(
        source="text",
        split="train",
        name=f"text/train/part-{number:06}-000-{key[:16]}",
        item_bytes=2,
        documents=1,
        tokens=1,
        sizes={".bin": 2, ".idx": index_bytes(1)},
        record_sha256=key,
    )
