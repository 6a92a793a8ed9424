"""Which split each file of a source belongs to.

Takes the source of the recipe, its files, and the plan that froze their splits, if there is one;
gives the split of each file. Reads nothing. Does not know slices.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from nanotok_ray.errors import PlanError
from nanotok_ray.plan.model import PlannedSource
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources import SourceFile

SHARED = "share"
"""The split of a file whose documents are split by their hash."""

_SHOWN_FILES = 5


def assign_splits(
    source: SourceRecipe,
    files: Sequence[SourceFile],
    frozen: PlannedSource | None,
    notes: list[str],
) -> tuple[str, ...]:
    """Give the split of each file; one that is frozen keeps its own. Adds to `notes`.

    Raises:
        PlanError: the recipe contradicts the frozen split, or names a val file that is not there.
    """
    if frozen is not None and frozen.rule != source.split:
        raise PlanError(
            f"source {source.name!r}: the first plan froze split = {frozen.rule!r}, the recipe "
            f"now says {source.split!r}; restore it, or pass --resplit to assign all splits anew"
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
    return ("train",) * (len(files) - 1) + ("val",)


def _known(frozen: PlannedSource) -> dict[str, str]:
    return {file.path: split for file, split in zip(frozen.files, frozen.splits, strict=True)}


def _note_lost_val(frozen: PlannedSource, splits: Sequence[str], notes: list[str]) -> None:
    if "val" in frozen.splits and "val" not in splits:
        lost = frozen.files[frozen.splits.index("val")].path
        notes.append(
            f"source {frozen.name!r} has no val split any more: {lost} is gone; pass --resplit "
            "once it is back, or now to choose another file"
        )


def _by_name(
    source: SourceRecipe, files: Sequence[SourceFile], frozen: PlannedSource | None
) -> tuple[str, ...]:
    """Give val to the files that `val_files` names."""
    paths = [file.path for file in files]
    val: set[str] = set()
    for pattern in source.val_files:
        named = {path for path in paths if matches(path, pattern)}
        if not named:
            raise PlanError(
                f"source.{source.name}.val_files has {pattern!r}, which is none of its "
                f"{len(paths):,} files; write paths as plan.json has them, as {paths[0]!r}"
            )
        val |= named
    known = {} if frozen is None else _known(frozen)
    for split, verb in (("train", "now names"), ("val", "no longer names")):
        moved = [p for p in paths if known.get(p) == split and (p in val) != (split == "val")]
        if moved:
            more = f" and {len(moved) - _SHOWN_FILES:,} more" if len(moved) > _SHOWN_FILES else ""
            raise PlanError(
                f"source {source.name!r}: val_files {verb} what the first plan froze as "
                f"{split}: {', '.join(moved[:_SHOWN_FILES])}{more}; restore it, or pass --resplit "
                "to assign all splits anew"
            )
    return tuple("val" if path in val else "train" for path in paths)


def matches(path: str, pattern: str) -> bool:
    """Tell whether a path is the one named, or matches a glob, whose `**` is any folders.

    >>> matches("held/a.jsonl", "held/*.jsonl"), matches("held/b/a.jsonl", "*.jsonl")
    (True, False)
    >>> matches("held/b/a.jsonl", "**/a.*")
    True
    """
    return path == pattern or _match_parts(path.split("/"), pattern.split("/"))


def _match_parts(path: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_match_parts(path[start:], pattern[1:]) for start in range(len(path) + 1))
    if not path or not fnmatchcase(path[0], pattern[0]):
        return False
    return _match_parts(path[1:], pattern[1:])
