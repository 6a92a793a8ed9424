"""The schemas of JSON files and of shards.idx, which are checked by every reader."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, IncompleteOutputError
from nanotok_ray.formats.codec import format_value, from_json, hexadecimal, natural, number
from nanotok_ray.formats.document_images import images_bytes
from nanotok_ray.formats.document_index import index_bytes
from nanotok_ray.formats.manifest import (
    MANIFEST_FORMAT,
    NUMBERS,
    RECORDS,
    SHARDS_INDEX_NAME,
    SPLITS,
    ShardsIndex,
)
from nanotok_ray.formats.paths import is_inner_name

Check = Callable[[Any], bool]
Shape = Check | list[Any] | dict[str, Any]
"""A check, a list of values of one shape, or a dictionary with these keys and any others.

A key that ends with `?` is optional.
"""


def byte_range(value: object) -> bool:
    """Return whether a value is a list of two numbers in order.

    >>> byte_range([0, 9]), byte_range([9, 0]), byte_range([])
    (True, False, False)
    """
    return (
        isinstance(value, list)
        and len(value) == 2  # noqa: PLR2004 - start and end
        and all(map(number, value))
        and value[0] <= value[1]
    )


def text(value: object) -> bool:
    """Return whether a value is a str."""
    return type(value) is str


def optional(check: Check) -> Check:
    """Return a check that also accepts null."""
    return lambda value: value is None or check(value)


def one_of(*values: object) -> Check:
    """Return a check that accepts only these values."""
    return lambda value: any(
        type(value) is type(allowed) and value == allowed for allowed in values
    )


def numbers_by_name(value: object) -> bool:
    """Return whether a value is a dictionary of numbers."""
    return isinstance(value, dict) and all(map(number, value.values()))


def check_shape(value: object, shape: Shape, *, name: str, at: str = "") -> None:
    """Refuse a value that does not have a shape; errors call its file `name`.

    >>> check_shape({"rows": [1, 2], "more": None}, {"rows": [number]}, name="a.json")

    Raises:
        CorruptOutputError: The message names the file, the position and the value.
    """
    match shape:
        case dict():
            _check_dictionary(value, shape, name=name, at=at)
        case list():
            if not isinstance(value, list):
                raise _wrong(value, name=name, at=at)
            for index, item in enumerate(value):
                check_shape(item, shape[0], name=name, at=f"{at}[{index}]")
        case _:
            if not shape(value):
                raise _wrong(value, name=name, at=at)


def _check_dictionary(value: object, shape: Mapping[str, Shape], *, name: str, at: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, name=name, at=at)
    for field, field_shape in shape.items():
        key = field.removesuffix("?")
        if key in value:
            check_shape(value[key], field_shape, name=name, at=f"{at}.{key}" if at else key)
        elif key == field:
            raise CorruptOutputError(f"{name} lacks the field {at}.{key}".replace(" .", " "))


def _wrong(value: object, *, name: str, at: str) -> CorruptOutputError:
    return CorruptOutputError(
        f"{name}: {at or 'the whole'} is {format_value(value)}, which is invalid"
    )


ROLES: Final = ("bos", "user", "assistant", "python", "python_output", "image")
"""The owner of a token: the start, a speaker including the tokens that delimit it, an image."""

MAX_MANIFEST_BYTES = 64 << 20
MAX_RECORD_BYTES = 1 << 30
MAX_PLAN_BYTES = 4 << 30
MAX_SHARDS_INDEX_BYTES = 4 << 30
MAX_JSON_BYTES = 1 << 30
"""Limits far above the sizes that a job writes: a few kB, 300 bytes per input file, 200 per shard.
"""


def _flow(value: object) -> bool:
    known = {"in", "out", "quarantined"}
    return isinstance(value, dict) and value.keys() == known and numbers_by_name(value)


def _roles(value: object) -> bool:
    return isinstance(value, dict) and numbers_by_name(value) and value.keys() <= set(ROLES)


_TOTALS: dict[str, Shape] = {
    "documents": _flow,
    "bytes": _flow,
    "quarantined": numbers_by_name,
    "roles": _roles,
    "special_tokens": numbers_by_name,
    "unused_text?": numbers_by_name,
    "lost_rows?": number,
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
    "unused_text?": numbers_by_name,
    "lost_rows?": number,
    "shards": [
        {
            "name": text,
            "documents": number,
            "bytes": number,
            "tokens": number,
            "source_map": [
                {
                    "file": text,
                    "first_row": number,
                    "rows": number,
                    "row_group?": number,
                    "range?": byte_range,
                    "present?": [number],
                    "absent?": [number],
                }
            ],
        }
    ],
    "files": _FILES,
}


_COUNTED: dict[str, Shape] = {
    "spans": natural,
    "distinct_spans": number,
}

_OTHER_RECORDS: dict[str, dict[str, Shape]] = {
    "count": _COUNTED
    | {
        "documents": {"in": number, "quarantined": number},
        "quarantined": numbers_by_name,
        "texts": number,
        "text_bytes": number,
        "code_points": number,
        "gaps": natural,
    },
    "merge": _COUNTED,
    "reduce": {
        "totals": {
            "spans": natural,
            "span_bytes": natural,
            "distinct_spans": number,
            "dropped_spans": natural,
            "dropped_bytes": natural,
            "dropped_distinct": number,
        },
        "sum": {"spans": number, "bytes": number},
    },
    "learn": {
        "rules": text,
        "tokenizer_sha256": hexadecimal,
        "special_tokens?": {"learned": [text], "extended": [text]},
        "also?": [number],
        "report": {"skipped_slices": [text]},
    },
}
"""The required values of a record, besides its key and files, by stage."""


def parse_manifest(data: bytes, *, name: str) -> dict[str, Any]:
    """Parse a manifest of any writer; errors use `name`.

    Raises:
        CorruptOutputError: The data is not a manifest of this version.
    """
    values = from_json(data, name=name, expected_format=MANIFEST_FORMAT)
    check_manifest(values, name=name)
    return values


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


def check_manifest(values: Mapping[str, Any], *, name: str) -> None:
    """Refuse a manifest with values of other types than a job writes.

    Raises:
        CorruptOutputError: The message names the file and the field.
    """
    check_shape(values, _MANIFEST, name=name)
    for source in values["sources"]:
        if source not in values["settings"] or source not in values["kinds"]:
            raise CorruptOutputError(f"{name} lists the source {source!r} and says no more of it")
    for source, settings in values["settings"].items():
        check_shape(settings, _SETTINGS, name=name, at=f"settings.{source}")


def check_record_shape(values: Mapping[str, Any], *, name: str, of_shards: bool) -> None:
    """Refuse a record with values of other types than a job writes.

    With `of_shards` the record of a slice of shards is expected, otherwise one of counts.

    Raises:
        CorruptOutputError: The message names the file and the field.
    """
    if not of_shards:
        stage = values.get("stage")
        shape = _OTHER_RECORDS.get(stage, {}) if isinstance(stage, str) else {}
        check_shape(values, {"key": text, "files": _FILES} | shape, name=name)
        return
    check_shape(values, _TOKENIZE, name=name)
    if len(values["proof"]) > len(_PROOF):
        raise CorruptOutputError(f"{name}: proof has fields that this version does not know")


def check_size(num_bytes: int | None, *, limit: int, name: str) -> None:
    """Refuse a file that is much larger than a job writes, before it is read.

    Raises:
        CorruptOutputError: The file has more than `limit` bytes.
    """
    if num_bytes is not None and num_bytes > limit:
        raise CorruptOutputError(f"{name} has {num_bytes:,} bytes, more than {limit:,} is refused")


MAX_SHARD_NUMBER = 1 << 40
"""Limit of documents, tokens or bytes of one shard: beyond any disk, while sums fit 64 bits."""

_INDEX_BYTES = index_bytes(0)
_DOCUMENT_BYTES = index_bytes(1) - index_bytes(0)
_IMAGES_BYTES = images_bytes(documents=0, images=0)
_PER_DOCUMENT = images_bytes(documents=1, images=0) - _IMAGES_BYTES
_PER_IMAGE = images_bytes(documents=0, images=1) - _IMAGES_BYTES


def check_rows(index: ShardsIndex, *, sources: int) -> None:
    """Refuse inconsistent rows.

    Raises:
        CorruptOutputError: The message names the first such row and the problem.
    """
    rows = index.rows
    wide = np.isin(rows["item_bytes"], (2, 4))
    checks = {
        "a source that is none": rows["source"] < sources,
        "a split that is none": rows["split"] < len(SPLITS),
        "ids of neither 2 nor 4 bytes": wide,
        "a name outside of its names": rows["name_offset"] < len(index.strings),
        "a size that no shard has": np.all(
            [rows[name] <= MAX_SHARD_NUMBER for name in NUMBERS], axis=0
        ),
    }
    _refuse(checks)
    documents, tokens, images = rows["documents"], rows["tokens"], rows["images_bytes"]
    least = _IMAGES_BYTES + documents * _PER_DOCUMENT
    _refuse(
        {
            "another size than its tokens": rows["bin_bytes"] == tokens * rows["item_bytes"],
            "an index of another size than its documents": rows["idx_bytes"]
            == _INDEX_BYTES + documents * _DOCUMENT_BYTES,
            "a mask of another length": (rows["mask_bytes"] == 0) | (rows["mask_bytes"] == tokens),
            "image positions of another size than its documents": (images == 0)
            | ((images >= least) & ((images - least) % _PER_IMAGE == 0)),
        }
    )


def shard_name(index: ShardsIndex, row: int, *, sources: list[str]) -> str:
    """Return the name of a shard: that of a file in the folder of its source and split.

    Raises:
        CorruptOutputError: The name is not of this form.
    """
    entry = index.rows[row]
    start = int(entry["name_offset"])
    end = index.strings.find(b"\0", start)
    name = index.strings[start:end].decode(errors="replace")
    folder, _, _ = name.rpartition("/")
    expected = f"{sources[int(entry['source'])]}/{SPLITS[int(entry['split'])]}"
    if end < 0 or folder != expected or not is_inner_name(name):
        raise CorruptOutputError(
            f"{SHARDS_INDEX_NAME}, row {row}: {name[:80]!r} is not the name of a shard "
            f"in {expected}"
        )
    return name


def record_name(shard: str) -> str:
    """Return the path of the record of a shard: the path of the shard without its number.

    >>> record_name("web/train/part-00003-000-0123456789abcdef")
    'records/tokenize/web/train/part-00003-0123456789abcdef.json'
    """
    slice_name, _, key = shard.rpartition("-")
    return f"{RECORDS}{slice_name.rpartition('-')[0]}-{key}.json"


def _refuse(checks: dict[str, npt.NDArray[np.bool_]]) -> None:
    for what, is_right in checks.items():
        if not is_right.all():
            row = int(np.argmin(is_right))
            raise CorruptOutputError(f"{SHARDS_INDEX_NAME}, row {row} has {what}")
