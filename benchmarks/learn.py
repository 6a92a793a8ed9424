"""Measure learning with rustbpe and ffbpe: whole runs, stages, memory, and synthetic counts.

    python benchmarks/learn.py --corpus NAME:GLOB[,GLOB...] ... [--peer-python PATH] [--save]

Tables, each with its goal; --only selects some of them:

- documents: texts in memory to merges, nanochat's pattern, with rustbpe's `train_from_iterator`
- counting: the same with 256 ranks on one thread, up to the end of counting; rustbpe looks up all
  pairs even then, so its time ends when it logs the end of counting
- loop: the merge loop alone on the corpus's spans and counts, one thread, with ffbpe's
- memory: the learner's peak above its input on those counts, with rustbpe's
- synthetic: time and memory for very many distinct spans
- ties: time by merges if all counts are equal; and the reasons to stop

Each engine runs in a fresh process, in turn; medians are printed. The tokens of all engines must
be equal, by a hash of their bytes in rank order, and so must the distinct spans. Files are read
beforehand. ffbpe (or uni-tokenizer, its old name) need not be in this environment: --peer-python
is an interpreter that has it; otherwise its rows are skipped. The last line of stdout is one JSON
document, which --save appends to results/learn.jsonl. --quick is a functional test.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import learn_corpus
import learn_memory
import learn_synthetic
from about import about, finish
from fresh import fresh
from learn_settings import Settings

FULL = {
    "vocab_size": 32768,
    "threads": 2,
    "repeats": 3,
    "spans": 10_000_000,
    "merges": 65_271,
    "tied_spans": 2_000_000,
    "tied_merges": 500_000,
    "seed": 1,
}
QUICK = FULL | {
    "vocab_size": 4096,
    "repeats": 1,
    "spans": 100_000,
    "merges": 5_000,
    "tied_spans": 50_000,
    "tied_merges": 10_000,
}
HELP = {
    "vocab_size": "9 special tokens among it",
    "threads": "for documents; the others say theirs",
    "repeats": "of what has a peer",
    "spans": "synthetic ones",
    "merges": "of synthetic spans",
    "tied_spans": "of random letters, all with one count",
    "tied_merges": "n: the time is measured for n, 2 n and 4 n",
    "seed": "of all synthetic spans",
}
TABLES = learn_corpus.TABLES | learn_memory.TABLES | learn_synthetic.TABLES


def main() -> None:
    """Measure what the command line names."""
    options = parse()
    sizes = (QUICK if options.quick else FULL) | {
        name: value for name in FULL if (value := getattr(options, name)) is not None
    }
    loop_peer = fresh("one_peer_loop.py", python=options.peer_python)["peer"]
    row: dict[str, Any] = about("learn", [each.name for each in options.corpus], ["rustbpe"])
    row |= {"loop_peer": loop_peer, "quick": options.quick, **sizes}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for corpus in options.corpus:
            corpus.write(folder / corpus.name)
        settings = Settings(
            folder=folder,
            corpora=[corpus.name for corpus in options.corpus],
            peer_python=options.peer_python if loop_peer else None,
            **sizes,
        )
        for table in options.only:
            row[table] = TABLES[table](settings)
    finish(row, save=options.save)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--corpus",
        action="append",
        type=learn_corpus.parse_corpus,
        default=[],
        metavar="NAME:GLOB[,GLOB...]",
    )
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with ffbpe")
    parser.add_argument("--quick", action="store_true", help="small sizes where none is given")
    parser.add_argument("--save", action="store_true", help="add to results/learn.jsonl")
    for name, text in HELP.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=text)
    return parser.parse_args()


if __name__ == "__main__":
    main()
