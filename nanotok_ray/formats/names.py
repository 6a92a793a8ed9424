"""The names of the files of an output, and keys.

A *key* is the sha256 of all values on which a result depends. A *record* is a JSON file with the
inputs and the outputs of one stage for one slice. `shards.idx` lists the shards in order. The
*manifest* is written last and contains the sha256 of the other files.
"""

import hashlib
import json
from collections.abc import Iterable

MANIFEST_NAME = "manifest.json"
SHARDS_INDEX_NAME = "shards.idx"
PLAN_NAME = "plan.json"
RECIPE_NAME = "recipe.toml"
"""The drafted recipe of an output that was prepared from files."""

TOKENIZER_FOLDER = "tokenizer"
TOKENIZER_FILE = "tokenizer/tokenizer.txt"
"""The file whose sha256 identifies the tokenizer of an output."""

SUMMARY_NAME = "run/summary.json"
REPORT_PAGE_NAME = "run/report.html"
RECORDS = "records/tokenize/"
"""The folder of the records of shards in the output folder."""

LEARN_RECORD = "records/learn.json"
"""The record of the learned tokenizer in the output folder."""

SPLITS = ("train", "val")

RESERVED_NAMES = (
    *("export", "quarantine", "records", "run", "work", TOKENIZER_FOLDER),
    *(MANIFEST_NAME, PLAN_NAME, SHARDS_INDEX_NAME),
)
"""Names in the output folder that no source can have."""

RECOGNIZE = "recognise"
"""The rule by which names of special tokens in a text become these tokens."""

REFUSE = "refuse"
"""The rule by which a conversation with names of special tokens in its messages is quarantined."""


def sha256_of(data: bytes) -> str:
    """Return the sha256 (hex) of bytes."""
    return hashlib.sha256(data).hexdigest()


def key_of(values: object) -> str:
    """Return the sha256 (hex) of plain values, independent of the order of keys in dictionaries.

    >>> key_of({"b": 1, "a": 2}) == key_of({"a": 2, "b": 1})
    True
    """
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256_of(text.encode())


def digest_of(parts: Iterable[str]) -> str:
    """Return the sha256 (hex) of hex digests, each followed by a newline."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() + b"\n")
    return total.hexdigest()
