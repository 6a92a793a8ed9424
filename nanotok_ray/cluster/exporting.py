"""Exporting as a stage: what is not exported yet, in threads or as tasks on Ray, then export.json.

Takes a finished output and a layout; how a unit is written and checked is not known here. The same
call again goes on where it stopped, and does nothing when there is nothing to do.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from nanotok_ray.cluster.engine import Task
from nanotok_ray.cluster.events import Advanced, OnEvent, StageEnded, StageStarted, ignore
from nanotok_ray.cluster.fan_out import fan_out
from nanotok_ray.cluster.probes import output_folder
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.errors import CorruptOutputError, IncompleteOutputError
from nanotok_ray.export import (
    EXPORTS,
    Corpus,
    Exported,
    ExportWork,
    Layout,
    Target,
    begin,
    check_folder,
    check_unit,
    export_unit,
    export_values,
    finished_units,
    parse_layout,
    read_corpus,
    read_export,
    remove_strangers,
    units_of,
    write_export,
)
from nanotok_ray.manifest import MANIFEST_NAME
from nanotok_ray.storage import Folder
from nanotok_ray.threads import default_threads

STAGE, CHECK_STAGE = "export", "verify"

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportResult:
    """What an export is, and how much of it this call did."""

    folder: str
    values: dict[str, Any]
    """What export.json says."""
    units_done: int
    """Units that were exported by this call; the others were there."""
    removed: int
    """Files of former exports that were removed."""

    @property
    def unchanged(self) -> bool:
        """Whether there was nothing to do."""
        return not self.units_done and not self.removed


def default_folder(out: Folder, layout: Layout) -> Folder:
    """Give the folder in which an output's export lies unless told otherwise."""
    return Folder(out.join(f"{EXPORTS}/{layout.name}"))


def export(
    out: Folder,
    layout: Layout,
    *,
    folder: Folder | None = None,
    workers: int | None = None,
    on_event: OnEvent = ignore,
) -> ExportResult:
    """Write a finished output in another layout.

    Args:
        out: the output folder of a job.
        layout: the layout with its options.
        folder: where to; None: `export/NAME` in the output.
        workers: CPUs of a local Ray, or any number on the cluster that RAY_ADDRESS names; None:
            threads of this process.
        on_event: told of start, progress, notes and end.

    Raises:
        IncompleteOutputError: there is no manifest.
        ExportError: the layout cannot hold this output, or the folder holds something else.
        CorruptOutputError: a native file is not what it should be, or the output changed meanwhile.
        SliceError: units failed for good, on Ray.
    """
    corpus, shards = read_corpus(out)
    layout.check(corpus)
    target = folder or default_folder(out, layout)
    check_folder(target)
    units = units_of(corpus, shards, joined=layout.joined)
    works = [ExportWork(unit=u, layout=layout, corpus=corpus, folder=target.url) for u in units]
    found = _finished(target, works)
    todo = [work for work, own in zip(works, found, strict=True) if own is None]
    if todo or not _is_whole(target, layout, corpus):
        begin(target)
    _run(todo, kept=len(works) - len(todo), workers=workers, on_event=on_event)
    values, removed = _finish(target, layout, corpus, works if todo else None, found)
    return ExportResult(folder=target.url, values=values, units_done=len(todo), removed=removed)


def _finished(target: Folder, works: Sequence[ExportWork]) -> list[Exported | None]:
    return finished_units(target, [work.unit for work in works], [work.key for work in works])


def _is_whole(target: Folder, layout: Layout, corpus: Corpus) -> bool:
    """Tell whether export.json is there and of this layout, these options and this output."""
    try:
        found = read_export(target)
    except (IncompleteOutputError, CorruptOutputError):
        return False
    return (found["layout_format"], found["options"], found["manifest_sha256"]) == (
        layout.format,
        layout.options,
        corpus.manifest_sha256,
    )


def _run(works: Sequence[ExportWork], *, kept: int, workers: int | None, on_event: OnEvent) -> None:
    if not works:
        return
    if workers is not None:
        with ray_session(workers=workers):
            fan_out(STAGE, [_task(work) for work in works], kept=kept, on_event=on_event)
        return
    sizes = [work.unit.num_bytes for work in works]
    for _ in _told(STAGE, _in_threads(export_unit, works), sizes, kept=kept, on_event=on_event):
        pass


def _finish(
    target: Folder,
    layout: Layout,
    corpus: Corpus,
    works: Sequence[ExportWork] | None,
    found: Sequence[Exported | None],
) -> tuple[dict[str, Any], int]:
    """Write what stands for all units, remove what no record names, and say that it is whole."""
    if works is not None:
        found = _finished(target, works)
    exported = [own for own in found if own is not None]
    if len(exported) != len(found):
        raise CorruptOutputError(
            f"{target.url}: {len(found) - len(exported)} units were written and cannot be read "
            "here; is the folder on storage that every node shares?"
        )
    joint = Target(target)
    layout.finish(exported, corpus, joint)
    removed = remove_strangers(target, exported, joint.files)
    if read_corpus(corpus.out)[0].manifest_sha256 != corpus.manifest_sha256:
        raise CorruptOutputError(
            f"{corpus.out.join(MANIFEST_NAME)} changed while it was exported: a job ran; export "
            "again"
        )
    values = export_values(layout, corpus, exported, joint.files)
    write_export(target, values)
    return values, removed


def verify_export(
    folder: Folder, out: Folder, *, on_event: OnEvent = ignore
) -> tuple[dict[str, Any], list[str]]:
    """Compare every document of an export with the native shards; give export.json and problems.

    Raises:
        IncompleteOutputError: the export or the output is not finished.
        CorruptOutputError: export.json, manifest or shards.idx cannot be read at all.
        TransientIOError: a remote store failed in a way that may pass.
    """
    values = read_export(folder)
    options = ",".join(f"{key}={value}" for key, value in values["options"].items())
    layout = parse_layout(f"{values['layout']}:{options}" if options else values["layout"])
    corpus, shards = read_corpus(out)
    if values["manifest_sha256"] != corpus.manifest_sha256:
        return values, [f"{folder.url} is not an export of what {out.url} holds now: export again"]
    units = units_of(corpus, shards, joined=layout.joined)
    works = [ExportWork(unit=u, layout=layout, corpus=corpus, folder=folder.url) for u in units]
    sizes = [work.unit.num_bytes for work in works]
    results = _told(CHECK_STAGE, _in_threads(check_unit, works), sizes, kept=0, on_event=on_event)
    problems = [problem for found in results for problem in found]
    return values, problems + list(_joint_problems(folder, values))


def _joint_problems(folder: Folder, values: dict[str, Any]) -> Iterator[str]:
    for file in values["joint_files"]:
        if folder.size(file["name"]) != file["size"]:
            yield f"{folder.join(file['name'])} is missing or has another size"
        elif folder.sha256(file["name"]) != file["sha256"]:
            yield f"{folder.join(file['name'])} has another sha256 than export.json says"


def _in_threads(work: Callable[[ExportWork], R], works: Sequence[ExportWork]) -> Iterator[R]:
    with ThreadPoolExecutor(max_workers=default_threads()) as pool:
        try:
            yield from pool.map(work, works)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _told(
    stage: str, results: Iterator[R], sizes: Sequence[int], *, kept: int, on_event: OnEvent
) -> Iterator[R]:
    """Give results on, and tell of each."""
    start, done_bytes = time.perf_counter(), 0
    on_event(StageStarted(stage=stage, todo=len(sizes), kept=kept, num_bytes=sum(sizes)))
    for done, (result, size) in enumerate(zip(results, sizes, strict=True), start=1):
        done_bytes += size
        on_event(Advanced(stage=stage, done=done, todo=len(sizes), num_bytes=done_bytes))
        yield result
    on_event(StageEnded(stage=stage, seconds=time.perf_counter() - start, num_bytes=done_bytes))


def _task(work: ExportWork) -> Task:
    unit = work.unit
    return Task(
        name=f"export {work.layout.name} {unit.name}",
        work=export_unit,
        argument=work,
        num_bytes=unit.num_bytes,
        inputs=(work.corpus.out.join(f"{unit.shards[0].facts.name}.bin"),),
        shared=output_folder(work.folder),
    )
