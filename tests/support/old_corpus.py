"""The small corpus, and its recipe, of the output that an earlier version of this project wrote.

    python -m tests.support.old_corpus FOLDER        # writes FOLDER/in and FOLDER/recipe.toml

`tests/jobs/test_old_output.py` says how the output was made of it and where it lies.
"""

import json
import os
import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

MODIFIED_NS = 1_700_000_000_000_000_000
"""The modification time of every input: keys of local files hold it."""

WORDS = [
    *("the", "a", "of", "and", "it's", "we'll", "THEY'RE", "lower", "newest", "widest", "new"),
    *("naïve", "数据", "данные", "🙂", "e\u0301", "12345", "3.14", "<|bos|>", "x=1;", "\t()"),
]

RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/web/*.parquet"]
column = "text"
split = "last-file"

[[source]]
name = "notes"
kind = "text"
paths = ["{root}/in/notes/*.jsonl"]
column = "text"
id_column = "id"
split = "share:0.25"

[[source]]
name = "chats"
kind = "chat"
paths = ["{root}/in/chats/*.jsonl"]
split = "share:0.25"

[tokenizer]
vocab_size = 320
span_table = 0

[output]
path = "{root}/out"
work = "{root}/work"

[limits]
slice_bytes = 1000
max_quarantined_share = 0.1
"""


def recipe_text(root: Path) -> str:
    """Return the recipe for inputs, output and work folder below a folder."""
    return RECIPE.format(root=root)


def set_times(root: Path) -> None:
    """Set the modification time of every input below a folder."""
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(MODIFIED_NS, MODIFIED_NS))


def write_corpus(root: Path) -> None:
    """Write the inputs: the same bytes with the same version of pyarrow."""
    for number in range(2):
        path = root / f"web/part_{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({"text": pa.array(_texts(24, seed=number), pa.string())})
        pq.write_table(table, path, compression="zstd", row_group_size=6)
    notes = [{"id": f"n{n}", "text": text} for n, text in enumerate(_texts(24, seed=2))]
    _write_lines(root / "notes/notes.jsonl", [json.dumps(note) for note in notes])
    lines = [json.dumps(made, ensure_ascii=False) for made in _conversations(16, seed=3)]
    lines[5] = '{"messages": [{"role": "nobody", "content": "'
    _write_lines(root / "chats/chats.jsonl", lines)
    set_times(root)


def _texts(count: int, *, seed: int) -> list[str]:
    rng = random.Random(seed)
    spaces = [" ", " ", " ", "\n", "  "]
    return [
        "".join(rng.choice(WORDS) + rng.choice(spaces) for _ in range(rng.randrange(30)))
        for _ in range(count)
    ]


def _conversations(count: int, *, seed: int) -> list[list[dict[str, str]]]:
    rng = random.Random(seed)
    return [
        [
            {"role": role, "content": " ".join(rng.choices(WORDS, k=6))}
            for role in ("user", "assistant") * rng.choice([1, 2])
        ]
        for _ in range(count)
    ]


def _write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    target = Path(sys.argv[1]).absolute()
    write_corpus(target / "in")
    (target / "recipe.toml").write_text(recipe_text(target), encoding="utf-8")
