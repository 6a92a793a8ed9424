"""Rounds of a whole job on three nodes, in each of which workers, nodes or drivers die.

The deaths and their times are drawn from the round's seed: a time is a number of files (including
temporary ones) that a stage has written, so that it can be anywhere between two records. Then the
job is submitted once more, and the result is compared with that of an undisturbed job.
"""

import json
import os
import random
import shutil
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nanotok_ray.job import ordering, reducing
from tests.support.disturbed_output import differing, named_temporaries
from tests.support.fleet import Driver, Fleet, fleet, kill_a_worker
from tests.support.small_corpus import (
    RECIPE,
    conversations,
    texts,
    write_conversations,
    write_parquet,
)

NODES = 3
KINDS = ("worker", "node", "driver", "several")
SINGLE = KINDS[:3]
MAX_DEATHS = 4
SLICE_BYTES = 25_000
STAGES = ("count", "reduce", "tokenize", "export")
LAYOUTS = [
    "raw",
    "llmc:shuffle=7",
    "parquet:weights=web=0.6+chats=0.4,tokens=50K,shuffle=7",
]


def make_tasks_small() -> None:
    """Let sums and orders of small corpora have several tasks, in the driver of a job."""
    reducing.PART_BYTES = ordering.SECTION_BYTES = ordering.SCATTER_BYTES = 16 << 10


@dataclass(frozen=True, kw_only=True)
class Death:
    """What dies, and the number of files of a stage at that time."""

    what: str
    stage: str
    files: int

    def __str__(self) -> str:
        return f"{self.what} at {self.stage} {self.files}"


@dataclass(kw_only=True)
class Round:
    """The result of one round."""

    kind: str
    seed: int
    died: list[str] = field(default_factory=list)
    submits: int = 0
    failed: int = 0
    """Submissions that ended with an error, or hung."""
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    """Differences from the undisturbed run."""


def write_corpus(root: Path) -> None:
    """Write four files of text and three of chats: about 35 slices in both stages."""
    for number in range(4):
        path = root / f"text/shard_{number:05d}.parquet"
        write_parquet(path, texts(500, seed=number), row_group_size=50)
    for number in range(3):
        write_conversations(root / f"chats/{number}.jsonl", conversations(150, seed=number))


def cluster_rounds(root: Path, seeds: Iterator[tuple[str, int]]) -> Iterator[Round]:
    """Run rounds on one cluster, which is repaired between them."""
    write_corpus(root / "in")
    with fleet(NODES) as nodes:
        quiet = ClusterJob(root, "quiet", nodes)
        quiet.start().finish()
        total = quiet.totals()
        for kind, seed in seeds:
            job = ClusterJob(root, f"{kind}-{seed}", nodes)
            yield play(job, quiet, total, kind=kind, seed=seed)


EDITS = """
from nanotok_ray.filters import drop, per_document

@per_document
def edit(document):
    if isinstance(document, str):
        return drop("long") if len(document) > 300 else document.split("\\n\\n    ")
    return document
"""
"""A function for both sources, as `transform = "edits:edit"`."""


class Job:
    """One output folder and its drivers."""

    executor: str
    single: Sequence[str]
    """What can die."""
    ends: Container[str]
    """What ends the driver, so that the job is submitted again."""
    seconds = 60
    tokenizer = "vocab_size = 350"
    """The lines of the recipe's table `tokenizer`."""
    source = ""
    """Further lines of each source."""
    texts = ""
    """Further lines of the source of texts."""

    def __init__(self, root: Path, name: str) -> None:
        self.out, self.work = root / name, root / f"{name}-work"
        self.recipe, self.log = root / f"{name}.toml", root / f"{name}.log"
        text = RECIPE.format(root=root / "in", out=self.out)
        text = text.replace("vocab_size = 350", self.tokenizer)
        text = text.replace("\npaths = ", f"\n{self.source}\npaths = ")
        text = text.replace('kind = "text"\n', f'kind = "text"\n{self.texts}\n')
        text = text.replace("[output]\n", f"[output]\nlayouts = {json.dumps(LAYOUTS)}\n")
        (root / "edits.py").write_text(EDITS)
        self.recipe.write_text(text.replace("3000", str(SLICE_BYTES)))

    def start(self) -> Any:
        """Start a driver."""
        raise NotImplementedError

    def kill(self, driver: Any, what: str, rng: random.Random) -> bool:
        """Let something die; return False if it cannot."""
        raise NotImplementedError

    def repair(self) -> None:
        """Replace what has died, before the last submission."""

    def executors(self) -> set[str]:
        """Return the names of the executors that ran it, according to its journals."""
        heads = self.out.glob("run/journal/*-000000.jsonl")
        return {json.loads(head.read_text().partition("\n")[0])["executor"] for head in heads}

    def num_files(self, stage: str) -> int:
        """Return the number of files of a stage, including incomplete ones."""
        folders = {
            "count": [self.work / "counts"],
            "reduce": [self.work / "reduced"],
            "tokenize": [
                self.out / name for name in ("web", "chats", "records/tokenize", "quarantine")
            ],
            "export": [self.out / "export"],
        }[stage]
        return sum(len(names) for folder in folders for _, _, names in os.walk(folder))

    def totals(self) -> dict[str, int]:
        """Return the number of files of each stage; every stage has some."""
        total = {stage: self.num_files(stage) for stage in STAGES}
        assert all(total.values()), total
        return total

    def remove(self) -> None:
        for path in (self.out, self.work):
            shutil.rmtree(path)
        for path in (self.recipe, self.log):
            path.unlink()


class ClusterJob(Job):
    """A job whose drivers run on a cluster."""

    executor, single, ends = "ray", SINGLE, ("driver",)

    def __init__(self, root: Path, name: str, nodes: Fleet) -> None:
        super().__init__(root, name)
        self._nodes = nodes

    def start(self) -> Driver:
        address = self._nodes.address
        return Driver(self.recipe, address=address, log=self.log, before=make_tasks_small)

    def kill(self, driver: Driver, what: str, rng: random.Random) -> bool:
        if what == "driver":
            driver.kill()
        elif what == "node":
            return self._nodes.remove_node(rng)
        else:
            while not kill_a_worker(rng):
                if driver.is_over:
                    return False
        return True

    def repair(self) -> None:
        self._nodes.fill_up()


def play(job: Job, quiet: Job, total: dict[str, int], *, kind: str, seed: int) -> Round:
    """Run a job with deaths, then once more; compare it with the undisturbed one."""
    start, rng = time.monotonic(), random.Random(f"{kind} {seed}")
    played = Round(kind=kind, seed=seed)
    _disturb(job, deaths_of(kind, total, rng, single=job.single), rng, played)
    job.repair()
    played.submits += 1
    if job.start().wait(seconds=job.seconds) != 0:
        played.wrong.append("the last submit failed")
    played.wrong += differing(job.out, quiet.out) + differing(job.work, quiet.work)
    if job.executors() != {job.executor}:
        played.wrong.append(f"it ran on {job.executors()}")
    played.wrong += [f"{name} names a temporary file" for name in named_temporaries(job.out)]
    played.seconds = time.monotonic() - start
    if not played.wrong:
        job.remove()
    return played


def deaths_of(
    kind: str, total: dict[str, int], rng: random.Random, *, single: Sequence[str]
) -> list[Death]:
    """Draw the deaths of a round in the order of their times; each of several has a single kind."""
    several = kind not in single
    deaths = []
    for _ in range(rng.randint(2, MAX_DEATHS) if several else 1):
        stage = rng.choice(STAGES)
        what = rng.choice(single) if several else kind
        deaths.append(Death(what=what, stage=stage, files=rng.randrange(total[stage])))
    return sorted(deaths, key=lambda death: (death.stage, death.files))


def _disturb(job: Job, deaths: list[Death], rng: random.Random, played: Round) -> None:
    """Run a job to its end with the drawn deaths."""
    driver = job.start()
    played.submits += 1
    for death in deaths:
        if not _wait_for(job, driver, death):
            break
        if not job.kill(driver, death.what, rng):
            continue
        if death.what in job.ends:
            driver = job.start()
            played.submits += 1
        played.died.append(str(death))
    if driver.wait(seconds=job.seconds) != 0:
        played.failed += 1


def _wait_for(job: Job, driver: Any, death: Death) -> bool:
    """Wait for a time; return False if the driver ended before it."""
    while not driver.is_over and job.num_files(death.stage) < death.files:
        time.sleep(0.001)
    return not driver.is_over
