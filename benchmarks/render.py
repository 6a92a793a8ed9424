"""Measure rendering conversations, with nanochat's method, and with encoding the same texts.

    python benchmarks/render.py --learn 'english/*.parquet' --chats 'chat/*.jsonl' [--save]
    python benchmarks/render.py --learn 'english/*.parquet' --made 'more/*.parquet' [--save]

A tokenizer is learned from the parquet files; the conversations are JSON lines, or for larger runs
made of the paragraphs of other parquet files, four messages each. Three engines run on one thread
each, in fresh processes in turn:

  nanotok_ray   JSON lines to ids, labels and offsets, in batches like those of the job
  reference     nanochat's method: json.loads, its rendering in Python, tiktoken's encode_ordinary
  plain texts   `encode_documents` of the texts of the conversations, each as a document

The ids and masks of the first two must be equal. Printed are conversations and megabytes of text
per second, for the first pass of a process (as in a task) and for the third, and the medians over
rounds of the ratios. The last line of stdout is one JSON document, which --save appends to
results/render.jsonl.
"""

import argparse
import json
import tempfile
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

from about import about, finish
from corpus import read_texts
from fresh import Figures, assert_same, fresh, in_turn, median
from nanotok_ray.tokenizer import Tokenizer

ENGINES = ("nanotok_ray", "reference", "plain texts")
PASSES = ("first", "third")


def main() -> None:
    """Measure what the command line names."""
    options = parse()
    learn, timed = files_of(options.learn), files_of(options.chats or options.made)
    with tempfile.TemporaryDirectory() as name:
        Tokenizer.train_from_iterator(read_texts(learn), options.vocab_size).save(name)
        chats = timed if options.chats else [make_chats(read_texts(timed), Path(name))]
        works = {
            engine: partial(fresh, "one_render.py", engine, name, *chats) for engine in ENGINES
        }
        runs = in_turn(works, options.repeats)
    assert_same({name: runs[name] for name in ENGINES[:2]}, "answer", "ids and masks")
    assert_same(runs, "text_bytes", "bytes of texts")
    passes = [record_of(runs, which) for which in PASSES]
    row = about("render", [f"{path.parent.name}/{path.stem}" for path in timed], ("tiktoken",))
    finish(row | {"repeats": options.repeats, "passes": passes}, save=options.save)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--learn", required=True, metavar="GLOB", help="parquet files of texts")
    chats = parser.add_mutually_exclusive_group(required=True)
    chats.add_argument("--chats", metavar="GLOB", help="JSON lines of messages")
    chats.add_argument("--made", metavar="GLOB", help="parquet files to make conversations of")
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="add to results/render.jsonl")
    return parser.parse_args()


def files_of(pattern: str) -> list[Path]:
    """Return the files of a glob."""
    files = sorted(map(Path, glob(pattern)))  # noqa: PTH207 - absolute globs
    assert files, f"{pattern!r} matches no file"
    return files


def make_chats(texts: list[str], folder: Path) -> Path:
    """Write conversations of four paragraphs each."""
    paragraphs = [each for text in texts for each in text.split("\n\n") if each.strip()]
    path = folder / "made.jsonl"
    with path.open("w") as file:
        for start in range(0, len(paragraphs) - 3, 4):
            said = zip(("user", "assistant") * 2, paragraphs[start : start + 4], strict=True)
            messages = [{"role": role, "content": content} for role, content in said]
            file.write(json.dumps(messages, ensure_ascii=False) + "\n")
    return path


def record_of(runs: dict[str, list[Figures]], which: str) -> dict[str, Any]:
    """Print and return the figures of one pass."""
    one = runs["nanotok_ray"][0]
    size, count = one["text_bytes"] / 1e6, one["conversations"]
    record: dict[str, Any] = {"pass": which, "conversations": count, "megabytes": round(size, 2)}
    for name, each in runs.items():
        seconds = median(each, which)
        print(f"{which:<7}{name:<13}{count / seconds:>9,.0f} /s {size / seconds:7.1f} MB/s")
        record[name] = {
            "conversations_per_second": round(count / seconds),
            "megabytes_per_second": round(size / seconds, 1),
        }
    for name in ENGINES[1:]:
        pairs = zip(runs[name], runs["nanotok_ray"], strict=True)
        ratios = [{"ratio": theirs[which] / ours[which]} for theirs, ours in pairs]
        record[f"ratio to {name}"] = round(median(ratios, "ratio"), 2)
        print(f"{which:<7}nanotok_ray is {record[f'ratio to {name}']:.2f} x {name}")
    return record


if __name__ == "__main__":
    main()
