"""One record against its files: sizes, sha256, index against data, masks, ids, sums.

Every function gives the problems it found, each naming the file and what was expected.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from nanotok_ray.document_index import unpack_index
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.storage import Folder, open_input

READ_BYTES = 8 << 20
"""Read at a time while hashing; a multiple of the bytes of an id."""


def check_record(
    folder: Folder, values: dict[str, Any], *, item_bytes: int, num_ids: int
) -> Iterator[str]:
    """Compare the files of a record with what it says of them."""
    yield from _check_sums(values)
    problems = [problem for file in values["files"] for problem in _check_file(folder, file)]
    yield from problems
    if problems:
        return
    has_mask = {file["name"] for file in values["files"] if file["name"].endswith(".mask")}
    for shard in values["shards"]:
        yield from _check_index(folder, shard, item_bytes=item_bytes)
        yield from _check_values(
            folder, f"{shard['name']}.bin", below=num_ids, item_bytes=item_bytes
        )
        mask = f"{shard['name']}.mask"
        if mask in has_mask:
            if folder.size(mask) != shard["tokens"]:
                yield f"{mask} has {folder.size(mask)} bytes for {shard['tokens']} tokens"
            yield from _check_values(folder, mask, below=2, item_bytes=1)


def _check_sums(values: dict[str, Any]) -> Iterator[str]:
    documents, shards = values["documents"], values["shards"]
    told = f"record {values['key'][:16]}"
    if documents["in"] != documents["out"] + documents["quarantined"]:
        yield (
            f"{told}: {documents['in']} documents in, {documents['out']} out, "
            f"{documents['quarantined']} quarantined"
        )
    if sum(values["quarantined"].values()) != documents["quarantined"]:
        yield f"{told}: the reasons do not add up to {documents['quarantined']} documents"
    for name, total in (("documents", documents["out"]), ("tokens", values["tokens"])):
        found = sum(shard[name] for shard in shards)
        if found != total:
            yield f"{told}: its shards have {found} {name}, it says {total}"
    for shard in shards:
        mapped = sum(entry["rows"] for entry in shard["source_map"])
        if mapped != shard["documents"]:
            yield f"{shard['name']}: {mapped} documents in its source map of {shard['documents']}"


def _check_file(folder: Folder, file: dict[str, Any]) -> Iterator[str]:
    name = file["name"]
    size = folder.size(name)
    if size is None:
        yield f"{name} is missing"
    elif size != file["size"]:
        yield f"{name} has {size} bytes, its record says {file['size']}"
    elif folder.sha256(name) != file["sha256"]:
        yield f"{name} has another sha256 than its record says: its bytes were changed"


def _check_index(folder: Folder, shard: dict[str, Any], *, item_bytes: int) -> Iterator[str]:
    name = f"{shard['name']}.idx"
    try:
        data = np.frombuffer(folder.read_bytes(name), dtype=np.uint8)
        positions, own_bytes = unpack_index(data, name=name)
    except CorruptOutputError as error:
        yield str(error)
        return
    size = folder.size(f"{shard['name']}.bin")
    if own_bytes != item_bytes or int(positions[-1]) * item_bytes != size:
        yield f"{name} ends at {positions[-1]} tokens of {own_bytes} bytes, the data at byte {size}"
    if len(positions) - 1 != shard["documents"] or positions[-1] != shard["tokens"]:
        yield f"{name} has {len(positions) - 1} documents, the record says {shard['documents']}"


def _check_values(folder: Folder, name: str, *, below: int, item_bytes: int) -> Iterator[str]:
    with open_input(folder.join(name)) as file:
        while data := file.read(READ_BYTES):
            largest = int(np.frombuffer(data, dtype=f"<u{item_bytes}").max())
            if largest >= below:
                yield f"{name} holds {largest}, values go up to {below - 1}"
                return
