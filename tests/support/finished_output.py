"""A small finished output, and functions that damage it."""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from nanotok_ray.api import prepare
from nanotok_ray.formats import ROW, ShardRecord, read_manifest
from nanotok_ray.loader import open_shards
from nanotok_ray.shards import assemble, expected_records, read_record
from nanotok_ray.sources import plan_from_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess, in_place_of_ray
from tests.support.small_corpus import recipe, write_corpus

HEADER_BYTES = 32


def finished_output(root: Path) -> Path:
    """Make an output without Ray in a folder, and return its folder; the corpus is kept."""
    with pytest.MonkeyPatch.context() as patch, in_place_of_ray(InProcess()):
        patch.setattr("os.fsync", lambda _: None)
        write_corpus(root / "in")
        prepare(recipe(root / "in", root / "out", "limits.slice_bytes=60000"))
    return root / "out"


def read_all(out):
    """Read every document and mask, like a trainer."""
    for split in ("train", "val"):
        shards = open_shards(str(out), split=split)
        for document in range(len(shards)):
            ids, mask = shards[document], shards.mask(document)
            assert mask is None or len(mask) == len(ids)
            images = shards.images(document)
            assert images is None or (images[:, 1] <= len(ids)).all()
            shards.shard_of(document)


def with_index(out, change):
    """Change the rows and names of shards.idx, and the manifest to match."""
    path = out / "shards.idx"
    data = path.read_bytes()
    count = struct.unpack_from("<Q", data, 16)[0]
    rows = np.frombuffer(data, dtype=ROW, count=count, offset=HEADER_BYTES).copy()
    strings = change(rows, data[HEADER_BYTES + rows.nbytes :])
    strings = data[HEADER_BYTES + rows.nbytes :] if strings is None else strings
    header = data[:24] + struct.pack("<Q", len(strings))
    publish_index(out, header + rows.tobytes() + strings)


def publish_index(out, data):
    """Write shards.idx, and the manifest to match."""
    (out / "shards.idx").write_bytes(data)
    change_json(out / "manifest.json", "shards_index_sha256", hashlib.sha256(data).hexdigest())


def change_json(path, field, value):
    """Put a value into a JSON file."""
    values = json.loads(path.read_text())
    values[field] = value
    path.write_text(json.dumps(values))


def rewrite(out, pattern, change):
    """Change one file of the output, and record, index and manifest to match."""
    folder = Folder(str(out))
    plan = plan_from_json((out / "plan.json").read_bytes())
    path = min(out.glob(pattern))
    path.write_bytes(change(path.read_bytes()))
    settings = read_manifest(folder).settings
    expected = list(expected_records(plan, settings))
    for each in expected:
        record = json.loads((out / each.record_name).read_text())
        for file in record["files"]:
            if out / file["name"] == path:
                file["sha256"], file["size"] = folder.sha256(file["name"]), path.stat().st_size
        (out / each.record_name).write_text(json.dumps(record))
    records = [read_record(folder, each.record_name, ShardRecord) for each in expected]
    tokenizer = Tokenizer.load(out / "tokenizer")
    assemble(plan, records, settings=settings, tokenizer=tokenizer).publish(folder)
    return path
