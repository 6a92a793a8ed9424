"""Slices of texts from paths alone, without a recipe; all of them belong to train.

Every file is opened, and one error names all files that cannot be used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.formats import PlannedSource, SourceFile
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.recipe.source import FORMATS
from nanotok_ray.sources.columns import TEXT_NAMES
from nanotok_ray.sources.files import source_file
from nanotok_ray.sources.listing import conversion_advice, format_of
from nanotok_ray.sources.names import (
    NAMED_FORMATS,
    by_likely_format,
    full_suffix,
    split_suffix,
    suffix_format,
    suffixes_text,
)
from nanotok_ray.sources.plan import Slice, slices_of
from nanotok_ray.sources.plan_build import cut_files
from nanotok_ray.sources.resolve import notes_on, open_file
from nanotok_ray.sources.shape import Shape, text_shape
from nanotok_ray.sources.start import in_threads
from nanotok_ray.storage import FoundFiles, InputFile, find_files
from nanotok_ray.units import few, masked_url

NAME: Final = "corpus"
"""The name of the source of such files in messages."""

_WITH_COLUMNS = ("parquet", "jsonl")
_COLUMN = TEXT_NAMES[0]
_SLICE_BYTES = 32 << 20  # small enough that the last slice takes a few seconds at most


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedFiles:
    """The files of a list of paths."""

    files: tuple[SourceFile, ...]
    """The files without duplicates, sorted by path for each format; `path` is the whole path or
    URL.
    """
    slices: tuple[Slice, ...]
    columns: Mapping[str, str]
    """The column of the text in the files of each format, "" if the format has no columns."""
    notes: tuple[str, ...]
    """Notes for a person, for example that a file is not compressed as its name suggests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingRules:
    """The rules by which files are read."""

    kind: str = "text"
    """The kind of a source: text, chat, or vision."""
    format: str | None = None
    """One of `FORMATS` for all files; None: by suffix, compressed or not."""
    document_per_file: bool = False
    """Whether a text file is one document instead of one document per line."""
    column: str | None = None
    """Parquet column or JSON field of the text; None: it is chosen from the first documents."""
    id_column: str | None = None
    """Parquet column or JSON field that is read as the id of a document; None: no ids."""

    def __post_init__(self) -> None:
        if self.document_per_file and self.format not in {None, "document"}:
            raise SourceError(
                f"one document per file and the format {self.format!r} contradict each other: "
                "remove one of them"
            )

    def format_of(self, path: str) -> str | None:
        """Return the format of a file, or None if its suffix is unknown.

        >>> ReadingRules().format_of("a/b.jsonl.zst"), ReadingRules().format_of("a.md")
        ('jsonl', None)
        >>> ReadingRules(document_per_file=True).format_of("a.md")
        'document'
        """
        if self.format is not None:
            return self.format
        form = suffix_format(path)
        return "document" if self.document_per_file and form in {None, "lines"} else form

    def column_of(self, format_name: str) -> str | None:
        """Return the column of the text in files of a format; None: it is chosen.

        The result is "" if the format has no columns.

        >>> ReadingRules().column_of("parquet"), ReadingRules(column="body").column_of("lines")
        (None, '')
        """
        if self.kind != "text":
            return self.column or ""
        return self.column if format_name in _WITH_COLUMNS else ""


def find_named(
    paths: Iterable[str], rules: ReadingRules, *, written: Mapping[str, str] = MappingProxyType({})
) -> NamedFiles:
    """Find files, open each, and divide them into slices; duplicates are read once.

    Of a folder, all files with a known suffix are used, which must have the same format; if the
    rules name lines or documents, all files are used.

    Args:
        paths: files, folders, globs and URLs.
        rules: the rules by which the files are read.
        written: folders that must not be included, as in `find_files`.

    Raises:
        SourceError: Paths match nothing or include a folder of `written`, or files cannot be read,
            lack the column, or have no known format; the message names all of them.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    inputs, problems, notes = _inputs(paths, rules, written)
    formats = {form for _, form in inputs}
    has_columns = rules.kind != "text" or not formats.isdisjoint(_WITH_COLUMNS)
    if rules.column is not None and not problems and not has_columns:
        raise SourceError(
            f"column is {rules.column!r}, and none of the files has columns: omit it, or use "
            "parquet or JSON lines"
        )
    looked = list(in_threads(lambda item: _look(*item, rules=rules), inputs))
    problems += [result for result in looked if isinstance(result, str)]
    if problems:
        raise SourceError(_problems_text(problems))
    named = [result for result in looked if not isinstance(result, str)]
    files = [item.file for name in FORMATS for item in named if item.file.format == name]
    columns = {
        name: _column_of(name, rules, named)
        for name in dict.fromkeys(file.format for file in files)
    }
    return NamedFiles(
        files=tuple(files),
        slices=tuple(_slices(files, rules, columns)),
        columns=columns,
        notes=(*notes, *(note for item in named for note in item.notes), *_unread_notes(named)),
    )


def _unread_notes(named: Sequence["_NamedFile"]) -> Iterator[str]:
    """Yield a note on columns of text that are not read."""
    shapes = [item.shape for item in named if item.shape is not None]
    if others := sorted({repr(name) for shape in shapes for name in shape.others}):
        columns = sorted({repr(shape.column) for shape in shapes})
        yield f"read: the text in {few(columns)}; not read: the text in {few(others)}"


def _column_of(format_name: str, rules: ReadingRules, named: Sequence["_NamedFile"]) -> str:
    """Return the column of the text in all files of a format.

    Raises:
        SourceError: Files have the text in different columns.
    """
    of_format = [item for item in named if item.file.format == format_name]
    examples = {item.shape.column: item.file.path for item in of_format if item.shape is not None}
    if len(examples) > 1:
        listed = " and ".join(f"{column!r} ({path})" for column, path in sorted(examples.items()))
        raise SourceError(
            f"the text is in different columns, {listed}: read these files separately, or set "
            "column in the recipe to a column of all files"
        )
    given = rules.column_of(format_name)
    return next(iter(examples), _COLUMN) if given is None else given


@dataclass(frozen=True, kw_only=True, slots=True)
class _NamedFile:
    file: SourceFile
    shape: Shape | None
    """The shape of the texts; None: the column is not chosen, or there are no documents."""
    notes: tuple[str, ...]


def _inputs(
    paths: Iterable[str], rules: ReadingRules, written: Mapping[str, str]
) -> tuple[list[tuple[InputFile, str]], list[str], list[str]]:
    """Return the files with their formats, the problems of paths, and notes."""
    formats: dict[str, str] = {}
    problems: list[str] = []
    files: dict[str, InputFile] = {}
    for path in dict.fromkeys(paths):
        try:
            listed = find_files(path, written=written)
            chosen = (
                _of_folder(path, listed, rules) if listed.is_folder else _of_files(listed, rules)
            )
        except TransientIOError:
            raise
        except SourceError as error:
            problems.append(str(error))
            continue
        formats |= chosen
        files |= {file.path: file for file in listed.files}
    unused = [file for path, file in files.items() if path not in formats]
    inputs = [(files[path], formats[path]) for path in sorted(formats)]
    return inputs, problems, list(_unused_notes(unused))


def _unused_notes(files: Sequence[InputFile]) -> Iterator[str]:
    """Yield a note on the files of folders that are not read."""
    for form, members in by_likely_format(files).items():
        step = "--input-format document reads each file as one document"
        if form is not None:
            step = f"name the files and pass --input-format {form} to read them"
        advice = conversion_advice(file.path for file in members)
        yield f"not read, because of the suffix: {suffixes_text(members)}; {step}{advice}"


def _of_files(listed: FoundFiles, rules: ReadingRules) -> dict[str, str]:
    files = [file.path for file in listed.files]
    formats = {file: rules.format_of(file) for file in files}
    unknown = [file for file, name in formats.items() if name is None]
    if unknown:
        raise SourceError(
            f"{few(unknown)}: the name does not indicate the format; set it with "
            f"--input-format ({_format_choices(rules)}){conversion_advice(unknown, arrays=True)}"
        )
    return {file: name for file, name in formats.items() if name is not None}


def _of_folder(path: str, listed: FoundFiles, rules: ReadingRules) -> dict[str, str]:
    files = [file.path for file in listed.files]
    candidates = {file: rules.format_of(file) for file in files}
    if rules.format in _WITH_COLUMNS:
        candidates = {
            file: name for file, name in candidates.items() if suffix_format(file) == name
        }
    if rules.kind != "text":
        candidates = {file: name for file, name in candidates.items() if name in _WITH_COLUMNS}
    formats = {file: name for file, name in candidates.items() if name is not None}
    if not formats:
        raise SourceError(
            f"no file below {path} ends in {', '.join(NAMED_FORMATS)} (also compressed): pass the "
            f"files, and set their format with --input-format{conversion_advice(files)}"
        )
    if len(kinds := sorted(set(formats.values()))) > 1:
        example = next(file for file, name in formats.items() if name == kinds[-1])
        if split_suffix(example)[0]:
            example = f"{path.rstrip('/')}/**/*{full_suffix(example)}"
        raise SourceError(
            f"the folder {path} holds files of several formats ({', '.join(kinds)}): choose one "
            f"with --input-format, or name the files, as {example!r}"
        )
    return formats


def _look(given: InputFile, format_name: str, *, rules: ReadingRules) -> _NamedFile | str:
    """Return a file with its column and notes on it, or the reason why it cannot be used."""
    path, column, shape = given.path, rules.column_of(format_name), None
    file = source_file(given, name=path, format_name=format_name)
    try:
        if column is None and format_name == "parquet":
            shape = text_shape(file)
            column = None if shape is None else shape.column
        source = SourceRecipe(
            name=NAME,
            kind=rules.kind,
            paths=(path,),
            format=format_name,
            column=_COLUMN if column is None else column,
            id_column=rules.id_column,
            split="train",
        )
        format_of(path, source=source)
        result = open_file(file, source=source)
        if column is None:
            shape = text_shape(file)
    except TransientIOError:
        raise
    except SourceError as error:
        text = str(error)
        return text if masked_url(path) in text else f"{path}: {text}"
    notes = tuple(notes_on([result], source=source))
    return _NamedFile(file=replace(result.file, split="train"), shape=shape, notes=notes)


def _slices(
    files: Sequence[SourceFile], rules: ReadingRules, columns: Mapping[str, str]
) -> Iterator[Slice]:
    for name, column in columns.items():
        chosen = tuple(file for file in files if file.format == name)
        source = PlannedSource(
            name=NAME,
            kind=rules.kind,
            format=name,
            column=column,
            root="",
            rule="train",
            files=chosen,
            slices=tuple(cut_files(chosen, slice_bytes=_SLICE_BYTES)),
        )
        yield from slices_of(source)


def _format_choices(rules: ReadingRules) -> str:
    if rules.kind != "text":
        return f"{' or '.join(_WITH_COLUMNS)}: one document per row, or one JSON object per line"
    return f"{', '.join(FORMATS)}: one document per row, JSON object per line, line, or file"


def _problems_text(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    lines = [f"{len(problems):,} inputs cannot be used; fix or remove them"]
    return "\n".join([*lines, *(f"  {problem}" for problem in problems)])
