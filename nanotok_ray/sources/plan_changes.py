"""Changes of a source since an earlier plan: files added, removed, changed, or read differently.

The plans are compared by the attributes that identify the content of files, and by the keys that
determine how files are read. No file is read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nanotok_ray.formats import PlannedSource, SourceFile, Transform, key_of
from nanotok_ray.sources.plan import Plan, file_key
from nanotok_ray.units import masked_url


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that differs from the earlier plan."""

    file: str
    why: str
    """The difference, such as `size 10 -> 12`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceChanges:
    """The files of one source that differ from the earlier plan, sorted by path."""

    source: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[FileChange, ...]


def changes(before: Plan, after: Plan) -> Iterator[SourceChanges]:
    """Yield the sources with changed files: those of the later plan, then removed ones."""
    old = {source.name: source for source in before.sources}
    new = {source.name: source for source in after.sources}
    for name in (*new, *(name for name in old if name not in new)):
        of_source = _changes(name, _files(old.get(name)), _files(new.get(name)))
        if of_source.added or of_source.removed or of_source.changed:
            yield of_source


def _files(source: PlannedSource | None) -> dict[str, SourceFile]:
    return {} if source is None else {file.path: file for file in source.files}


def _changes(
    name: str, old: Mapping[str, SourceFile], new: Mapping[str, SourceFile]
) -> SourceChanges:
    changed = (
        FileChange(path, _reason(old[path], file))
        for path, file in new.items()
        if path in old and file_key(old[path]) != file_key(file)
    )
    return SourceChanges(
        source=name,
        added=tuple(path for path in new if path not in old),
        removed=tuple(path for path in old if path not in new),
        changed=tuple(changed),
    )


def _reason(old: SourceFile, new: SourceFile) -> str:
    if old.size != new.size:
        return f"size {old.size:,} -> {new.size:,}"
    for field in ("format", "compression"):
        if getattr(old, field) != getattr(new, field):
            return f"{field} {getattr(old, field)} -> {getattr(new, field)}"
    if old.footer_sha256 != new.footer_sha256:
        return "footer"
    if old.mtime_ns == new.mtime_ns and old.etag == new.etag:
        return f"dialect {old.dialect or 'none'} -> {new.dialect or 'none'}"
    return "etag" if old.etag != new.etag else "modification time"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingChange:
    """A key of the recipe by which the files of a source are now read differently."""

    source: str
    what: str
    """The key of the recipe."""
    before: str | None
    now: str | None


_READING = {
    **{name: name for name in ("kind", "column", "id_column", "tools", "transform", "dedup")},
    "split": "rule",
}
"""Keys of the recipe that determine how files are read, with the attribute of a planned source."""


def reading_changes(before: Plan, after: Plan) -> Iterator[ReadingChange]:
    """Yield the changed keys of the sources that both plans have."""
    old = {source.name: source for source in before.sources}
    for source in after.sources:
        for what, field in _READING.items() if source.name in old else ():
            then, now = getattr(old[source.name], field), getattr(source, field)
            if then != now:
                yield ReadingChange(
                    source=source.name, what=what, before=_written(then), now=_written(now)
                )


def _written(value: str | Transform | None) -> str | None:
    """Return the value of a key as text; a function with a hash of all on which it depends."""
    if isinstance(value, Transform):
        return f"{value.name} ({key_of(value.identity())[:8]})"
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceChanges:
    """The number of slices that two plans share, and of those that only one has."""

    same: int
    new: int
    gone: int


def slice_changes(before: Plan, after: Plan) -> SliceChanges:
    """Compare the slices of two plans by their keys."""
    old = {slice_.key for slice_ in before.slices()}
    new = {slice_.key for slice_ in after.slices()}
    return SliceChanges(same=len(old & new), new=len(new - old), gone=len(old - new))


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLoss:
    """The files of a source of an earlier plan, and those that no longer exist."""

    source: str
    files: int
    """Number of files in the earlier plan."""
    num_bytes: int
    """Stored bytes of these files."""
    gone: tuple[str, ...]
    """Paths of the files that no longer exist or are empty, in the order of the plan."""
    gone_bytes: int

    @property
    def share(self) -> float:
        """The larger of the shares of lost files and of lost bytes."""
        return max(len(self.gone) / self.files, self.gone_bytes / max(1, self.num_bytes))

    @property
    def is_complete(self) -> bool:
        """Whether no file remains."""
        return len(self.gone) == self.files


def losses(before: Plan, after: Plan) -> Iterator[SourceLoss]:
    """Yield the sources of an earlier plan that lost files, in its order.

    A file still exists if its path or URL exists, whatever its content and the name of its source;
    or if its source has a file of the same name, size and footer at another path, as after a move.
    """
    there = {masked_url(file.url): file.size for source in after.sources for file in source.files}
    moved = {(source.name, *_content(file)) for source in after.sources for file in source.files}
    for source in before.sources:
        files = [file for file in source.files if file.size]
        gone = [
            file
            for file in files
            if not there.get(masked_url(file.url)) and (source.name, *_content(file)) not in moved
        ]
        if gone:
            yield SourceLoss(
                source=source.name,
                files=len(files),
                num_bytes=sum(file.size for file in files),
                gone=tuple(file.path for file in gone),
                gone_bytes=sum(file.size for file in gone),
            )


def _content(file: SourceFile) -> tuple[str, int, str | None]:
    """Return the attributes of a file that a copy has too."""
    return file.path.rpartition("/")[2], file.size, file.footer_sha256
