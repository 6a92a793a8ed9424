"""Files of a source and parts of them, as values. No file is opened."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nanotok_ray.formats import SourceFile, Transform
from nanotok_ray.recipe import MAX_DOCUMENT_BYTES
from nanotok_ray.sources.names import split_suffix
from nanotok_ray.storage import InputFile

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of one file.

    Parquet: row groups `start` to `stop`. Uncompressed lines: the lines whose first byte is in the
    range from `start` to `stop`. All other files: the whole file, from 0 to its size.
    """

    file: SourceFile
    """The file, whose version must be unchanged when it is read."""
    start: int
    stop: int

    @classmethod
    def of(cls, file: SourceFile) -> "Self":
        """Return all of a file."""
        return cls(file, 0, len(file.layout) if file.format == "parquet" else file.size)

    @property
    def num_bytes(self) -> int:
        """Estimated decoded bytes: exact for ranges, four times a compressed size."""
        if self.file.format == "parquet":
            return sum(group.num_bytes for group in self.file.layout[self.start : self.stop])
        if self.file.compression is not None:
            return self.file.size * 4
        return self.stop - self.start


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentRules:
    """How the documents of a piece are read."""

    kind: str
    """text, chat or vision."""
    column: str
    """The column or field of the text; empty for other kinds and formats."""
    id_column: str | None = None
    """The column or field of the document ids; None: no ids are read."""
    tools: str | None = None
    """The column of the tools of conversations, which is read with those of the dialect."""
    transform: Transform | None = None
    """The function that the documents go through."""
    columns: tuple[str, ...] = ()
    """The columns that the function gets besides the document."""
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    """A larger document is quarantined without reading it."""
    batch_documents: int = 1024


def source_file(file: InputFile, *, name: str, format_name: str) -> SourceFile:
    """Return a file of a listing by its path relative to its source."""
    return SourceFile(
        path=name,
        url=file.path,
        size=file.size,
        etag=file.etag,
        mtime_ns=file.mtime_ns,
        format=format_name,
        compression=None if format_name == "parquet" else split_suffix(file.path)[1],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedSource:
    """The files of a source in the bytewise order of their relative paths."""

    root: str
    """The folder of relative paths: an absolute path or a URL."""
    files: tuple[SourceFile, ...]
    notes: tuple[str, ...] = ()
    """Notes for a person, for example that a file is not compressed as its name suggests."""
    num_unreadable: int = 0
    """Number of files that are not compressed as their names suggest; each is quarantined as a
    tail.
    """
    unused: tuple[InputFile, ...] = ()
    """The files of its folders that are not read because of their suffix."""
    hidden: tuple[InputFile, ...] = ()
    """The files that are not read only because their names are those of hidden files."""
