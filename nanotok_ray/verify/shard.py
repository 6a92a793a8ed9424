"""One record against its files, each read once: sizes, sha256, index, ids, masks, quarantine.

Every function gives the problems it found, each naming the file and what was expected. A worker
calls `check_files` before it writes the record, and verification calls it again.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.document_ids import DocumentIds
from nanotok_ray.document_index import check_sequences, unpack_index
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.storage import Folder
from nanotok_ray.verify.file_check import Kept, Largest, Lines, Use, read_once
from nanotok_ray.verify.record import size_problem


def check_files(
    folder: Folder, values: Mapping[str, Any], *, item_bytes: int, num_ids: int
) -> Iterator[str]:
    """Compare the files of a record that is sound by itself with what it says of them.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    shards = {shard["name"]: shard for shard in values["shards"]}
    for file in values["files"]:
        stem, _, suffix = file["name"].rpartition(".")
        if suffix == "bin":
            yield from _check_values(folder, file, below=num_ids, item_bytes=item_bytes)
        elif suffix == "mask":
            yield from _check_values(folder, file, below=2, item_bytes=1)
        elif suffix == "idx":
            yield from _check_index(folder, file, shards[stem], item_bytes=item_bytes)
        elif suffix == "ids":
            yield from _check_document_ids(folder, file, shards[stem])
        elif suffix == "jsonl":
            yield from _check_quarantine(folder, file, values)


def _check_bytes(folder: Folder, file: Mapping[str, Any], use: Use) -> Iterator[str]:
    """Read a file and compare size and sha256; `use` sees its bytes too."""
    name = file["name"]
    try:
        size, sha256 = read_once(folder, name, most=file["size"], use=use)
    except FileNotFoundError:
        yield from size_problem(file, None)
        return
    except CorruptOutputError as error:
        yield str(error)
        return
    if size != file["size"]:
        yield from size_problem(file, folder.size(name))
    elif sha256 != file["sha256"]:
        yield f"{name} has another sha256 than its record says: its bytes were changed"


def _check_values(
    folder: Folder, file: Mapping[str, Any], *, below: int, item_bytes: int
) -> Iterator[str]:
    seen = Largest(item_bytes)
    problems = list(_check_bytes(folder, file, seen))
    yield from problems
    if not problems and seen.value >= below:
        yield f"{file['name']} holds {seen.value}, values go up to {below - 1}"


def _kept_bytes(
    folder: Folder, file: Mapping[str, Any]
) -> Generator[str, None, npt.NDArray[np.uint8] | None]:
    """Give the bytes of a file, None after problems."""
    seen = Kept()
    problems = list(_check_bytes(folder, file, seen))
    yield from problems
    return None if problems else np.frombuffer(seen.data, dtype=np.uint8)


def _check_index(
    folder: Folder, file: Mapping[str, Any], shard: Mapping[str, Any], *, item_bytes: int
) -> Iterator[str]:
    name = file["name"]
    data = yield from _kept_bytes(folder, file)
    if data is None:
        return
    try:
        positions, own_bytes = unpack_index(data, name=name)
        check_sequences(data, name=name)
    except CorruptOutputError as error:
        yield str(error)
        return
    if own_bytes != item_bytes or int(positions[-1]) != shard["tokens"]:
        yield (
            f"{name} ends at {positions[-1]} tokens of {own_bytes} bytes, "
            f"the data at {shard['tokens']} of {item_bytes}"
        )
    if len(positions) - 1 != shard["documents"]:
        yield f"{name} has {len(positions) - 1} documents, the record says {shard['documents']}"


def _check_document_ids(
    folder: Folder, file: Mapping[str, Any], shard: Mapping[str, Any]
) -> Iterator[str]:
    data = yield from _kept_bytes(folder, file)
    if data is None:
        return
    try:
        DocumentIds(data, name=file["name"], documents=shard["documents"])
    except CorruptOutputError as error:
        yield str(error)


def _check_quarantine(
    folder: Folder, file: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[str]:
    name, seen = file["name"], Lines()
    problems = list(_check_bytes(folder, file, seen))
    yield from problems
    if problems:
        return
    if seen.problem or seen.rest:
        yield f"{name}: {seen.problem or 'its last line does not end'}"
        return
    if seen.kinds != values["quarantined"]:
        yield f"{name} holds {dict(seen.kinds)}, its record says {values['quarantined']}"
    told = values["bytes"]["quarantined"]
    if seen.num_bytes != told:
        yield f"{name} stands for {seen.num_bytes} bytes of documents, its record says {told}"
