"""Rounds of a whole job on the local executor, in each of which a worker or the driver is killed.

A driver is killed, or ended by SIGTERM or Ctrl-C, and then started again. Times are drawn and
outputs compared as on a cluster. `python -m tests.jobs.chaos_local RECIPE` is such a driver:
`nanotok prepare --local` with small tasks.
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nanotok_ray.cli import main
from tests.jobs.chaos_cluster import Job, Round, make_tasks_small, play, write_corpus

SIGNALS = {
    "local driver": signal.SIGKILL,
    "SIGTERM": signal.SIGTERM,
    "SIGINT": signal.SIGINT,
}
SINGLE = ("local worker", *SIGNALS)
KINDS = (*SINGLE, "several local")


class LocalDriver:
    """A driver in a separate process."""

    def __init__(self, recipe: Path, log: Path) -> None:
        with log.open("a") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.jobs.chaos_local", recipe],
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

    def wait(self, *, seconds: float) -> int:
        return self.process.wait(seconds)


class LocalJob(Job):
    """A job whose drivers run here, on the local executor."""

    executor, single, ends = "local", SINGLE, SIGNALS
    seconds = 120

    def start(self) -> LocalDriver:
        return LocalDriver(self.recipe, self.log)

    def kill(self, driver: LocalDriver, what: str, rng: random.Random) -> bool:
        if what in SIGNALS:
            driver.process.send_signal(SIGNALS[what])
            driver.process.wait()
            return True
        while not driver.is_over:
            workers = driver.workers()
            if workers:
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(workers), signal.SIGKILL)
                    return True
        return False


def local_rounds(root: Path, seeds: Iterator[tuple[str, int]]) -> Iterator[Round]:
    """Run rounds, each with its own workers."""
    write_corpus(root / "in")
    quiet = LocalJob(root, "quiet")
    assert quiet.start().wait(seconds=120) == 0, quiet.log.read_text()
    total = quiet.totals()
    for kind, seed in seeds:
        job = LocalJob(root, f"{kind.replace(' ', '-')}-{seed}")
        yield play(job, quiet, total, kind=kind, seed=seed)


if __name__ == "__main__":
    make_tasks_small()
    sys.exit(main(["prepare", *sys.argv[1:], "--local", "--cpus", "2"]))
