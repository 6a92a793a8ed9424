"""A sample of documents, decoded and compared with the source they came from.

Reads the source again through the same readers, and takes the row of each document from the source
map of its record. Chosen by a fixed seed, so that the same output is always asked the same.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nanotok_ray import chat
from nanotok_ray.document_index import unpack_index
from nanotok_ray.documents import to_utf8
from nanotok_ray.errors import SourceError
from nanotok_ray.output import Record
from nanotok_ray.plan import Slice
from nanotok_ray.shards import ShardSettings
from nanotok_ray.shards.source_map import mapped_rows
from nanotok_ray.sources import read_piece
from nanotok_ray.storage import Folder, open_input
from nanotok_ray.tokenizer import Tokenizer

SEED = 20
MAX_SLICES = 16
DOCUMENTS_PER_SLICE = 8

Place = tuple[str, int | None, int]
"""File, row group (or None), row."""


def choose(records: Sequence[tuple[Slice, Record]]) -> list[tuple[Slice, Record]]:
    """Choose up to 16 slices that have documents."""
    filled = [(each, record) for each, record in records if record.values["shards"]]
    return random.Random(SEED).sample(filled, min(MAX_SLICES, len(filled)))


def compare_slice(
    folder: Folder, each: Slice, record: Record, *, tokenizer: Tokenizer, settings: ShardSettings
) -> tuple[int, list[str]]:
    """Compare up to 8 documents of a slice with its source: (how many, problems)."""
    chosen = _choose_documents(record.values["shards"])
    wanted: dict[Place, tuple[str, int]] = {place: document for document, place in chosen}
    problems: list[str] = []
    found = 0
    try:
        for place, document in _source_documents(each, set(wanted)):
            name, number = wanted[place]
            found += 1
            ids, mask = _written(folder, name, number, item_bytes=tokenizer.model.id_bytes)
            if not _agrees(each, document, ids, mask, tokenizer=tokenizer, settings=settings):
                problems.append(f"{name}: document {number} is not row {place[2]} of {place[0]}")
    except (SourceError, OSError) as error:
        return found, [*problems, f"a source cannot be read again: {error}"]
    if found != len(wanted):
        problems.append(
            f"{each.source}: {len(wanted) - found} sampled rows are no longer in the source"
        )
    return found, problems


def _choose_documents(shards: list[dict[str, Any]]) -> list[tuple[tuple[str, int], Place]]:
    """Give ((shard, document in it), place in the source) of the sampled documents."""
    numbered = [(shard, number) for shard in shards for number in _spread(shard["documents"])]
    chosen = random.Random(SEED).sample(numbered, min(DOCUMENTS_PER_SLICE, len(numbered)))
    return [
        ((shard["name"], number), _place(shard["source_map"], number)) for shard, number in chosen
    ]


def _spread(count: int) -> list[int]:
    """Give the first, the last and some documents in between."""
    inner = random.Random(SEED).sample(range(count), min(DOCUMENTS_PER_SLICE, count))
    return sorted({0, count - 1, *inner})


def _place(source_map: list[dict[str, Any]], number: int) -> Place:
    for entry in source_map:
        if number < entry["rows"]:
            return entry["file"], entry.get("row_group"), int(mapped_rows(entry)[number])
        number -= entry["rows"]
    raise AssertionError("a source map is as long as its shard, which was checked before")


def _source_documents(each: Slice, wanted: set[Place]) -> Iterator[tuple[Place, bytes]]:
    by_file: dict[str, int] = defaultdict(int)
    for file, _, _ in wanted:
        by_file[file] += 1
    for piece in each.pieces:
        for batch in (
            read_piece(piece, kind=each.kind, column=each.column) if by_file[piece.path] else ()
        ):
            for index, number in enumerate(batch.numbers.tolist()):
                place = (piece.path, batch.group, number)
                if place in wanted:
                    by_file[piece.path] -= 1
                    yield place, batch.documents[index]
            if not by_file[piece.path]:
                break


def _written(
    folder: Folder, name: str, number: int, *, item_bytes: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    index = np.frombuffer(folder.read_bytes(f"{name}.idx"), dtype=np.uint8)
    positions, _ = unpack_index(index, name=name)
    first, last = int(positions[number]), int(positions[number + 1])
    with open_input(folder.join(f"{name}.bin")) as file:
        file.seek(first * item_bytes)
        ids = np.frombuffer(file.read((last - first) * item_bytes), dtype=f"<u{item_bytes}")
    if folder.size(f"{name}.mask") is None:
        return ids, None
    with open_input(folder.join(f"{name}.mask")) as file:
        file.seek(first)
        return ids, np.frombuffer(file.read(last - first), dtype=np.uint8)


def _agrees(
    each: Slice,
    document: bytes,
    ids: np.ndarray[Any, Any],
    mask: np.ndarray[Any, Any] | None,
    *,
    tokenizer: Tokenizer,
    settings: ShardSettings,
) -> bool:
    decoded = tokenizer.decode_bytes(ids)
    if each.kind == "text":
        before, after = "".join(settings.prepend).encode(), "".join(settings.append).encode()
        return decoded == before + document + after
    conversation = chat.parse_conversation(document)
    text = to_utf8(chat.expected_text(conversation))
    trained = to_utf8(chat.expected_trained_text(conversation))
    if mask is None:
        return False
    if settings.max_tokens is not None and len(ids) == settings.max_tokens:
        return text.startswith(decoded) and trained.startswith(
            tokenizer.decode_bytes(ids[mask == 1])
        )
    return decoded == text and tokenizer.decode_bytes(ids[mask == 1]) == trained
