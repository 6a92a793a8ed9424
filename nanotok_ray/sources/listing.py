"""Lists the files of a source of a recipe by name, without opening them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from types import MappingProxyType
from typing import Final

from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources.names import (
    PLAIN_FORMATS,
    SUFFIX_FORMATS,
    TABLE,
    by_likely_format,
    convertible,
    is_table,
    likely_format,
    matches,
    recipe_format,
    split_suffix,
    suffixes_text,
)
from nanotok_ray.storage import FoundFiles, InputFile, find_files
from nanotok_ray.units import few, format_bytes, masked_url, quantity

_TEMPORARY: Final = ".tmp"


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The files of the paths of a source."""

    root: str
    """The deepest common folder of the paths: an absolute path or a URL."""
    files: Mapping[str, InputFile]
    """The files to read by their path relative to the root, in bytewise order."""
    excluded: frozenset[str]
    """The paths or URLs of the files that `exclude` leaves out."""
    notes: tuple[str, ...] = ()
    """Notes on `exclude`."""
    unused: tuple[InputFile, ...] = ()
    """The files of named folders that are not read because of their suffix."""
    hidden: tuple[InputFile, ...] = ()
    """The files that are not read only because their names are those of hidden files."""
    missing: tuple[str, ...] = ()
    """The paths that match no file."""


def list_source(
    source: SourceRecipe,
    *,
    written: Mapping[str, str] = MappingProxyType({}),
    may_miss: bool = False,
) -> Listing:
    """List the files of a source. In folders, only files of its format are used.

    Args:
        source: the source of a recipe.
        written: folders that must not be included, as in `find_files`.
        may_miss: whether paths may match no file, and `exclude` may leave none.

    Raises:
        SourceError: A path matches nothing or includes a folder of `written`, no file is left, or
            two URLs differ only in their login or signature.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    by_path = {path: _find(path, source, written, may_miss=may_miss) for path in source.paths}
    folders = [masked_url(files_of.folder) for files_of in by_path.values()]
    root = _common_folder(folders, source=source)
    used = {path: _of_format(files, path=path, source=source) for path, files in by_path.items()}
    chosen = {file.path: file for files in used.values() for file in files}
    unused = {
        file.path: file
        for files_of in by_path.values()
        for file in files_of.files
        if file.path not in chosen
    }
    names = _by_name(chosen, root=root, source=source)
    others = {_name(path, root): file for path, file in unused.items()}
    excluded, unmatched = _excluded(source, names | others)
    files = {name: names[name] for name in sorted(names, key=str.encode) if name not in excluded}
    if names and not files and not may_miss:
        raise SourceError(
            f"source {source.name!r}: exclude leaves out all of its {quantity(len(names), 'file')}"
            "; remove a pattern, or the source"
        )
    suffixes = {split_suffix(path)[0] for path in chosen}
    hidden = {
        file.path: file
        for files_of in by_path.values()
        for file in files_of.hidden
        if _is_of_format(file.path, source, suffixes)
    }
    return Listing(
        root=root,
        files=files,
        excluded=frozenset((names | others)[name].path for name in excluded),
        notes=tuple(_exclude_notes(source, names, excluded, unmatched)),
        unused=tuple(file for name, file in others.items() if name not in excluded),
        hidden=tuple(hidden.values()),
        missing=tuple(path for path, files_of in by_path.items() if not files_of.files),
    )


def _find(
    path: str, source: SourceRecipe, written: Mapping[str, str], *, may_miss: bool
) -> FoundFiles:
    try:
        return find_files(path, written=written, may_miss=may_miss)
    except TransientIOError:
        raise
    except SourceError as error:
        raise SourceError(f"source {source.name!r}: {error}") from error


def _of_format(listed: FoundFiles, *, path: str, source: SourceRecipe) -> Sequence[InputFile]:
    if not listed.is_folder or source.format in PLAIN_FORMATS:
        return listed.files
    wanted = {source.format} if source.format else set(SUFFIX_FORMATS.values())
    chosen = [file for file in listed.files if recipe_format(file.path) in wanted]
    if listed.files and not chosen:
        suffixes = [suffix for suffix, name in SUFFIX_FORMATS.items() if name in wanted]
        choices = '"lines" (one document a line) or "document" (one a file)'
        if likely := [form for form in by_likely_format(listed.files) if form]:
            choices = f'"{likely[0]}"'
        raise SourceError(
            f"source {source.name!r}: no file below {path} ends in {', '.join(suffixes)} (also "
            f"compressed); name the files by a glob and set format, as {choices}"
            f"{conversion_advice(file.path for file in listed.files)}"
        )
    return chosen


def conversion_advice(paths: Iterable[str], *, arrays: bool = False) -> str:
    """Return the way to convert the first table of text among files, or an empty string.

    Args:
        paths: the files.
        arrays: whether to assume that a .json file is an array.
    """
    for path in paths:
        if is_table(path):
            return f". {path} is {TABLE}: {convertible(path)}"
        if arrays and split_suffix(path)[0] == ".json":
            return f". A JSON array is not read: {convertible(path)}"
    return ""


def _by_name(
    files: Mapping[str, InputFile], *, root: str, source: SourceRecipe
) -> dict[str, InputFile]:
    """Return each file by its path relative to the root, without logins and signatures.

    Raises:
        SourceError: Two URLs differ in nothing else.
    """
    names: dict[str, InputFile] = {}
    for url, file in files.items():
        name = _name(url, root)
        if names.setdefault(name, file) is not file:
            raise SourceError(
                f"source {source.name!r}: two paths differ only in their login or signature: "
                f"{masked_url(url)}; name each file once"
            )
    return names


def _name(url: str, root: str) -> str:
    return masked_url(url)[len(root.rstrip("/")) + 1 :]


def _common_folder(folders: Sequence[str], *, source: SourceRecipe) -> str:
    """Return the deepest common folder of all folders.

    >>> source = SourceRecipe(name="web", kind="text", paths=("-",))
    >>> _common_folder(["/data/web/a", "/data/wiki"], source=source)
    '/data'
    """
    schemes = {folder.partition("://")[0] if "://" in folder else "" for folder in folders}
    if len(schemes) > 1:
        raise SourceError(
            f"source {source.name!r} has paths on different stores ({', '.join(folders)}); define "
            "a source for each store"
        )
    parts = [folder.rstrip("/").split("/") for folder in folders]
    common = 0
    while all(common < len(names) and names[common] == parts[0][common] for names in parts):
        common += 1
    return "/".join(parts[0][:common]) or "/"


def _excluded(
    source: SourceRecipe, files: Mapping[str, InputFile]
) -> tuple[set[str], tuple[str, ...]]:
    """Return the names of the files that `exclude` leaves out, and the patterns without a file."""
    by_url = {masked_url(file.path): name for name, file in files.items()} if source.exclude else {}
    by_name = {name: name for name in files}
    excluded: set[str] = set()
    unmatched: list[str] = []
    for written in source.exclude:
        pattern = masked_url(written)
        is_absolute = pattern.startswith("/") or "://" in pattern
        targets = by_url if is_absolute else by_name
        if pattern in targets:
            hits = {targets[pattern]}
        else:
            paths = targets if has_magic(pattern) else ()
            hits = {targets[path] for path in paths if matches(path, pattern)}
        excluded |= hits
        if not hits:
            unmatched.append(pattern)
    return excluded, tuple(unmatched)


def _exclude_notes(
    source: SourceRecipe,
    files: Mapping[str, InputFile],
    excluded: set[str],
    unmatched: Sequence[str],
) -> Iterator[str]:
    if out := [name for name in files if name in excluded]:
        size = format_bytes(sum(files[name].size for name in out))
        yield (
            f"source {source.name!r}: exclude leaves out {len(out):,} of "
            f"{quantity(len(files), 'file')}, {size}: {few(sorted(out))}"
        )
    if unmatched:
        yield (
            f"source.{source.name}.exclude matches no file with {few([*map(repr, unmatched)])}; "
            "patterns are paths below the root of the source, or absolute, or globs"
        )


def unread_notes(
    name: str, unused: Collection[InputFile], hidden: Collection[InputFile]
) -> Iterator[str]:
    """Yield notes on the files that a source does not read because of their names."""
    for form, members in by_likely_format(unused).items():
        reads = "reads each file as one document" if form is None else "reads them"
        advice = conversion_advice(file.path for file in members)
        yield (
            f"source {name!r} does not read {suffixes_text(members)}, because of the suffix; a "
            f'source with a glob and format = "{form or "document"}" {reads}{advice}'
        )
    if hidden:
        size = format_bytes(sum(file.size for file in hidden))
        yield (
            f"source {name!r} does not read {quantity(len(hidden), 'file')}, {size}: "
            f"{few([file.path.rpartition('/')[2] for file in hidden])}; names that begin with '.' "
            "or '_' or end in .tmp are skipped, unless a path names the file"
        )


def _is_of_format(path: str, source: SourceRecipe, suffixes: Collection[str]) -> bool:
    """Return whether a hidden file is likely to have documents of a source, by its suffixes."""
    path = path.removesuffix(_TEMPORARY)
    if source.format in PLAIN_FORMATS:
        return split_suffix(path)[0] in {*suffixes, ".txt", ".md"} - {""}
    return likely_format(path) in ({source.format} if source.format else {*SUFFIX_FORMATS.values()})


def format_of(path: str, *, source: SourceRecipe) -> str:
    """Return the format of a file of a source.

    Raises:
        SourceError: Neither the source nor the name of the file states it.
    """
    format_name = source.format or recipe_format(path)
    if format_name is None:
        raise SourceError(f"source {source.name!r}: {_no_format(path, source)}")
    if format_name == "parquet" and split_suffix(path)[1] is not None:
        raise SourceError(
            f"source {source.name!r}: {path} is a compressed parquet file; decompress it, because "
            "parquet files are compressed internally"
        )
    return format_name


def _no_format(path: str, source: SourceRecipe) -> str:
    choices = (
        '"jsonl" (one document per line) or "parquet" (one per row)'
        if source.kind != "text"
        else '"lines" (one document per line), "document" (one per file), "jsonl" or "parquet"'
    )
    return (
        f"the name of {path} does not indicate its format; set format to {choices}"
        f"{conversion_advice([path], arrays=True)}"
    )


def check_one_format(formats: Mapping[str, str], *, source: SourceRecipe) -> None:
    """Raise an error if files have different formats.

    Raises:
        SourceError: Names a file of each format.
    """
    examples = {name: path for path, name in sorted(formats.items(), reverse=True)}
    if len(examples) > 1:
        listed = " and ".join(f"{name} ({path})" for name, path in sorted(examples.items()))
        raise SourceError(
            f"source {source.name!r} mixes the formats {listed}; define a source for each format"
        )
