"""Lists the files of a source of a recipe in order.

Every file is opened, so that unreadable files are found before the job starts. The result has the
format and the dialect of each file, and the row groups of parquet files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources.files import ResolvedSource, SourceFile
from nanotok_ray.sources.look import FALLBACK_DIALECT, Look, look
from nanotok_ray.sources.shape import text_shape
from nanotok_ray.storage import FoundFiles, InputFile, find_files
from nanotok_ray.units import few, masked_url

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_FORMATS = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_THREADS = 16  # opening a remote file waits for the network; parsing is fast
MAX_LISTED_FILES = 5


OnLook = Callable[[str, int, int], None]
"""Called with the name of a source, the number of its opened files, and the number of its files."""


def ignore_looks(name: str, done: int, todo: int) -> None:
    """Do nothing."""


def resolve(
    source: SourceRecipe,
    *,
    written: Mapping[str, str] = MappingProxyType({}),
    on_look: OnLook = ignore_looks,
) -> ResolvedSource:
    """List the files of a source, sorted bytewise by their path relative to its root.

    The root is the deepest common folder of its paths without wildcards. In folders, only files of
    the source's format are used; named files and files that match a glob are all used.

    Args:
        source: the source of a recipe.
        written: folders that must not be included, as in `find_files`.
        on_look: called before the files are listed, and with each opened file.

    Raises:
        SourceError: A path matches nothing or includes a folder of `written`, a file contradicts
            the recipe, or files cannot be read, lack a required column or match no dialect; the
            message names the first five.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    on_look(source.name, 0, 0)
    found = {path: _find(path, source=source, written=written) for path in source.paths}
    folders = [masked_url(found_files.folder) for found_files in found.values()]
    root = _common_folder(folders, source=source)
    chosen = {
        file.path: file
        for path, found_files in found.items()
        for file in _of_format(found_files, path=path, source=source)
    }
    formats = {path: _format_of(path, source=source) for path in chosen}
    _check_one_format(formats, source=source)
    relative = _by_name(chosen, root=root, source=source)
    ordered = [
        _source_file(chosen[relative[name]], name=name, format_name=formats[relative[name]])
        for name in sorted(relative, key=str.encode)
    ]
    looks = _look_into(ordered, source=source, on_look=on_look)
    return ResolvedSource(
        root=root,
        files=tuple(result.file for result in looks),
        notes=tuple(_notes(looks, source=source)),
        num_unreadable=sum(result.oddity is not None for result in looks),
    )


def _by_name(urls: Iterable[str], *, root: str, source: SourceRecipe) -> dict[str, str]:
    """Return each URL by its path relative to the root, without logins and signatures.

    Raises:
        SourceError: Two URLs differ in nothing else.
    """
    names: dict[str, str] = {}
    for url in urls:
        name = masked_url(url)[len(root.rstrip("/")) + 1 :]
        if names.setdefault(name, url) != url:
            raise SourceError(
                f"source {source.name!r}: two paths differ only in their login or signature: "
                f"{masked_url(url)}; name each file once"
            )
    return names


def _find(path: str, *, source: SourceRecipe, written: Mapping[str, str]) -> FoundFiles:
    try:
        return find_files(path, written=written)
    except TransientIOError:
        raise
    except SourceError as error:
        raise SourceError(f"source {source.name!r}: {error}") from error


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
    """Return the format of the suffix of a file's name, whether compressed or not.

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
            '"jsonl" (one document per line) or "parquet" (one per row)'
            if source.kind != "text"
            else '"lines" (one document per line), "document" (one per file), "jsonl" or "parquet"'
        )
        raise SourceError(
            f"source {source.name!r}: the name of {path} does not indicate its format; set format "
            f"to {choices}"
        )
    if format_name == "parquet" and _compression_of(path) is not None:
        raise SourceError(
            f"source {source.name!r}: {path} is a compressed parquet file; decompress it, because "
            "parquet files are compressed internally"
        )
    return format_name


def _check_one_format(formats: dict[str, str], *, source: SourceRecipe) -> None:
    examples = {name: path for path, name in sorted(formats.items(), reverse=True)}
    if len(examples) > 1:
        listed = " and ".join(f"{name} ({path})" for name, path in sorted(examples.items()))
        raise SourceError(
            f"source {source.name!r} mixes the formats {listed}; define a source for each format"
        )


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


def _look_into(files: Sequence[SourceFile], *, source: SourceRecipe, on_look: OnLook) -> list[Look]:
    """Open every file.

    Raises:
        SourceError: Files cannot be read; the message names them.
    """
    looks: list[Look] = []
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        try:
            for found in pool.map(lambda file: look(file, source=source), files):
                looks.append(found)
                on_look(source.name, len(looks), len(files))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    problems = [result.problem for result in looks if result.problem is not None]
    if problems:
        raise SourceError(_problems_text(problems, source=source, total=len(files)))
    return looks


def _problems_text(problems: Sequence[str], *, source: SourceRecipe, total: int) -> str:
    if len(problems) == 1:
        return problems[0]
    head = f"source {source.name!r}: {len(problems):,} of {total:,} files cannot be used"
    lines = [f"{head}; fix them, or remove them from paths"]
    lines += [f"  {problem}" for problem in problems[:MAX_LISTED_FILES]]
    if len(problems) > MAX_LISTED_FILES:
        lines.append(f"  and {len(problems) - MAX_LISTED_FILES:,} more")
    return "\n".join(lines)


def _notes(looks: Sequence[Look], *, source: SourceRecipe) -> Iterator[str]:
    if odd := [result.oddity for result in looks if result.oddity is not None]:
        yield (
            f"source {source.name!r}: {_first_few(odd)}; such a file is quarantined as a whole, as "
            "a tail: compress or rename it"
        )
    if unread := _unread(looks, source=source):
        yield unread_note(source, unread)
    if guessed := [result.file.path for result in looks if result.is_guessed]:
        yield (
            f"source {source.name!r}: nothing at the start of {_first_few(guessed)} is JSON, so "
            f"its dialect is taken to be {FALLBACK_DIALECT!r}; set dialect if it is another"
        )


def _unread(looks: Sequence[Look], *, source: SourceRecipe) -> set[str]:
    """Return the columns of text that are not read; those of texts by the first rows of a file."""
    found = {name for result in looks for name in result.unread}
    if not found or source.kind != "text":
        return found
    try:
        shape = text_shape(next(result.file for result in looks if result.unread))
    except SourceError:  # for example rows of conversations, of which one column is read
        return found
    return found & {*(shape.others if shape is not None else ())}


def unread_note(source: SourceRecipe, names: Iterable[str]) -> str:
    """Return a note on columns or fields of text that are not read."""
    listed = few([repr(name) for name in sorted(names)])
    if source.kind == "text":
        return (
            f"source {source.name!r}: {source.column!r} is read, but not {listed}, which also hold "
            "text; set column to confirm this"
        )
    return (
        f"source {source.name!r}: its documents do not use {listed}, and the text of these columns "
        "is not read; write it into the messages, or remove the columns"
    )


def _first_few(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - MAX_LISTED_FILES:,} more" if len(texts) > MAX_LISTED_FILES else ""
    return f"{', '.join(texts[:MAX_LISTED_FILES])}{more}"
