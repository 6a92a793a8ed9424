"""Lists the files of a source of a recipe in order.

Every file is opened, so that unreadable files are found before the job starts. The result has the
format and the dialect of each file, and the row groups of parquet files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final

from nanotok_ray.errors import SourceError
from nanotok_ray.formats import SourceFile
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources.files import ResolvedSource
from nanotok_ray.sources.listing import Listing, check_one_format, format_of, list_source
from nanotok_ray.sources.look import FALLBACK_DIALECT, Look, look
from nanotok_ray.sources.names import split_suffix
from nanotok_ray.sources.shape import text_shape
from nanotok_ray.storage import InputFile
from nanotok_ray.units import few

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
    listing = list_source(source, written=written)
    looks = open_files(listing, source=source, on_look=on_look)
    problems = [result.problem for result in looks if result.problem is not None]
    if problems:
        raise SourceError(_problems_text(problems, source=source, total=len(looks)))
    return ResolvedSource(
        root=listing.root,
        files=tuple(result.file for result in looks),
        notes=(*listing.notes, *_notes(looks, source=source)),
        num_unreadable=sum(result.oddity is not None for result in looks),
        unused=listing.unused,
        hidden=listing.hidden,
    )


def open_files(
    listing: Listing, *, source: SourceRecipe, on_look: OnLook = ignore_looks
) -> list[Look]:
    """Open every file of a source, in order.

    Raises:
        SourceError: Files have no known format, or different formats.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    formats = {name: format_of(file.path, source=source) for name, file in listing.files.items()}
    check_one_format(
        {listing.files[name].path: form for name, form in formats.items()}, source=source
    )
    files = [
        _source_file(file, name=name, format_name=formats[name])
        for name, file in listing.files.items()
    ]
    looks: list[Look] = []
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        try:
            for found in pool.map(lambda file: look(file, source=source), files):
                looks.append(found)
                on_look(source.name, len(looks), len(files))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return looks


def _source_file(file: InputFile, *, name: str, format_name: str) -> SourceFile:
    return SourceFile(
        path=name,
        url=file.path,
        size=file.size,
        etag=file.etag,
        mtime_ns=file.mtime_ns,
        format=format_name,
        compression=None if format_name == "parquet" else split_suffix(file.path)[1],
    )


GO_ON: Final = "; to go on without it, name it in exclude, or pass --skip-unreadable"
"""Advice for a recipe of which a file cannot be used."""


def _problems_text(problems: Sequence[str], *, source: SourceRecipe, total: int) -> str:
    if len(problems) == 1:
        return f"{problems[0]}{GO_ON}"
    head = (
        f"source {source.name!r}: {len(problems):,} of {total:,} files cannot be used; fix or "
        "remove them, or to go on without them, name them in exclude, or pass --skip-unreadable"
    )
    return listed_problems(head, problems)


def listed_problems(head: str, problems: Sequence[str]) -> str:
    """Return a text with the first problems, one in a line."""
    lines = [head, *(f"  {problem}" for problem in problems[:MAX_LISTED_FILES])]
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
