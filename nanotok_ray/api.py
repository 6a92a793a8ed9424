"""The jobs as functions. Each function chooses the executor and writes the report page.

An executor is "ray", "local" (worker processes of this machine; Ray is never imported) or an
object. By default jobs run on Ray: on the open session, on the cluster of `address` or
RAY_ADDRESS, or on a local Ray instance that is started and stopped for the job. Verification and
export run in threads of this process by default.
"""

import os
from typing import Literal

from nanotok_ray.errors import RecipeError
from nanotok_ray.exports import Layout, parse_layout
from nanotok_ray.formats import Export
from nanotok_ray.job import exporting, verifying
from nanotok_ray.job.events import OnEvent, ignore
from nanotok_ray.job.executor import Executor, Runtime
from nanotok_ray.job.exporting import ExportResult
from nanotok_ray.job.job_plan import JobPlan
from nanotok_ray.job.local import LocalExecutor
from nanotok_ray.job.pipeline import Start, run_job
from nanotok_ray.job.planning import plan_job
from nanotok_ray.job.summary import Summary
from nanotok_ray.recipe import Recipe
from nanotok_ray.report.page import write_report
from nanotok_ray.shards import Verification
from nanotok_ray.storage import Folder

ExecutorName = Literal["ray", "local"]


Location = str | os.PathLike[str] | Folder
"""A folder: a path, a URL that fsspec can open, or a `Folder`."""


def plan(
    recipe: Recipe,
    *,
    cpus: int | None = None,
    rate: float | None = None,
    resplit: bool = False,
    relearn: bool = False,
    on_event: OnEvent = ignore,
) -> JobPlan:
    """Decide what `prepare` would do, estimate how long it takes, and freeze the splits.

    No task runs, and only plan.json is written, besides a probe on a remote store, which is
    removed. Files that are added later belong to train.

    Args:
        recipe: The recipe.
        cpus: The number of CPUs to estimate for; None: the CPUs of this machine.
        rate: The megabytes of text per second that one CPU counts or tokenizes; None: the rate of
            the last run of this output, or a measured rate if there was no run.
        resplit: As in `prepare`.
        relearn: As in `prepare`.
        on_event: As in `prepare`.

    Returns:
        The plan; `text()` is for people, `values` is JSON-able.

    Raises:
        NanotokError: `prepare` would raise this error before it starts; no splits are frozen then.
    """
    return plan_job(
        recipe, cpus=cpus, rate=rate, resplit=resplit, relearn=relearn, on_event=on_event
    )


def prepare(
    recipe: Recipe,
    *,
    executor: Executor | ExecutorName | None = None,
    address: str | None = None,
    cpus: int | None = None,
    resplit: bool = False,
    relearn: bool = False,
    on_event: OnEvent = ignore,
) -> Summary:
    """Learn the tokenizer if the output has none, then tokenize the corpus.

    A tokenizer that was learned by the same rules is kept when inputs are added, changed or
    removed, so that the shards of all other inputs are kept too.

    Args:
        recipe: The recipe; see `load_recipe`.
        executor: What runs the tasks: "ray", "local" or an executor; None: Ray.
        address: HOST:PORT of the head of a Ray cluster; None: RAY_ADDRESS, else a local Ray.
        cpus: The CPUs to use on this machine; None: all of them. Ignored on a running cluster.
        resplit: Assign train and val again instead of keeping the splits of an earlier plan.
        relearn: Learn the tokenizer from the current inputs even if the output has a tokenizer.
        on_event: Called with the events of the stages; see `nanotok_ray.job.events`.

    Raises:
        NanotokError: The job failed, with a class of `nanotok_ray.errors`; nothing is published,
            and finished work is kept.
    """
    runtime = Runtime(_executor(executor, address), cpus, on_event)
    start = Start("prepare", resplit=resplit, relearn=relearn)
    return run_job(recipe, start, runtime, write_page=write_report)


def train(
    recipe: Recipe,
    *,
    executor: Executor | ExecutorName | None = None,
    address: str | None = None,
    cpus: int | None = None,
    resplit: bool = False,
    on_event: OnEvent = ignore,
) -> Summary:
    """Learn the tokenizer without tokenizing. Arguments and errors are those of `prepare`."""
    runtime = Runtime(_executor(executor, address), cpus, on_event)
    return run_job(recipe, Start("train", resplit=resplit), runtime, write_page=write_report)


def tokenize(
    recipe: Recipe,
    *,
    executor: Executor | ExecutorName | None = None,
    address: str | None = None,
    cpus: int | None = None,
    resplit: bool = False,
    on_event: OnEvent = ignore,
) -> Summary:
    """Tokenize the corpus with `tokenizer.path` of the recipe, else with the output's tokenizer.

    Arguments and errors are those of `prepare`.
    """
    runtime = Runtime(_executor(executor, address), cpus, on_event)
    return run_job(recipe, Start("tokenize", resplit=resplit), runtime, write_page=write_report)


def export(
    output: Location,
    layout: Layout | str,
    *,
    folder: Location | None = None,
    executor: Executor | ExecutorName | None = None,
    address: str | None = None,
    cpus: int | None = None,
    on_event: OnEvent = ignore,
) -> ExportResult:
    """Write a finished output in the layout of another trainer; see `exporting.export`.

    Args:
        output: The output folder.
        layout: The layout, or its name with options: "megatron", "mds:size_limit=64MiB".
        folder: The target; None: `export/NAME` in the output.
        executor: As in `prepare`; None: threads of this process, but Ray with `address` or `cpus`.
        address: As in `prepare`.
        cpus: As in `prepare`.
        on_event: As in `prepare`.

    Raises:
        NanotokError: A class of `nanotok_ray.errors`.
    """
    runtime = Runtime(_executor(executor, address, in_threads=cpus is None), cpus, on_event)
    return exporting.export(
        _folder(output),
        parse_layout(layout) if isinstance(layout, str) else layout,
        runtime,
        folder=None if folder is None else _folder(folder),
    )


def verify(
    output: Location,
    *,
    executor: Executor | ExecutorName | None = None,
    address: str | None = None,
    cpus: int | None = None,
    sample: bool = True,
    deep: bool = False,
    masks: bool = False,
    run_code: bool = False,
    on_event: OnEvent = ignore,
) -> Verification:
    """Verify a finished output: manifest, records, every file, and a sample of the documents.

    Args:
        output: The output folder.
        executor: As in `export`.
        address: As in `prepare`.
        cpus: As in `prepare`.
        sample: Compare some documents with their sources.
        deep: Read all sources again and compare every document.
        masks: Read the sources of conversations and vision documents again, and compare every one
            with the plain reading of its dialect.
        run_code: Run the functions of sources, whose code the plan of the output has. Without it,
            such sources are not compared, and the verification does not pass.
        on_event: As in `prepare`.

    Returns:
        The checks; `passed` says whether the output is correct, `problems` lists what is wrong.

    Raises:
        NanotokError: A class of `nanotok_ray.errors`; the output cannot be verified at all.
    """
    runtime = Runtime(_executor(executor, address, in_threads=cpus is None), cpus, on_event)
    return verifying.verify(
        _folder(output), runtime, sample=sample, deep=deep, masks=masks, run_code=run_code
    )


def verify_export(
    folder: Folder, out: Folder, *, cpus: int | None = None, on_event: OnEvent = ignore
) -> tuple[Export, list[str]]:
    """Compare an export with its output, in threads; see `exporting.verify_export`.

    Raises:
        NanotokError: A class of `nanotok_ray.errors`.
    """
    runtime = Runtime(LocalExecutor(in_threads=True), cpus, on_event)
    return exporting.verify_export(folder, out, runtime)


def _folder(location: Location) -> Folder:
    return location if isinstance(location, Folder) else Folder(os.fspath(location))


def _executor(
    executor: Executor | str | None, address: str | None, *, in_threads: bool = False
) -> Executor:
    """Return the chosen executor, else threads of this process if `in_threads` is set, else Ray.

    Raises:
        RecipeError: No executor has this name, or the executor does not accept an address.
    """
    if isinstance(executor, Executor):
        return executor
    if executor not in {None, "ray", "local"}:
        raise RecipeError(f'executor is {executor!r}; choose "ray", "local" or an Executor')
    if executor == "local":
        if address is not None:
            raise RecipeError(f'address {address!r} is for Ray, and executor is "local"; drop one')
        return LocalExecutor()
    if executor is None and address is None and in_threads:
        return LocalExecutor(in_threads=True)
    from nanotok_ray.cluster.ray_executor import RayExecutor  # noqa: PLC0415 - where it is used

    return RayExecutor(address=address)
