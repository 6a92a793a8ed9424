"""Verification as a stage: the slices are tasks of the executor in use.

The stage writes nothing. A node that does not see the folder is detected by a record that it cannot
read, not by a probe.
"""

from collections.abc import Sequence

from nanotok_ray.errors import VerificationError
from nanotok_ray.formats import RECORDS
from nanotok_ray.job.executor import Runtime
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
    runtime: Runtime,
    *,
    sample: bool = True,
    deep: bool = False,
    masks: bool = False,
) -> Verification:
    """Verify a finished output.

    Args:
        folder: the output folder.
        runtime: the executor and the listener.
        sample: compare some documents with their sources.
        deep: read all sources again and compare every document.
        masks: read the sources of conversations and vision documents again, and compare each
            document with the plain reading of its dialect.

    Raises:
        IncompleteOutputError: the manifest does not exist.
        CorruptOutputError: manifest, plan or tokenizer cannot be read.
        VerificationError: `deep` and `masks` are both set.
    """

    def run(items: Sequence[SliceWork]) -> list[Result]:
        return _check(items, runtime)

    if deep and masks:
        raise VerificationError("deep and masks are two ways to compare: pass one of them")
    depth: OutputDepth = "sample" if sample else "files"
    depth = "full" if deep else "masks" if masks else depth
    return verify_output(folder, depth=depth, run=run)


def _check(items: Sequence[SliceWork], runtime: Runtime) -> list[Result]:
    """Check slices as tasks; a slice that cannot be checked does not stop the others."""
    tasks = [_task(work) for work in items]
    indexes = {id(task.argument): index for index, task in enumerate(tasks)}
    results: list[Result] = []

    def add(ended: TaskResult) -> int:
        check: SliceCheck = ended.result
        results.append((indexes[id(ended.task.argument)], check))
        return ended.task.num_bytes

    if not tasks:
        return results
    rules = TaskRules(on_result=add, max_skipped=len(tasks))
    with runtime.session():
        failed = run_stage(STAGE, tasks, runtime, num_done=0, rules=rules)
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
