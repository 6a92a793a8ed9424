"""Files of a source and parts of them, as values. No file is opened."""

from dataclasses import dataclass

from nanotok_ray.formats import SourceFile
from nanotok_ray.storage import InputFile


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A range of one file.

    Parquet: row groups `start` to `stop`. Uncompressed lines: the lines whose first byte is in the
    range from `start` to `stop`. All other files: the whole file, from 0 to its size.
    """

    url: str
    """Absolute path or URL of the file."""
    path: str
    """Path of the file relative to its source."""
    format: str
    compression: str | None
    start: int
    stop: int
    size: int | None = None
    """Size of the file; like the fields below, it must be unchanged when the file is read. None:
    unknown.
    """
    etag: str | None = None
    mtime_ns: int | None = None
    footer_sha256: str | None = None
    dialect: str | None = None
    """For chats and vision files: the dialect of the documents."""


def piece_of(file: SourceFile, start: int, stop: int) -> Piece:
    """Return a range of a file; see `Piece` for the meaning of the numbers."""
    return Piece(
        url=file.url,
        path=file.path,
        format=file.format,
        compression=file.compression,
        start=start,
        stop=stop,
        size=file.size,
        etag=file.etag,
        mtime_ns=file.mtime_ns,
        footer_sha256=file.footer_sha256,
        dialect=file.dialect,
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
