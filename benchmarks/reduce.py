"""Measure the reduce, from many count files to their sums: time, and memory with its formula.

    python benchmarks/reduce.py [--spans 50000000] [--files 200] [--folder FOLDER] [--processes 0
    2]
        [--save]

The script writes count files (`count_files.py`; kept and reused if a folder is given), about 40
bytes per row, then reduces them in a fresh process for each buffer size (`one_reduce.py`). It
stops if a total is wrong. The last line of stdout is one JSON document, which --save appends to
results/reduce.jsonl.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from about import about, finish
from fresh import Figures, fresh

FACTS = "facts.json"


def main() -> None:
    """Measure according to the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spans", type=int, default=50_000_000, help="different spans in all")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="of the count files; used again if it is there")
    parser.add_argument("--buffers", type=int, nargs="+", default=[256], help="in MiB")
    parser.add_argument("--min-count", type=int, nargs="+", default=[1])
    parser.add_argument("--processes", type=int, nargs="+", default=[0, 2], help="0: this thread")
    parser.add_argument("--save", action="store_true", help="add to results/reduce.jsonl")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        facts = made(folder, options.spans, options.files)
        print(f"{options.files} files: {facts}", flush=True)
        settings = [
            (size << 20, least, processes)
            for size in options.buffers
            for least in options.min_count
            for processes in options.processes
        ]
        rows = [measured(folder, *values, facts) for values in settings]
    size = {"distinct_spans": options.spans, "files": options.files}
    finish(about("reduce", []) | size | facts | {"rows": rows}, save=options.save)


def made(folder: Path, spans: int, files: int) -> Figures:
    """Write the files, unless they exist; return their totals."""
    known = folder / FACTS
    asked = {"asked": [spans, files]}
    if known.exists():
        found: Figures = json.loads(known.read_text())
        assert found["asked"] == asked["asked"], f"{folder} holds other files: {found}"
        return found
    facts = fresh("count_files.py", folder, "--spans", spans, "--files", files) | asked
    known.write_text(json.dumps(facts))
    return facts


def measured(
    folder: Path, buffer_bytes: int, min_count: int, processes: int, facts: Figures
) -> dict[str, Any]:
    """Reduce in a fresh process, check the totals, print and return the figures."""
    arguments = (folder, buffer_bytes, min_count, "--processes", processes)
    run = fresh("one_reduce.py", *arguments)
    assert run["distinct_spans"] == facts["asked"][0], run
    assert (run["spans"], run["span_bytes"]) == (facts["spans"], facts["span_bytes"]), run
    assert run["kept_spans"] == run["distinct_spans"] - run["dropped_distinct"], run
    assert run["counts_sum"] == run["spans"] - run["dropped_spans"], run
    row = {"buffer_bytes": buffer_bytes, "min_count": min_count, "processes": processes} | run
    row["megabytes_per_second"] = round(facts["file_bytes"] / run["seconds"] / 1e6, 1)
    row["rows_per_second"] = round(facts["rows"] / run["seconds"])
    row["ratio_to_formula"] = round(run["peak_bytes"] / run["formula_bytes"], 3)
    print(
        f"buffer {buffer_bytes / 1e6:.0f} MB, min_count {min_count}, processes {processes}: "
        f"{run['kept_spans']:,} spans "
        f"kept, {run['seconds']:.1f} s, {row['megabytes_per_second']:.0f} MB/s, "
        f"{row['rows_per_second'] / 1e6:.1f} M rows/s; peak {run['peak_bytes'] / 1e6:.0f} MB above "
        f"the start, the sums alone {run['result_bytes'] / 1e6:.0f} MB, formula "
        f"{run['formula_bytes'] / 1e6:.0f} MB: {row['ratio_to_formula']} of it",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
