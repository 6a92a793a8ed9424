"""Verification as a stage: its progress as events, and its slices as tasks on Ray if so asked.

Writes nothing: a node that does not see the folder is found by the record that it cannot read, not
by a probe.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nanotok_ray.counts.patterns import default_threads
from nanotok_ray.job.events import Advanced, OnEvent, StageEnded, StageStarted, ignore
from nanotok_ray.job.executor import current_executor
from nanotok_ray.job.stage import format_failure, run_stage
from nanotok_ray.job.task import Task, TaskResult
from nanotok_ray.shards.verify import (
    Result,
    Runner,
    SliceCheck,
    SliceWork,
    Unchecked,
    Verification,
    check_here,
    check_slice,
    verify_output,
)
from nanotok_ray.storage import Folder

STAGE = "verify"


def verify(
    folder: Folder,
    *,
    workers: int | None = None,
    sample: bool = True,
    deep: bool = False,
    masks: bool = False,
    on_event: OnEvent = ignore,
) -> Verification:
    """Verify a finished output, in this process or, with `workers`, on Ray.

    Args:
        folder: the output folder.
        workers: CPUs of a local Ray, or any number on the cluster that RAY_ADDRESS names; None:
            threads of this process.
        sample: compare some documents with their sources.
        deep: read all sources again and compare every document.
        masks: read the sources of conversations and vision documents again, and compare every one
            with the plain reading of its dialect.
        on_event: called with the events of start, progress, notes and end.

    Raises:
        IncompleteOutputError: there is no manifest.
        CorruptOutputError: manifest, plan or tokenizer cannot be read at all.
        VerificationError: deep and masks are both asked for.
    """
    run: Runner = _Here(on_event) if workers is None else _OnRay(workers, on_event)
    return verify_output(folder, sample=sample, deep=deep, masks=masks, run=run)


@dataclass(frozen=True, slots=True)
class _Here:
    """Threads of this process."""

    on_event: OnEvent

    def __call__(self, works: Sequence[SliceWork]) -> Iterator[Result]:
        start, size = time.perf_counter(), sum(map(_num_bytes, works))
        self.on_event(StageStarted(stage=STAGE, todo=len(works), num_done=0, num_bytes=size))
        done_bytes = failed = 0
        results = check_here(works, threads=default_threads())
        for done, (index, check) in enumerate(results, start=1):
            done_bytes += _num_bytes(works[index])
            failed += isinstance(check, Unchecked)
            self.on_event(
                Advanced(
                    stage=STAGE, done=done, todo=len(works), num_bytes=done_bytes, failed=failed
                )
            )
            yield index, check
        seconds = time.perf_counter() - start
        self.on_event(StageEnded(stage=STAGE, seconds=seconds, num_bytes=done_bytes))


@dataclass(frozen=True, slots=True)
class _OnRay:
    """The checks as tasks on Ray, through `run_stage`."""

    workers: int
    on_event: OnEvent

    def __call__(self, works: Sequence[SliceWork]) -> list[Result]:
        tasks = [_task(work) for work in works]
        indexes = {id(task.argument): index for index, task in enumerate(tasks)}
        results: list[Result] = []

        def keep(ended: TaskResult) -> int:
            check: SliceCheck = ended.result
            results.append((indexes[id(ended.task.argument)], check))
            return ended.task.num_bytes

        if not tasks:
            return results
        with current_executor().session(workers=self.workers):
            failed = run_stage(
                STAGE,
                tasks,
                num_done=0,
                on_event=self.on_event,
                max_skipped=len(tasks),
                on_result=keep,
            )
        for ended in failed:
            why = Unchecked(format_failure(ended).strip())
            results.append((indexes[id(ended.task.argument)], why))
        return results


def _num_bytes(work: SliceWork) -> int:
    """Return the bytes of the slice's files, and the estimated bytes of its sources."""
    return work.file_bytes + (work.slice.num_bytes if work.level in {"deep", "masks"} else 0)


def _task(work: SliceWork) -> Task:
    return Task(
        name=f"verify {work.slice.source}/{work.slice.split}/{work.slice.name_for(work.key)}",
        work=check_slice,
        argument=work,
        num_bytes=_num_bytes(work),
        inputs=tuple(file.url for file in work.slice.files) if work.level != "files" else (),
    )
