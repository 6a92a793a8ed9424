"""Measure feeding a trainer from shards on one core, with nanochat's method: packed rows.

    python benchmarks/reader.py --texts 'english_more/*.parquet' --chats 'chat/*.jsonl' [--save]

A tokenizer is learned from the first parquet file, and the job writes the shards of all files;
neither is timed. The last parquet file is for validation in all methods. Each method runs in new
processes in turn, on one CPU, with batches of 32 rows of 2,048 tokens, filled into the same two
arrays, and all files in the page cache; medians are printed:

- nanochat: its method, text parquet to batches, in plain Python with pyarrow and tiktoken, without
  torch and without nanotok_ray: row groups of all files but the last, 128 texts at a time with a
  bos before each, a buffer of 1,000 documents that is searched for each choice
- nanochat's rows: the same batches from the shards, by `NanochatLoader`
- best-fit, windows, conversations, best-fit shuffled by document: by `Loader`

Printed are tokens per second after the first batch, without padding; the time to the first batch
from the start of the process and from opening; the highest resident memory, which includes pages
of mapped shards; the speed of planning rows without filling them; and the time of opening an index
of 200,000 shards. The batches of the first two methods must be equal, and each method must return
the same in every round. Goals: 50 times nanochat's method, and windows at 200 million tokens per
second.
"""

import argparse
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frame import (
    HERE,
    Figures,
    Runs,
    add_quick,
    assert_same,
    files_of,
    finish,
    fresh,
    in_turn,
    median,
    parser,
    peak,
    ratio,
    run,
    show,
)

ROWS, LENGTH = 32, 2048
PEER, SAME_ROWS, INDEX = "nanochat", "nanochat's rows", "index"
WAYS: Mapping[str, Mapping[str, Any]] = {
    SAME_ROWS: {"source": "text"},
    "best-fit": {"source": "text", "packing": "best-fit"},
    "windows": {"source": "text", "packing": "windows"},
    "conversations": {"source": "chat", "packing": "conversations"},
    "best-fit, shuffled": {"source": "text", "packing": "best-fit", "shuffle": "document"},
}
PLANNED = {f"{way}, planned": way for way in (SAME_ROWS, "best-fit")}
TEXTS_AT_ONCE = 128
BUFFER = 1000

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

Numbers = npt.NDArray[Any]
NextBatch = Callable[[], tuple[Numbers, Numbers]]
"""Returns inputs and targets of the next batch, in the same memory each time."""


def main() -> None:
    """Measure what the command line names."""
    sizes = {"vocab_size": 32768, "batches": 128, "times": 16, "shards": 200_000, "repeats": 5}
    command = parser(__doc__, **sizes)
    command.add_argument("--texts", type=files_of, required=True, help="glob of parquet files")
    command.add_argument("--chats", type=files_of, required=True, help="glob of JSON lines")
    add_quick(command, vocab_size=8192, batches=8, times=4, repeats=1)
    options = command.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_corpus(Path(name), options)
        works = works_of(Path(name), options.batches, options.times)
        for work in works.values():
            work()  # reads all files into the page cache
        runs = in_turn(works, options.repeats)
    [index] = {each["seconds"]: each for each in runs.pop(INDEX)[-1:]}.values()
    planned = {name: round(1 / median(runs.pop(name))) for name in PLANNED}
    assert_same({way: runs[way] for way in (PEER, SAME_ROWS)}, "answer", "batches")
    for way, own in runs.items():
        assert_same({way: own}, "answer", "rounds")
    row: Figures = {each: getattr(options, each) for each in sizes}
    row |= {"rows": ROWS, "length": LENGTH, "ways": [row_of(way, runs) for way in runs]}
    row["ratio_to_nanochat"] = round(ratio(runs, PEER, SAME_ROWS), 1)
    row["planned_tokens_per_second"] = show("tokens per second", planned)
    row["index_seconds"] = show("index", index)["seconds"]
    names = [f"{path.parent.name}/{path.stem}" for path in [*options.texts, *options.chats]]
    finish("reader", names, row, peers=("tiktoken", "pyarrow", "numpy"), save=options.save)


def make_corpus(folder: Path, options: argparse.Namespace) -> None:
    """Write the tokenizer, the shards, and the index of very many shards."""
    from corpora import read_texts
    from nanotok_ray.tokenizer import Tokenizer

    learned = Tokenizer.train_from_iterator(read_texts(options.texts[:1]), options.vocab_size)
    learned.save(folder / "tokenizer")
    for name, files in (("text", options.texts), ("chat", options.chats)):
        (folder / name).mkdir()
        for number, path in enumerate(files):
            (folder / name / f"{number:03}{path.suffix}").symlink_to(path)
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.format(folder=folder))
    command = [sys.executable, "-m", "jobs.prepare", str(recipe), "--local"]
    subprocess.run(command, check=True, cwd=HERE.parent, stdout=subprocess.DEVNULL)
    write_index(folder, options.shards)


def write_index(folder: Path, shards: int) -> None:
    """Write shards.idx and the manifest of an output of `shards` shards of one document."""
    from nanotok_ray import formats

    rows = []
    for number in range(shards):
        key = hashlib.sha256(str(number).encode()).hexdigest()
        shard = formats.StoredShard(
            source="text",
            split="train",
            name=f"text/train/part-{number:06}-000-{key[:16]}",
            item_bytes=2,
            documents=1,
            tokens=1,
            sizes={".bin": 2, ".idx": formats.index_bytes(1)},
            record_sha256=key,
        )
        rows.append(shard)
    index = formats.pack_shards_index(rows, sources=["text"])
    manifest = json.loads((folder / "out" / formats.MANIFEST_NAME).read_bytes())
    manifest |= {
        "sources": ["text"],
        "kinds": {"text": "text"},
        "settings": {"text": manifest["settings"]["text"]},
        "shards": shards,
        "slices": shards,
        "item_bytes": 2,
        "shards_index_sha256": hashlib.sha256(index).hexdigest(),
    }
    (folder / "many").mkdir()
    (folder / "many" / formats.SHARDS_INDEX_NAME).write_bytes(index)
    (folder / "many" / formats.MANIFEST_NAME).write_bytes(formats.to_json(manifest))


def works_of(folder: Path, batches: int, times: int) -> dict[str, Callable[[], Figures]]:
    """Return the methods of reading the corpus, and the opening of the index."""

    def read(way: str, number: int) -> Figures:
        return fresh(read_batches, way, folder, number, batches, time.monotonic())

    ways = {way: partial(read, way, batches * times) for way in WAYS}
    planned = {
        name: partial(fresh, plan, way, folder, batches * times) for name, way in PLANNED.items()
    }
    index = partial(fresh, open_index, folder / "many")
    return {PEER: partial(read, PEER, batches), **ways, **planned, INDEX: index}


def row_of(way: str, runs: Runs) -> Figures:
    """Print and return the figures of one method."""
    own = runs[way]
    row = {
        "way": way,
        "tokens_per_second": round(1 / median(own)),
        "tokens_per_cpu_second": round(1 / median(own, "cpu")),
        "filled": round(median(own, "filled"), 4),
        "start_to_first": round(median(own, "start_to_first"), 3),
        "open_to_first": round(median(own, "open_to_first"), 4),
        "peak_megabytes": round(median(own, "peak_bytes") / 1e6),
    }
    return show("reader", row)


def read_batches(way: str, folder: str, batches: int, hashed: int, started: float) -> Figures:
    """Read batches with one method on one CPU.

    Timed are the first batch and then the batches after it; a second reading from the start, which
    is not timed, is hashed. `started` is the start of the process by `time.monotonic`.
    """
    keep_to_one_cpu()
    own = partial(nanochat_reader, Path(folder)) if way == PEER else partial(shards, way, folder)
    begin = time.monotonic()
    next_batch = own()
    next_batch()
    first = time.monotonic()
    start, used = time.perf_counter(), time.process_time()
    for _ in range(batches):
        next_batch()
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    highest = peak()
    answer, filled = hash_batches(own(), hashed)
    tokens = batches * ROWS * LENGTH * filled
    return {
        "seconds": seconds / tokens,
        "cpu": cpu / tokens,
        "filled": filled,
        "start_to_first": first - started,
        "open_to_first": first - begin,
        "peak_bytes": highest,
        "answer": answer,
    }


def keep_to_one_cpu() -> None:
    """Restrict this process and its threads to one CPU."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def hash_batches(next_batch: NextBatch, batches: int) -> tuple[str, float]:
    """Return the hash of the first batches, and the share of their places without padding."""
    digest, filled = hashlib.sha256(), 0
    for _ in range(batches):
        inputs, targets = next_batch()
        digest.update(inputs.astype("<i8").tobytes())
        digest.update(targets.astype("<i8").tobytes())
        has_target = targets[:, ::-1] >= 0
        behind = np.argmax(has_target, axis=1)  # what follows the last target of a row is padding
        filled += int((LENGTH - behind)[has_target.any(axis=1)].sum())
    return digest.hexdigest(), filled / (batches * ROWS * LENGTH)


def shards(way: str, folder: str) -> NextBatch:
    """Open shards and loader; return a function that fills the next batch."""
    loader = loader_of(way, folder)
    both = np.empty((2, ROWS, LENGTH), dtype=np.int64 if way == SAME_ROWS else np.int32)

    def next_batch() -> tuple[Numbers, Numbers]:
        batch = loader.next_batch(into=(both[0], both[1]))
        assert batch is not None
        return batch.inputs, batch.targets

    return next_batch


def loader_of(way: str, folder: str) -> Any:
    """Open shards and loader."""
    from nanotok_ray.loader import Loader, NanochatLoader, open_shards

    settings = dict(WAYS[way])
    opened = open_shards(f"{folder}/out", source=settings.pop("source"))
    kind = Loader if settings else NanochatLoader
    return kind(opened, batch_size=ROWS, length=LENGTH, **settings)


def plan(way: str, folder: str, batches: int) -> Figures:
    """Plan batches without filling them, as for resuming; the first is not timed."""
    keep_to_one_cpu()
    loader = loader_of(way, folder)
    loader.skip_batches(1)
    start = time.perf_counter()
    loader.skip_batches(batches)
    return {"seconds": (time.perf_counter() - start) / (batches * ROWS * LENGTH)}


def open_index(output: str) -> Figures:
    """Open an output and count its documents."""
    keep_to_one_cpu()
    from nanotok_ray.loader import open_shards

    start = time.perf_counter()
    documents = len(open_shards(output))
    return {"seconds": round(time.perf_counter() - start, 4), "documents": documents}


def nanochat_reader(folder: Path) -> NextBatch:
    """Return a function that fills the next batch by nanochat's method."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    encoding = pickle.loads((folder / "tokenizer/tokenizer.pkl").read_bytes())
    source = nanochat_documents(sorted((folder / "text").glob("*.parquet"))[:-1], encoding)
    buffer: list[list[int]] = []
    rows = np.empty((ROWS, LENGTH + 1), dtype=np.int64)
    both = np.empty((2, ROWS, LENGTH), dtype=np.int64)

    def next_batch() -> tuple[Numbers, Numbers]:
        for row in rows:
            fill(row, buffer, source)
        both[0], both[1] = rows[:, :-1], rows[:, 1:]
        return both[0], both[1]

    return next_batch


def nanochat_documents(files: Sequence[Path], encoding: Any) -> Iterator[list[list[int]]]:
    """Yield the documents of all row groups, epoch after epoch, in batches of the encoder."""
    import pyarrow.parquet as pq

    bos = encoding.encode_single_token("<|bos|>")
    while True:
        for path in files:
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                texts = file.read_row_group(group).column("text").to_pylist()
                for start in range(0, len(texts), TEXTS_AT_ONCE):
                    batch = texts[start : start + TEXTS_AT_ONCE]
                    encoded = encoding.encode_ordinary_batch(batch, num_threads=1)
                    yield [[bos, *ids] for ids in encoded]


def fill(row: Numbers, buffer: list[list[int]], source: Iterator[list[list[int]]]) -> None:
    """Fill one row: the largest document that fits, else the shortest, cut."""
    place = 0
    while place < len(row):
        while len(buffer) < BUFFER:
            buffer += next(source)
        room = len(row) - place
        ids = buffer.pop(pick(buffer, room))[:room]
        row[place : place + len(ids)] = ids
        place += len(ids)


def pick(buffer: list[list[int]], room: int) -> int:
    """Return the first of the largest documents that fit, or if none fits, of the shortest."""
    best, largest = -1, 0
    for number, ids in enumerate(buffer):
        if largest < len(ids) <= room:
            best, largest = number, len(ids)
    if best >= 0:
        return best
    return min(range(len(buffer)), key=lambda number: len(buffer[number]))


if __name__ == "__main__":
    run(main)
