"""Every death at every size: slices x nodes x what dies, by hand, as it takes a quarter of an hour.

    python -m tests.jobs.chaos_sizes [--slices 1,3,16,200] [--nodes 1,3]

For each combination the first fan-out and the learner run on a cluster of its own over the sources
of Python's standard library; something dies in the middle (a worker, a node, the driver, or all of
them); a driver that died is started again. The merges must be rustbpe's, and the sum of all counts
that of the same texts counted in this process. Prints a line for each; exits 1 at the first
difference.
"""

import argparse
import json
import sysconfig
import tempfile
import time
from itertools import product
from pathlib import Path

import rustbpe

import tests.support.ray_environment  # noqa: F401 - Ray reads it when it is imported
from nanotok_ray.counts import SPLIT_PATTERN, SpanCounts
from nanotok_ray.tokenizer import Tokenizer
from tests.support.fleet import LEARN, Driver, Fleet, fleet, kill_a_worker, num_counted

DEATHS = ("none", "worker", "node", "driver", "all")
VOCAB_SIZE = 1024

RECIPE = """
[[source]]
name = "code"
kind = "text"
paths = ["{root}/in"]
split = "train"

[tokenizer]
vocab_size = {vocab_size}

[output]
path = "{out}"

[limits]
slice_bytes = {slice_bytes}
"""


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", default="1,3,16,200")
    parser.add_argument("--nodes", default="1,3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        size, expected = write_corpus(root)
        sizes = [list(map(int, text.split(","))) for text in (options.slices, options.nodes)]
        for slices, nodes, death in product(*sizes, DEATHS):
            if nodes == 1 and death == "node":
                continue
            start = time.monotonic()
            kept = run(root, size, slices=slices, nodes=nodes, death=death, expected=expected)
            print(  # noqa: T201 - what it is run for
                f"{slices:>4} slices, {nodes} nodes, dies: {death:<7} "
                f"{kept:>3} slices kept, merges and sums equal, {time.monotonic() - start:.0f} s",
                flush=True,
            )
    return 0


def write_corpus(root: Path) -> tuple[int, tuple[int, list[bytes]]]:
    """Write one file of documents; give its size, the spans in it, and rustbpe's tokens."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    documents = [path.read_text(encoding="utf-8") for path in paths]
    (root / "in").mkdir()
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    (root / "in/code.jsonl").write_text(lines)
    counts = SpanCounts()
    counts.update(documents)
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(documents), VOCAB_SIZE - 9, pattern=SPLIT_PATTERN)
    return len(lines.encode()), (counts.total, [bytes(t) for t, _ in peer.get_mergeable_ranks()])


def run(
    root: Path, size: int, *, slices: int, nodes: int, death: str, expected: tuple[int, list[bytes]]
) -> int:
    """Run one combination and compare; give how many slices the last driver found counted."""
    out = root / f"{slices}-{nodes}-{death}"
    recipe, log, gate = (out.with_suffix(suffix) for suffix in (".toml", ".log", ".gate"))
    recipe.write_text(
        RECIPE.format(root=root, out=out, vocab_size=VOCAB_SIZE, slice_bytes=-(-size // slices))
    )
    work, after = out / "work", max(0, min(slices // 2, 20))
    with fleet(nodes) as cluster:
        kept = 0
        if death in {"driver", "all"}:
            driver = Driver(
                recipe, address=cluster.address, log=log, gate=gate, after=after, job=LEARN
            )
            driver.until(lambda: num_counted(work) >= after)
            driver.kill()
            kept = num_counted(work)
        more = min(slices - 1, kept + after // 2 + 1) if slices > 1 else 0
        driver = Driver(recipe, address=cluster.address, log=log, gate=gate, after=more, job=LEARN)
        if death in {"worker", "node", "all"}:
            disturb(cluster, driver, work, more, death=death, nodes=nodes)
        gate.touch()
        driver.finish()
    report = json.loads((out / "tokenizer/report.json").read_text())
    assert report["spans"] == expected[0], (report["spans"], expected[0])
    assert list(Tokenizer.load(out / "tokenizer").model.tokens) == expected[1]
    return kept


def disturb(
    cluster: Fleet, driver: Driver, work: Path, counted: int, *, death: str, nodes: int
) -> None:
    """Kill a worker, a node, or both, once so many slices are counted."""
    driver.until(lambda: num_counted(work) >= counted)
    if death != "node":
        driver.until(kill_a_worker)
    if death != "worker" and nodes > 1:
        cluster.remove_node()


if __name__ == "__main__":
    raise SystemExit(main())
