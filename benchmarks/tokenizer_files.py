"""Measure encoding with tokenizers of other tools, with peers, on one thread, and compare the ids.

    python benchmarks/tokenizer_files.py --tokenizer NAME=FILE --texts NAME=GLOB [--peers PYTHON]
    python benchmarks/tokenizer_files.py --qwen RANKS --texts NAME=GLOB [--peers PYTHON]

FILE is a tokenizer.json, a SentencePiece model, a tekken.json, or ranks with their family, as
`open_tokenizer` takes them. For tokenizers, ranks are written as a tokenizer.json with the same
merges. RANKS are those of Qwen, which are measured as a tokenizer.json that is spelled as those of
Qwen 2.5 and 3. GLOB is absolute, and names files of parquet with a column `text`; the first
--megabytes of their texts are encoded. Each measurement is the first call of a new process, engines
run in turn, seconds are CPU seconds, and a ratio is the median over rounds. PYTHON is the Python of
another environment that has gigatoken and other versions of the libraries; those of this
environment run too. An engine that refuses a file has a reason in place of figures, and one that
returns other ids is marked. The last line of stdout is one JSON document, which --save appends to
results/tokenizer_files.jsonl.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from about import about, finish
from fresh import Figures, fresh, in_turn
from nanotok_ray.tokenizer import Model, open_tokenizer
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.huggingface import spell, to_huggingface_split

OURS = "nanotok_ray"
SCRIPT = "one_tokenizer_file.py"

QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}


def main() -> None:
    """Measure all pairs of the command line."""
    options = parse()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        if options.qwen is not None:
            qwen = Path(name) / "qwen.json"
            qwen.write_text(json.dumps(published_qwen(options.qwen)))
            options.tokenizer.append(("qwen", str(qwen)))
        for texts, pattern in options.texts:
            path = Path(name) / f"{texts}.arrow"
            size = write_texts(path, pattern, limit=options.megabytes * 1_000_000)
            for tokenizer, file in options.tokenizer:
                rows.append({"tokenizer": tokenizer, "texts": texts, "bytes": size})
                works = works_of(file, path, Path(name), options.peers)
                rows[-1] |= measure(works, options.repeats, label=f"{tokenizer}, {texts}")
    names = [texts for texts, _ in options.texts]
    peers = ("tokenizers", "sentencepiece", "tiktoken")
    finish(about("tokenizer_files", names, peers) | {"rows": rows}, save=options.save)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])

    def pair(text: str) -> tuple[str, str]:
        name, _, value = text.partition("=")
        return name, value

    parser.add_argument("--tokenizer", action="append", type=pair, default=[])
    parser.add_argument("--qwen", help="the file of Qwen's ranks")
    parser.add_argument("--texts", action="append", type=pair, required=True)
    parser.add_argument("--peers", help="Python of an environment with other peers")
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", action="store_true")
    return parser.parse_args()


def write_texts(path: Path, pattern: str, *, limit: int) -> int:
    """Write the first texts of parquet files as one Arrow column, and return their bytes."""
    texts: list[str] = []
    size = 0
    for file in sorted(Path("/").glob(pattern[1:])):
        for text in pq.read_table(file, columns=["text"]).column(0).to_pylist():
            if size < limit and text and "\0" not in text:
                texts.append(text)
                size += len(text.encode())
    table = pa.table({"text": pa.array(texts, pa.large_string())})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return size


def works_of(file: str, texts: Path, folder: Path, peers: str | None) -> dict[str, Any]:
    """Return the measurements of a file by the names of the engines."""
    model = open_tokenizer(file).model
    works: dict[str, Any] = {OURS: partial(attempt, OURS, file, texts=texts, python=sys.executable)}
    pythons = {"": sys.executable} if peers is None else {"": sys.executable, "other ": peers}
    if isinstance(model, FileModel) and model.description.file == "tokenizer.model":
        given, library = file, "sentencepiece"
    else:
        ranks = isinstance(model, FileModel) and not model.has_library
        contents = as_json(model) if ranks else json.loads(Path(file).read_text())
        given, library = str(folder / "tokenizer.json"), "tokenizers"
        plain = {**contents, "added_tokens": [], "post_processor": None}
        Path(given).write_text(json.dumps(plain))
    for prefix, python in pythons.items():
        works[prefix + library] = partial(attempt, library, given, texts=texts, python=python)
    if peers is not None:
        works["gigatoken"] = partial(attempt, "gigatoken", given, texts=texts, python=peers)
    return works


def attempt(engine: str, file: str, *, texts: Path, python: str) -> Figures:
    """Run an engine, and return its figures, or why it has none."""
    try:
        return fresh(SCRIPT, engine, file, texts, python=python)
    except subprocess.CalledProcessError as error:
        return {"refused": f"exit code {error.returncode}"}


def measure(works: dict[str, Any], repeats: int, *, label: str) -> dict[str, Any]:
    """Run the engines in turn, print a table, and return the figures of each engine."""
    runs = in_turn(works, repeats)
    expected = runs[OURS][0]["ids"]
    figures: dict[str, Any] = {}
    for name, each in runs.items():
        if "refused" in each[0]:
            figures[name] = each[0]
            continue
        ratios = [
            one["seconds"] / own["seconds"] for one, own in zip(each, runs[OURS], strict=True)
        ]
        figures[name] = {
            "version": each[0]["version"],
            "seconds": statistics.median(one["seconds"] for one in each),
            "ratio": statistics.median(ratios),
            "same_ids": each[0]["ids"] == expected,
        }
    for name, one in figures.items():
        note = one.get("refused") or ("" if one["same_ids"] else "OTHER IDS")
        times = "" if "refused" in one else f"{one['seconds']:7.2f} s {one['ratio']:6.2f} x"
        print(f"{label:28} {name:18} {one.get('version', ''):18} {times} {note}", flush=True)
    return {"engines": figures}


def as_json(model: Model | FileModel) -> dict[str, Any]:
    """Return the tokenizer.json of ranks: the same tokens, merges and pattern."""
    assert isinstance(model, FileModel)
    tables = model.tables
    assert tables is not None
    assert isinstance(tables.pattern, str)
    tokens = [bytes([value]) for value in range(256)]
    for left, right in tables.merges.tolist():
        tokens.append(tokens[left] + tokens[right])
    pairs = [[spell(tokens[left]), spell(tokens[right])] for left, right in tables.merges.tolist()]
    priorities = [] if tables.priorities is None else tables.priorities.tolist()
    order = sorted(range(len(pairs)), key=priorities.__getitem__)
    steps = [to_huggingface_split(tables.pattern), {**BYTE_LEVEL, "use_regex": False}]
    return {
        "version": "1.0",
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": {**BYTE_LEVEL, "use_regex": True},
        "model": {
            "type": "BPE",
            "ignore_merges": True,
            "vocab": {spell(token): number for number, token in model.text_tokens.items()},
            "merges": [pairs[index] for index in order],
        },
    }


def published_qwen(ranks: str) -> dict[str, Any]:
    """Return the tokenizer.json of ranks with the keys and the spelling of Qwen 2.5 and 3."""
    model = open_tokenizer(f"{ranks}:qwen").model
    made = as_json(model)
    byte_level = {**BYTE_LEVEL, "use_regex": False}
    pattern = {"Regex": QWEN_PATTERN}
    split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [
        {"id": number, "content": name, **flags, "special": True}
        for name, number in model.special_tokens.items()
    ]
    settings = {"dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False}
    affixes = {"continuing_subword_prefix": "", "end_of_word_suffix": ""}
    merges = [" ".join(pair) for pair in made["model"]["merges"]]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            **settings,
            **affixes,
            "ignore_merges": False,
            "vocab": made["model"]["vocab"],
            "merges": merges,
        },
    }


if __name__ == "__main__":
    main()
