"""Files that a plan reads more than once: listed in two sources, or reached by links.

Takes the sources of a plan; gives notes. Of local files the inode tells, which is asked of files of
equal size and time alone; on a store, size and etag. Reads no file.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nanotok_ray.locations import local_path
from nanotok_ray.plan.model import PlannedSource
from nanotok_ray.plan.split import SHARED
from nanotok_ray.sources import SourceFile

MOST_LOOKED_AT: Final = 10_000
"""Local files whose inode is asked for, so that a plan of very many files stays quick."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A file as one source reads it."""

    source: PlannedSource
    file: SourceFile
    split: str

    @property
    def told(self) -> str:
        """The file with its source and split."""
        split = "train and val" if self.split == SHARED else self.split
        return f"{self.file.path} of source {self.source.name!r} ({split})"


def duplicate_notes(sources: Sequence[PlannedSource]) -> Iterator[str]:
    """Yield a note on files that are train and val, and one on others that are read repeatedly."""
    groups = list(_groups(sources))
    leaks = [group for group in groups if _is_in_both(group)]
    if leaks:
        first = _told(leaks[0])
        yield (
            f"{first}{_more(leaks)}: documents that the model is validated with are in its "
            "training data too"
        )
    others = [group for group in groups if not _is_in_both(group)]
    if others:
        yield f"{_told(others[0])}{_more(others)}: its documents are in the output more than once"


def _groups(sources: Sequence[PlannedSource]) -> Iterator[list[_Read]]:
    """Yield the files that are read more than once, in the order of the plan."""
    alike: dict[tuple[object, ...], list[_Read]] = defaultdict(list)
    for source in sources:
        for file, split in zip(source.files, source.splits, strict=True):
            if file.size:
                alike[_likeness(file)].append(_Read(source, file, split))
    left = MOST_LOOKED_AT
    for members in alike.values():
        if len(members) == 1:
            continue
        same: dict[object, list[_Read]] = defaultdict(list)
        for each in members[:left]:
            same[_identity(each.file)].append(each)
        left = max(0, left - len(members))
        yield from (group for group in same.values() if len(group) > 1)


def _likeness(file: SourceFile) -> tuple[object, ...]:
    """Return what files that are the same have in common, without a look at storage."""
    return (file.size, file.etag if file.etag is not None else file.mtime_ns)


def _identity(file: SourceFile) -> object:
    path = local_path(file.url)
    if path is None:
        return file.url if file.etag is None else (file.size, file.etag)
    try:
        status = Path(path).stat()
    except OSError:  # gone since: the job will say so
        return file.url
    return (status.st_dev, status.st_ino)


def _is_in_both(group: Sequence[_Read]) -> bool:
    """Tell whether a file is train and val; a share puts equal documents into the same split."""
    rules = {each.source.rule if each.split == SHARED else each.split for each in group}
    return len(rules) > 1


def _told(group: Sequence[_Read]) -> str:
    first = group[0]
    other = next((each for each in group if each.split != first.split), group[1])
    is_local = local_path(first.file.url) is not None or first.file.etag is None
    what = "are the same file" if is_local else "have the same size and etag"
    return f"{first.told} and {other.told} {what}"


def _more(groups: Sequence[Sequence[_Read]]) -> str:
    number = len(groups) - 1
    return f", and so are {number:,} more" if number else ""
