"""Rounds of a whole job on the local executor, in each of which a worker or the driver is killed.

A driver is killed, or ended by SIGTERM or Ctrl-C, and then started again. Times are drawn and
outputs compared as on a cluster.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.jobs.chaos_cluster import Death, Job, Round, deaths_of, wait_for, write_corpus
from tests.support.disturbed_output import differing, named_temporaries

SINGLE = ("local worker", "local driver", "SIGTERM", "SIGINT")
KINDS = (*SINGLE, "several local")
SIGNALS = {
    "local driver": signal.SIGKILL,
    "SIGTERM": signal.SIGTERM,
    "SIGINT": signal.SIGINT,
}


class LocalDriver:
    """`nanotok prepare --local` in a separate process."""

    def __init__(self, recipe: Path, log: Path) -> None:
        with log.open("a") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.jobs.chaos_prepare", recipe],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                # Like in a terminal, even if this is a background job.
                preexec_fn=lambda: signal.signal(  # noqa: PLW1509 - no locks
                    signal.SIGINT, signal.default_int_handler
                ),
            )

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def workers(self) -> list[int]:
        """Return the PIDs of its worker processes."""
        numbers: list[int] = []
        for children in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with suppress(OSError):
                numbers += map(int, children.read_text().split())
        return [number for number in numbers if self._is_worker(number)]

    @staticmethod
    def _is_worker(number: int) -> bool:
        with suppress(OSError):
            return b"local_worker" in Path(f"/proc/{number}/cmdline").read_bytes()
        return False

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait()

    def wait(self, *, seconds: float) -> int:
        return self.process.wait(seconds)


class LocalJob(Job):
    """One output folder and its drivers."""

    def __init__(self, root: Path, name: str) -> None:
        super().__init__(root, name, None)
        self.path, self.log = root / f"{name}.toml", root / f"{name}.log"

    def start(self) -> LocalDriver:
        return LocalDriver(self.path, self.log)


def local_rounds(root: Path, seeds: Iterator[tuple[str, int]]) -> Iterator[Round]:
    """Run rounds, each with its own workers."""
    write_corpus(root / "in")
    quiet = LocalJob(root, "quiet")
    assert quiet.start().wait(seconds=120) == 0, quiet.log.read_text()
    total = quiet.totals()
    for kind, seed in seeds:
        yield _play(root, quiet, total, kind=kind, seed=seed)


def _play(root: Path, quiet: Job, total: dict[str, int], *, kind: str, seed: int) -> Round:
    start, rng = time.monotonic(), random.Random(f"{kind} {seed}")
    played = Round(kind=kind, seed=seed)
    job = LocalJob(root, f"{kind.replace(' ', '-')}-{seed}")
    drawn = "several" if kind == KINDS[-1] else kind
    _disturb(job, deaths_of(drawn, total, rng, single=SINGLE), rng, played)
    played.submits += 1
    if job.start().wait(seconds=120) != 0:
        played.wrong.append("the last submit failed")
    played.wrong += differing(job.out, quiet.out) + differing(job.work, quiet.work)
    if job.executors() != {"local"}:
        played.wrong.append(f"it ran on {job.executors()}")
    played.wrong += [f"{name} names a temporary file" for name in named_temporaries(job.out)]
    played.seconds = time.monotonic() - start
    if not played.wrong:
        job.remove()
    return played


def _disturb(job: LocalJob, deaths: list[Death], rng: random.Random, played: Round) -> None:
    """Run a job to its end with the drawn deaths."""
    driver = job.start()
    played.submits += 1
    for death in deaths:
        if not wait_for(job, driver, death):
            break
        if death.what in SIGNALS:
            driver.end(SIGNALS[death.what])
            driver = job.start()
            played.submits += 1
        elif not _kill_a_worker(driver, rng):
            break
        played.died.append(str(death))
    if driver.wait(seconds=120) != 0:
        played.failed += 1


def _kill_a_worker(driver: LocalDriver, rng: random.Random) -> bool:
    while not driver.is_over:
        workers = driver.workers()
        if workers:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
                return True
    return False
