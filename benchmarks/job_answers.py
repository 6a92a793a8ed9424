"""Compares the ids of a job's shards with bare encoding, tiktoken, and datatrove's files.

The input is an output folder and the texts from which it was made, in order; the results are
numbers of differences.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.loader import Shards, open_shards
from nanotok_ray.tokenizer import Tokenizer

BATCH = 1024
"""Texts encoded at a time."""


def records_sha256(output: Path) -> str:
    """Return a sha256 of the names and bytes of all tokenize records.

    Raises:
        AssertionError: There is no record.
    """
    paths = sorted(output.glob("records/tokenize/**/*.json"))
    assert paths, f"{output} has no records"
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.relative_to(output).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def output_bytes(output: Path) -> tuple[int, int]:
    """Return the number and the bytes of shard files (data and index)."""
    sizes = [path.stat().st_size for path in output.glob("text/**/*") if path.is_file()]
    return len(sizes), sum(sizes)


def differing(output: Path, tokenizer: Path, texts: Sequence[str]) -> int:
    """Return the number of documents, one for each text, that differ from bare encoding.

    All further copies of the same texts must have the same ids.
    """
    shards = open_shards(str(output))
    assert len(shards) % len(texts) == 0, f"{len(shards)} documents of {len(texts)} texts"
    plain = Tokenizer.load(tokenizer)
    bos = np.array([plain.get_bos_token_id()], dtype=np.uint32)
    wrong = 0
    for first in range(0, len(texts), BATCH):
        batch = texts[first : first + BATCH]
        ids, offsets = plain.encode_batch(batch)
        for number in range(len(batch)):
            expected = np.concatenate([bos, ids[offsets[number] : offsets[number + 1]]])
            copies = range(first + number, len(shards), len(texts))
            wrong += not all(np.array_equal(shards[copy], expected) for copy in copies)
    return wrong


def differing_from_tiktoken(
    output: Path, tokenizer: Path, texts: Sequence[str], part: Sequence[int]
) -> int:
    """Return the number of documents of the part that differ from tiktoken's `encode_ordinary`."""
    shards = open_shards(str(output))
    encoding = Tokenizer.load(tokenizer).to_tiktoken()
    return sum(
        encoding.encode_ordinary(texts[number]) != shards[number][1:].tolist() for number in part
    )


def beside_datatrove(
    output: Path, datatrove: Path, tokenizer: Path, texts: Sequence[str], part: Sequence[int]
) -> dict[str, Any]:
    """Compare datatrove's ids of the part with those of the shards, and return the counts.

    `special`: documents that differ and spell a special token, which datatrove encodes as the
    token; `other`: all other documents that differ.
    """
    shards = open_shards(str(output))
    names = list(Tokenizer.load(tokenizer).special_tokens)
    theirs = list(datatrove_documents(datatrove, item_bytes=_item_bytes(shards)))
    assert len(theirs) == len(part), f"datatrove wrote {len(theirs)} documents of {len(part)}"
    special = other = 0
    for number, ids in zip(part, theirs, strict=True):
        if not np.array_equal(shards[number][1:], ids):
            has_special = any(name in texts[number] for name in names)
            special += has_special
            other += not has_special
    return {"documents": len(part), "special": special, "other": other}


def _item_bytes(shards: Shards) -> int:
    return int(shards[0].dtype.itemsize)


def datatrove_documents(folder: Path, *, item_bytes: int) -> Iterator[NDArray[Any]]:
    """Yield the ids of the documents of datatrove's files, divided by its index."""
    for path in sorted(folder.glob("*.ds")):
        ids = np.fromfile(path, dtype=f"<u{item_bytes}")
        ends = np.fromfile(path.with_name(f"{path.name}.index"), dtype="<u8")
        yield from np.split(ids, ends[:-1].astype(np.int64))
