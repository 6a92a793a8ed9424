"""Small corpora and their recipes for tests of whole jobs: made from a seed within milliseconds."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.formats import ShardSettings
from nanotok_ray.recipe import LimitsRecipe, OutputRecipe, Recipe, SourceRecipe, parse_recipe
from nanotok_ray.sources import Plan, make_plan
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer

WORDS = [
    *("the", "a", "of", "it's", "we'll", "THEY'RE", "naïve", "数据", "данные", "🙂", "e\u0301"),
    *("12345", "3.14", "2026-11-21", "<|bos|>", "x=1;", "\t()", "{}", "don't", "--flag"),
    *("str", "int", "list", "return", "yield", "while", "path/to/file", "__init__", "list"),
]


def texts(count: int, *, seed: int) -> list[str]:
    """Return texts of 0 to 60 words, with line breaks and runs of spaces."""
    rng = random.Random(seed)
    return [
        "".join(
            rng.choice(WORDS) + rng.choice([" ", " ", " ", "\n", "  ", "\n\n    "])
            for _ in range(rng.randrange(60))
        )
        for _ in range(count)
    ]


def conversations(count: int, *, seed: int) -> list[list[dict[str, object]]]:
    """Return conversations of two or four messages, some with tool calls."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        messages: list[dict[str, object]] = []
        for _ in range(rng.choice([1, 2])):
            messages.append({"role": "user", "content": " ".join(rng.choices(WORDS, k=8))})
            answer: object = " ".join(rng.choices(WORDS, k=5))
            if number % 3 == 0:
                answer = [
                    {"type": "text", "text": "Let me see. "},
                    {"type": "python", "text": "1+1"},
                    {"type": "python_output", "text": "2"},
                    {"type": "text", "text": " It is 2."},
                ]
            messages.append({"role": "assistant", "content": answer})
        made.append(messages)
    return made


def write_parquet(path: Path, rows: list[str | None], *, row_group_size: int = 8) -> None:
    """Write texts like nanochat's shards: one column `text`, zstd, small row groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"text": pa.array(rows, pa.string())})
    pq.write_table(table, path, compression="zstd", row_group_size=row_group_size)


def write_conversations(path: Path, made: list[list[dict[str, object]]]) -> None:
    """Write one conversation per line, every second one as an object with `messages`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps(messages if number % 2 else {"messages": messages}, ensure_ascii=False)
        for number, messages in enumerate(made)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_corpus(root: Path) -> None:
    """Write three parquet files of text and two files of chats."""
    for number in range(3):
        write_parquet(root / f"text/shard_{number:05d}.parquet", texts(40, seed=number))
    for number in range(2):
        write_conversations(root / f"chats/{number}.jsonl", conversations(15, seed=number))


RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/text/*.parquet"]
split = "last-file"

[[source]]
name = "chats"
kind = "chat"
paths = ["{root}/chats"]

[tokenizer]
vocab_size = 350

[output]
path = "{out}"
work = "{out}-work"

[limits]
slice_bytes = 3000
"""


def recipe(root: Path, out: Path, *overrides: str) -> Recipe:
    """Return the recipe of `write_corpus`."""
    return parse_recipe(RECIPE.format(root=root, out=out), overrides=overrides)


def shard_settings(tokenizer: Tokenizer, **others: Any) -> ShardSettings:
    """Return the settings of a text source as in a job, with changes."""
    values: dict[str, Any] = {
        "tokenizer_sha256": tokenizer.sha256,
        "gaps": "spans",
        "prepend": ("<|bos|>",),
        "append": (),
        "max_document_bytes": 2**30,
        "max_shard_tokens": 10**6,
        "max_tokens": None,
    }
    return ShardSettings(**(values | others))


def contents(folder: Path, *, leave_out: tuple[str, ...] = ("run",)) -> dict[str, str]:
    """Return the sha256 of every file below a folder, by relative path."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in leave_out
    }


def joined_shards(out: Folder) -> dict[tuple[str, str], bytes]:
    """Return the bytes of shards and tokenizer by folder and kind: names depend on keys of inputs.

    Keys include the times of files on a disk, and the etags of those on S3.
    """
    found: dict[tuple[str, str], bytes] = {}
    for name in out.list():
        top, _, last = name.rpartition("/")
        if top.split("/")[0] in {"web", "chats", "tokenizer"}:
            kind = (top, last if top == "tokenizer" else last.rpartition(".")[2])
            found[kind] = found.get(kind, b"") + out.read_bytes(name)
    return found


def plan_of(*paths: object, slice_bytes: int = 1 << 20, **source: Any) -> Plan:
    """Return the plan of one source, by default all of it train."""
    values = {"name": "web", "kind": "text", "split": "train", "count": True} | source
    own = Recipe(
        sources=(SourceRecipe(paths=tuple(map(str, paths)), **values),),
        output=OutputRecipe(path="/out"),
        limits=LimitsRecipe(slice_bytes=slice_bytes),
    )
    return make_plan(own, with_sample=False)
