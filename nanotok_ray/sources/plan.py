"""The plan as values, as numbers, and as plan.json."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from nanotok_ray.dialects import DIALECTS
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    PLAN_FORMAT,
    PLAN_NAME,
    Shape,
    check_shape,
    from_json,
    key_of,
    number,
    one_of,
    optional,
    text,
    to_json,
)
from nanotok_ray.sources.files import Piece, RowGroup, SourceFile
from nanotok_ray.units import masked_url

STEM_LENGTH = 40
"""Maximum length of the part of a source file's name that a shard's name contains."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """One task's share of a source: a range of one file, or a group of small files."""

    source: str
    kind: str
    """text, chat or vision."""
    column: str
    split: str
    """train or val."""
    share: str | None
    """Share of the documents that go to val by their hash, as written in the recipe."""
    number: int
    """Position among the slices of its first file."""
    stem: str
    """Cleaned, shortened stem of its first file."""
    pieces: tuple[Piece, ...]
    files: tuple[SourceFile, ...]
    """The file of each piece."""
    id_column: str | None = None
    """The column of the document ids. It is not in the key, because the documents do not depend on
    it."""

    @property
    def reads(self) -> tuple[str, tuple[Piece, ...]]:
        """Source and pieces; equal for the train and the val slice that share documents by hash."""
        return self.source, self.pieces

    @property
    def num_bytes(self) -> int:
        """Bytes to read, as estimated when the plan was made."""
        return sum(
            estimated_bytes(file, piece)
            for file, piece in zip(self.files, self.pieces, strict=True)
        )

    @property
    def key(self) -> str:
        """The sha256 of everything that determines the documents of the slice."""
        return key_of(
            {
                "source": self.source,
                "kind": self.kind,
                "column": self.column,
                "split": self.split,
                "share": self.share,
                "pieces": [
                    [file_key(file), piece.start, piece.stop]
                    for file, piece in zip(self.files, self.pieces, strict=True)
                ],
            }
        )

    def name_for(self, key: str) -> str:
        """Return the name of this slice's results under a key: stem, number, 16 hex of the key."""
        return f"{self.stem}-{self.number:05d}-{key[:16]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedSource:
    """One source of the plan: its files, the split of each, and its slices in order."""

    name: str
    kind: str
    format: str
    column: str
    root: str
    """The folder to which file paths are relative."""
    rule: str
    """The split rule of the recipe: last-file, train, val, files or share:X."""
    files: tuple[SourceFile, ...]
    splits: tuple[str, ...]
    """The split of each file; `share` if its documents are split by hash."""
    slices: tuple[Slice, ...]
    id_column: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All sources in recipe order."""

    sources: tuple[PlannedSource, ...]
    slice_bytes: int
    notes: tuple[str, ...] = ()
    """Notes for the user, for example that a source of one file has no val split; not stored."""

    def slices(self, *, split: str | None = None) -> Iterator[Slice]:
        """Yield the slices in order: sources as in the recipe, train before val."""
        for source in self.sources:
            for slice_ in source.slices:
                if split is None or slice_.split == split:
                    yield slice_

    @property
    def num_bytes(self) -> int:
        """Estimated bytes of all slices."""
        return sum(slice_.num_bytes for slice_ in self.slices())


def estimated_bytes(file: SourceFile, piece: Piece) -> int:
    """Estimate the decoded bytes of a piece: exact for ranges, four times a compressed size."""
    if file.format == "parquet":
        return sum(group.num_bytes for group in file.layout[piece.start : piece.stop])
    if file.compression is not None:
        return file.size * 4
    return piece.stop - piece.start


def file_key(file: SourceFile) -> list[Any]:
    """Return the values that identify the content of a file without reading it, and its kind."""
    version = file.etag if file.etag is not None else file.mtime_ns
    values = [file.path, file.format, file.compression, file.size, version, file.footer_sha256]
    return values if file.dialect is None else [*values, file.dialect]


def clean_stem(path: str) -> str:
    """Return the part of a file's name that the names of its shards contain.

    >>> clean_stem("a/b/héllo world.jsonl.gz")
    'h-llo-world'
    """
    name = path.rsplit("/", 1)[-1].split(".", 1)[0]
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")
    return cleaned[:STEM_LENGTH] or "file"


MAX_LISTED_FILES = 5


def overview(plan: Plan) -> list[dict[str, Any]]:
    """Return the numbers of each source as JSON values, in the order of the recipe."""
    return [_source(source) for source in plan.sources]


def _source(source: PlannedSource) -> dict[str, Any]:
    splits = {"train": 0, "val": 0}
    for slice_ in source.slices:
        splits[slice_.split] += 1
    # With a share, the train and the val slice of a group have the same files.
    groups = {
        tuple(file.path for file in slice_.files)
        for slice_ in source.slices
        if len(slice_.files) > 1
    }
    val = [file for file, split in zip(source.files, source.splits, strict=True) if split == "val"]
    return {
        "name": source.name,
        "kind": source.kind,
        "root": source.root,
        "format": source.format,
        "dialects": _dialects(source),
        "split": source.rule,
        "files": len(source.files),
        "stored_bytes": sum(file.size for file in source.files),
        "bytes": decoded_bytes(source.files),
        "documents": num_documents(source),
        "slices": splits,
        "largest_slice": max((slice_.num_bytes for slice_ in source.slices), default=0),
        "groups": {
            "groups": len(groups),
            "files": sum(map(len, groups)),
        },
        "val": {
            "files": len(val),
            "first": [file.path for file in val[:MAX_LISTED_FILES]],
            "stored_bytes": sum(file.size for file in val),
        },
    }


def _dialects(source: PlannedSource) -> dict[str, int]:
    """Return the number of files of each dialect, sorted by name; empty for text."""
    found = Counter(file.dialect for file in source.files if file.dialect is not None)
    return dict(sorted(found.items()))


def decoded_bytes(files: Sequence[SourceFile]) -> int:
    """Estimate the decoded bytes of files, each once even if both splits read it."""
    whole = (
        file.piece(0, len(file.layout) if file.format == "parquet" else file.size) for file in files
    )
    return sum(estimated_bytes(file, piece) for file, piece in zip(files, whole, strict=True))


def num_documents(source: PlannedSource) -> int | None:
    """Return the number of documents, bad ones included; None if the format does not store it."""
    if source.format == "parquet":
        return sum(group.rows for file in source.files for group in file.layout)
    return len(source.files) if source.format == "document" else None


def _pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(number, value))  # noqa: PLR2004


def _range(value: object) -> bool:
    """Return whether a value has the form [index of a file, start, stop]."""
    return isinstance(value, list) and len(value) == 3 and _pair(value[:2]) and value[1] <= value[2]  # noqa: PLR2004


def _stem(value: object) -> bool:
    return text(value) and not {"/", "\0"} & set(str(value))


def _share(value: object) -> bool:
    try:
        return text(value) and 0 <= Decimal(str(value)) <= 1
    except InvalidOperation:  # not a number, or NaN
        return False


_FILE_FIELDS: dict[str, Shape] = {
    "path": text,
    "url": text,
    "size": number,
    "etag": optional(text),
    "mtime_ns": optional(number),
    "footer_sha256": optional(text),
    "format": one_of("parquet", "jsonl", "lines", "document"),
    "compression": one_of(None, "gzip", "zstd"),
}
"""The fields of a `SourceFile` that plan.json stores unchanged."""

_SLICE: Shape = {
    "split": one_of("train", "val"),
    "share": optional(_share),
    "number": number,
    "stem": _stem,
    "pieces": [_range],
}

_PLAN: Shape = {
    "slice_bytes": number,
    "sources": [
        {
            "name": text,
            "kind": one_of("text", "chat", "vision"),
            "format": text,
            "column": text,
            "id_column?": optional(text),
            "root": text,
            "rule": text,
            "files": [_FILE_FIELDS | {"split": text, "layout": [_pair]}],
            "slices": [_SLICE],
        }
    ],
}


def check_plan(values: Mapping[str, Any], *, name: str) -> None:
    """Check that a plan can be built from the values of plan.json.

    Raises:
        CorruptOutputError: Names the file and the wrong value.
    """
    check_shape(values, _PLAN, name=name)
    names = [source["name"] for source in values["sources"]]
    if len(set(names)) != len(names):
        raise CorruptOutputError(f"{name} names a source twice")
    for source in values["sources"]:
        _check_source(source, name=f"{name}, source {source['name']!r}")


def _check_source(source: Mapping[str, Any], *, name: str) -> None:
    files = source["files"]
    is_dialect = one_of(None, *DIALECTS.get(source["kind"], ()))
    for file in files:
        if not is_dialect(file.get("dialect")):
            raise CorruptOutputError(
                f"{name}: {file['path']!r} has a dialect that does not belong to its kind"
            )
    for slice_ in source["slices"]:
        where = f"{name}, slice {slice_['stem']!r} {slice_['number']}"
        if not slice_["pieces"]:
            raise CorruptOutputError(f"{where} has no piece")
        for piece in slice_["pieces"]:
            if piece[0] >= len(files):
                raise CorruptOutputError(f"{where}: {piece} is not a range of one of its files")


def plan_to_json(plan: Plan) -> bytes:
    """Return a plan as the bytes of plan.json."""
    return to_json(
        {
            "format": PLAN_FORMAT,
            "slice_bytes": plan.slice_bytes,
            "sources": [_source_to_dict(source) for source in plan.sources],
        }
    )


def plan_from_json(data: bytes) -> Plan:
    """Return the plan from the bytes of plan.json.

    Raises:
        CorruptOutputError: The bytes are not a plan of this version.
    """
    values = from_json(data, name=PLAN_NAME, expected_format=PLAN_FORMAT)
    check_plan(values, name=PLAN_NAME)
    return Plan(
        sources=tuple(_source_from_dict(source) for source in values["sources"]),
        slice_bytes=values["slice_bytes"],
    )


def _source_to_dict(source: PlannedSource) -> dict[str, Any]:
    indexes = {file.path: number for number, file in enumerate(source.files)}
    return {
        "name": source.name,
        "kind": source.kind,
        "format": source.format,
        "column": source.column,
        **({} if source.id_column is None else {"id_column": source.id_column}),
        "root": source.root,
        "rule": source.rule,
        "files": [
            {field: getattr(file, field) for field in _FILE_FIELDS}
            | {"url": masked_url(file.url)}
            | ({} if file.dialect is None else {"dialect": file.dialect})
            | {"layout": [[group.rows, group.num_bytes] for group in file.layout], "split": split}
            for file, split in zip(source.files, source.splits, strict=True)
        ],
        "slices": [
            {
                "split": slice_.split,
                "share": slice_.share,
                "number": slice_.number,
                "stem": slice_.stem,
                "pieces": [
                    [indexes[file.path], piece.start, piece.stop]
                    for file, piece in zip(slice_.files, slice_.pieces, strict=True)
                ],
            }
            for slice_ in source.slices
        ],
    }


def _source_from_dict(values: dict[str, Any]) -> PlannedSource:
    files = tuple(_file_from_dict(file) for file in values["files"])
    return PlannedSource(
        name=values["name"],
        kind=values["kind"],
        format=values["format"],
        column=values["column"],
        id_column=values.get("id_column"),
        root=values["root"],
        rule=values["rule"],
        files=files,
        splits=tuple(file["split"] for file in values["files"]),
        slices=tuple(
            _slice_from_dict(slice_values, values, files) for slice_values in values["slices"]
        ),
    )


def _file_from_dict(values: dict[str, Any]) -> SourceFile:
    layout = tuple(RowGroup(rows=rows, num_bytes=size) for rows, size in values["layout"])
    attributes = {field: values[field] for field in _FILE_FIELDS}
    return SourceFile(**attributes, layout=layout, dialect=values.get("dialect"))


def _slice_from_dict(
    values: dict[str, Any], source: dict[str, Any], files: tuple[SourceFile, ...]
) -> Slice:
    members = [(files[index], start, stop) for index, start, stop in values["pieces"]]
    return Slice(
        source=source["name"],
        kind=source["kind"],
        column=source["column"],
        id_column=source.get("id_column"),
        split=values["split"],
        share=values["share"],
        number=values["number"],
        stem=values["stem"],
        pieces=tuple(file.piece(start, stop) for file, start, stop in members),
        files=tuple(file for file, _, _ in members),
    )
