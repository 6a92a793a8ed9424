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
if they can be imported. All of it takes about an hour on a quiet machine with two cores. The
functions of `TABLES` take the records of one benchmark, oldest first, and yield the lines of its
table; cells in which a peer is faster are bold.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from frame import HERE, run

Record = dict[str, Any]
Rows = Iterator[str]

PAGE = HERE.parent / "docs/measured.md"
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)

_CALLS = {
    ("nanochat", "first"): "nanochat's pattern, first call",
    ("cl100k", "first"): "cl100k's pattern, first call",
    ("cl100k", "half"): "cl100k's pattern, new text",
    ("cl100k", "sixth"): "cl100k's pattern, sixth call",
    ("gpt4", "first"): "Llama 3's pattern, first call",
}
_OURS = "nanotok_ray"


def write_tables() -> None:
    """Write each table of the page between its markers, from the newest records."""
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


def page(text: str) -> str:
    """Return the page with its tables made from the newest records."""

    def table(found: re.Match[str]) -> str:
        name = found[2]
        records = read_records(name)
        lines = "\n".join([*TABLES[name](records), "", _source(records[-1])])
        return f"{found[1]}{lines}\n{found[3]}"

    return _BLOCK.sub(table, text)


def read_records(name: str, folder: Path = HERE / "results") -> list[Record]:
    """Return the records of a benchmark, oldest first."""
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def _source(record: Record) -> str:
    return (
        f"`benchmarks/{record['benchmark']}.py`, {record['date']}, commit {record['commit']}, "
        f"{record['machine']}."
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Rows:
    yield f"| {' | '.join(heads)} |"
    yield f"|---|{'---:|' * (len(heads) - 1)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _times(ratio: float) -> str:
    """Return a ratio with three digits; bold if the peer is faster.

    >>> _times(387.4), _times(13.69), _times(1.3), _times(0.44)
    ('387 x', '13.7 x', '1.30 x', '**0.44 x**')
    """
    text = f"{ratio:#.3g}".removesuffix(".") + " x"
    return text if ratio >= 1 else f"**{ratio:.2f} x**"


def learn(records: Sequence[Record]) -> Rows:
    """Yield seconds to learn, beside rustbpe."""
    [*_, record] = records
    seconds: dict[str, dict[str, Record]] = {}
    for row in record["documents"]:
        seconds.setdefault(row["corpus"], {})[row["engine"]] = row

    def cells(corpus: str, engines: dict[str, Record]) -> Iterator[str]:
        ours, peer = engines[_OURS], engines["rustbpe"]
        yield f"{corpus}, {ours['seconds'] * ours['megabytes_per_second']:.0f} MB"
        yield f"{ours['seconds']:.2f} s"
        yield f"{engines[f'{_OURS}, Arrow in stages']['seconds']:.2f} s"
        yield f"{peer['seconds']:.1f} s"
        yield _times(ours["ratio_to_rustbpe"])

    heads = ("corpus", "from a list of str", "from Arrow", "rustbpe", "list to rustbpe")
    yield from _table(heads, ([*cells(*item)] for item in seconds.items()))


def encode(records: Sequence[Record]) -> Rows:
    """Yield MB/s of each call and engine by corpus of the newest commit, and times the peer's."""
    newest = [record for record in records if record["commit"] == records[-1]["commit"]]
    found = {
        (row["corpus"], row["pattern"], row["call"], row["engine"]): row
        for record in newest
        for row in record["rows"]
        if "call" in row
    }
    sizes = {
        row["corpus"]: row["timed_bytes"] / 1e6
        for record in newest
        for row in record["rows"]
        if "timed_bytes" in row
    }

    def cell(row: Record, ours: Record) -> str:
        rate = f"{row['megabytes_per_second']:.0f}"
        if not row["engine"].startswith(_OURS):
            return f"{rate}: {_times(ours['ratio_to_' + row['engine']])}"
        [ratio] = [value for key, value in row.items() if key.startswith("ratio_to_")]
        return f"{rate}: {_times(ratio)}" if ratio < 1 and row is not ours else rate

    def cells(pattern: str, call: str, engine: str) -> Iterator[str]:
        version = newest[-1]["peers"].get(engine)
        yield f"{engine} {version}" if version else engine.replace(_OURS, _CALLS[pattern, call])
        for corpus in sizes:
            ours = found[corpus, pattern, call, _OURS]
            yield cell(found[corpus, pattern, call, engine], ours)

    kinds = dict.fromkeys(key[1:] for key in found if key[1:3] in _CALLS)
    heads = [f"{corpus}, {size:.0f} MB" for corpus, size in sizes.items()]
    yield from _table(["MB/s: times the peer", *heads], ([*cells(*kind)] for kind in kinds))


_WAYS = {
    "job 1": "the job, one worker",
    "job 2": "the job, two workers",
    "alone": "the same slices without Ray, one process",
    "two alone": "the same slices without Ray, two processes",
    "floor": "decoding, encoding and writing alone, one process",
}


def count_job(records: Sequence[Record]) -> Rows:
    """Yield MB/s per core of the counting stage."""
    [*_, record] = records
    rates = record["megabytes_per_second_and_core"]
    heads = ("counting", "MB/s per core")
    rows = [(_WAYS[way], f"{rates[way]:.0f}") for way in _WAYS if way in rates]
    yield from _table(heads, rows)


def job(records: Sequence[Record]) -> Rows:
    """Yield MB/s per core of tokenizing, and times datatrove's."""
    [*_, record] = records
    rates = dict(record["megabytes_per_second_and_core"])
    names = dict(_WAYS)
    if peer := record.get("datatrove"):
        rates["peer"] = peer["megabytes_per_second_and_core"]
        names["peer"] = record["peer"].partition(",")[0]
    least = rates.get("peer", rates["job 1"])
    rows = [
        (names[way], f"{rates[way]:.3g}", _times(rates[way] / least))
        for way in names
        if way in rates
    ]
    yield from _table(("tokenizing", "MB/s per core", "times the last row"), rows)


def reduce(records: Sequence[Record]) -> Rows:
    """Yield seconds and memory of the sum of many count files."""
    [*_, record] = records
    spans, files = record["asked"]

    def cells(row: Record) -> Iterator[str]:
        processes = row.get("processes", 0)
        yield f"{processes} processes" if processes else "one thread"
        yield f"{row['min_count']}"
        for name in ("seconds", "ready_seconds"):
            yield f"{row[name]:.1f} s"
        for name in ("peak_bytes", "ready_peak_bytes"):
            yield f"{row[name] / 1e9:.2f} GB"

    heads = (f"{spans / 1e6:.0f} million distinct spans, {files} files", "`min_count`")
    rows = [[*cells(row)] for row in record["rows"]]
    figures = ("time", "until the first merge", "memory of the driver", "until the first merge")
    yield from _table((*heads, *figures), rows)


def reader(records: Sequence[Record]) -> Rows:
    """Yield tokens per second of every packing on one core."""
    [*_, record] = records
    base = record["ways"][0]["tokens_per_second"]
    names: dict[str, str] = {"nanochat": "nanochat's own loader"}

    def cells(row: Record) -> Iterator[str]:
        yield names.get(row["way"]) or str(row["way"])
        yield f"{row['tokens_per_second'] / 1e6:.3g}"
        yield _times(row["tokens_per_second"] / base)
        yield f"{row['open_to_first'] * 1000:.0f} ms"

    heads = ("packing", "million tokens/s", "times nanochat's own", "first batch")
    yield from _table(heads, ([*cells(row)] for row in record["ways"]))


def render(records: Sequence[Record]) -> Rows:
    """Yield conversations per second, beside nanochat's method over tiktoken."""
    [*_, record] = records

    def cells(row: Record) -> Iterator[str]:
        ours, peer = row[_OURS], row["reference"]
        yield f"{row['pass']} pass, {row['megabytes']:.0f} MB"
        yield f"{ours['conversations_per_second']:,}"
        yield f"{peer['conversations_per_second']:,}"
        yield _times(row["ratio to reference"])

    heads = ("conversations per second", _OURS, "nanochat's method", "")
    yield from _table(heads, ([*cells(row)] for row in record["passes"]))


def spans(records: Sequence[Record]) -> Rows:
    """Yield MB/s of one span of a megabyte, by kind."""
    [*_, record] = records
    peers: list[str] = [name for name, version in record["peers"].items() if version]

    def cells(kind: str, rates: Record) -> Iterator[str]:
        ours = float(rates[_OURS])
        yield kind
        yield f"{ours:.0f}"
        for peer in peers:
            rate = rates[peer]
            yield str(rate) if isinstance(rate, str) else f"{rate:.0f}: {_times(ours / rate)}"

    rows = ([*cells(*item)] for item in record["peers_1MB"].items())
    yield from _table(("one span of 1 MB, MB/s", _OURS, *peers), rows)


def memory(records: Sequence[Record]) -> Rows:
    """Yield the memory of an encoder over a gigabyte, beside the text and its ids."""
    [*_, record] = records
    row = record["rows"][0]
    cells = (f"{row['encoded_bytes'] / 1e9:.1f} GB", f"{row['peak_bytes'] / 1e6:.0f} MB")
    yield from _table(("encoded by one worker", "memory beside text and ids"), [cells])


TABLES: dict[str, Callable[[Sequence[Record]], Rows]] = {
    "learn": learn,
    "count_job": count_job,
    "reduce": reduce,
    "job": job,
    "encode": encode,
    "spans": spans,
    "memory": memory,
    "render": render,
    "reader": reader,
}
"""The table of each benchmark, in the order in which they are run."""


def main() -> None:
    """Run the benchmarks that the command line names, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="corpora and conversations")
    parser.add_argument("--tables", action="store_true", help="only write the tables")
    parser.add_argument("--only", nargs="+", choices=TABLES, metavar="NAME")
    parser.add_argument("--peer-python", default=sys.executable, metavar="PYTHON")
    options = parser.parse_args()
    if not options.tables and options.folder is None:
        parser.error("give FOLDER, or --tables")
    if not options.tables:
        for name in options.only or TABLES:
            measure(name, options.folder, options.peer_python)
    write_tables()


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
    run(main)
