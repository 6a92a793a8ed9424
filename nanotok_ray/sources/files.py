"""Files of a source and pieces of them, as values. No file is opened."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class RowGroup:
    """What the footer of a parquet file says of one row group."""

    rows: int
    num_bytes: int
    """Uncompressed bytes of the columns that are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A range of one file.

    Parquet: row groups `start` to `stop`. Uncompressed lines: the lines whose first byte lies from
    byte `start` up to `stop`. Everything else: the whole file, 0 to its size.
    """

    url: str
    """Where the file is: absolute path or URL."""
    path: str
    """Its name: path relative to its source."""
    format: str
    compression: str | None
    start: int
    stop: int
    size: int | None = None
    """Of the file, as are those below: what it must still be when it is read. None: not known."""
    etag: str | None = None
    mtime_ns: int | None = None
    footer_sha256: str | None = None
    dialect: str | None = None
    """Of a chat or vision file: how its documents say who speaks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One input file, and all that identifies its content without reading its documents."""

    path: str
    """Relative to the root of its source, with `/`."""
    url: str
    """Absolute path or URL."""
    size: int
    """In bytes, as stored."""
    etag: str | None = None
    mtime_ns: int | None = None
    footer_sha256: str | None = None
    """Hex sha256 of a parquet file's footer."""
    format: str
    """`parquet`, `jsonl`, `lines` or `document`."""
    compression: str | None = None
    """`gzip`, `zstd` or None; inside parquet it is the file's own business."""
    layout: tuple[RowGroup, ...] = ()
    """The row groups of a parquet file."""
    dialect: str | None = None
    """As `Piece.dialect`."""

    def piece(self, start: int, stop: int) -> Piece:
        """Return a range of this file; see `Piece` for what the numbers mean."""
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
    """The files of a source in order: bytewise by relative path."""

    root: str
    """The folder that relative paths start from: absolute path or URL."""
    files: tuple[SourceFile, ...]
    notes: tuple[str, ...] = ()
    """What a person should know of them, e.g. that one is not compressed as its name says."""
    num_unreadable: int = 0
    """Files that are not compressed as their names say: each will be a tail in quarantine."""
