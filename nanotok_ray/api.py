"""The jobs as functions: each chooses the executor, and attaches the report page.

Without an executor, tasks run on the one that `use_executor` has set, else on Ray: on the session
that is open, on the cluster of RAY_ADDRESS, or on a local one that is started and ended.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from nanotok_ray.cluster.ray_executor import RayExecutor
from nanotok_ray.export import Layout
from nanotok_ray.job import exporting, job, verifying
from nanotok_ray.job.events import OnEvent, ignore
from nanotok_ray.job.executor import Executor, executor_in_use, use_executor
from nanotok_ray.job.exporting import ExportResult
from nanotok_ray.job.summary import Summary
from nanotok_ray.recipe import Recipe
from nanotok_ray.report import write_report
from nanotok_ray.shards.verify import Verification
from nanotok_ray.storage import Folder


def prepare(
    recipe: Recipe,
    *,
    workers: int | None = None,
    resplit: bool = False,
    relearn: bool = False,
    on_event: OnEvent = ignore,
    executor: Executor | None = None,
) -> Summary:
    """Learn the tokenizer if it is not learned yet, then tokenize the corpus; see `job.prepare`.

    Raises:
        NanotokError: A class of `nanotok_ray.errors`.
    """
    with _using(executor):
        return job.prepare(
            recipe,
            workers=workers,
            resplit=resplit,
            relearn=relearn,
            on_event=on_event,
            write_page=write_report,
        )


def train_tokenizer(
    recipe: Recipe,
    *,
    workers: int | None = None,
    resplit: bool = False,
    on_event: OnEvent = ignore,
    executor: Executor | None = None,
) -> Summary:
    """Learn the tokenizer and stop there; see `job.train_tokenizer`.

    Raises:
        NanotokError: A class of `nanotok_ray.errors`.
    """
    with _using(executor):
        return job.train_tokenizer(
            recipe, workers=workers, resplit=resplit, on_event=on_event, write_page=write_report
        )


def tokenize_corpus(
    recipe: Recipe,
    *,
    workers: int | None = None,
    resplit: bool = False,
    on_event: OnEvent = ignore,
    executor: Executor | None = None,
) -> Summary:
    """Tokenize the corpus with the tokenizer that is there; see `job.tokenize_corpus`.

    Raises:
        NanotokError: A class of `nanotok_ray.errors`.
    """
    with _using(executor):
        return job.tokenize_corpus(
            recipe, workers=workers, resplit=resplit, on_event=on_event, write_page=write_report
        )


def export(
    out: Folder,
    layout: Layout,
    *,
    folder: Folder | None = None,
    workers: int | None = None,
    on_event: OnEvent = ignore,
    executor: Executor | None = None,
) -> ExportResult:
    """Write a finished output in the layout of another trainer; see `exporting.export`.

    Raises:
        NanotokError: A class of `nanotok_ray.errors`.
    """
    with _using(executor):
        return exporting.export(out, layout, folder=folder, workers=workers, on_event=on_event)


def verify(
    folder: Folder,
    *,
    workers: int | None = None,
    sample: bool = True,
    deep: bool = False,
    masks: bool = False,
    on_event: OnEvent = ignore,
    executor: Executor | None = None,
) -> Verification:
    """Verify a finished output, in this process or as tasks; see `verifying.verify`.

    Raises:
        NanotokError: A class of `nanotok_ray.errors`.
    """
    with _using(executor):
        return verifying.verify(
            folder, workers=workers, sample=sample, deep=deep, masks=masks, on_event=on_event
        )


@contextmanager
def _using(executor: Executor | None) -> Iterator[None]:
    """Use an executor; None: the one in use, else Ray."""
    if executor is None and executor_in_use() is not None:
        yield
        return
    with use_executor(executor or RayExecutor()):
        yield
