"""Shapes of the manifest and of records, and how large their files may be.

Checked wherever they are read, so that whoever reads on may rely on types. Values that do not agree
with each other are found by verification, not here.
"""

from collections.abc import Mapping
from typing import Any, Final

from nanotok_ray.errors import CorruptOutputError, IncompleteOutputError
from nanotok_ray.manifest import MANIFEST_FORMAT, from_json
from nanotok_ray.shape import (
    Shape,
    check_shape,
    hexadecimal,
    number,
    numbers_by_name,
    one_of,
    optional,
    text,
)

ROLES: Final = ("bos", "user", "assistant", "python", "python_output", "image")
"""Whom a token belongs to: the start, a speaker with the tokens around what it says, an image."""

MAX_MANIFEST_BYTES = 64 << 20
MAX_RECORD_BYTES = 1 << 30
MAX_PLAN_BYTES = 4 << 30
MAX_SHARDS_INDEX_BYTES = 4 << 30
"""Far above what a job writes: some kB, some kB, 300 bytes a file of the corpus, 200 a shard."""


def _flow(value: object) -> bool:
    known = {"in", "out", "quarantined"}
    return isinstance(value, dict) and value.keys() == known and numbers_by_name(value)


def _roles(value: object) -> bool:
    return isinstance(value, dict) and numbers_by_name(value) and value.keys() <= set(ROLES)


_TOTALS = {
    "documents": _flow,
    "bytes": _flow,
    "quarantined": numbers_by_name,
    "roles": _roles,
    "special_tokens": numbers_by_name,
}

_SETTINGS = {
    "tokenizer_sha256": hexadecimal,
    "gaps": one_of("spans", "error"),
    "prepend": [text],
    "append": [text],
    "max_document_bytes": number,
    "max_shard_tokens": number,
    "max_tokens": optional(number),
    "image_token": optional(text),
    "image_tokens": optional(number),
    "grounding": [text],
    "train_prompt": one_of(True, False),
    "too_long": text,
    "untrainable": text,
}

_MANIFEST: Shape = {
    "sources": [text],
    "kinds": {},
    "tokenizer_sha256": hexadecimal,
    "special_tokens": numbers_by_name,
    "item_bytes": one_of(2, 4),
    "num_ids": number,
    "settings": {},
    "plan_sha256": hexadecimal,
    "records_sha256": hexadecimal,
    "shards_index_sha256": hexadecimal,
    "slices": number,
    "shards": number,
    "totals": {"all": _TOTALS},
}

_FILES: Shape = [{"name": text, "size": number, "sha256": hexadecimal}]

_PROOF: dict[str, Shape] = {
    "documents": number,
    "bytes": number,
    "encoded_again": number,
    "not_encoded_again": numbers_by_name,
}

_TOKENIZE: Shape = {
    "stage": one_of("tokenize"),
    "key": hexadecimal,
    "slice": {"source": text, "split": one_of("train", "val"), "number": number},
    "read": [
        {"file": text, "start": number, "stop": number, "bytes": number, "sha256": hexadecimal}
    ],
    "documents": _flow,
    "bytes": _flow,
    "proof": _PROOF,
    "other_split": number,
    "blank_lines": number,
    "quarantined": numbers_by_name,
    "tokens": number,
    "text_bytes": number,
    "special_text": number,
    "over_max_tokens": number,
    "truncated": number,
    "trainable_tokens": number,
    "without_trainable_token": number,
    "images": number,
    "roles": _roles,
    "special_tokens": numbers_by_name,
    "shards": [
        {
            "name": text,
            "documents": number,
            "bytes": number,
            "tokens": number,
            "source_map": [{"file": text, "first_row": number, "rows": number}],
        }
    ],
    "files": _FILES,
}

_ENTRY_EXTRAS: dict[str, Shape] = {
    "row_group": number,
    "range": [number],
    "present": [number],
    "absent": [number],
}


def parse_manifest(data: bytes, *, name: str) -> dict[str, Any]:
    """Parse a manifest, whoever wrote it; `name` is what errors call it.

    Raises:
        CorruptOutputError: it is not a manifest of this version.
    """
    values = from_json(data, name=name, expected_format=MANIFEST_FORMAT)
    check_manifest(values, name=name)
    return values


def no_manifest(name: str) -> IncompleteOutputError:
    """Give the error for an output without a manifest; `name` is where it should be."""
    return IncompleteOutputError(
        f"{name} does not exist: the job has not finished, or this is not its output folder; run "
        "the job again, it goes on where it stopped"
    )


def check_manifest(values: Mapping[str, Any], *, name: str) -> None:
    """Refuse a manifest whose values are of other types than a job writes.

    Raises:
        CorruptOutputError: naming the file and the field.
    """
    check_shape(values, _MANIFEST, name=name)
    for source in values["sources"]:
        if source not in values["settings"] or source not in values["kinds"]:
            raise CorruptOutputError(f"{name} lists the source {source!r} and says no more of it")
    for source, own in values["settings"].items():
        check_shape(own, _SETTINGS, name=name, at=f"settings.{source}")


def check_record_shape(values: Mapping[str, Any], *, name: str, of_shards: bool) -> None:
    """Refuse a record whose values are of other types than a job writes; of_shards: of a slice.

    Raises:
        CorruptOutputError: naming the file and the field.
    """
    if not of_shards:
        check_shape(values, {"key": text, "files": _FILES}, name=name)
        return
    check_shape(values, _TOKENIZE, name=name)
    if len(values["proof"]) > len(_PROOF):
        raise CorruptOutputError(f"{name}: proof has fields that this version does not know")
    for shard in values["shards"]:
        for entry in shard["source_map"]:
            for field in _ENTRY_EXTRAS.keys() & entry.keys():
                check_shape(entry[field], _ENTRY_EXTRAS[field], name=name, at=f"shards.{field}")


def check_size(num_bytes: int | None, *, most: int, name: str) -> None:
    """Refuse a file that is far larger than a job writes, before it is read.

    Raises:
        CorruptOutputError: it has more than `most` bytes.
    """
    if num_bytes is not None and num_bytes > most:
        raise CorruptOutputError(f"{name} has {num_bytes:,} bytes, more than {most:,} is refused")
