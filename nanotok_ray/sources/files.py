"""Files of a source and parts of them, as values. No file is opened."""

from dataclasses import dataclass

from nanotok_ray.storage import InputFile


@dataclass(frozen=True, kw_only=True, slots=True)
class RowGroup:
    """The description of a row group in the footer of a parquet file."""

    rows: int
    num_bytes: int
    """Uncompressed bytes of the columns that are read."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """An input file with the attributes that identify its content without reading documents."""

    path: str
    """Path relative to the root of its source, with `/`; without the secrets of its URL."""
    url: str
    """Absolute path or URL, with the login and the signature that the recipe has. plan.json stores
    it without them."""
    size: int
    """Stored size in bytes."""
    etag: str | None = None
    mtime_ns: int | None = None
    footer_sha256: str | None = None
    """The sha256 (hex) of the footer of a parquet file."""
    format: str
    """`parquet`, `jsonl`, `lines` or `document`."""
    compression: str | None = None
    """`gzip`, `zstd` or None; parquet files are compressed internally."""
    layout: tuple[RowGroup, ...] = ()
    """The row groups of a parquet file."""
    dialect: str | None = None
    """As `Piece.dialect`."""

    def piece(self, start: int, stop: int) -> Piece:
        """Return a range of this file; see `Piece` for the meaning of the numbers."""
        return Piece(
            url=self.url,
            path=self.path,
            format=self.format,
            compression=self.compression,
            start=start,
            stop=stop,
            size=self.size,
            etag=self.etag,
            mtime_ns=self.mtime_ns,
            footer_sha256=self.footer_sha256,
            dialect=self.dialect,
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
