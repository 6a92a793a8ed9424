"""Plan, planned source, slice: the values a plan is made of.

Knows which of their fields make up a key, and no more than that about the rest of the job.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nanotok_ray.manifest import key_of
from nanotok_ray.sources import Piece, SourceFile

STEM_LENGTH = 40
"""Longest part of a source file's name that a shard's name takes over."""


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
    """What is carried along beside each document; it is not in the key, since it does not say which
    documents these are."""

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
        """The sha256 of everything that says which documents these are."""
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
        """Give the name of this slice's results under a key: stem, number, 16 hex of the key."""
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
    """The split of each file; `share` where its documents are split by hash."""
    slices: tuple[Slice, ...]
    id_column: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All sources in recipe order."""

    sources: tuple[PlannedSource, ...]
    slice_bytes: int
    notes: tuple[str, ...] = ()
    """What a person should know, e.g. that a source of one file has no val split; not on disk."""

    def slices(self, *, split: str | None = None) -> Iterator[Slice]:
        """Give the slices in order: sources as in the recipe, train before val."""
        for source in self.sources:
            for each in source.slices:
                if split is None or each.split == split:
                    yield each

    @property
    def num_bytes(self) -> int:
        """Estimated bytes of all slices."""
        return sum(each.num_bytes for each in self.slices())


def estimated_bytes(file: SourceFile, piece: Piece) -> int:
    """Estimate the decoded bytes of a piece: exact for ranges, four times a compressed size."""
    if file.format == "parquet":
        return sum(group.num_bytes for group in file.layout[piece.start : piece.stop])
    if file.compression is not None:
        return file.size * 4
    return piece.stop - piece.start


def file_key(file: SourceFile) -> list[Any]:
    """Give what identifies the content of a file without reading it, and how that is understood."""
    version = file.etag if file.etag is not None else file.mtime_ns
    own = [file.path, file.format, file.compression, file.size, version, file.footer_sha256]
    return own if file.dialect is None else [*own, file.dialect]


def clean_stem(path: str) -> str:
    """Give the part of a file's name that its shards carry.

    >>> clean_stem("a/b/héllo world.jsonl.gz")
    'h-llo-world'
    """
    name = path.rsplit("/", 1)[-1].split(".", 1)[0]
    cleaned = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")
    return cleaned[:STEM_LENGTH] or "file"
