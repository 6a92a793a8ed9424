"""Measure all figures of docs/measured.md, and write its tables.

    python benchmarks/figures.py FOLDER [--only NAME ...] [--peer-python PYTHON]
    python benchmarks/figures.py --tables

FOLDER has, for each corpus, learn/NAME.parquet, from which its tokenizer is learned, and
time/NAME.parquet, at least 45 MB of other text, which is timed; and chats/*.jsonl with
conversations. The benchmarks run one after the other with their defaults, and each appends its
record to benchmarks/results; `--only` selects some of them. Conversations to render are made of the
paragraphs of the first corpus. A benchmark whose answers differ from a peer's ends the command.
`--tables` measures nothing and writes the tables from the existing records.

PYTHON is an interpreter with datatrove and ffbpe; gigatoken and tokenizers 1.0.0rc3 are measured
if they can be imported. All of it takes about an hour on a quiet machine with two cores.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import figure_tables
from about import HERE


def main() -> None:
    """Run the benchmarks that the command line names, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="corpora and conversations")
    parser.add_argument("--tables", action="store_true", help="only write the tables")
    parser.add_argument("--only", nargs="+", choices=figure_tables.TABLES, metavar="NAME")
    parser.add_argument("--peer-python", default=sys.executable, metavar="PYTHON")
    options = parser.parse_args()
    if not options.tables and options.folder is None:
        parser.error("give FOLDER, or --tables")
    if not options.tables:
        for name in options.only or figure_tables.TABLES:
            measure(name, options.folder, options.peer_python)
    figure_tables.write_tables()


def measure(name: str, folder: Path, peer_python: str) -> None:
    """Run one benchmark in a process of its own, and save its record.

    Raises:
        CalledProcessError: it failed, or an answer differs from a peer's.
    """
    arguments = [*arguments_of(name, folder, peer_python)]
    print(f"== {name}", flush=True)
    command = [sys.executable, str(HERE / f"{name}.py"), *arguments, "--save"]
    subprocess.run(command, check=True, stdout=sys.stderr)


def arguments_of(name: str, folder: Path, peer_python: str) -> Iterator[str]:
    """Yield the arguments of a benchmark for the corpora of a folder."""
    learned = sorted((folder / "learn").glob("*.parquet"))
    pairs = [f"{path.stem}:{path}:{folder / 'time' / path.name}" for path in learned]
    timed = [str(folder / "time" / path.name) for path in learned]
    everything = ["--corpus", f"all:{','.join(map(str, [*learned, *timed]))}"]
    by_name: dict[str, Sequence[str]] = {
        "learn": [*everything, "--peer-python", peer_python],
        "count_job": ["--corpus", ",".join([*map(str, learned), *timed])],
        "reduce": ["--min-count", "1", "2"],
        "job": [*_corpora(pairs), "--peer-python", peer_python],
        "encode": _corpora(pairs),
        "spans": ["--learn", str(learned[0])],
        "memory": ["--corpus", pairs[0]],
        "render": ["--learn", str(learned[0]), "--made", timed[0]],
        "reader": ["--texts", f"{folder}/time/*.parquet", "--chats", f"{folder}/chats/*.jsonl"],
    }
    yield from by_name[name]


def _corpora(pairs: Sequence[str]) -> list[str]:
    return [word for pair in pairs for word in ("--corpus", pair)]


if __name__ == "__main__":
    main()
