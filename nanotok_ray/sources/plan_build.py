"""Builds a plan from a recipe and the previous plan."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nanotok_ray import _core
from nanotok_ray.errors import PlanError, SourceError
from nanotok_ray.formats import (
    RESERVED_NAMES,
    FileRange,
    PlannedSlice,
    PlannedSource,
    SourceFile,
    local_path,
)
from nanotok_ray.recipe import AUTO, NANOCHAT, LimitsRecipe, Recipe, SourceRecipe
from nanotok_ray.sources.files import Piece, ResolvedSource
from nanotok_ray.sources.listing import unread_notes
from nanotok_ray.sources.names import matches
from nanotok_ray.sources.plan import Plan, Slice, clean_stem, num_documents
from nanotok_ray.sources.resolve import OnLook, ignore_looks, resolve
from nanotok_ray.sources.sample import check_sample
from nanotok_ray.sources.transform_code import transform_of
from nanotok_ray.storage import InputFile
from nanotok_ray.units import few, quantity

FILE_COST_BYTES = 64 * 1024
"""The weight in bytes of opening a file, for grouping small files."""

GROUP_LIMIT = 2
"""Maximum weight of a group in units of `slice_bytes`. Most groups end earlier, at a file whose
name decides so."""

_HASH_RANGE = 1 << 64


def cut_file(file: SourceFile, *, slice_bytes: int) -> list[Piece]:
    """Cut one file into pieces of about `slice_bytes` decoded bytes."""
    if file.format == "parquet":
        return [Piece(file, start, stop) for start, stop in _cut_row_groups(file, slice_bytes)]
    if file.compression is not None or file.format == "document":
        return [Piece.of(file)]
    starts = range(0, max(file.size, 1), slice_bytes)
    return [Piece(file, start, min(start + slice_bytes, file.size)) for start in starts]


def _cut_row_groups(file: SourceFile, slice_bytes: int) -> Iterator[tuple[int, int]]:
    start = size = 0
    for number, group in enumerate(file.layout):
        if number > start and size + group.num_bytes > slice_bytes:
            yield start, number
            start, size = number, 0
        size += group.num_bytes
    yield start, len(file.layout)


Grouped = tuple[str, int, list[Piece]]
"""Stem of a slice, its number in its first file, and its pieces."""


def group_files(files: Sequence[SourceFile], *, slice_bytes: int) -> Iterator[Grouped]:
    """Yield the slices of the files of one split, in order.

    A file larger than a quarter of `slice_bytes` is cut into its own slices. Smaller files are
    grouped, up to twice `slice_bytes`.
    """
    group: list[Piece] = []
    weight = 0
    for file in files:
        pieces = cut_file(file, slice_bytes=slice_bytes)
        file_weight = max(FILE_COST_BYTES, sum(piece.num_bytes for piece in pieces))
        is_large = file_weight * 4 > slice_bytes
        if group and (is_large or weight + file_weight > GROUP_LIMIT * slice_bytes):
            yield _slice(0, group)
            group, weight = [], 0
        if is_large:
            yield from (_slice(number, [piece]) for number, piece in enumerate(pieces))
            continue
        group += pieces
        weight += file_weight
        if _ends_group(file, file_weight, slice_bytes):
            yield _slice(0, group)
            group, weight = [], 0
    if group:
        yield _slice(0, group)


def _slice(number: int, pieces: list[Piece]) -> Grouped:
    return clean_stem(pieces[0].file.path), number, pieces


def _ends_group(file: SourceFile, weight: int, slice_bytes: int) -> bool:
    """Return whether a group ends after this file, decided by a hash of its name."""
    return _core.hash64(file.path.encode()) < min(1, 2 * weight / slice_bytes) * _HASH_RANGE


SHARED = "share"
"""The split of a file whose documents are split by their hash."""


def assign_splits(
    source: SourceRecipe,
    files: Sequence[SourceFile],
    frozen: PlannedSource | None,
    notes: list[str],
) -> tuple[str, ...]:
    """Return the split of each file, and add to `notes`. Frozen splits are kept.

    Raises:
        PlanError: The recipe contradicts the frozen split, or names a val file that does not exist.
    """
    if frozen is not None and frozen.rule != source.split:
        raise PlanError(
            f"source {source.name!r}: the first plan froze split = {frozen.rule!r}, the recipe now "
            f"says {source.split!r}; restore it, or pass --resplit to assign all splits again"
        )
    if source.split.startswith(SHARED):
        return (SHARED,) * len(files)
    if source.split in ("train", "val"):
        return (source.split,) * len(files)
    if source.split == "files":
        return _by_name(source, files, frozen)
    return _last_file(source, files, frozen, notes)


def _last_file(
    source: SourceRecipe,
    files: Sequence[SourceFile],
    frozen: PlannedSource | None,
    notes: list[str],
) -> tuple[str, ...]:
    if frozen is not None:
        known = _known(frozen)
        splits = tuple(known.get(file.path, "train") for file in files)
        _note_lost_val(frozen, splits, notes)
        return splits
    if len(files) == 1:
        notes.append(f"source {source.name!r} has one file, so it has no val split")
        return ("train",)
    share = last_share(files)
    if share > MAX_LAST_SHARE and "split" not in source.model_fields_set:
        notes.append(
            f"source {source.name!r}: its last file, {files[-1].path}, is the val split and has "
            f'{share:.0%} of the bytes; split = "share:0.01" selects 1% of the documents, and '
            'split = "last-file" confirms this'
        )
    return ("train",) * (len(files) - 1) + ("val",)


MAX_LAST_SHARE: Final = 0.05
"""The largest share of the last file in the bytes of a source that is a usual validation split."""


def last_share(files: Sequence[SourceFile] | Sequence[InputFile]) -> float:
    """Return the share of the last file in the bytes of all."""
    return files[-1].size / max(1, sum(file.size for file in files))


_MIN_VAL_DOCUMENTS: Final = 5
"""A share of fewer documents can be none: with probability 1/e for one, and below 1% for five."""


def _val_notes(source: PlannedSource) -> Iterator[str]:
    """Yield a note on a val split that is empty, or that a share of few documents leaves empty."""
    val = [file for file in source.files if file.split == "val"]
    if val and not any(map(_has_documents, val)):
        yield (
            f"source {source.name!r}: the val split is empty, because there is no document in its "
            f"{quantity(len(val), 'file')}: {few([file.path for file in val])}"
        )
    documents = num_documents(source)
    share = next((slice_.share for slice_ in source.slices if slice_.share is not None), None)
    if share is None or documents is None:
        return
    expected = documents * float(share)
    if expected < _MIN_VAL_DOCUMENTS:
        yield (
            f"source {source.name!r}: split = {source.rule!r} selects about {expected:.1f} of "
            f"{quantity(documents, 'document')}, so the val split can be empty; a larger share "
            "selects more"
        )


def _has_documents(file: SourceFile) -> bool:
    return any(group.rows for group in file.layout) if file.format == "parquet" else file.size > 0


def _known(frozen: PlannedSource) -> dict[str, str]:
    return {file.path: file.split for file in frozen.files}


def _note_lost_val(frozen: PlannedSource, splits: Sequence[str], notes: list[str]) -> None:
    lost = next((file.path for file in frozen.files if file.split == "val"), None)
    if lost is not None and "val" not in splits:
        notes.append(
            f"source {frozen.name!r} has no val split, because its validation file {lost} is "
            "gone; restore it, or pass --resplit to choose another"
        )


def _by_name(
    source: SourceRecipe, files: Sequence[SourceFile], frozen: PlannedSource | None
) -> tuple[str, ...]:
    """Return the splits: val for the files that `val_files` names, and train for the others."""
    paths = [file.path for file in files]
    val: set[str] = set()
    for pattern in source.val_files:
        named = {path for path in paths if matches(path, pattern)}
        if not named:
            raise PlanError(
                f"source.{source.name}.val_files has {pattern!r}, which is none of its "
                f"{len(paths):,} files; write paths as in plan.json, such as {paths[0]!r}"
            )
        val |= named
    known = {} if frozen is None else _known(frozen)
    for split, verb in (("train", "now names"), ("val", "no longer names")):
        moved = [p for p in paths if known.get(p) == split and (p in val) != (split == "val")]
        if moved:
            raise PlanError(
                f"source {source.name!r}: val_files {verb} what the first plan froze as {split}: "
                f"{few(moved)}; restore it, or pass --resplit to "
                "assign all splits again"
            )
    return tuple("val" if path in val else "train" for path in paths)


MAX_INODE_LOOKUPS: Final = 10_000
"""Maximum number of local files whose inode is read, to limit the time of a plan."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A file as one source reads it."""

    source: PlannedSource
    file: SourceFile

    @property
    def split(self) -> str:
        """The split of the file."""
        return self.file.split

    @property
    def label(self) -> str:
        """The path of the file with its source and split, for messages."""
        split = "train and val" if self.split == SHARED else self.split
        return f"{self.file.path} of source {self.source.name!r} ({split})"


def duplicate_notes(sources: Sequence[PlannedSource]) -> Iterator[str]:
    """Yield a note on files in both splits, and a note on other files that are read repeatedly."""
    groups = list(_groups(sources))
    leaks = [group for group in groups if _is_in_both(group)]
    if leaks:
        first = _group_text(leaks[0])
        yield (f"{first}{_more(leaks)}: documents for validation are also in the training data")
    others = [group for group in groups if not _is_in_both(group)]
    if others:
        first = _group_text(others[0])
        yield f"{first}{_more(others)}: their documents are in the output more than once"


def _groups(sources: Sequence[PlannedSource]) -> Iterator[list[_Read]]:
    """Yield the files that are read more than once, in the order of the plan."""
    alike: dict[tuple[object, ...], list[_Read]] = defaultdict(list)
    for source in sources:
        for file in source.files:
            if file.size:
                alike[_likeness(file)].append(_Read(source, file))
    left = MAX_INODE_LOOKUPS
    for members in alike.values():
        if len(members) == 1:
            continue
        same: dict[object, list[_Read]] = defaultdict(list)
        for read in members[:left]:
            same[_identity(read.file)].append(read)
        left = max(0, left - len(members))
        yield from (group for group in same.values() if len(group) > 1)


def _likeness(file: SourceFile) -> tuple[object, ...]:
    """Return a value that is equal for equal files, without reading from storage."""
    return (file.size, file.etag if file.etag is not None else file.mtime_ns)


def _identity(file: SourceFile) -> object:
    path = local_path(file.url)
    if path is None:
        return file.url if file.etag is None else (file.size, file.etag)
    try:
        status = Path(path).stat()
    except OSError:  # removed since; the job reports it
        return file.url
    return (status.st_dev, status.st_ino)


def _is_in_both(group: Sequence[_Read]) -> bool:
    """Return whether a file is in train and val. A share puts equal documents into one split."""
    rules = {read.source.rule if read.split == SHARED else read.split for read in group}
    return len(rules) > 1


def _group_text(group: Sequence[_Read]) -> str:
    first = group[0]
    other = next((read for read in group if read.split != first.split), group[1])
    is_local = local_path(first.file.url) is not None or first.file.etag is None
    what = "are the same file" if is_local else "have the same size and etag"
    return f"{first.label} and {other.label} {what}"


def _more(groups: Sequence[Sequence[_Read]]) -> str:
    number = len(groups) - 1
    return f", and so are {number:,} more" if number else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierPlan:
    """The plan of an output, as far as a new one depends on it."""

    plan: Plan | None = None
    """None: the output has no plan."""
    resplit: bool = False
    """Whether all splits are assigned again."""
    is_finished: bool = False
    """Whether the output is finished. Sources that are read as before are then not refused for
    their first documents."""

    def frozen(self, name: str) -> PlannedSource | None:
        """Return the source of a name, whose splits are kept."""
        return None if self.resplit else self._source(name)

    def accepts(self, source: PlannedSource) -> bool:
        """Return whether a finished output has a source that is read in the same way."""
        former = self._source(source.name) if self.is_finished else None
        return former is not None and _reading(former) == _reading(source)

    def _source(self, name: str) -> PlannedSource | None:
        sources = () if self.plan is None else self.plan.sources
        return next((source for source in sources if source.name == name), None)


def _reading(source: PlannedSource) -> tuple[object, ...]:
    return source.kind, source.format, source.column, source.transform


def make_plan(
    recipe: Recipe,
    *,
    earlier: EarlierPlan = EarlierPlan(),
    with_sample: bool = True,
    on_look: OnLook = ignore_looks,
) -> Plan:
    """Resolve the inputs of a recipe and cut them into slices.

    Args:
        recipe: The recipe.
        earlier: The plan of the output, which froze the splits.
        with_sample: Whether to read the first documents of each source, to check that some can be
            used.
        on_look: Called as the files of each source are opened; see `resolve`.

    Raises:
        SourceError: Inputs are missing, unreadable or not as the recipe states; names all sources.
        PlanError: The recipe contradicts the frozen split, or two slices would share a name.
    """
    notes: list[str] = []
    planned: list[tuple[PlannedSource, ResolvedSource]] = []
    errors: list[SourceError] = []
    for source in recipe.sources:
        try:
            transform = transform_of(source)
            resolved = resolve(source, written=recipe.output.folders, on_look=on_look)
            frozen, slice_bytes = earlier.frozen(source.name), recipe.limits.slice_bytes
            now = _plan_source(source, resolved, frozen, slice_bytes=slice_bytes, notes=notes)
            now = replace(now, transform=transform)
            planned.append((now, resolved))
            if with_sample:
                is_accepted = earlier.accepts(now)
                limits = recipe.limits
                notes += check_sample(
                    _as_rendered(source, recipe), now.files, limits=limits, is_accepted=is_accepted
                )
        except SourceError as error:  # other sources can be wrong too, and one error reports all
            errors.append(error)
    if with_sample:
        unreadable = sum(resolved.num_unreadable for _, resolved in planned)
        errors += _unreadable_errors(unreadable, notes, limits=recipe.limits)
    if errors:
        raise errors[0] if len(errors) == 1 else SourceError("\n".join(map(str, errors)))
    sources = tuple(source for source, _ in planned)
    notes += duplicate_notes(sources)
    notes += _unread_notes(planned)
    plan = Plan(sources=sources, slice_bytes=recipe.limits.slice_bytes, notes=tuple(notes))
    _check_names(plan)
    return plan


def _unread_notes(planned: Sequence[tuple[PlannedSource, ResolvedSource]]) -> Iterator[str]:
    """Yield notes on files that no source reads because of their names."""
    read = {file.url for source, _ in planned for file in source.files}
    for source, resolved in planned:
        unused = [file for file in resolved.unused if file.path not in read]
        hidden = [file for file in resolved.hidden if file.path not in read]
        yield from unread_notes(source.name, unused, hidden)


def _unreadable_errors(
    number: int, notes: Sequence[str], *, limits: LimitsRecipe
) -> Iterator[SourceError]:
    """Yield an error if more files are undecodable than the limits allow."""
    if number > limits.max_tails:
        files = "1 file is" if number == 1 else f"{number:,} files are"
        yield SourceError(
            f"{files} not what the name says, and limits.max_tails = {limits.max_tails} allows "
            f"fewer: {'; '.join(notes)}"
        )


def _as_rendered(source: SourceRecipe, recipe: Recipe) -> SourceRecipe:
    """Return a source with the rendering of conversations that a learned tokenizer has."""
    if source.template != AUTO or recipe.tokenizer.path is not None:
        return source
    return source.model_copy(update={"template": NANOCHAT})


def _plan_source(
    source: SourceRecipe,
    resolved: ResolvedSource,
    frozen: PlannedSource | None,
    *,
    slice_bytes: int,
    notes: list[str],
) -> PlannedSource:
    if source.name in RESERVED_NAMES:
        raise PlanError(
            f"a source cannot be named {source.name!r}: the output folder uses that name"
        )
    notes += resolved.notes
    splits = assign_splits(source, resolved.files, frozen, notes)
    files = tuple(
        replace(file, split=split) for file, split in zip(resolved.files, splits, strict=True)
    )
    planned = PlannedSource(
        name=source.name,
        kind=source.kind,
        format=resolved.files[0].format,
        column=source.column,
        id_column=source.id_column,
        tools=source.tools,
        dedup=source.dedup,
        root=resolved.root,
        rule=source.split,
        files=files,
        slices=tuple(cut_files(files, slice_bytes=slice_bytes, share=source.share)),
    )
    notes += _val_notes(planned) if frozen is None else ()
    return planned


def cut_files(
    files: Sequence[SourceFile], *, slice_bytes: int, share: str | None = None
) -> Iterator[PlannedSlice]:
    """Yield the slices of the files of a source in order, train before val."""
    numbers = {file.path: number for number, file in enumerate(files)}
    for split in ("train", "val"):
        chosen = [file for file in files if file.split in (split, SHARED)]
        for stem, number, pieces in group_files(chosen, slice_bytes=slice_bytes):
            ranges = (
                FileRange(numbers[piece.file.path], piece.start, piece.stop) for piece in pieces
            )
            yield PlannedSlice(
                split=split, share=share, number=number, stem=stem, pieces=tuple(ranges)
            )


def _check_names(plan: Plan) -> None:
    seen: dict[tuple[str, str, str], Slice] = {}
    for slice_ in plan.slices():
        name = (slice_.source, slice_.split, slice_.name_for(slice_.key))
        if name in seen:
            raise PlanError(
                f"source {slice_.source!r}: {seen[name].files[0].path} and {slice_.files[0].path} "
                f"give the same shard name {name[2]}; is one file listed twice?"
            )
        seen[name] = slice_
