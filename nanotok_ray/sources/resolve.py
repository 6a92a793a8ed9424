"""From the paths of a source recipe to its files, in order.

Takes a source of the recipe; gives its files with their formats, and the row groups of parquet
files. Every file is opened, so that one that cannot be read is found now and not hours later: of
parquet the footer is read, of others the first bytes. Does not know splits, slices or documents.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources.files import ResolvedSource, SourceFile
from nanotok_ray.sources.first_bytes import FIRST_BYTES, is_compressed
from nanotok_ray.sources.parquet_column import read_footer
from nanotok_ray.storage import FoundFiles, InputFile, find_files, read_start, unreadable

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_FORMATS = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_THREADS = 16  # opening a remote file is waiting; the parsing itself is short
SHOWN_FILES = 5


def resolve(source: SourceRecipe) -> ResolvedSource:
    """List the files of a source, sorted bytewise by their path relative to its root.

    The root is the deepest folder common to what its paths name without wildcards. In folders
    only files of the source's format are taken; files that are named, or match a glob, all are.

    Raises:
        SourceError: a path matches nothing, a file is not what the recipe says, or files cannot be
            read or, of parquet, have no string column of that name; names the first five.
        TransientIOError: a remote store failed in a way that may pass.
    """
    found = {path: find_files(path) for path in source.paths}
    root = _common_folder([each.folder for each in found.values()], source=source)
    chosen = {
        file.path: file
        for path, each in found.items()
        for file in _of_format(each, path=path, source=source)
    }
    formats = {path: _format_of(path, source=source) for path in chosen}
    _check_one_format(formats, source=source)
    relative = {path[len(root.rstrip("/")) + 1 :]: path for path in chosen}
    ordered = [
        _source_file(chosen[relative[name]], name=name, format_name=formats[relative[name]])
        for name in sorted(relative, key=str.encode)
    ]
    files, notes = _look_into(ordered, source=source)
    return ResolvedSource(root=root, files=files, notes=notes)


def _of_format(found: FoundFiles, *, path: str, source: SourceRecipe) -> Sequence[InputFile]:
    if not found.is_folder or source.format in {"lines", "document"}:
        return found.files
    wanted = {source.format} if source.format else set(_FORMATS.values())
    chosen = [file for file in found.files if _suffix_format(file.path) in wanted]
    if not chosen:
        raise SourceError(
            f"source {source.name!r}: no file below {path} ends in "
            f"{', '.join(s for s, name in _FORMATS.items() if name in wanted)} (also compressed); "
            'name the files by a glob and set format, as "lines" (one document a line) or '
            '"document" (one a file)'
        )
    return chosen


def _suffix_format(path: str) -> str | None:
    """Give the format that a file's name tells, whether compressed or not.

    >>> _suffix_format("a/b.jsonl.gz"), _suffix_format("a/b.txt")
    ('jsonl', None)
    """
    for compressed in _COMPRESSIONS:
        path = path.removesuffix(compressed)
    return next((name for suffix, name in _FORMATS.items() if path.endswith(suffix)), None)


def _compression_of(path: str) -> str | None:
    return next((name for suffix, name in _COMPRESSIONS.items() if path.endswith(suffix)), None)


def _format_of(path: str, *, source: SourceRecipe) -> str:
    format_name = source.format or _suffix_format(path)
    if format_name is None:
        choices = (
            '"jsonl" (one conversation a line)'
            if source.kind == "chat"
            else '"lines" (one document a line), "document" (one a file), "jsonl" or "parquet"'
        )
        raise SourceError(
            f"source {source.name!r}: the name of {path} does not tell its format; set format to "
            f"{choices}"
        )
    if source.kind == "chat" and format_name != "jsonl":
        raise SourceError(
            f"source {source.name!r}: {path} is {format_name}, but chats are read from JSON lines; "
            "write one conversation a line to a .jsonl file"
        )
    if format_name == "parquet" and _compression_of(path) is not None:
        raise SourceError(
            f"source {source.name!r}: {path} is a compressed parquet file; decompress it, parquet "
            "compresses inside"
        )
    return format_name


def _check_one_format(formats: dict[str, str], *, source: SourceRecipe) -> None:
    examples = {name: path for path, name in sorted(formats.items(), reverse=True)}
    if len(examples) > 1:
        listed = " and ".join(f"{name} ({path})" for name, path in sorted(examples.items()))
        raise SourceError(
            f"source {source.name!r} mixes the formats {listed}; make a source of each"
        )


def _common_folder(folders: Sequence[str], *, source: SourceRecipe) -> str:
    """Give the deepest folder that holds all folders.

    >>> source = SourceRecipe(name="web", kind="text", paths=("-",))
    >>> _common_folder(["/data/web/a", "/data/wiki"], source=source)
    '/data'
    """
    schemes = {folder.partition("://")[0] if "://" in folder else "" for folder in folders}
    if len(schemes) > 1:
        raise SourceError(
            f"source {source.name!r} has paths on different stores ({', '.join(folders)}); make a "
            "source for each store"
        )
    parts = [folder.rstrip("/").split("/") for folder in folders]
    common = 0
    while all(common < len(each) and each[common] == parts[0][common] for each in parts):
        common += 1
    return "/".join(parts[0][:common]) or "/"


def _source_file(file: InputFile, *, name: str, format_name: str) -> SourceFile:
    return SourceFile(
        path=name,
        url=file.path,
        size=file.size,
        etag=file.etag,
        mtime_ns=file.mtime_ns,
        format=format_name,
        compression=None if format_name == "parquet" else _compression_of(file.path),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """One file after a look into it: what the file says of itself, or why it cannot be used."""

    file: SourceFile
    problem: str | None = None
    oddity: str | None = None


def _look_into(
    files: Sequence[SourceFile], *, source: SourceRecipe
) -> tuple[tuple[SourceFile, ...], tuple[str, ...]]:
    """Open every file; give the files with what parquet's footers say, and notes.

    Raises:
        SourceError: naming the files that cannot be read.
    """
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        try:
            looks = list(pool.map(lambda file: _look(file, source=source), files))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    problems = [look.problem for look in looks if look.problem is not None]
    if problems:
        raise SourceError(_told(problems, source=source, total=len(files)))
    odd = [look.oddity for look in looks if look.oddity is not None]
    return tuple(look.file for look in looks), (_note(odd, source=source),) if odd else ()


def _look(file: SourceFile, *, source: SourceRecipe) -> _Look:
    try:
        if file.format == "parquet":
            footer = read_footer(file.url, column=source.column, id_column=source.id_column)
            return _Look(file=replace(file, layout=footer.layout, footer_sha256=footer.sha256))
        first = read_start(file.url, FIRST_BYTES) if file.size else b""
    except TransientIOError:
        raise
    except SourceError as error:
        return _Look(file=file, problem=str(error))
    except OSError as error:
        return _Look(file=file, problem=unreadable(file.url, error))
    if file.compression is None or not file.size or is_compressed(first, file.compression):
        return _Look(file=file)
    return _Look(file=file, oddity=f"{file.path} is not {file.compression} (it begins {first!r})")


def _told(problems: Sequence[str], *, source: SourceRecipe, total: int) -> str:
    if len(problems) == 1:
        return problems[0]
    head = f"source {source.name!r}: {len(problems):,} of {total:,} files cannot be used"
    lines = [f"{head}; mend them, or leave them out of paths"]
    lines += [f"  {problem}" for problem in problems[:SHOWN_FILES]]
    if len(problems) > SHOWN_FILES:
        lines.append(f"  and {len(problems) - SHOWN_FILES:,} more")
    return "\n".join(lines)


def _note(odd: Sequence[str], *, source: SourceRecipe) -> str:
    more = f" and {len(odd) - SHOWN_FILES:,} more" if len(odd) > SHOWN_FILES else ""
    return (
        f"source {source.name!r}: {', '.join(odd[:SHOWN_FILES])}{more}; such a file is set aside "
        "whole, a tail in quarantine: compress it, or give it another name"
    )
