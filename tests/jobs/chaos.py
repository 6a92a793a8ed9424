"""Run whole jobs while processes die at random moments, from recorded seeds.

    python -m tests.jobs.chaos [--rounds N] [--seed S] [--kind KIND] [--log FILE]
        [--tokenizer LINES] [--source LINES] [--texts LINES]

A round is a job (count, learn, tokenize texts and chats), its disturbances, and one more
submission; then every byte of the output must equal that of an undisturbed job. A line is printed
for each round and appended to the log as JSON. The folder of a round with differences is kept, and
the exit code is then 1.
"""

import argparse
import itertools
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import tests.support.ray_environment  # noqa: F401 - Ray reads it when it is imported
from tests.jobs import chaos_cluster, chaos_local, chaos_s3
from tests.jobs.chaos_cluster import Round, cluster_rounds
from tests.jobs.chaos_local import local_rounds
from tests.jobs.chaos_s3 import s3_rounds

PLAYED = {
    "cluster": (cluster_rounds, chaos_cluster.KINDS),
    "s3": (s3_rounds, chaos_s3.KINDS),
    "s3s": (partial(s3_rounds, server="s3s"), chaos_s3.KINDS),
    "local": (local_rounds, chaos_local.KINDS),
}


def main() -> int:
    """Run the rounds of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; then the next")
    parser.add_argument("--kind", choices=[*PLAYED, "all"], default="all")
    default = Path(tempfile.gettempdir()) / "nanotok-chaos.jsonl"
    parser.add_argument("--log", type=Path, default=default, help=f"default: {default}")
    parser.add_argument("--tokenizer", help="lines of its table in the recipe, with \\n between")
    parser.add_argument("--source", help="further lines of each source, with \\n between")
    parser.add_argument("--texts", help="further lines of the source of texts, likewise")
    options = parser.parse_args()
    if options.source is not None:
        chaos_cluster.Job.source = options.source.replace("\\n", "\n")
    if options.texts is not None:
        chaos_cluster.Job.texts = options.texts.replace("\\n", "\n")
    if options.tokenizer is not None:
        chaos_cluster.Job.tokenizer = options.tokenizer.replace("\\n", "\n")
    is_equal = True
    for kind in PLAYED if options.kind == "all" else [options.kind]:
        for played in _play(kind, options.rounds, options.seed):
            is_equal &= not played.wrong
            print(_line(played), flush=True)  # noqa: T201 - what it is run for
            with options.log.open("a") as log:
                log.write(f"{json.dumps(asdict(played))}\n")
    return int(not is_equal)


def _play(kind: str, rounds: int, seed: int) -> Iterator[Round]:
    play, kinds = PLAYED[kind]
    root = Path(tempfile.mkdtemp(prefix="nanotok-chaos-"))
    seeds = zip(itertools.cycle(kinds), range(seed, seed + rounds), strict=False)
    is_equal = True
    for played in play(root, seeds):
        is_equal &= not played.wrong
        yield played
    if is_equal:
        shutil.rmtree(root)


def _line(played: Round) -> str:
    reported = "; ".join(played.died) or "nothing in time"
    end = f"NOT EQUAL: {played.wrong[:5]}" if played.wrong else "equal"
    return (
        f"{played.kind} seed {played.seed}: {reported}; {played.submits} submits, "
        f"{played.failed} failed, {played.seconds:.1f} s, {end}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
