"""Rounds of a whole job on Ray with files on an S3 that fails, or stalls for a while.

The failures, their frequency and their times are drawn from the round's seed; a time is a number
of requests. Then the job is submitted once more, undisturbed, and its objects are compared with
those of an undisturbed job.
"""

import hashlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec.config

from nanotok_ray.api import prepare
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.errors import NanotokError
from nanotok_ray.recipe import Recipe, parse_recipe
from nanotok_ray.storage import Folder
from tests.jobs.chaos_cluster import LAYOUTS, MAX_DEATHS, Round, make_tasks_small
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.fleet import kill_a_worker
from tests.support.s3_server import BUCKET, s3_behind_a_proxy
from tests.support.small_corpus import RECIPE, write_corpus

SLICE_BYTES = 8_000

FAULTS = {
    "reset": (Fault.RESET, Fault.RESET_AFTER),
    "stall": (Fault.STALL,),
    "503": (Fault.SLOW_DOWN, Fault.INTERNAL_ERROR, Fault.THROTTLED),
    "truncated": (Fault.TRUNCATE, Fault.INCOMPLETE_BODY),
    "paused": (),
    "all of S3": (
        *(Fault.RESET, Fault.SLOW_DOWN, Fault.RESET_AFTER, Fault.TRUNCATE, Fault.INTERNAL_ERROR),
        *(Fault.STALL, Fault.INCOMPLETE_BODY, Fault.THROTTLED),
    ),
}
FAULTS["S3 and workers"] = FAULTS["all of S3"]
KINDS = tuple(FAULTS)
PERIODS = {"stall": (150, 400), "all of S3": (40, 120), "S3 and workers": (40, 120)}
"""Minimum and maximum number of requests between failures; a stall takes at least a second."""
METHODS = {Fault.TRUNCATE: "GET", Fault.INCOMPLETE_BODY: "PUT"}
"""The only requests that can have these faults: those whose answer, or which, have a body."""

CLIENT = {"config_kwargs": {"connect_timeout": 2, "read_timeout": 1}}


def s3_rounds(
    root: Path, seeds: Iterator[tuple[str, int]], *, server: str = "moto"
) -> Iterator[Round]:
    """Run rounds against one server, moto or s3s, on one local Ray."""
    os.environ["FSSPEC_S3"] = json.dumps(CLIENT)  # for the workers
    fsspec.config.conf["s3"] = CLIENT
    make_tasks_small()
    write_corpus(root / "in")
    with s3_behind_a_proxy(server) as proxy, ray_session(cpus=2):
        bucket = Folder(f"s3://{BUCKET}/chaos")
        for path in (root / "in").rglob("*.*"):
            bucket.write_bytes(f"in/{path.relative_to(root / 'in')}", path.read_bytes())
        proxy.clear()
        prepare(_recipe(bucket, "quiet"))
        requests, quiet = len(proxy.requests), objects(bucket, "quiet")
        assert any(name.startswith("-work/reduced/") for name in quiet), "no sum by tasks"
        for kind, seed in seeds:
            yield _play(bucket, proxy, quiet, requests, kind=kind, seed=seed)


def _recipe(bucket: Folder, name: str) -> Recipe:
    text = RECIPE.format(root=f"{bucket.url}/in", out=f"{bucket.url}/{name}")
    layouts = f"output.layouts={json.dumps(LAYOUTS)}"
    return parse_recipe(text.replace("3000", str(SLICE_BYTES)), overrides=[layouts])


def objects(bucket: Folder, name: str) -> dict[str, str]:
    """Return the sha256 of every object of an output and its counts, except run/ and probes."""
    return {
        each[len(name) :]: hashlib.sha256(bucket.read_bytes(each)).hexdigest()
        for each in bucket.list(name)
        if not each.startswith((f"{name}/run/", f"{name}-work/probe/"))
    }


def _play(
    bucket: Folder,
    proxy: FaultyProxy,
    quiet: dict[str, str],
    requests: int,
    *,
    kind: str,
    seed: int,
) -> Round:
    start, rng = time.monotonic(), random.Random(f"{kind} {seed}")
    played, name = Round(kind=kind, seed=seed), f"{kind.replace(' ', '-')}-{seed}"
    proxy.clear()
    if FAULTS[kind]:
        _arrange(proxy, FAULTS[kind], PERIODS.get(kind, (30, 90)), rng)
    moment, seconds = rng.randrange(requests), rng.uniform(0.5, 4.0)
    if kind == "S3 and workers":
        with worker_deaths(proxy, requests, rng) as reported:
            _submit(bucket, name, played)
        played.died += reported
    elif kind in {"paused", "all of S3"}:
        with paused(proxy, at=moment, seconds=seconds) as reported:
            _submit(bucket, name, played)
        played.died += reported
    else:
        _submit(bucket, name, played)
    faults = proxy.faults
    played.died += [f"{faults.count(each)} {each.name}" for each in dict.fromkeys(faults)]
    proxy.clear()
    if not _submit(bucket, name, played):
        played.wrong.append("the last submit failed")
    found = objects(bucket, name)
    played.wrong += sorted(
        each for each in found.keys() | quiet.keys() if found.get(each) != quiet.get(each)
    )
    played.seconds = time.monotonic() - start
    return played


def _submit(bucket: Folder, name: str, played: Round) -> bool:
    played.submits += 1
    try:
        prepare(_recipe(bucket, name))
    except (NanotokError, OSError) as error:
        played.failed += 1
        played.died.append(f"submit {played.submits} failed: {str(error)[:300]}")
        return False
    return True


def _arrange(
    proxy: FaultyProxy, faults: tuple[Fault, ...], periods: tuple[int, int], rng: random.Random
) -> None:
    order = rng.sample(faults, len(faults))
    for fault in order:
        method = METHODS.get(fault)
        proxy.fail_always(fault, method=method, period=rng.randint(*periods) * len(order) // 2 + 1)


@contextmanager
def beside(work: Callable[[], None], over: threading.Event) -> Iterator[None]:
    """Run `work` in a thread beside the body, and set `over` when the body ends."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def paused(proxy: FaultyProxy, *, at: int, seconds: float) -> Iterator[list[str]]:
    """Stall the server for a while after a number of requests; record it."""
    over, reported = threading.Event(), []

    def pause() -> None:
        while len(proxy.requests) < at:
            if over.wait(0.001):
                return
        os.kill(proxy.server_pid, signal.SIGSTOP)
        try:
            over.wait(seconds)
        finally:
            os.kill(proxy.server_pid, signal.SIGCONT)
        reported.append(f"paused for {seconds:.1f} s at request {at}")

    with beside(pause, over):
        yield reported


@contextmanager
def worker_deaths(proxy: FaultyProxy, requests: int, rng: random.Random) -> Iterator[list[str]]:
    """Kill one to four workers during the body, after given numbers of requests."""
    over, reported = threading.Event(), []
    moments = sorted(rng.randrange(requests) for _ in range(rng.randint(1, MAX_DEATHS)))

    def kill() -> None:
        for moment in moments:
            while len(proxy.requests) < moment or not kill_a_worker(rng):
                if over.wait(0.001):
                    return
            reported.append(f"worker at request {moment}")

    with beside(kill, over):
        yield reported
