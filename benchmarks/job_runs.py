"""The jobs that are measured: stages of a recipe in processes without Ray, and on a local Ray."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from frame import Figures, peak, ready, reset_peak, resident, run, side_by_side
from nanotok_ray.api import tokenize
from nanotok_ray.cluster.ray_executor import RayExecutor
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.formats import MANIFEST_NAME
from nanotok_ray.job.counting import count, training_of
from nanotok_ray.job.events import Event, StageEnded
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.task import Task
from nanotok_ray.job.tokenize import tokenizing_of
from nanotok_ray.job.work import TokenizeWork, count_work, tokenize_work
from nanotok_ray.recipe import Recipe, load_recipe
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer

PRIORITY = {"RAY_worker_niceness": "0"}
"""Ray's workers have the priority of the processes alone: its default yields to others."""

CORES = {"floor": 1, "alone": 1, "two alone": 2, "job 1": 1, "job 2": 2}
STAGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "count": (count_work, "work"),
    "tokenize": (tokenize_work, "out"),
}
"""The work of a slice, and the field of its folder."""

LOOK_EVERY = 4
"""Slices between two looks at memory, which visit all pages."""

ALONE = 4 << 30
"""Bytes of a task that is never grouped with others."""

RECIPE = """
[[source]]
name = "text"
kind = "text"
paths = ["{folder}/text"]
split = "train"

[output]
path = "{folder}/out"

[limits]
slice_bytes = {slice_bytes}
"""


def write_recipe(folder: Path, slice_bytes: int) -> Path:
    """Write the recipe of a folder of texts, with the folder's tokenizer if there is one."""
    path = folder / "recipe.toml"
    text = RECIPE.format(folder=folder, slice_bytes=slice_bytes)
    if (folder / "tokenizer").exists():
        text += f'[tokenizer]\npath = "{folder}/tokenizer"\n'
    path.write_text(text)
    return path


def link_files(files: Sequence[Path], folder: Path, *, size: int, least: int) -> None:
    """Link files of `size` bytes of text under new names until there is enough text."""
    folder.mkdir()
    for copy in range(-(-least // size)):
        for path in files:
            (folder / f"{copy:03}-{path.name}").hardlink_to(path)


def works_of(stage: str, recipe: Recipe, out: str) -> list[Any]:
    """Return the work of every slice of a recipe into an empty folder, in order."""
    if stage == "count":
        training = training_of(recipe, make_plan(recipe))
        return [replace(training.work(each), work=out) for each in training.slices]
    path = recipe.tokenizer.path
    assert path is not None
    tokenizing = tokenizing_of(recipe, make_plan(recipe), Tokenizer.load(path), Folder(out))
    return [TokenizeWork(expected=(each,), out=out, tokenizer=path) for each in tokenizing.todo]


def without_ray(
    stage: str, recipe: Path, out: Path, *, processes: int, threads: int = 1
) -> Figures:
    """Do a stage in processes that share its slices; return the sums of their figures.

    Seconds end with the last process; `longest_seconds` are those of its work alone.
    """
    shutil.rmtree(out, ignore_errors=True)
    seconds, ended = side_by_side(do_slices, stage, recipe, out, threads, processes=processes)
    longest = max(each["seconds"] for each in ended)
    sums = {name: sum(each[name] for each in ended) for name in ended[0]}
    return sums | {"seconds": seconds, "longest_seconds": longest}


def do_slices(stage: str, path: str, out: str, threads: int, *share: int) -> Figures:
    """Do every n-th slice of a stage in this process, after one in each thread to warm up."""
    number, of = share
    work, into = STAGES[stage]
    works = [*islice(works_of(stage, load_recipe(path), out), number, None, of)]
    warm, base = f"{out}-warm-{number}", resident()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [replace(each, **{into: warm}) for each in works[:threads]]))
        shutil.rmtree(warm)
        reset_peak()
        ready()
        start, begin = time.perf_counter(), time.process_time()
        sizes: list[Any] = []
        shared = 0
        for done, size in enumerate(pool.map(work, works)):
            sizes.append(size)
            if done % LOOK_EVERY == 0:
                shared = max(shared, _shared())
        return {
            "seconds": time.perf_counter() - start,
            "cpu": time.process_time() - begin,
            "text_bytes": sum(map(int, sizes)),
            "base_bytes": base,
            "peak_bytes": peak(),
            "pss_bytes": shared,
        }


def _shared() -> int:
    """Return the proportional set size: shared pages count by their users."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def on_ray(stage: str, path: str, workers: int) -> Figures:
    """Run the counting stage of a recipe, or its whole job, on a local Ray, after a warm-up.

    The start of Ray is separate, and its own processes are not in CPU seconds.
    """
    recipe = load_recipe(path)
    shutil.rmtree(recipe.output.path, ignore_errors=True)
    measure = _counted(recipe) if stage == "count" else _tokenized(recipe, workers)
    start = time.perf_counter()
    with ray_session(cpus=workers):
        started = time.perf_counter()
        _warm(stage, recipe, workers)
        for process in ["self", *_worker_processes()]:
            reset_peak(process)
        used = _cpu_seconds()
        figures = measure()
        cpu = _cpu_seconds() - used
        worker_bytes = max(map(peak, _worker_processes()), default=0)
    return figures | {
        "cpu": cpu,
        "start_seconds": started - start,
        "driver_bytes": peak(),
        "worker_bytes": worker_bytes,
    }


def _counted(recipe: Recipe) -> Callable[[], Figures]:
    training = training_of(recipe, make_plan(recipe))
    ended: list[float] = []

    def on_event(event: Event) -> None:
        if isinstance(event, StageEnded):
            ended.append(event.seconds)

    def measure() -> Figures:
        counted = count(training, Runtime(RayExecutor(), on_event=on_event))
        files = [record.value.files[0] for record in counted.records]
        return {
            "seconds": sum(ended),
            "slices": len(files),
            "text_bytes": counted.sum("text_bytes"),
            "file_bytes": sum(file.size for file in files),
            "sha256": "\n".join(sorted(file.sha256 for file in files)),
        }

    return measure


def _tokenized(recipe: Recipe, workers: int) -> Callable[[], Figures]:
    def measure() -> Figures:
        begin = time.perf_counter()
        summary = tokenize(recipe, cpus=workers)
        seconds = time.perf_counter() - begin
        manifest = (Path(recipe.output.path) / MANIFEST_NAME).read_bytes()
        stages = {name: each["seconds"] for name, each in summary.values["stages"].items()}
        return {
            "seconds": seconds,
            "stages": stages,
            "text_bytes": summary.values["text_bytes"],
            "manifest": sha256(manifest).hexdigest(),
        }

    return measure


def _warm(stage: str, recipe: Recipe, workers: int) -> None:
    """Do one slice in every worker into a temporary folder."""
    work, into = STAGES[stage]
    folders = [f"{recipe.output.path}-warm-{number}" for number in range(workers)]
    first = works_of(stage, recipe, folders[0])[0]
    tasks = [
        Task(name=each, work=work, argument=replace(first, **{into: each}), num_bytes=ALONE)
        for each in folders
    ]
    for ended in RayExecutor().run(tasks):
        assert ended.error is None, ended.error
    for each in folders:
        shutil.rmtree(each)


def _cpu_seconds() -> float:
    """Return the CPU seconds so far of this process and of the current workers."""
    ticks = 0
    for process in _worker_processes():
        stat = Path(f"/proc/{process}/stat").read_text()
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _worker_processes() -> Iterator[str]:
    """Yield the ids of the processes below this one that are Ray's workers."""
    parents = {path.name: _parent_of(path) for path in Path("/proc").glob("[0-9]*")}
    for process in parents:
        above: str | None = process
        while above is not None and above != str(os.getpid()):
            above = parents.get(above)
        if above is not None and _read(f"/proc/{process}/cmdline").startswith("ray::"):
            yield process


def _parent_of(process: Path) -> str | None:
    fields = _read(f"{process}/stat").rpartition(")")[2].split()
    return fields[1] if fields else None


def _read(path: str) -> str:
    """Return a file of a process; empty if it has just ended."""
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def floor(folder: str, files: int, size: int) -> Figures:
    """Decode the column, encode it, write the bytes: what a job cannot do without, on one thread.

    Every parquet file is decoded by pyarrow, one row group at a time; the ids are written to a
    file, filled up to `size` bytes and followed by as many fsyncs as a job makes for `files` files.
    After a warm-up on the first file, decoding and writing are timed alone, and then all steps in
    one loop, in which encoding is timed.
    """
    own = Path(folder)
    tokenizer = Tokenizer.load(own / "tokenizer")
    paths = sorted((own / "text").glob("*.parquet"))
    for array in _decoded(paths[:1]):
        tokenizer.encode_batch(array)
    start = time.perf_counter()
    for _ in _decoded(paths):
        pass
    decode, start = time.perf_counter() - start, time.perf_counter()
    block = np.random.default_rng(1).integers(0, 256, 1 << 20, dtype=np.uint8)
    for number in range(files):
        with (own / "floor.bin").open("wb") as file:
            _fill(file, -(-size // files), block)
            _sync(file)
        (own / "floor.bin").rename(own / f"floor-{number % 2}.bin")
    write, begin = time.perf_counter() - start, time.process_time()
    figures = _one_loop(own / "floor.bin", tokenizer, paths, files, size)
    parts = {"decode": decode, "encode": figures.pop("encode"), "write": write}
    return figures | {"parts": parts, "cpu": time.process_time() - begin}


def _decoded(paths: Sequence[Path]) -> Iterator[pa.Array]:
    """Yield the texts of files as Arrow arrays, one for each row group."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                rows = max(1, file.metadata.row_group(group).num_rows)
                for batch in file.iter_batches(
                    batch_size=rows, row_groups=[group], columns=["text"], use_threads=False
                ):
                    yield batch.column(0)


def _one_loop(
    out: Path, tokenizer: Tokenizer, paths: Sequence[Path], files: int, size: int
) -> Figures:
    """Run all steps; return the seconds, those of encoding, and the bytes of text."""
    written = num_bytes = 0
    encoding = 0.0
    start = time.perf_counter()
    with out.open("wb") as file:
        for array in _decoded(paths):
            before = time.perf_counter()
            ids, _ = tokenizer.encode_batch(array)
            encoding += time.perf_counter() - before
            file.write(ids.data)
            if written // (size // files) != (written + ids.nbytes) // (size // files):
                _sync(file)
            written += ids.nbytes
            num_bytes += pc.sum(pc.binary_length(array)).as_py()
        _fill(file, size - written, np.zeros(1 << 20, dtype=np.uint8))
        _sync(file)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "encode": encoding, "text_bytes": num_bytes}


def _fill(file: BinaryIO, size: int, block: NDArray[np.uint8]) -> None:
    while size > 0:
        file.write(block[:size].data)
        size -= len(block)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def count_files(out: Path) -> Figures:
    """Return the bytes and the hashes of the count files that records of a folder name."""
    records = [json.loads(path.read_bytes()) for path in out.rglob("*.json")]
    files = [record["files"][0] for record in records if record.get("stage") == "count"]
    digests = sorted(file["sha256"] for file in files)
    return {"file_bytes": sum(each["size"] for each in files), "sha256": "\n".join(digests)}


if __name__ == "__main__":
    run()
