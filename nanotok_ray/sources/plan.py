"""The plan as values, as numbers, and as plan.json."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nanotok_ray.dialects import DIALECTS
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    PLAN_NAME,
    FileRange,
    PlannedSlice,
    SourceFile,
    StoredPlan,
    StoredSource,
    dump,
    key_of,
    load,
)
from nanotok_ray.sources.files import Piece, piece_of
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
    val = [file for file in source.files if file.split == "val"]
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
        piece_of(file, 0, len(file.layout) if file.format == "parquet" else file.size)
        for file in files
    )
    return sum(estimated_bytes(file, piece) for file, piece in zip(files, whole, strict=True))


def num_documents(source: PlannedSource) -> int | None:
    """Return the number of documents, bad ones included; None if the format does not store it."""
    if source.format == "parquet":
        return sum(group.rows for file in source.files for group in file.layout)
    return len(source.files) if source.format == "document" else None


def plan_to_json(plan: Plan) -> bytes:
    """Return a plan as the bytes of plan.json, without the secrets of URLs."""
    return dump(StoredPlan(slice_bytes=plan.slice_bytes, sources=tuple(map(_stored, plan.sources))))


def plan_from_json(data: bytes) -> Plan:
    """Return the plan from the bytes of plan.json.

    Raises:
        CorruptOutputError: The bytes are not a plan of this version.
    """
    stored = load(StoredPlan, data, name=PLAN_NAME)
    return Plan(sources=tuple(map(_planned, stored.sources)), slice_bytes=stored.slice_bytes)


def _stored(source: PlannedSource) -> StoredSource:
    numbers = {file.path: number for number, file in enumerate(source.files)}
    return StoredSource(
        name=source.name,
        kind=source.kind,
        format=source.format,
        column=source.column,
        id_column=source.id_column,
        root=source.root,
        rule=source.rule,
        files=tuple(map(_without_secrets, source.files)),
        slices=tuple(
            PlannedSlice(
                split=slice_.split,
                share=slice_.share,
                number=slice_.number,
                stem=slice_.stem,
                pieces=tuple(
                    FileRange(numbers[piece.path], piece.start, piece.stop)
                    for piece in slice_.pieces
                ),
            )
            for slice_ in source.slices
        ),
    )


def _without_secrets(file: SourceFile) -> SourceFile:
    url = masked_url(file.url)
    return file if url == file.url else replace(file, url=url)


def _planned(source: StoredSource) -> PlannedSource:
    dialects = (None, *DIALECTS.get(source.kind, ()))
    for file in source.files:
        if file.dialect not in dialects:
            raise CorruptOutputError(
                f"{PLAN_NAME}, source {source.name!r}: {file.path!r} has the dialect "
                f"{file.dialect!r}, which its kind {source.kind} does not have"
            )
    return PlannedSource(
        name=source.name,
        kind=source.kind,
        format=source.format,
        column=source.column,
        id_column=source.id_column,
        root=source.root,
        rule=source.rule,
        files=source.files,
        slices=tuple(_slice(source, slice_) for slice_ in source.slices),
    )


def _slice(source: StoredSource, slice_: PlannedSlice) -> Slice:
    members = [(source.files[piece.file], piece) for piece in slice_.pieces]
    return Slice(
        source=source.name,
        kind=source.kind,
        column=source.column,
        id_column=source.id_column,
        split=slice_.split,
        share=slice_.share,
        number=slice_.number,
        stem=slice_.stem,
        pieces=tuple(piece_of(file, piece.start, piece.stop) for file, piece in members),
        files=tuple(file for file, _ in members),
    )
