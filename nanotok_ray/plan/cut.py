"""Where files are cut into slices, and where groups of small files end.

Every cut of a file depends on that file alone (its size, its row groups). Groups of small files end
at landmarks, which depend on one file alone too: before and after a large file, and after a file
whose hashed name says so. A file added, removed or changed in the middle therefore moves no cut of
another large file, and changes groups between its two neighbouring landmarks alone. That is nearly
always one group: only where more than the size limit lies between two landmarks, which is e^-4 or
1.8% of the places, are there several, and all of them may change.
"""

from collections.abc import Iterator, Sequence

from nanotok_ray import _core
from nanotok_ray.plan.model import clean_stem, estimated_bytes
from nanotok_ray.sources import Piece, SourceFile

FILE_COST_BYTES = 64 * 1024
"""What opening a file weighs when small files are grouped."""

GROUP_LIMIT = 2
"""A group weighs at most so many times `slice_bytes`; most end by a name, at half of it."""

_HASH_RANGE = 1 << 64


def cut_file(file: SourceFile, *, slice_bytes: int) -> list[Piece]:
    """Cut one file into pieces of about `slice_bytes` decoded bytes."""
    if file.format == "parquet":
        return [file.piece(start, stop) for start, stop in _cut_row_groups(file, slice_bytes)]
    if file.compression is not None or file.format == "document":
        return [file.piece(0, file.size)]
    starts = range(0, max(file.size, 1), slice_bytes)
    return [file.piece(start, min(start + slice_bytes, file.size)) for start in starts]


def _cut_row_groups(file: SourceFile, slice_bytes: int) -> Iterator[tuple[int, int]]:
    start = size = 0
    for number, group in enumerate(file.layout):
        if number > start and size + group.num_bytes > slice_bytes:
            yield start, number
            start, size = number, 0
        size += group.num_bytes
    yield start, len(file.layout)


Grouped = tuple[str, int, list[tuple[SourceFile, Piece]]]
"""Stem of a slice, its number in its first file, and its pieces with their files."""


def group_files(files: Sequence[SourceFile], *, slice_bytes: int) -> Iterator[Grouped]:
    """Give the slices of the files of one split, in order.

    A file over a quarter of `slice_bytes` is cut into slices of its own; smaller ones are grouped,
    and no group weighs more than twice `slice_bytes`.
    """
    group: list[tuple[SourceFile, Piece]] = []
    weight = 0
    for file in files:
        pieces = cut_file(file, slice_bytes=slice_bytes)
        own = _weight(file, pieces)
        is_large = own * 4 > slice_bytes
        if group and (is_large or weight + own > GROUP_LIMIT * slice_bytes):
            yield _slice(0, group)
            group, weight = [], 0
        if is_large:
            yield from (_slice(number, [(file, piece)]) for number, piece in enumerate(pieces))
            continue
        group += [(file, piece) for piece in pieces]
        weight += own
        if _ends_group(file, own, slice_bytes):
            yield _slice(0, group)
            group, weight = [], 0
    if group:
        yield _slice(0, group)


def _slice(number: int, members: list[tuple[SourceFile, Piece]]) -> Grouped:
    return clean_stem(members[0][0].path), number, members


def _weight(file: SourceFile, pieces: list[Piece]) -> int:
    return max(FILE_COST_BYTES, sum(estimated_bytes(file, piece) for piece in pieces))


def _ends_group(file: SourceFile, weight: int, slice_bytes: int) -> bool:
    """Tell whether a group ends after this file: by its name, once per half a slice on average."""
    return _core.hash64(file.path.encode()) < min(1, 2 * weight / slice_bytes) * _HASH_RANGE
