"""The files of a shard against its record, and the record against shards.idx.

Takes the files of an output; reads a record, or all bytes of a shard. Nothing is kept.
"""

import hashlib
from typing import Any

import numpy as np

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats.manifest import RECORD_FORMAT, SHARDS_INDEX_NAME, from_json
from nanotok_ray.formats.schema import MAX_RECORD_BYTES, check_record_shape, record_name
from nanotok_ray.reader.files import Files, Stored
from nanotok_ray.reader.shard import SIZES, stored_files

_BLOCK_BYTES = 4 << 20


def read_record(files: Files, shard: str, row: np.void) -> dict[str, Any]:
    """Read the record that names a shard.

    Raises:
        CorruptOutputError: it is missing, not the one that shards.idx names, or no record.
    """
    name = record_name(shard)
    path = f"{files.url}/{name}"
    try:
        data = files.read(name, most=MAX_RECORD_BYTES)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise CorruptOutputError(f"{path} is missing; {_next_step(files)}") from error
    if hashlib.sha256(data).digest() != row["record_sha256"].tobytes():
        raise CorruptOutputError(
            f"{path} is not the record that {SHARDS_INDEX_NAME} names; {_next_step(files)}"
        )
    values = from_json(data, name=path, expected_format=RECORD_FORMAT)
    check_record_shape(values, name=path, of_shards=True)
    return values


def check_files(files: Files, shard: str, row: np.void) -> None:
    """Read all bytes of a shard and compare them with its record.

    Raises:
        CorruptOutputError: naming the first file that has other bytes.
    """
    values = read_record(files, shard, row)
    sums = {str(file["name"]): str(file["sha256"]) for file in values["files"]}
    for suffix, stored in stored_files(files, shard, row):
        name = f"{shard}{suffix}"
        if name not in sums:
            raise CorruptOutputError(
                f"{files.url}/{record_name(shard)} does not name {name}; {_next_step(files)}"
            )
        if _sha256(stored, int(row[SIZES[suffix]])) != sums[name]:
            raise CorruptOutputError(
                f"{files.url}/{name} has another sha256 than its record says: its bytes were "
                f"changed; {_next_step(files)}"
            )


def _sha256(stored: Stored, num_bytes: int) -> str:
    digest = hashlib.sha256()
    for start in range(0, num_bytes, _BLOCK_BYTES):
        digest.update(stored.part(start, min(start + _BLOCK_BYTES, num_bytes)).data)
    return digest.hexdigest()


def _next_step(files: Files) -> str:
    return (
        f"`nanotok verify {files.url}` names all that is wrong; remove those files and run the job "
        "again, which makes them anew"
    )
