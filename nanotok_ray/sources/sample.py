"""The first documents of a source, read as the job reads them, before anything is started.

Takes a source of the recipe and its files; gives what was found in a few of them. Does not know
what is made of it.
"""

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from nanotok_ray.dialects import Dialect
from nanotok_ray.errors import SourceError
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.recipe.special_tokens import GROUNDING
from nanotok_ray.rendering import texts_of
from nanotok_ray.sources.batch import BadDocument, Batch, BatchBuilder
from nanotok_ray.sources.files import SourceFile
from nanotok_ray.sources.first_document import decoded_start
from nanotok_ray.sources.json_lines import invalid_utf8, too_large
from nanotok_ray.sources.line_blocks import LineBlocks
from nanotok_ray.sources.lines import lines_to_batches
from nanotok_ray.sources.parquet_start import first_rows
from nanotok_ray.sources.piece_reader import selecting
from nanotok_ray.sources.utf8 import invalid_at
from nanotok_ray.sources.value_shape import Shape, shape_of
from nanotok_ray.storage import read_start, unreadable
from nanotok_ray.vision import PLACEHOLDER

MOST_FILES: Final = 5
MOST_DOCUMENTS: Final = 20
"""Of each file."""

_START_BYTES = (1 << 16, 1 << 20)  # nearly always the first is enough
_CUT_BYTES = 3  # of a character whose end lies behind the start


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledFile:
    """The first documents of one file."""

    file: SourceFile
    documents: int = 0
    """How many were read, bad ones included."""
    bad: tuple[BadDocument, ...] = ()
    """Those that cannot be used, in order."""
    start: bytes = b""
    """The decoded bytes that they were read from; empty of parquet."""
    shape: Shape | None = None
    """Of JSON lines: what is odd about how the values lie in the lines."""


def sample(
    source: SourceRecipe, files: Sequence[SourceFile], *, max_document_bytes: int
) -> list[SampledFile]:
    """Read the first documents of at most five files: the first, the last, and some between.

    Raises:
        SourceError: a file cannot be read.
        TransientIOError: a remote store failed in a way that may pass.
    """
    chosen = _spread([file for file in files if file.size])
    read = partial(_sampled, source=source, max_document_bytes=max_document_bytes)
    with ThreadPoolExecutor(max_workers=MOST_FILES) as pool:
        return list(pool.map(read, chosen))


def _spread(files: Sequence[SourceFile]) -> list[SourceFile]:
    if not files:
        return []
    last, steps = len(files) - 1, MOST_FILES - 1
    return [files[place] for place in sorted({last * step // steps for step in range(steps + 1)})]


def _sampled(file: SourceFile, *, source: SourceRecipe, max_document_bytes: int) -> SampledFile:
    try:
        if file.format == "parquet":
            found = _rows(file, source=source, max_document_bytes=max_document_bytes)
        elif file.format == "document":
            found = _whole_file(file, max_document_bytes=max_document_bytes)
        else:
            found = _lines(file, source=source, max_document_bytes=max_document_bytes)
    except SourceError:
        raise
    except OSError as error:
        raise SourceError(unreadable(file.url, error)) from error
    return found


def _rows(file: SourceFile, *, source: SourceRecipe, max_document_bytes: int) -> SampledFile:
    group = next((number for number, each in enumerate(file.layout) if each.rows), None)
    if group is None:
        return SampledFile(file=file)
    batch = first_rows(
        file.url,
        select=selecting(
            file.piece(0, len(file.layout)),
            kind=source.kind,
            column=source.column,
            id_column=source.id_column,
        ),
        group=group,
        most=MOST_DOCUMENTS,
        max_document_bytes=max_document_bytes,
    )
    return SampledFile(file=file) if batch is None else _looked_at(file, batch, source=source)


def _whole_file(file: SourceFile, *, max_document_bytes: int) -> SampledFile:
    """See whether a file that is one document begins as text."""
    start, is_whole = _start(file, _START_BYTES[0])
    place = invalid_at(start)
    reason = None
    if file.compression is None and file.size > max_document_bytes:
        reason = too_large(f"{file.size} bytes", limit=max_document_bytes)
    elif place is not None and (is_whole or place < len(start) - _CUT_BYTES):
        reason = invalid_utf8(place)
    if reason is None:
        return SampledFile(file=file, documents=1)
    bad = BadDocument(number=0, position=0, reason=reason, hash64=None, num_bytes=file.size)
    return SampledFile(file=file, documents=1, bad=(bad,))


def _lines(file: SourceFile, *, source: SourceRecipe, max_document_bytes: int) -> SampledFile:
    found = SampledFile(file=file)
    for size in _START_BYTES:
        start, is_whole = _start(file, size)
        batch = _first_lines(
            start, file, is_whole=is_whole, source=source, max_document_bytes=max_document_bytes
        )
        shape = shape_of(start, is_whole=is_whole) if file.format == "jsonl" else None
        found = replace(found, start=start, shape=shape)
        if batch is not None and (len(batch.documents) or batch.bad):
            return replace(_looked_at(file, batch, source=source), start=start, shape=shape)
        if is_whole or len(start) < size:
            break
    return found


def _start(file: SourceFile, size: int) -> tuple[bytes, bool]:
    """Return the decoded start of a file, and whether it is all of it."""
    stored = read_start(file.url, size)
    start, has_ended = decoded_start(stored, file.compression, most=size)
    return start, has_ended and len(stored) >= file.size


def _first_lines(
    start: bytes,
    file: SourceFile,
    *,
    is_whole: bool,
    source: SourceRecipe,
    max_document_bytes: int,
) -> Batch | None:
    """Return the first documents of a decoded start, whose last line may be cut."""
    blocks = LineBlocks(
        io.BytesIO(start).read,
        start=0,
        max_line_bytes=max_document_bytes,
        is_broken=lambda: not is_whole,
    )
    batches = lines_to_batches(
        iter(blocks),
        BatchBuilder(
            batch_documents=MOST_DOCUMENTS, with_document_ids=source.id_column is not None
        ),
        is_json=file.format == "jsonl",
        kind=source.kind,
        column=source.column,
        id_column=source.id_column,
        max_document_bytes=max_document_bytes,
    )
    return next(batches, None)


def _looked_at(file: SourceFile, batch: Batch, *, source: SourceRecipe) -> SampledFile:
    """Add what is wrong with conversations, which reading a line or row does not show."""
    bad = list(batch.bad)
    if file.dialect is not None:
        dialect = Dialect(
            kind=source.kind,
            name=file.dialect,
            image_token=PLACEHOLDER,
            grounding=GROUNDING if source.grounding else (),
        )
        bad += [
            BadDocument(
                number=int(batch.numbers[index]),
                position=int(batch.positions[index]),
                reason=reason,
                hash64=None,
                num_bytes=len(batch.documents[index]),
            )
            for index, reason in texts_of(dialect, batch.documents).problems.items()
        ]
    return SampledFile(
        file=file,
        documents=len(batch.documents) + len(batch.bad),
        bad=tuple(sorted(bad, key=lambda each: each.number)),
    )
