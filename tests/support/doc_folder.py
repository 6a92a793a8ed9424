"""The reader's machine for the pages of docs/: /data with a small corpus, and files."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.counts import PATTERNS
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import conversations, texts, write_conversations

ROOT = Path(__file__).parents[2]

RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["/data/web/*.parquet"]
id_column = "url"

[[source]]
name = "code"
kind = "text"
paths = ["/data/code/*.jsonl.gz"]

[[source]]
name = "chats"
kind = "chat"
paths = ["/data/chats/*.jsonl"]

[tokenizer]
vocab_size = 400

[output]
path = "/data/out"
"""
"""The recipe of pages that do not have one."""


def make_folder(root: Path) -> None:
    """Create `root`/data and the folder `root`/here, the working directory of commands."""
    data, here = root / "data", root / "here"
    for number in range(3):
        documents = [text for text in texts(30, seed=number) if text.strip()]
        _write_parquet(data / f"web/{number}.parquet", documents)
        _write_parquet(data / f"nanochat/base_data_climbmix/{number}.parquet", documents)
        _write_lines(data / f"code/{number}.jsonl.gz", documents)
        _write_lines(data / f"web/{number}.jsonl.gz", documents)
        write_conversations(data / f"chats/{number}.jsonl", conversations(8, seed=number))
    (data / "web.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in documents))
    _write_pages(data / "ocr/0.parquet")
    _write_counts(data / "spark-out/0.parquet")
    write_tokenizer(data / "gpt")
    here.mkdir()
    for folder in ("jobs", "deploy", "examples"):
        (here / folder).symlink_to(ROOT / folder)
    (data / "nanotok_ray").symlink_to(ROOT)  # the checkout
    for folder in (data, here):
        (folder / "corpus.txt").write_text("\n".join(texts(30, seed=9)))


def write_tokenizer(folder: Path) -> None:
    """Write a foreign tokenizer: a tokenizer.json with special tokens last."""
    tokenizer = Tokenizer.train_from_iterator(
        texts(50, seed=8), 320, pattern=PATTERNS["r50k"], special_tokens=["<|endoftext|>"]
    )
    tokenizer.save(folder)
    for path in folder.iterdir():
        if path.name != "tokenizer.json":
            path.unlink()


def _write_parquet(path: Path, documents: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    urls = [f"https://example.com/{path.stem}/{number}" for number in range(len(documents))]
    pq.write_table(pa.table({"text": documents, "url": urls}), path, row_group_size=16)


def _write_lines(path: Path, documents: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"text": one, "content": one}) + "\n" for one in documents)
    path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def _write_pages(path: Path) -> None:
    path.parent.mkdir(parents=True)
    rows = [
        {"prompt": "<image> What is it?", "response": f"page {number}", "image_token_counts": [4]}
        for number in range(8)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)


def _write_counts(path: Path) -> None:
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"span": ["hello", " world"], "count": [5, 4]}), path)
