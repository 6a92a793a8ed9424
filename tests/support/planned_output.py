"""Generated outputs with documents from parquet files, with plan.json and full records."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nanotok_ray.formats import ShardRecord, record_name, to_json
from tests.support.finished_output import change_json, with_index
from tests.support.made_output import BOS, MadeSource, made_output

Document = list[int]
RowGroup = Sequence[Document | None]
"""Its rows; None: a quarantined row."""
File = Sequence[RowGroup]


def files_of(counts: Sequence[Sequence[int]], *, seed: int, most: int = 12) -> list[list[Any]]:
    """Make files of row groups of these numbers of documents; a tenth is quarantined."""
    rng = random.Random(seed)

    def document() -> Document | None:
        if rng.random() < 0.1:
            return None
        return [BOS, *(rng.randrange(50000) for _ in range(rng.randrange(most)))]

    return [[[document() for _ in range(count)] for count in file] for file in counts]


def planned_output(
    root: Path, sources: Mapping[str, Sequence[File]], *, documents_per_shard: int = 5
) -> str:
    """Write an output of these files, all of them train, and return its folder."""
    pieces = {name: _cut(files, documents_per_shard) for name, files in sources.items()}
    made = [
        MadeSource(name=name, shards=[[document for _, document in piece] for piece in own])
        for name, own in pieces.items()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        made_output(root, *made)
    planned = [_planned(name, files) for name, files in sources.items()]
    plan = to_json({"format": "nanotok-plan 1", "slice_bytes": 1, "sources": planned})
    (root / "plan.json").write_bytes(plan)
    change_json(root / "manifest.json", "plan_sha256", hashlib.sha256(plan).hexdigest())
    _write_records(root, pieces)
    return str(root)


def _cut(files: Sequence[File], size: int) -> list[list[Any]]:
    """Return the position and ids of each document, shard by shard."""
    documents = [
        ((number, group, row), document)
        for number, file in enumerate(files)
        for group, rows in enumerate(file)
        for row, document in enumerate(rows)
        if document is not None
    ]
    return [documents[at : at + size] for at in range(0, len(documents), size)]


def _planned(name: str, files: Sequence[File]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "text",
        "format": "parquet",
        "column": "text",
        "root": "/corpus",
        "rule": "train",
        "slices": [],
        "files": [
            {
                "path": f"{number}.parquet",
                "url": f"/corpus/{number}.parquet",
                "size": 1,
                "etag": None,
                "mtime_ns": 1,
                "footer_sha256": None,
                "format": "parquet",
                "compression": None,
                "split": "train",
                "layout": [[len(rows), 1] for rows in file],
            }
            for number, file in enumerate(files)
        ],
    }


def _write_records(root: Path, pieces: Mapping[str, list[list[Any]]]) -> None:
    sums = []
    for name, own in pieces.items():
        for number, piece in enumerate(own):
            shard = f"{name}/train/part-{number:05d}-000-{'0' * 16}"
            record = to_json(_record(name, number, shard, piece))
            (root / record_name(shard)).write_bytes(record)
            sums.append(list(hashlib.sha256(record).digest()))

    def change(rows: Any, _: bytes) -> None:
        rows["record_sha256"] = np.array(sums, dtype=np.uint8)

    with_index(root, change)


def _record(name: str, number: int, shard: str, piece: list[Any]) -> dict[str, Any]:
    entries = []
    for (file, group), members in groupby(piece, key=lambda each: each[0][:2]):
        rows = [row for (_, _, row), _ in members]
        place = {"file": f"{file}.parquet", "row_group": group}
        entries.append(place | {"first_row": rows[0], "rows": len(rows)})
    flow = {"in": len(piece), "out": len(piece), "quarantined": 0}
    tokens = sum(len(document) for _, document in piece)
    written = {"name": shard, "documents": len(piece), "bytes": 0, "tokens": tokens}
    counts = ("other_split", "blank_lines", "text_bytes", "special_text", "images")
    more = ("over_max_tokens", "truncated", "trainable_tokens", "without_trainable_token")
    return {
        "format": ShardRecord.FORMAT,
        "stage": "tokenize",
        "key": "0" * 64,
        "slice": {"source": name, "split": "train", "number": number},
        "read": [],
        "documents": flow,
        "bytes": flow,
        "proof": {"documents": 0, "bytes": 0, "encoded_again": 0, "not_encoded_again": {}},
        "tokens": tokens,
        "shards": [written | {"source_map": entries}],
        "files": [],
        **dict.fromkeys((*counts, *more), 0),
        "quarantined": {},
        "roles": {},
        "special_tokens": {},
    }
