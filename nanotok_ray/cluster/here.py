"""Work on many values in threads of this process, told as a stage. Does not know what it is."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from nanotok_ray.cluster.events import Advanced, OnEvent, StageEnded, StageStarted
from nanotok_ray.counts.patterns import default_threads

A = TypeVar("A")
R = TypeVar("R")


def run_here(
    stage: str,
    work: Callable[[A], R],
    arguments: Sequence[A],
    *,
    sizes: Sequence[int],
    kept: int,
    on_event: OnEvent,
) -> Iterator[R]:
    """Give the result for each argument in order; the first error ends it all.

    Args:
        stage: its name, for people.
        work: called in threads.
        arguments: one for each call.
        sizes: bytes that each stands for.
        kept: how many were done already.
        on_event: told of start, progress and end.
    """
    start, done_bytes = time.perf_counter(), 0
    on_event(StageStarted(stage=stage, todo=len(sizes), kept=kept, num_bytes=sum(sizes)))
    for done, (result, size) in enumerate(
        zip(_in_threads(work, arguments), sizes, strict=True), start=1
    ):
        done_bytes += size
        on_event(Advanced(stage=stage, done=done, todo=len(sizes), num_bytes=done_bytes))
        yield result
    on_event(StageEnded(stage=stage, seconds=time.perf_counter() - start, num_bytes=done_bytes))


def _in_threads(work: Callable[[A], R], arguments: Sequence[A]) -> Iterator[R]:
    with ThreadPoolExecutor(max_workers=default_threads()) as pool:
        try:
            yield from pool.map(work, arguments)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
