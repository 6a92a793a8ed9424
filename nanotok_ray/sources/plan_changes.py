"""What became of a source since an earlier plan: files added, removed, changed, or read otherwise.

Compares what identifies the content of files in two plans, and how they are read; reads no file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nanotok_ray.sources.files import SourceFile
from nanotok_ray.sources.plan import Plan, PlannedSource, file_key


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceChanges:
    """The files of one source that are not as in the earlier plan, by path, sorted."""

    source: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    reasons: Mapping[str, str]
    """Of a changed file, what shows that it changed, as `size 10 -> 12`."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "source": self.source,
            "added": list(self.added),
            "removed": list(self.removed),
            "changed": [{"file": path, "why": self.reasons[path]} for path in self.changed],
        }


def changes(before: Plan, after: Plan) -> Iterator[SourceChanges]:
    """Yield the sources whose files changed: those of the later plan in order, then those gone."""
    old = {source.name: source for source in before.sources}
    new = {source.name: source for source in after.sources}
    for name in (*new, *(name for name in old if name not in new)):
        found = _changes(name, _files(old.get(name)), _files(new.get(name)))
        if found.added or found.removed or found.changed:
            yield found


def _files(source: PlannedSource | None) -> dict[str, SourceFile]:
    return {} if source is None else {file.path: file for file in source.files}


def _changes(
    name: str, old: Mapping[str, SourceFile], new: Mapping[str, SourceFile]
) -> SourceChanges:
    reasons = {
        path: _reason(old[path], file)
        for path, file in new.items()
        if path in old and file_key(old[path]) != file_key(file)
    }
    return SourceChanges(
        source=name,
        added=tuple(path for path in new if path not in old),
        removed=tuple(path for path in old if path not in new),
        changed=tuple(reasons),
        reasons=reasons,
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
    """One way in which the files of a source are no longer read as they were."""

    source: str
    what: str
    """Key of the recipe."""
    before: str | None
    now: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


_READING = {"kind": "kind", "column": "column", "id_column": "id_column", "split": "rule"}
"""Keys of the recipe that say how files are read, and where a planned source has them."""


def reading_changes(before: Plan, after: Plan) -> Iterator[ReadingChange]:
    """Yield what is read otherwise, of the sources that both plans have."""
    old = {source.name: source for source in before.sources}
    for source in after.sources:
        for what, field in _READING.items() if source.name in old else ():
            then, now = getattr(old[source.name], field), getattr(source, field)
            if then != now:
                yield ReadingChange(source=source.name, what=what, before=then, now=now)


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceChanges:
    """How many slices of a plan were in an earlier one, and how many of that are gone."""

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
    """What a source of an earlier plan had, and what of it is gone."""

    source: str
    files: int
    """Files that it had."""
    num_bytes: int
    """Bytes of these, as stored."""
    gone: tuple[str, ...]
    """Paths of the files that are gone or empty now, in the order of the plan."""
    gone_bytes: int

    @property
    def share(self) -> float:
        """The larger of the shares of files and of bytes that are gone."""
        return max(len(self.gone) / self.files, self.gone_bytes / max(1, self.num_bytes))

    @property
    def is_whole(self) -> bool:
        """Whether none of its files is left."""
        return len(self.gone) == self.files


def losses(before: Plan, after: Plan) -> Iterator[SourceLoss]:
    """Yield the sources of an earlier plan of which files are gone, in its order.

    A file is still there if its path or URL is, whatever its content and the name of its source; or
    if its source has one of the same name, size and footer elsewhere, as after a move.
    """
    there = {file.url: file.size for source in after.sources for file in source.files}
    moved = {(source.name, *_content(file)) for source in after.sources for file in source.files}
    for source in before.sources:
        files = [file for file in source.files if file.size]
        gone = [
            file
            for file in files
            if not there.get(file.url) and (source.name, *_content(file)) not in moved
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
    """Return what a file keeps when it is copied elsewhere."""
    return file.path.rpartition("/")[2], file.size, file.footer_sha256
