"""Lists and opens the files of a source of a recipe, in order.

Every file is opened, so that unreadable files are found before the job starts. The result has the
format and the dialect of each file, and the row groups of parquet files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from nanotok_ray.dialects import detect, kind_of
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.formats import SourceFile
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources.columns import PREFERENCES, is_preference
from nanotok_ray.sources.files import DocumentRules, ResolvedSource, source_file
from nanotok_ray.sources.listing import Listing, check_one_format, format_of, list_source
from nanotok_ray.sources.names import convertible
from nanotok_ray.sources.parquet_rows import read_footer
from nanotok_ray.sources.shape import text_shape
from nanotok_ray.sources.start import START_BYTES, Start, in_threads, starts
from nanotok_ray.sources.stored import FIRST_BYTES
from nanotok_ray.storage import unreadable
from nanotok_ray.units import few

MAX_LISTED_FILES = 5

FALLBACK_DIALECT: Final = "messages"
"""The dialect of a file whose first document cannot be read."""

_GO_ON: Final = "; to go on without it, name it in exclude, or pass --skip-unreadable"


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
        notes=(*listing.notes, *notes_on(looks, source=source)),
        num_unreadable=sum(result.oddity is not None for result in looks),
        unused=listing.unused,
        hidden=listing.hidden,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """The result of opening a file: its attributes, or the reason why it cannot be used."""

    file: SourceFile
    problem: str | None = None
    oddity: str | None = None
    """The property that contradicts its name."""
    unread: tuple[str, ...] = ()
    """Columns that can hold text, which the recipe neither reads nor leaves out by name."""
    is_guessed: bool = False
    """Whether the dialect is `FALLBACK_DIALECT` because no document was found."""


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
        source_file(file, name=name, format_name=formats[name])
        for name, file in listing.files.items()
    ]
    looks: list[Look] = []
    for result in in_threads(partial(_look, source=source), files):
        looks.append(result)
        on_look(source.name, len(looks), len(files))
    return looks


def open_file(file: SourceFile, *, source: SourceRecipe) -> Look:
    """Open a file and read what planning needs.

    Raises:
        SourceError: The file cannot be used.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    try:
        return (_footer if file.format == "parquet" else _first_document)(file, source)
    except TransientIOError:
        raise
    except OSError as error:
        raise SourceError(unreadable(file.url, error)) from error


def _look(file: SourceFile, *, source: SourceRecipe) -> Look:
    try:
        return open_file(file, source=source)
    except TransientIOError:
        raise
    except SourceError as error:
        return Look(file=file, problem=str(error))


def _footer(file: SourceFile, source: SourceRecipe) -> Look:
    rules = DocumentRules(
        kind=source.kind,
        column=source.column,
        id_column=source.id_column,
        tools=source.tools,
        columns=source.columns,
    )
    footer = read_footer(file, rules, dialect=source.dialect)
    is_chosen = source.kind == "text" and "column" in source.model_fields_set
    return Look(file=footer.file, unread=() if is_chosen else footer.unread)


def _first_document(file: SourceFile, source: SourceRecipe) -> Look:
    """Check the compression of a file, and detect the dialect of one of JSON lines.

    Raises:
        SourceError: No dialect matches the first document.
    """
    dialect = None if source.kind == "text" else source.dialect or FALLBACK_DIALECT
    is_sought = source.kind != "text" and source.dialect is None
    for start in starts(file, START_BYTES if is_sought else (FIRST_BYTES,)):
        if start.misnamed:
            oddity = f"{file.path} is not {file.compression} (it begins {start.misnamed!r})"
            return Look(file=replace(file, dialect=dialect), oddity=oddity)
        if is_sought and (values := start.values(1)):
            return Look(file=replace(file, dialect=_dialect(values[0], file, start, source.kind)))
    is_guessed = is_sought and not start.is_blank
    return Look(file=replace(file, dialect=dialect), is_guessed=is_guessed)


def _dialect(value: object, file: SourceFile, start: Start, kind: str) -> str:
    """Return the dialect of the first document of a file.

    Raises:
        SourceError: No dialect matches it.
    """
    dialect = detect(value, kind=kind)
    if dialect is not None:
        return dialect
    if start.shape is not None:
        what = "JSON spread over several lines (pretty-printed)"
        step = "write one document per line, or remove the file"
        if start.shape == "array":
            what = "one JSON array"
            step = f"write each element on one line: {convertible(file.url)}"
        raise SourceError(f"{file.url} is not JSON lines but {what}; {step}")
    if isinstance(value, dict) and is_preference(value):
        raise SourceError(f"{file.url}: {PREFERENCES}")
    has_text = kind == "chat" and isinstance(value, dict) and "text" in value
    hint = 'set kind = "text" if the documents are texts, or ' if has_text else ""
    raise SourceError(
        f"{file.url}: its first document is {kind_of(value)}: no dialect of {kind} is known for "
        f"it; {hint}set dialect, or write messages"
    )


def _problems_text(problems: Sequence[str], *, source: SourceRecipe, total: int) -> str:
    if len(problems) == 1:
        return f"{problems[0]}{_GO_ON}"
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


def notes_on(looks: Sequence[Look], *, source: SourceRecipe) -> Iterator[str]:
    """Yield notes on files of a source that are not as their names or the recipe say."""
    if odd := [result.oddity for result in looks if result.oddity is not None]:
        yield (
            f"source {source.name!r}: {few(odd)}; such a file is quarantined as a whole, as "
            "a tail: compress or rename it"
        )
    if unread := _unread(looks, source=source):
        yield unread_note(source, unread)
    if guessed := [result.file.path for result in looks if result.is_guessed]:
        yield (
            f"source {source.name!r}: nothing at the start of {few(guessed)} is JSON, so "
            f"its dialect is taken to be {FALLBACK_DIALECT!r}; set dialect if it is another"
        )


def _unread(looks: Sequence[Look], *, source: SourceRecipe) -> set[str]:
    """Return the columns of text that are not read; those of texts by the first rows of a file."""
    names = {name for result in looks for name in result.unread}
    if not names or source.kind != "text":
        return names
    try:
        shape = text_shape(next(result.file for result in looks if result.unread))
    except SourceError:  # for example rows of conversations, of which one column is read
        return names
    return names & {*(shape.others if shape is not None else ())}


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
