"""The plan as values, as numbers, and as plan.json."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from nanotok_ray.dialects import DIALECTS
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    PLAN_NAME,
    DropList,
    PlannedSource,
    SourceFile,
    StoredPlan,
    Transform,
    dump,
    key_of,
    load,
)
from nanotok_ray.sources.files import Piece
from nanotok_ray.units import masked_url

STEM_LENGTH = 40
"""Maximum length of the part of a source file's name that a shard's name contains."""


class Drops(NamedTuple):
    """A list of the documents that are left out."""

    url: str
    sha256: str


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
    id_column: str | None = None
    """The column of the document ids. It is not in the key, because the documents do not depend on
    it."""
    tools: str | None = None
    """The column of the tools of conversations; the key of the shards has it."""
    transform: Transform | None = None
    """The function that the documents go through."""
    drops: "Drops | None" = None
    """The duplicates among its documents, which are left out."""

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """The file of each piece."""
        return tuple(piece.file for piece in self.pieces)

    @property
    def reads(self) -> tuple[object, ...]:
        """Source and ranges; equal for the train and the val slice that share documents by hash."""
        ranges = ((piece.file.path, piece.start, piece.stop) for piece in self.pieces)
        return self.source, *ranges

    @property
    def num_bytes(self) -> int:
        """Bytes to read, as estimated when the plan was made."""
        return sum(piece.num_bytes for piece in self.pieces)

    @property
    def key(self) -> str:
        """The sha256 of everything that determines the documents of the slice."""
        values: dict[str, object] = {
            "source": self.source,
            "kind": self.kind,
            "column": self.column,
            "split": self.split,
            "share": self.share,
            "pieces": [[file_key(piece.file), piece.start, piece.stop] for piece in self.pieces],
        }
        if self.transform is not None:
            values["transform"] = self.transform.identity()
        if self.drops is not None:
            values["drops"] = self.drops.sha256
        return key_of(values)

    def name_for(self, key: str) -> str:
        """Return the name of this slice's results under a key: stem, number, 16 hex of the key."""
        return f"{self.stem}-{self.number:05d}-{key[:16]}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All sources in recipe order."""

    sources: tuple[PlannedSource, ...]
    slice_bytes: int
    notes: tuple[str, ...] = ()
    """Notes for the user, for example that a source of one file has no val split; not stored."""
    folder: str = ""
    """URL of the output folder, which has the lists of duplicates; not stored."""
    is_pending: bool = False
    """Whether duplicates must be found first, so that the keys of slices are not known; not
    stored."""

    def slices(self, *, split: str | None = None) -> Iterator[Slice]:
        """Yield the slices in order: sources as in the recipe, train before val."""
        return (slice_ for slice_ in self._slices if split is None or slice_.split == split)

    def drop_lists(self) -> Iterator[DropList]:
        """Yield the lists of duplicates."""
        slices = (slice_ for source in self.sources for slice_ in source.slices)
        return (slice_.drops for slice_ in slices if slice_.drops is not None)

    @property
    def num_bytes(self) -> int:
        """Estimated bytes of all slices."""
        return sum(slice_.num_bytes for slice_ in self._slices)

    @cached_property
    def _slices(self) -> tuple[Slice, ...]:
        return tuple(slice_ for source in self.sources for slice_ in slices_of(source, self.folder))


def slices_of(source: PlannedSource, folder: str = "") -> Iterator[Slice]:
    """Yield the slices of a source in order; lists of duplicates are in the output folder."""
    for slice_ in source.slices:
        yield Slice(
            source=source.name,
            kind=source.kind,
            column=source.column,
            id_column=source.id_column,
            tools=source.tools,
            transform=source.transform,
            split=slice_.split,
            share=slice_.share,
            number=slice_.number,
            stem=slice_.stem,
            pieces=tuple(
                Piece(source.files[number], start, stop) for number, start, stop in slice_.pieces
            ),
            drops=None
            if slice_.drops is None
            else Drops(f"{folder.rstrip('/')}/{slice_.drops.name}", slice_.drops.sha256),
        )


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


@dataclass(frozen=True, kw_only=True, slots=True)
class FileGroups:
    """The groups of small files of a source, and the number of their files."""

    groups: int
    files: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ValFiles:
    """The val files of a source: their number, the first paths, and their stored bytes."""

    files: int
    first: tuple[str, ...]
    stored_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceOverview:
    """The numbers of a source, with the fields of their JSON."""

    name: str
    kind: str
    root: str
    format: str
    dialects: Mapping[str, int]
    """The number of files of each dialect, sorted by name; empty for text."""
    split: str
    files: int
    stored_bytes: int
    bytes: int
    """The estimated decoded bytes."""
    documents: int | None
    """None: unknown."""
    slices: Mapping[str, int]
    """The number of slices of each split."""
    largest_slice: int
    """Its estimated bytes."""
    groups: FileGroups
    val: ValFiles


def overview(plan: Plan) -> tuple[SourceOverview, ...]:
    """Return the numbers of each source in the order of the recipe."""
    return tuple(_overview(source) for source in plan.sources)


def _overview(source: PlannedSource) -> SourceOverview:
    slices = list(slices_of(source))
    splits = {"train": 0, "val": 0}
    for slice_ in slices:
        splits[slice_.split] += 1
    # With a share, the train and the val slice of a group have the same files.
    groups = {
        tuple(file.path for file in slice_.files) for slice_ in slices if len(slice_.pieces) > 1
    }
    val = [file for file in source.files if file.split == "val"]
    dialects = Counter(file.dialect for file in source.files if file.dialect is not None)
    return SourceOverview(
        name=source.name,
        kind=source.kind,
        root=source.root,
        format=source.format,
        dialects=dict(sorted(dialects.items())),
        split=source.rule,
        files=len(source.files),
        stored_bytes=sum(file.size for file in source.files),
        bytes=decoded_bytes(source.files),
        documents=num_documents(source),
        slices=splits,
        largest_slice=max((slice_.num_bytes for slice_ in slices), default=0),
        groups=FileGroups(groups=len(groups), files=sum(map(len, groups))),
        val=ValFiles(
            files=len(val),
            first=tuple(file.path for file in val[:MAX_LISTED_FILES]),
            stored_bytes=sum(file.size for file in val),
        ),
    )


def decoded_bytes(files: Sequence[SourceFile]) -> int:
    """Estimate the decoded bytes of files, each once even if both splits read it."""
    return sum(Piece.of(file).num_bytes for file in files)


def num_documents(source: PlannedSource) -> int | None:
    """Return the number of documents, bad ones included; None if the format does not store it."""
    if source.format == "parquet":
        return sum(group.rows for file in source.files for group in file.layout)
    return len(source.files) if source.format == "document" else None


def plan_to_json(plan: Plan) -> bytes:
    """Return a plan as the bytes of plan.json, without the secrets of URLs."""
    sources = (
        replace(source, files=tuple(map(_without_secrets, source.files))) for source in plan.sources
    )
    return dump(StoredPlan(slice_bytes=plan.slice_bytes, sources=tuple(sources)))


def _without_secrets(file: SourceFile) -> SourceFile:
    url = masked_url(file.url)
    return file if url == file.url else replace(file, url=url)


def plan_from_json(data: bytes, *, folder: str = "") -> Plan:
    """Return the plan from the bytes of plan.json in an output folder.

    Raises:
        CorruptOutputError: The bytes are not a plan of this version.
    """
    stored = load(StoredPlan, data, name=PLAN_NAME)
    for source in stored.sources:
        dialects = (None, *DIALECTS.get(source.kind, ()))
        for file in source.files:
            if file.dialect not in dialects:
                raise CorruptOutputError(
                    f"{PLAN_NAME}, source {source.name!r}: {file.path!r} has the dialect "
                    f"{file.dialect!r}, which its kind {source.kind} does not have"
                )
    return Plan(sources=stored.sources, slice_bytes=stored.slice_bytes, folder=folder)
