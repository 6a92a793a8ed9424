"""The shape of plan.json, whoever wrote it: types, places in lists, ranges and shares.

Checked before a plan is built from it. Which slices a plan should have is not known here.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from nanotok_ray.dialects.detect import DIALECTS
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.shape import Check, Shape, check_shape, number, one_of, optional, text

_FILE: Shape = {
    "path": text,
    "url": text,
    "size": number,
    "etag": optional(text),
    "mtime_ns": optional(number),
    "footer_sha256": optional(text),
    "format": one_of("parquet", "jsonl", "lines", "document"),
    "compression": one_of(None, "gzip", "zstd"),
    "split": text,
    "layout": [[number]],
}

_SLICE: Shape = {
    "split": one_of("train", "val"),
    "share": optional(text),
    "number": number,
    "stem": text,
    "pieces": [[number]],
}

_PLAN: Shape = {
    "slice_bytes": number,
    "sources": [
        {
            "name": text,
            "kind": one_of("text", "chat", "vision"),
            "format": text,
            "column": text,
            "root": text,
            "rule": text,
            "files": [_FILE],
            "slices": [_SLICE],
        }
    ],
}


def check_plan(values: Mapping[str, Any], *, name: str) -> None:
    """Refuse what no plan could be built from.

    Raises:
        CorruptOutputError: naming the file and what is wrong in it.
    """
    check_shape(values, _PLAN, name=name)
    names = [source["name"] for source in values["sources"]]
    if len(set(names)) != len(names):
        raise CorruptOutputError(f"{name} names a source twice")
    for source in values["sources"]:
        _check_source(source, name=f"{name}, source {source['name']!r}")


def _check_source(source: Mapping[str, Any], *, name: str) -> None:
    files = source["files"]
    if not optional(text)(source.get("id_column")):
        raise CorruptOutputError(f"{name} has an id_column that is no text")
    dialects = one_of(None, *DIALECTS.get(source["kind"], ()))
    for file in files:
        _check_file(file, dialects=dialects, name=name)
    for each in source["slices"]:
        told = f"{name}, slice {each['stem']!r} {each['number']}"
        if not each["pieces"] or "/" in each["stem"] or "\0" in each["stem"]:
            raise CorruptOutputError(f"{told} has no piece, or a name that no slice has")
        for piece in each["pieces"]:
            if len(piece) != 3 or piece[0] >= len(files) or piece[1] > piece[2]:  # noqa: PLR2004
                raise CorruptOutputError(f"{told}: {piece[:3]} is no range of one of its files")
        _check_share(each["share"], name=told)


def _check_file(file: Mapping[str, Any], *, dialects: Check, name: str) -> None:
    if not dialects(file.get("dialect")):
        raise CorruptOutputError(f"{name}: {file['path']!r} has a dialect that its kind has not")
    if any(len(group) != 2 for group in file["layout"]):  # noqa: PLR2004 - rows and bytes
        raise CorruptOutputError(f"{name}: a row group of {file['path']!r} is no pair")


def _check_share(share: str | None, *, name: str) -> None:
    try:
        is_share = share is None or 0 <= Decimal(share) <= 1
    except InvalidOperation:  # no number at all, or one that cannot be compared
        is_share = False
    if not is_share:
        raise CorruptOutputError(f"{name} has a share of {share!r:.40}, not from 0 to 1")
