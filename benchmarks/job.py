"""Measure tokenizing as a job, from parquet to verified shards on disk, with a floor and datatrove.

    python benchmarks/job.py --corpus NAME:LEARN_GLOB:TIME_GLOB --corpus ...
        [--bytes N] [--repeats N] [--peer-python PYTHON] [--quick] [--save]

One tokenizer is learned from the first files of all corpora; the others, without documents that
were learned from, are linked under new names until they have --bytes of text. Each method runs in
new processes, in turn, after its own warm-up; medians are printed:

- floor: one process decodes the column with pyarrow, passes it to `Tokenizer.encode_batch`, and
  writes as many bytes as the shards have, with as many fsyncs as files
- alone: one process tokenizes all slices, verifies them and writes their records, without Ray
- two alone: two such processes, each with every other slice, from the start of both to the last
  end
- job 1, job 2: the whole job on a local Ray with one and with two CPUs, including plan,
  verification and manifest; the start of Ray is reported separately
- datatrove: DocumentTokenizer with the same tokenizer.json, one task, one thread, in
  --peer-python; its rate is the slope between two sizes of input, which excludes its start

CPU seconds are reported beside elapsed seconds, since they are independent of other processes.
Answers are compared: all methods except the floor write the same records (which contain the sha256
of every shard), and both jobs the same manifest; all ids equal those of bare encoding; those of a
part equal tiktoken's, and datatrove's unless the text spells a special token. Goals: 60 times
datatrove per core; job 1 at most 1.25 times the floor; two alone at least 0.92 of job 2; a worker
within 1 GB and 4 times the largest document.
"""

import argparse
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from corpora import TIMED_FORM, num_bytes, read_texts, timed_corpus
from frame import (
    Figures,
    Runs,
    add_quick,
    assert_same,
    finish,
    fresh,
    in_turn,
    median,
    parser,
    ratio,
    run,
    show,
    stop,
)
from job_runs import CORES, PRIORITY, floor, link_files, on_ray, without_ray, write_recipe
from nanotok_ray.loader import open_shards
from nanotok_ray.tokenizer import Tokenizer
from peers import datatrove_job, installed

ONE_THREAD = {"RAYON_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
GROUP_ROWS = 1024
BATCH = 1024
"""Texts encoded at a time for comparison."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCorpus:
    """The written files, and the texts for comparison."""

    recipe: Path
    texts: list[str]
    """The texts of the first copy of all files, in the order of the job's documents."""
    part: list[int]
    """The indexes of the texts that are compared with slow libraries."""
    part_bytes: tuple[int, int]
    """Bytes of every third text of the part, and of the part."""

    @property
    def folder(self) -> Path:
        """The folder of everything."""
        return self.recipe.parent

    @property
    def output(self) -> Path:
        """The output folder of the job."""
        return self.folder / "out"


def main() -> None:
    """Measure what the command line names."""
    sizes = {"bytes": 4_000_000_000, "slice_bytes": 64 << 20, "vocab_size": 32768, "repeats": 3}
    command = parser(__doc__, **sizes, part_bytes=60_000_000)
    command.add_argument(
        "--corpus", type=timed_corpus, action="append", required=True, metavar=TIMED_FORM
    )
    command.add_argument("--peer-python", help="an interpreter that has datatrove")
    small = {"bytes": 20_000_000, "slice_bytes": 4 << 20, "repeats": 1}
    add_quick(command, **small, part_bytes=2_000_000)
    options = command.parse_args()
    python, peer = options.peer_python, None
    if python and not (peer := fresh(installed, "datatrove", "tokenizers", python=python)["peer"]):
        stop(f"{python} has no datatrove: pip install 'datatrove[io]==0.10.1' tokenizers")
    with tempfile.TemporaryDirectory() as name:
        corpus = make_corpus(Path(name), options)
        runs = in_turn(works_of(corpus), options.repeats)
        row: Figures = {"peer": peer, "slice_bytes": options.slice_bytes} | compare(corpus, runs)
        if peer:
            works = {each: partial(with_datatrove, corpus, each, python) for each in PARTS}
            row["datatrove"] = compare_datatrove(corpus, in_turn(works, options.repeats), runs)
        row["answers"] = answers(corpus, runs, has_peer=peer is not None)
    finish("job", [each.name for each in options.corpus], row, save=options.save)


PARTS = ("small", "large")


def make_corpus(folder: Path, options: argparse.Namespace) -> JobCorpus:
    """Write tokenizer, texts and recipe, and the texts of the part in two sizes."""
    learn = [text for corpus in options.corpus for text in read_texts(corpus.learn)]
    Tokenizer.train_from_iterator(learn, options.vocab_size).save(folder / "tokenizer")
    known = set(learn)
    texts: list[str] = []
    own: list[Path] = []
    (folder / "files").mkdir()
    for path in (path for corpus in options.corpus for path in corpus.time):
        kept = [text for text in read_texts([path]) if text not in known]
        own.append(write_parquet(folder / f"files/{len(own):03}.parquet", kept))
        texts += kept
    size = num_bytes(texts)
    link_files(own, folder / "text", size=size, least=options.bytes)
    filled = [number for number, text in enumerate(texts) if text]
    part = filled[:: max(1, size // options.part_bytes)]
    sizes = []
    for name, numbers in zip(PARTS, (part[::3], part), strict=True):
        (folder / f"part-{name}").mkdir()
        some = [texts[number] for number in numbers]
        write_parquet(folder / f"part-{name}/part.parquet", some)
        sizes.append(num_bytes(some))
    recipe = write_recipe(folder, options.slice_bytes)
    return JobCorpus(recipe=recipe, texts=texts, part=part, part_bytes=(sizes[0], sizes[1]))


def write_parquet(path: Path, texts: list[str]) -> Path:
    """Write texts like published corpora: zstd, row groups of 1,024 documents."""
    table = pa.table({"text": pa.array(texts, pa.string())})
    pq.write_table(table, path, compression="zstd", row_group_size=GROUP_ROWS)
    return path


def works_of(corpus: JobCorpus) -> dict[str, Callable[[], Figures]]:
    """Return the methods of tokenizing the corpus; the output of a job is kept until the next."""

    def alone(processes: int) -> Figures:
        out = corpus.folder / "alone"
        figures = without_ray("tokenize", corpus.recipe, out, processes=processes)
        return figures | {"records": records_sha256(out)}

    def job(workers: int) -> Figures:
        figures = fresh(on_ray, "tokenize", corpus.recipe, workers, env=PRIORITY)
        return figures | {"records": records_sha256(corpus.output)}

    def bare() -> Figures:
        sizes = [each.stat().st_size for each in corpus.output.glob("text/**/*") if each.is_file()]
        return fresh(floor, corpus.folder, len(sizes), sum(sizes))

    return {
        "alone": partial(alone, 1),
        "two alone": partial(alone, 2),
        "job 1": partial(job, 1),
        "job 2": partial(job, 2),
        "floor": bare,
    }


def records_sha256(output: Path) -> str:
    """Return a hash of the names and bytes of all tokenize records, of which there must be any."""
    paths = sorted(output.glob("records/tokenize/**/*.json"))
    assert paths, f"{output} has no records"
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.relative_to(output).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def compare(corpus: JobCorpus, runs: Runs) -> Figures:
    """Print and return the figures of all methods but datatrove."""
    size = runs["alone"][0]["text_bytes"]
    assert {each["text_bytes"] for way in runs.values() for each in way} == {size}, "text differs"
    rates = {name: size / 1e6 / median(runs[name]) / CORES[name] for name in CORES}
    cpu = {name: round(median(own, "cpu"), 2) for name, own in runs.items()}
    parts = {
        name: round(median([each["parts"] for each in runs["floor"]], name), 2)
        for name in runs["floor"][0]["parts"]
    }
    jobs = [each for name in ("job 1", "job 2") for each in runs[name]]
    stages = [{"seconds": each["stages"]["tokenize"]} for each in runs["job 2"]]
    row = {
        "text_bytes": size,
        "seconds": {name: [round(each["seconds"], 2) for each in runs[name]] for name in runs},
        "cpu_seconds": show("CPU seconds", cpu),
        "megabytes_per_second_and_core": show(
            "MB/s per core", {name: round(rate, 1) for name, rate in rates.items()}
        ),
        "floor_parts": show("seconds of the floor", parts),
        "alone_to_floor": round(ratio(runs, "alone", "floor"), 4),
        "job_1_to_floor": round(ratio(runs, "job 1", "floor"), 4),
        "two_alone_to_job_2": round(ratio(runs, "two alone", "job 2"), 4),
        "two_alone_to_stage": round(ratio(runs | {"stage": stages}, "two alone", "stage"), 4),
        "start_seconds": round(median(runs["job 2"], "start_seconds"), 1),
        "stages": show("seconds of job 2", runs["job 2"][-1]["stages"]),
        "largest_document_bytes": max(len(text.encode()) for text in corpus.texts),
        "worker_bytes": max(each["worker_bytes"] for each in jobs),
        "alone_bytes": max(each["peak_bytes"] for each in runs["alone"]),
        "driver_bytes": max(each["driver_bytes"] for each in jobs),
    }
    return show("tokenize", row)


def with_datatrove(corpus: JobCorpus, part: str, python: str) -> Figures:
    """Tokenize a part with datatrove; its output is kept until the next run."""
    out = corpus.folder / f"datatrove-{part}"
    for path in (out, out.with_name(f"{out.name}-logs")):
        shutil.rmtree(path, ignore_errors=True)
    folder, tokenizer = corpus.folder / f"part-{part}", corpus.output / "tokenizer/tokenizer.json"
    return fresh(datatrove_job, folder, out, tokenizer, env=ONE_THREAD, python=python)


def compare_datatrove(corpus: JobCorpus, peers: Runs, runs: Runs) -> Figures:
    """Print and return datatrove's rate as the slope of two sizes, and the ratio of job 1 to it."""
    added = (corpus.part_bytes[1] - corpus.part_bytes[0]) / 1e6
    size = runs["job 1"][0]["text_bytes"] / 1e6
    rates = {
        figure: added / (median(peers["large"], figure) - median(peers["small"], figure))
        for figure in ("seconds", "cpu")
    }
    times = {each: size / median(runs["job 1"], each) / rate for each, rate in rates.items()}
    row = {
        "part_bytes": list(corpus.part_bytes),
        "seconds": {name: [round(each["seconds"], 2) for each in peers[name]] for name in peers},
        "megabytes_per_second_and_core": round(rates["seconds"], 3),
        "times_per_core": round(times["seconds"], 1),
        "times_by_cpu": round(times["cpu"], 1),
    }
    return show("datatrove", row)


def answers(corpus: JobCorpus, runs: Runs, *, has_peer: bool) -> Figures:
    """Compare the written files; stop if they are wrong."""
    own = {name: each for name, each in runs.items() if name != "floor"}
    assert_same(own, "records", "tokenizing")
    assert_same({name: runs[name] for name in ("job 1", "job 2")}, "manifest", "jobs")
    tokenizer, shards = Tokenizer.load(corpus.folder / "tokenizer"), open_shards(corpus.output)
    encode = tokenizer.to_tiktoken().encode_ordinary
    record: Figures = {
        "documents": len(corpus.texts),
        "differing_from_bare_encoding": differing(shards, tokenizer, corpus.texts),
        "documents_of_part": len(corpus.part),
        "differing_from_tiktoken": sum(
            encode(corpus.texts[number]) != shards[number][1:].tolist() for number in corpus.part
        ),
    }
    wrong = record["differing_from_bare_encoding"] or record["differing_from_tiktoken"]
    if has_peer:
        record["datatrove"] = beside_datatrove(corpus, shards, tokenizer)
        wrong = wrong or record["datatrove"]["other"]
    show("answers", record)
    return stop(f"ids differ: {record}") if wrong else record


def differing(shards: Any, tokenizer: Tokenizer, texts: Sequence[str]) -> int:
    """Return the number of texts of which a copy differs from bare encoding."""
    assert len(shards) % len(texts) == 0, f"{len(shards)} documents of {len(texts)} texts"
    bos = np.array([tokenizer.get_bos_token_id()], dtype=np.uint32)
    wrong = 0
    for first in range(0, len(texts), BATCH):
        batch = texts[first : first + BATCH]
        ids, offsets = tokenizer.encode_batch(batch)
        for number in range(len(batch)):
            expected = np.concatenate([bos, ids[offsets[number] : offsets[number + 1]]])
            copies = range(first + number, len(shards), len(texts))
            wrong += not all(np.array_equal(shards[copy], expected) for copy in copies)
    return wrong


def beside_datatrove(corpus: JobCorpus, shards: Any, tokenizer: Tokenizer) -> Figures:
    """Compare datatrove's ids of the part with those of the shards, and return the counts.

    `special`: documents that differ and spell a special token, which datatrove encodes as the
    token; `other`: all other documents that differ.
    """
    names = list(tokenizer.special_tokens)
    theirs = datatrove_documents(corpus.folder / "datatrove-large", shards[0].dtype.itemsize)
    counts = {"special": 0, "other": 0}
    for number, ids in zip(corpus.part, theirs, strict=True):
        if not np.array_equal(shards[number][1:], ids):
            spelled = any(name in corpus.texts[number] for name in names)
            counts["special" if spelled else "other"] += 1
    return {"documents": len(corpus.part)} | counts


def datatrove_documents(folder: Path, item_bytes: int) -> Iterator[NDArray[Any]]:
    """Yield the ids of the documents of datatrove's files, divided by its index."""
    for path in sorted(folder.glob("*.ds")):
        ids = np.fromfile(path, dtype=f"<u{item_bytes}")
        ends = np.fromfile(path.with_name(f"{path.name}.index"), dtype="<u8")
        yield from np.split(ids, ends[:-1].astype(np.int64))


if __name__ == "__main__":
    run(main)
