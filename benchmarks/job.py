"""Measure tokenizing as a job, from parquet to verified shards on disk, with a floor and datatrove.

    python benchmarks/job.py --corpus NAME:LEARN_GLOB:TIME_GLOB --corpus ...
        [--bytes N] [--repeats N] [--peer-python PYTHON] [--short] [--save]

One tokenizer is learned from the first files of all corpora; the others, without documents that
were learned from, are linked under new names until they have --bytes of text. Each method runs in
fresh processes, in turn, after its own warm-up; medians are printed:

- floor: one process decodes the column with pyarrow, passes it to `Tokenizer.encode_batch`, and
  writes as many bytes as the shards have, with as many fsyncs as files
- alone: one process tokenizes all slices, verifies them and writes their records, without Ray
- two alone: two such processes, each with every other slice, from the start of both to the last
  end
- job 1, job 2: the whole job on a local Ray with one and with two CPUs, including plan,
  verification and manifest; the start of Ray is reported separately
- datatrove: DocumentTokenizer with the same tokenizer.json, one task, one thread, in
  --peer-python; its rate is the slope between two sizes of input, which excludes its start

Ray's workers have the priority of the processes alone. CPU seconds are reported beside elapsed
seconds, since they are independent of other processes. Answers are compared: all methods except
the floor write the same records (which contain the sha256 of every shard), and both jobs the same
manifest; all ids equal those of bare encoding; those of a part equal tiktoken's, and datatrove's
unless the text spells a special token. Goals: 60 times datatrove per core; job 1 at most 1.25
times the floor; two alone at least 0.92 of job 2; verification, records and planning under 10%; a
worker within 1 GB and 4 times the largest document. The last line of stdout is one JSON document,
which --save appends to results/job.jsonl.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from about import about, finish
from corpus import parse_corpus
from fresh import Figures, assert_same, fresh, in_turn, side_by_side
from job_answers import (
    beside_datatrove,
    differing,
    differing_from_tiktoken,
    output_bytes,
    records_sha256,
)
from job_corpus import JobCorpus, make_corpus
from job_figures import Runs, compare, compare_datatrove

PRIORITY = {"RAY_worker_niceness": "0"}
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

SHORT = {"bytes": 20_000_000, "slice_bytes": 4 << 20, "repeats": 1, "part_bytes": 2_000_000}


def main() -> None:
    """Measure what the command line names."""
    options = parse()
    peer = find_peer(options.peer_python)
    with tempfile.TemporaryDirectory() as name:
        corpus = make_corpus(
            Path(name),
            options.corpus,
            least=options.bytes,
            slice_bytes=options.slice_bytes,
            vocab_size=options.vocab_size,
            part_bytes=options.part_bytes,
        )
        runs = in_turn(works(corpus), options.repeats)
        peers = in_turn(peer_works(corpus, options.peer_python), options.repeats) if peer else None
        row = about("job", [each.name for each in options.corpus])
        row |= {"peer": peer, "slice_bytes": options.slice_bytes}
        row |= compare(runs, largest=corpus.largest)
        if peers is not None:
            row["datatrove"] = compare_datatrove(peers, corpus.part_bytes, runs)
        row["answers"] = answers(corpus, runs, has_peer=peer is not None)
    finish(row, save=options.save)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=parse_corpus, action="append", required=True)
    parser.add_argument("--bytes", type=int, default=4_000_000_000, help="of text at least")
    parser.add_argument("--slice-bytes", type=int, default=64 << 20)
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--part-bytes", type=int, default=60_000_000, help="given to datatrove")
    parser.add_argument("--peer-python", help="an interpreter that has datatrove")
    parser.add_argument("--short", action="store_true", help=f"see that it runs: {SHORT}")
    parser.add_argument("--save", action="store_true")
    if parser.parse_args().short:
        parser.set_defaults(**SHORT)
    return parser.parse_args()


def find_peer(python: str | None) -> str | None:
    """Return the peer that an interpreter can import, or None."""
    if python is None:
        return None
    peer: str | None = fresh("one_datatrove.py", python=python)["peer"]
    if peer is None:
        sys.exit(f"{python} has no datatrove: pip install 'datatrove[io]==0.10.1' tokenizers")
    return peer


def works(corpus: JobCorpus) -> dict[str, Callable[[], Figures]]:
    """Return the methods of tokenizing the corpus."""
    return {
        "alone": lambda: alone(corpus, processes=1),
        "two alone": lambda: alone(corpus, processes=2),
        "job 1": lambda: job(corpus, workers=1),
        "job 2": lambda: job(corpus, workers=2),
        "floor": lambda: fresh(
            "one_tokenize_floor.py", corpus.folder, *output_bytes(corpus.output)
        ),
    }


def alone(corpus: JobCorpus, *, processes: int) -> Figures:
    """Tokenize without Ray in independent processes."""
    out = corpus.folder / "alone"
    shutil.rmtree(out, ignore_errors=True)
    seconds, outcomes = side_by_side(
        "one_tokenize_process.py", corpus.recipe, out, processes=processes
    )
    sums = {
        name: sum(each[name] for each in outcomes)
        for name in ("cpu", "checks", "records", "text_bytes")
    }
    work = sum(each["seconds"] for each in outcomes)
    peak = max(each["peak_bytes"] for each in outcomes)
    own = {
        "seconds": seconds,
        "work": work,
        "peak_bytes": peak,
        "records_sha256": records_sha256(out),
    }
    shutil.rmtree(out)
    return sums | own


def job(corpus: JobCorpus, *, workers: int) -> Figures:
    """Run the whole job; its output is kept until the next run."""
    outcome = fresh("one_tokenize_job.py", corpus.recipe, workers, env=PRIORITY)
    return outcome | {"records_sha256": records_sha256(corpus.output)}


def peer_works(corpus: JobCorpus, python: str) -> dict[str, Callable[[], Figures]]:
    """Return datatrove's work on both parts."""

    def run(part: str) -> Figures:
        out = corpus.folder / f"datatrove-{part}"
        for path in (out, out.with_name(f"{out.name}-logs")):
            shutil.rmtree(path, ignore_errors=True)
        tokenizer = corpus.output / "tokenizer/tokenizer.json"
        folder = corpus.folder / f"part-{part}"
        return fresh("one_datatrove.py", folder, out, tokenizer, env=ONE_THREAD, python=python)

    return {"small": lambda: run("small"), "large": lambda: run("large")}


def answers(corpus: JobCorpus, runs: Runs, *, has_peer: bool) -> dict[str, Any]:
    """Compare the written files; exit if they are wrong."""
    own = {name: each for name, each in runs.items() if name != "floor"}
    assert_same(own, "records_sha256", "tokenizing")
    assert_same({name: runs[name] for name in ("job 1", "job 2")}, "manifest", "jobs")
    tokenizer = corpus.folder / "tokenizer"
    wrong = differing(corpus.output, tokenizer, corpus.texts)
    against = differing_from_tiktoken(corpus.output, tokenizer, corpus.texts, corpus.part)
    record: dict[str, Any] = {
        "documents": len(corpus.texts),
        "differing_from_bare_encoding": wrong,
        "documents_of_part": len(corpus.part),
        "differing_from_tiktoken": against,
    }
    print(f"answers: {record}", flush=True)
    if has_peer:
        peer = corpus.folder / "datatrove-large"
        record["datatrove"] = beside_datatrove(
            corpus.output, peer, tokenizer, corpus.texts, corpus.part
        )
        print(f"beside datatrove: {record['datatrove']}", flush=True)
    if wrong or against or (has_peer and record["datatrove"]["other"]):
        sys.exit("ids differ: see above")
    return record


if __name__ == "__main__":
    main()
