"""Verification as a stage: the slices are tasks of the executor in use.

The stage writes nothing. A node that does not see the folder is detected by a record that it cannot
read, not by a probe.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from nanotok_ray.errors import VerificationError
from nanotok_ray.formats import RECORDS
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.stage import format_failure, run_checks
from nanotok_ray.job.task import Task
from nanotok_ray.shards import OutputDepth, Verification, verify_output
from nanotok_ray.shards.check import (
    CheckFailure,
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
    run_code: bool = False,
) -> Verification:
    """Verify a finished output.

    Args:
        folder: the output folder.
        runtime: the executor and the listener.
        sample: compare some documents with their sources.
        deep: read all sources again and compare every document.
        masks: read the sources of conversations and vision documents again, and compare each
            document with the plain reading of its dialect.
        run_code: run the functions of sources, whose code the plan of the output has.

    Raises:
        IncompleteOutputError: the manifest does not exist.
        CorruptOutputError: manifest, plan or tokenizer cannot be read.
        VerificationError: `deep` and `masks` are both set.
    """
    if deep and masks:
        raise VerificationError("deep and masks are two ways to compare: pass one of them")
    depth: OutputDepth = "sample" if sample else "files"
    depth = "full" if deep else "masks" if masks else depth
    return verify_output(folder, depth=depth, run=partial(_check, runtime), run_code=run_code)


def _check(runtime: Runtime, items: Sequence[SliceWork]) -> Iterator[SliceCheck | CheckFailure]:
    """Check slices as tasks; a slice that cannot be checked does not stop the others."""
    if not items:
        return
    tasks = [_task(work) for work in items]
    with runtime.session():
        results = run_checks(STAGE, tasks, runtime, max_skipped=len(tasks))
    for ended in results:
        if ended.error is None:
            yield ended.result
        else:
            yield CheckFailure(format_failure(ended).strip())


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
