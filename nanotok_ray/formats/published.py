"""Reading the manifest of a finished output, shards.idx, and the records of shards."""

from pathlib import Path
from typing import Protocol

from nanotok_ray.errors import CorruptOutputError, IncompleteOutputError
from nanotok_ray.formats.codec import load
from nanotok_ray.formats.names import MANIFEST_NAME, SHARDS_INDEX_NAME, sha256_of
from nanotok_ray.formats.records import Manifest, ResultRecord, ShardRecord
from nanotok_ray.formats.shards_index import ShardsIndex, check_rows, unpack_shards_index
from nanotok_ray.formats.stored_shard import StoredShard

MAX_MANIFEST_BYTES = 64 << 20
MAX_RECORD_BYTES = 1 << 30
MAX_PLAN_BYTES = 4 << 30
MAX_SHARDS_INDEX_BYTES = 4 << 30
MAX_JSON_BYTES = 1 << 30
"""Limits far above the sizes that a job writes: a few kB, 300 bytes per input file, 200 per shard.
"""


def check_size(num_bytes: int | None, *, limit: int, name: str) -> None:
    """Refuse a file that is much larger than a job writes, before it is read.

    Raises:
        CorruptOutputError: The file has more than `limit` bytes.
    """
    if num_bytes is not None and num_bytes > limit:
        raise CorruptOutputError(f"{name} has {num_bytes:,} bytes, more than {limit:,} is refused")


class OutputFiles(Protocol):
    """The files of an output folder, local or remote."""

    def join(self, name: str) -> str:
        """Return the path or URL of a file."""

    def read_bytes(self, name: str, *, limit: int) -> bytes:
        """Return all bytes of a file.

        Raises:
            FileNotFoundError: The file does not exist.
            CorruptOutputError: The file has more than `limit` bytes, or is outside of the folder.
        """


def read_manifest(files: OutputFiles) -> Manifest:
    """Read the manifest of an output folder.

    Raises:
        IncompleteOutputError: The manifest does not exist: the job has not finished.
        CorruptOutputError: The file is not a manifest of this version.
    """
    return load(Manifest, manifest_bytes(files), name=files.join(MANIFEST_NAME))


def manifest_bytes(files: OutputFiles) -> bytes:
    """Return the bytes of the manifest of an output folder.

    Raises:
        IncompleteOutputError: The manifest does not exist: the job has not finished.
    """
    try:
        return files.read_bytes(MANIFEST_NAME, limit=MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        raise no_manifest(files.join(MANIFEST_NAME)) from None


def no_manifest(name: str) -> IncompleteOutputError:
    """Return the error for an output without a manifest, whose path would be `name`."""
    folder = name.rpartition("/")[0]
    if "://" not in name and not Path(folder).is_dir():
        return IncompleteOutputError(
            f"{folder} is not a folder; check the path, or run the job that writes it"
        )
    return IncompleteOutputError(
        f"{name} does not exist: the job has not finished, its last run failed, or this is not its "
        "output folder; `nanotok status` says which; run the job again, it resumes where it stopped"
    )


def read_shards_index(files: OutputFiles, manifest: Manifest) -> ShardsIndex:
    """Read shards.idx of an output folder.

    Raises:
        CorruptOutputError: The file is missing, is not the one that the manifest names, or has
            inconsistent rows.
    """
    name = files.join(SHARDS_INDEX_NAME)
    try:
        data = files.read_bytes(SHARDS_INDEX_NAME, limit=MAX_SHARDS_INDEX_BYTES)
    except (FileNotFoundError, IsADirectoryError):
        raise CorruptOutputError(f"{name} is missing, though the manifest names it") from None
    if sha256_of(data) != manifest.shards_index_sha256:
        raise CorruptOutputError(f"{name} is not the one the manifest names")
    index = unpack_shards_index(data)
    check_rows(index, sources=len(manifest.sources))
    return index


def read_shard_record(files: OutputFiles, shard: StoredShard) -> ShardRecord:
    """Read the record of a shard.

    Raises:
        CorruptOutputError: The record is missing, is invalid, or is not the one in shards.idx.
    """
    return load(ShardRecord, _record_bytes(files, shard), name=files.join(shard.record_name))


def _record_bytes(files: OutputFiles, shard: StoredShard) -> bytes:
    path = files.join(shard.record_name)
    folder = path.removesuffix(f"/{shard.record_name}")
    advice = (
        f"`nanotok verify {folder}` lists all problems; remove those files and run the job again, "
        "which writes them again"
    )
    try:
        data = files.read_bytes(shard.record_name, limit=MAX_RECORD_BYTES)
    except (FileNotFoundError, IsADirectoryError):
        raise CorruptOutputError(f"{path} is missing; {advice}") from None
    if sha256_of(data) != shard.record_sha256:
        raise CorruptOutputError(
            f"{path} is not the record that {SHARDS_INDEX_NAME} names; {advice}"
        )
    return data


def read_digests(files: OutputFiles, shard: StoredShard) -> dict[str, str]:
    """Return the sha256 (hex) of each file of a shard by suffix, from its record.

    Raises:
        CorruptOutputError: As for `read_shard_record`, or the record does not name a file.
    """
    name = files.join(shard.record_name)
    record = load(ResultRecord, _record_bytes(files, shard), name=name)
    sums = {file.name: file.sha256 for file in record.files}
    for suffix in shard.sizes:
        if shard.name + suffix not in sums:
            raise CorruptOutputError(
                f"{files.join(shard.record_name)} does not name {shard.name}{suffix}; run the job "
                "again, which writes them again"
            )
    return {suffix: sums[shard.name + suffix] for suffix in shard.sizes}
