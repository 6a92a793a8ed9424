"""Measure encoding with tokenizers of other tools, with peers, on one thread, and compare the ids.

    python benchmarks/tokenizer_files.py --tokenizer NAME=FILE --texts NAME=GLOB [--peers PYTHON]
    python benchmarks/tokenizer_files.py --qwen RANKS --texts NAME=GLOB [--peers PYTHON]

FILE is a tokenizer.json, a SentencePiece model, a tekken.json, or ranks with their family, as
`open_tokenizer` takes them. For tokenizers, ranks are written as a tokenizer.json with the same
merges. RANKS are those of Qwen, which are measured as a tokenizer.json that is spelled as those of
Qwen 2.5 and 3. GLOB names files of parquet with a column `text`; the first --megabytes of their
texts are encoded. Each measurement is the first call of a new process (`peers.encode_texts`),
engines run in turn, and a ratio is the median over rounds. PYTHON is the Python of another
environment that has gigatoken and other versions of the libraries; those of this environment run
too. An engine that refuses a file has a reason in place of figures, and one that returns other ids
is marked.
"""

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from corpora import read_texts, write_texts
from frame import Figures, Rows, files_of, finish, fresh, in_turn, median, parser, ratio, run, show
from nanotok_ray.tokenizer import Model, open_tokenizer
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.huggingface import spell, to_huggingface_split
from peers import encode_texts

OURS = "nanotok_ray"

QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}


def main() -> None:
    """Measure all pairs of the command line."""
    command = parser(__doc__, megabytes=20, repeats=5)
    command.add_argument("--tokenizer", action="append", type=pair, default=[])
    command.add_argument("--qwen", help="the file of Qwen's ranks")
    command.add_argument("--texts", action="append", type=pair, required=True)
    command.add_argument("--peers", help="Python of an environment with other peers")
    options = command.parse_args()
    rows: Rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.qwen is not None:
            (folder / "qwen.json").write_text(json.dumps(published_qwen(options.qwen)))
            options.tokenizer.append(("qwen", str(folder / "qwen.json")))
        for texts, pattern in options.texts:
            path = folder / f"{texts}.arrow"
            size = write_first(path, pattern, limit=options.megabytes * 1_000_000)
            for tokenizer, file in options.tokenizer:
                works = works_of(file, path, folder, options.peers)
                engines = measure(works, options.repeats, label=f"{tokenizer}, {texts}")
                row = {"tokenizer": tokenizer, "texts": texts, "bytes": size, "engines": engines}
                rows.append(row)
    names = [texts for texts, _ in options.texts]
    peers = ("tokenizers", "sentencepiece", "tiktoken")
    finish("tokenizer_files", names, {"rows": rows}, peers=peers, save=options.save)


def pair(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE for argparse."""
    name, _, value = text.partition("=")
    return name, value


def write_first(path: Path, pattern: str, *, limit: int) -> int:
    """Write the first texts of parquet files as one Arrow column, and return their bytes."""
    texts: list[str] = []
    size = 0
    for text in read_texts(files_of(pattern)):
        if size < limit and text and "\0" not in text:
            texts.append(text)
            size += len(text.encode())
    write_texts(texts, path)
    return size


def works_of(file: str, texts: Path, folder: Path, peers: str | None) -> dict[str, Any]:
    """Return the measurements of a file by the names of the engines."""
    model = open_tokenizer(file).model
    works: dict[str, Any] = {OURS: partial(attempt, OURS, file, texts, sys.executable)}
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
        works[prefix + library] = partial(attempt, library, given, texts, python)
    if peers is not None:
        works["gigatoken"] = partial(attempt, "gigatoken", given, texts, peers)
    return works


def attempt(engine: str, file: str, texts: Path, python: str) -> Figures:
    """Run an engine, and return its figures, or why it has none."""
    try:
        return fresh(encode_texts, engine, file, texts, "first", python=python)
    except subprocess.CalledProcessError as error:
        return {"refused": f"exit code {error.returncode}"}


def measure(works: dict[str, Any], repeats: int, *, label: str) -> Figures:
    """Run the engines in turn; print and return the figures of each engine."""
    runs = in_turn(works, repeats)
    figures: Figures = {}
    for name, each in runs.items():
        figures[name] = each[0]
        if "refused" not in each[0]:
            figures[name] = {
                "version": each[0]["version"],
                "seconds": median(each, "first"),
                "ratio": ratio(runs, name, OURS, "first"),
                "same_ids": each[0]["ids"] == runs[OURS][0]["ids"],
            }
        show(f"{label}, {name}", figures[name])
    return figures


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
    run(main)
