"""Verification as a stage: the slices are tasks of the executor in use.

The stage writes nothing. A node that does not see the folder is detected by a record that it cannot
read, not by a probe.
"""

from collections.abc import Sequence

from nanotok_ray.errors import VerificationError
from nanotok_ray.formats import RECORDS
from nanotok_ray.job.events import OnEvent, ignore
from nanotok_ray.job.executor import current_executor
from nanotok_ray.job.stage import TaskRules, format_failure, run_stage
from nanotok_ray.job.task import Task, TaskResult
from nanotok_ray.shards import OutputDepth, Verification, verify_output
from nanotok_ray.shards.check import (
    CheckFailure,
    Result,
    SliceCheck,
    SliceWork,
    check_slice,
)
from nanotok_ray.storage import Folder

STAGE = "verify"


def verify(
    folder: Folder,
    *,
    cpus: int | None = None,
    sample: bool = True,
    deep: bool = False,
    masks: bool = False,
    on_event: OnEvent = ignore,
) -> Verification:
    """Verify a finished output.

    Args:
        folder: the output folder.
        cpus: CPUs to use where the executor starts workers itself; None: all of them.
        sample: compare some documents with their sources.
        deep: read all sources again and compare every document.
        masks: read the sources of conversations and vision documents again, and compare each
            document with the plain reading of its dialect.
        on_event: called with the events of start, progress, notes and end.

    Raises:
        IncompleteOutputError: the manifest does not exist.
        CorruptOutputError: manifest, plan or tokenizer cannot be read.
        VerificationError: `deep` and `masks` are both set.
    """

    def run(works: Sequence[SliceWork]) -> list[Result]:
        return _check(works, cpus=cpus, on_event=on_event)

    if deep and masks:
        raise VerificationError("deep and masks are two ways to compare: pass one of them")
    depth: OutputDepth = "sample" if sample else "files"
    depth = "full" if deep else "masks" if masks else depth
    return verify_output(folder, depth=depth, run=run)


def _check(works: Sequence[SliceWork], *, cpus: int | None, on_event: OnEvent) -> list[Result]:
    """Check slices as tasks; a slice that cannot be checked does not stop the others."""
    tasks = [_task(work) for work in works]
    indexes = {id(task.argument): index for index, task in enumerate(tasks)}
    results: list[Result] = []

    def add(ended: TaskResult) -> int:
        check: SliceCheck = ended.result
        results.append((indexes[id(ended.task.argument)], check))
        return ended.task.num_bytes

    if not tasks:
        return results
    with current_executor().session(cpus=cpus):
        failed = run_stage(
            STAGE,
            tasks,
            num_done=0,
            on_event=on_event,
            rules=TaskRules(on_result=add, max_skipped=len(tasks)),
        )
    for ended in failed:
        why = CheckFailure(format_failure(ended).strip())
        results.append((indexes[id(ended.task.argument)], why))
    return results


def _num_bytes(work: SliceWork) -> int:
    """Return the bytes of the slice's files, and the estimated bytes of its sources."""
    return work.file_bytes + (work.slice.num_bytes if work.depth == "full" else 0)


def _task(work: SliceWork) -> Task:
    name = work.record_name.removeprefix(RECORDS).removesuffix(".json")
    return Task(
        name=f"verify {name}",
        work=check_slice,
        argument=work,
        num_bytes=_num_bytes(work),
        inputs=tuple(file.url for file in work.slice.files) if work.depth is not None else (),
    )
