"""The first documents of a source, which are compared with its description in the recipe."""

import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from nanotok_ray.chat import PLACEHOLDER, texts_of
from nanotok_ray.dialects import (
    MALFORMED,
    Dialect,
    JsonObject,
    detect,
    kind_of,
    reason_of,
    row_of,
    value_of,
)
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.formats import SourceFile
from nanotok_ray.recipe import AUTO, GROUNDING, NANOCHAT, LimitsRecipe, SourceRecipe
from nanotok_ray.sources.batch import MAX_BATCH_BYTES, BadDocument, Batch, BatchBuilder
from nanotok_ray.sources.columns import PREFERENCES, is_preference, text_field
from nanotok_ray.sources.files import DocumentRules, Piece
from nanotok_ray.sources.json_lines import BOM, Shape, invalid_utf8, too_large
from nanotok_ray.sources.lines import LineBlocks, batch_builder, lines_to_batches
from nanotok_ray.sources.names import COMPRESSIONS, convertible
from nanotok_ray.sources.parquet import first_rows
from nanotok_ray.sources.parquet_rows import selection_of
from nanotok_ray.sources.piece_reader import read_piece
from nanotok_ray.sources.resolve import unread_note
from nanotok_ray.sources.start import (
    MAX_ROWS,
    NOT_JSON,
    START_BYTES,
    Start,
    in_threads,
    json_value,
    starts,
)
from nanotok_ray.sources.stored import FIRST_BYTES, is_compressed
from nanotok_ray.sources.transform import RAISED, transformed
from nanotok_ray.sources.transform_code import transform_of
from nanotok_ray.storage import unreadable
from nanotok_ray.units import quantity

MAX_FILES: Final = 5
_NO_START: Final = Start(data=b"", is_complete=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledFile:
    """The first documents of one file."""

    file: SourceFile
    documents: int = 0
    """Number of documents read, including bad ones."""
    bad: tuple[BadDocument, ...] = ()
    """Documents that cannot be used, in order."""
    start: Start = _NO_START
    """The bytes of the documents; empty for parquet."""

    @property
    def shape(self) -> Shape | None:
        """For JSON lines: the shape of a file whose values are not one per line."""
        return self.start.shape if self.file.format == "jsonl" else None


def sample(
    source: SourceRecipe, files: Sequence[SourceFile], *, max_document_bytes: int
) -> list[SampledFile]:
    """Read the first documents of at most five files: the first, the last, and some between.

    Raises:
        SourceError: A file cannot be read.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    rules = DocumentRules(
        kind=source.kind,
        column=source.column,
        id_column=source.id_column,
        tools=source.tools,
        transform=transform_of(source),
        columns=source.columns,
        max_document_bytes=max_document_bytes,
        batch_documents=MAX_ROWS,
    )
    grounding = GROUNDING if source.grounding else ()
    read = partial(_sampled, rules=rules, grounding=grounding, template=source.template)
    return list(in_threads(read, _spread([file for file in files if file.size])))


def _spread(files: Sequence[SourceFile]) -> list[SourceFile]:
    if not files:
        return []
    last, steps = len(files) - 1, MAX_FILES - 1
    return [files[index] for index in sorted({last * step // steps for step in range(steps + 1)})]


def _sampled(
    file: SourceFile, *, rules: DocumentRules, grounding: tuple[str, ...], template: str
) -> SampledFile:
    try:
        batch, start = _first_batch(file, rules)
    except TransientIOError:
        raise
    except OSError as error:
        raise SourceError(unreadable(file.url, error)) from error
    if batch is None:
        return SampledFile(file=file, start=start)
    bad = list(batch.bad)
    if file.dialect is not None:
        dialect = Dialect(
            kind=rules.kind,
            name=file.dialect,
            image_token=PLACEHOLDER,
            grounding=grounding,
            tools=rules.tools,
        )
        bad += _bad_conversations(batch, dialect, template=template)
    return SampledFile(
        file=file,
        documents=len(batch.documents) + len(batch.bad),
        bad=tuple(sorted(bad, key=lambda document: document.number)),
        start=start,
    )


def _first_batch(file: SourceFile, rules: DocumentRules) -> tuple[Batch | None, Start]:
    """Return the first documents of a file, if any, and the bytes of lines."""
    if rules.transform is not None and file.format == "document":
        is_long = file.size > MAX_BATCH_BYTES  # of which the function needs everything
        return None if is_long else next(iter(read_piece(Piece.of(file), rules))), _NO_START
    batch, start = _first_read(file, rules)
    if batch is not None and rules.transform is not None:
        is_json = file.format == "jsonl"
        (batch,) = transformed([batch], rules, is_json_lines=is_json, with_check=True)
    return batch, start


def _first_read(file: SourceFile, rules: DocumentRules) -> tuple[Batch | None, Start]:
    """Return the same without the function of the source."""
    if file.format == "parquet":
        select = partial(selection_of, file=file, rules=rules)
        limit = rules.max_document_bytes
        return first_rows(file.url, select, max_document_bytes=limit), _NO_START
    if file.format == "document":
        return _document(file, max_bytes=rules.max_document_bytes), _NO_START
    for start in starts(file):
        blocks = LineBlocks(
            io.BytesIO(start.data).read,
            start=0,
            max_line_bytes=rules.max_document_bytes,
            is_broken=start.is_cut,
        )
        is_json = file.format == "jsonl"
        batches = lines_to_batches(iter(blocks), batch_builder(rules), rules, is_json=is_json)
        batch = next(batches, None)
        if batch is not None and (len(batch.documents) or batch.bad):
            return batch, start
    return None, start


def _document(file: SourceFile, *, max_bytes: int) -> Batch:
    """Return a file that is one document as a batch without its bytes; bad if it is not text."""
    builder = BatchBuilder(batch_documents=1)
    (start,) = starts(file, START_BYTES[:1])
    if file.compression is None and file.size > max_bytes:
        reason = too_large(f"{file.size} bytes", limit=max_bytes)
        builder.set_aside_unread(file.size, position=0, reason=reason)
    elif start.invalid_at is not None:
        builder.set_aside_unread(file.size, position=0, reason=invalid_utf8(start.invalid_at))
    else:
        builder.add(b"", position=0)
    return builder.take()


def _bad_conversations(batch: Batch, dialect: Dialect, *, template: str) -> Iterator[BadDocument]:
    """Yield the problems of conversations that reading a line or a row does not detect.

    What a chat template refuses is not detected here. With `auto`, a conversation is bad if neither
    nanochat's rendering nor a template can use it.
    """
    problems = dict.fromkeys(range(len(batch.documents)), "")
    if dialect.kind == "vision" or template in {AUTO, NANOCHAT}:
        problems = dict(texts_of(dialect, batch.documents).problems)
    if dialect.kind == "chat" and template != NANOCHAT:
        problems = {
            index: problem
            for index in problems
            if (problem := _row_problem(batch.documents[index], dialect)) is not None
        }
    for index, reason in problems.items():
        yield BadDocument(
            number=int(batch.numbers[index]),
            position=int(batch.positions[index]),
            reason=reason,
            hash64=None,
            num_bytes=len(batch.documents[index]),
        )


def _row_problem(document: bytes, dialect: Dialect) -> str | None:
    """Return why a chat template cannot get the messages of a row, or None."""
    try:
        row_of(value_of(document), dialect.name, tools=dialect.tools)
    except MALFORMED as error:
        return reason_of(error)
    return None


_MAX_FIELDS: Final = 10
_MAX_CHARS: Final = 40
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")

_CERTAIN = ("messages", "sharegpt", "alpaca")
"""Dialects whose documents are certainly conversations."""


def check_sample(
    source: SourceRecipe,
    files: Sequence[SourceFile],
    *,
    limits: LimitsRecipe,
    is_accepted: bool = False,
) -> tuple[str, ...]:
    """Read the first documents of a source and return notes on those that cannot be used.

    Args:
        source: the source of the recipe.
        files: its files, from `resolve`.
        limits: the limits of the recipe; if they allow that all documents are bad, no source is
            refused.
        is_accepted: whether the source is part of an existing output, and so not refused.

    Raises:
        SourceError: None of the documents that were read can be used, or a file cannot be read.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    sampled = sample(source, files, max_document_bytes=limits.max_document_bytes)
    total = sum(item.documents for item in sampled)
    bad = [(item, document) for item in sampled for document in item.bad]
    if total == len(bad) or _are_arrays(sampled):
        odd = next((item for item in sampled if item.bad or item.shape is not None), None)
        if odd is None:
            return () if any(file.size for file in files) else (f"source {source.name!r} is empty",)
        note = _refusal(source, odd, sampled)
        if is_accepted or limits.accepts_all_bad:
            return (note,)
        raise SourceError(note)
    unread = _unread(source, sampled)
    if not bad:
        return unread
    file, first = bad[0]
    note = (
        f"source {source.name!r}: {len(bad):,} of the first {_of_files(sampled)} cannot be used; "
        f"the first is {_location(file, first)}: {first.reason}"
    )
    return (note, *unread)


def _unread(source: SourceRecipe, sampled: Sequence[SampledFile]) -> tuple[str, ...]:
    """Return a note on fields of text beside the default column of JSON lines."""
    names: set[str] = set()
    if source.kind == "text" and "column" not in source.model_fields_set:
        for item in sampled:
            with suppress(SourceError):  # these documents have no such field
                names |= {*text_field(_objects(item)).others}
    return (unread_note(source, names),) if names else ()


def _objects(item: SampledFile) -> list[JsonObject]:
    """Return the first documents of JSON lines that are objects."""
    values = item.start.values() if item.file.format == "jsonl" else ()
    return [value for value in values if isinstance(value, dict)]


def _are_arrays(sampled: Sequence[SampledFile]) -> bool:
    """Return whether every file is one JSON array, whose last line can look like a document."""
    filled = [item for item in sampled if item.documents or item.shape is not None]
    return bool(filled) and all(item.shape == "array" for item in filled)


def _refusal(source: SourceRecipe, odd: SampledFile, sampled: Sequence[SampledFile]) -> str:
    """Return the message with the problem of the first bad document and the change to make."""
    is_odd = odd.shape is not None
    problem, advice = _shape_problem(odd) if is_odd else _document_problem(source, odd)
    count = f"Read {_of_files(sampled)}: none can be used"
    if odd.shape == "array":
        return f"source {source.name!r}: {problem}. {count}. {advice}"  # a command is last
    return f"source {source.name!r}: {problem}. {advice}. {count}"


def _of_files(sampled: Sequence[SampledFile]) -> str:
    documents = sum(item.documents for item in sampled)
    files = sum(bool(item.documents or item.shape is not None) for item in sampled)
    return f"{quantity(documents, 'document')} of {quantity(files, 'file')}"


def _shape_problem(odd: SampledFile) -> tuple[str, str]:
    path = odd.file.path
    if odd.shape == "array":
        return (
            f"{path} is one JSON array, not JSON lines",
            f"Write each element on one line: {convertible(odd.file.url)}",
        )
    line = _first_line(odd.start.data)
    problem = (
        f"{path}, line {line} begins a JSON value that continues on the next lines (pretty-printed "
        "JSON)"
    )
    return problem, "Write each document on one line, for example with `jq -c .`"


def _document_problem(source: SourceRecipe, odd: SampledFile) -> tuple[str, str]:
    first = odd.bad[0]
    if first.reason.startswith(RAISED):
        return f"{_location(odd, first)}: {first.reason}", "Correct the function of the source"
    value = _value_at(odd, first)
    if source.kind == "text":
        return _text_problem(source, odd, first, value)
    read_as = f", read as {odd.file.dialect}" if odd.file.dialect else ""
    return f"{_location(odd, first)}{read_as}: {first.reason}", _advice_on_dialect(
        source, odd, value
    )


def _advice_on_dialect(source: SourceRecipe, odd: SampledFile, value: object) -> str:
    dialect = None if value is NOT_JSON else detect(value, kind=source.kind)
    if dialect is not None and dialect != odd.file.dialect:
        return f'The document looks like {dialect!r}: set dialect = "{dialect}", or remove dialect'
    if dialect is None and _has_text(value):
        return 'Set kind = "text" if the documents are texts'
    return "Correct the documents, or kind and dialect of the source"


def _text_problem(
    source: SourceRecipe, odd: SampledFile, first: BadDocument, value: object
) -> tuple[str, str]:
    location, column = _location(odd, first), source.column
    if isinstance(value, dict) and odd.file.format == "jsonl":
        fields = ", ".join(_field_names(value)) or "no fields"
        if column not in value:
            return f"{location} has no field {column!r}; it has {fields}", _advice_on_fields(value)
        if not isinstance(value[column], str):
            what = f"{location}: field {column!r} is {kind_of(value[column])}, not a string"
            return f"{what}; the document has {fields}", _advice_on_fields(value)
    if isinstance(value, list) and detect(value, kind="chat") is not None:
        return f"{location} is an array, not an object", 'Set kind = "chat" if it holds messages'
    encoding = _encoding(odd.start.data)
    if encoding is not None:
        return f"{location}: {first.reason}", encoding
    if first.reason.startswith("invalid JSON") and _is_plain(odd, first):
        advice = 'Set format = "lines" if each line is one text'
        return f"{location}: {first.reason}", advice
    return (
        f"{location}: {first.reason}",
        "Correct the documents, or format and column of the source",
    )


def _encoding(start: bytes) -> str | None:
    """Return the next step for a file that is not UTF-8 text, from its first bytes, or None."""
    for suffix, compression in COMPRESSIONS.items():
        if is_compressed(start[:FIRST_BYTES], compression):
            return f"The file is {compression}: end its name in {suffix}"
    if start.startswith(_UTF16_MARKS):
        return "The file is UTF-16: convert it, for example with `iconv -f UTF-16 -t UTF-8`"
    return None


def _field_names(value: JsonObject) -> Iterator[str]:
    for name in list(value)[:_MAX_FIELDS]:
        yield repr(name[:_MAX_CHARS])
    if len(value) > _MAX_FIELDS:
        yield f"and {len(value) - _MAX_FIELDS:,} more"


def _advice_on_fields(value: JsonObject) -> str:
    if is_preference(value):
        return f"It is {PREFERENCES}"
    dialect = detect(value, kind="chat")
    if dialect in _CERTAIN:
        return 'Set kind = "chat" for conversations, or set column to the field of the text'
    also = ', or kind = "chat" for conversations' if dialect is not None else ""
    try:
        likely = repr(text_field([value]).name[:_MAX_CHARS])
    except SourceError as error:
        return f"Set column to the field of the text{also}: {error}"
    return f"Set column to {likely}{also}"


def _has_text(value: object) -> bool:
    return isinstance(value, dict) and any(
        isinstance(field_value, str) for field_value in value.values()
    )


def _location(odd: SampledFile, bad: BadDocument) -> str:
    """Return the location of a document, with rows and lines counted from 1.

    The location in a file that is one document is the file.
    """
    if odd.file.format == "parquet":
        return f"{odd.file.path}, row {bad.position + 1:,}"
    if odd.file.format == "document":
        return odd.file.path
    line = odd.start.data.count(b"\n", 0, bad.position) + 1
    return f"{odd.file.path}, line {line:,}"


def _first_line(start: bytes) -> int:
    """Return the number of the first line that is not blank."""
    text = start.removeprefix(BOM)
    return text.count(b"\n", 0, len(text) - len(text.lstrip())) + 1


def _line_at(odd: SampledFile, bad: BadDocument) -> bytes:
    return odd.start.data[bad.position :].split(b"\n", 1)[0].removeprefix(BOM)


def _value_at(odd: SampledFile, bad: BadDocument) -> object:
    return NOT_JSON if odd.file.format == "parquet" else json_value(_line_at(odd, bad))


def _is_plain(odd: SampledFile, bad: BadDocument) -> bool:
    """Return whether a line does not begin like a JSON document."""
    return _line_at(odd, bad).lstrip()[:1] not in {b"{", b"["}
