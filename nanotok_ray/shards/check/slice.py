"""The check of a slice of an output: a pure function of a small value and storage.

The driver has checked the record itself (`record.py`); this module reads its files, and compares
its documents with their sources to the requested depth.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from nanotok_ray.dialects import unused_members, unused_text, value_of
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError, NanotokError, SourceError, TransientIOError
from nanotok_ray.formats import TOKENIZER_FOLDER, DocumentBatch, ShardRecord, load, sha256_of
from nanotok_ray.shards.check.document import OTHER_TEXT, DocumentCheck, unequal
from nanotok_ray.shards.check.files import check_files
from nanotok_ray.shards.check.record import (
    account_problems,
    fim_problems,
    quarantine_problems,
    unused_problems,
)
from nanotok_ray.shards.check.sample import choose_documents
from nanotok_ray.shards.check.written import Run, WrittenDocuments, source_range
from nanotok_ray.shards.fim import choose
from nanotok_ray.shards.records import ExpectedSlice, Record
from nanotok_ray.shards.render import Renderer
from nanotok_ray.shards.settings import Vocabulary, dialect_of, settings_of
from nanotok_ray.shards.unused import count_unused
from nanotok_ray.sources import SKIPPED, Batch, Piece, Slice, SliceReading
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import IdTable, expected_tokenizer

Depth = Literal["sample", "full"]
"""The documents of a slice that are compared with the source: a sample, or all."""

MAX_PROBLEMS = 50
"""Limit of the reported problems of one slice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceWork:
    """The arguments of the check of a slice."""

    expected: ExpectedSlice
    out: str
    """URL of the output folder."""
    record_sha256: str
    """The sha256 of the record that the driver read."""
    record_bytes: int
    file_bytes: int
    """Bytes of the files of the record."""
    vocabulary: Vocabulary
    depth: Depth | None = None
    """None: only the files are checked."""

    @property
    def slice(self) -> Slice:
        """The slice."""
        return self.expected.slice

    @property
    def record_name(self) -> str:
        """Path of the record in the output folder."""
        return self.expected.record_name


def work_of(
    folder: Folder,
    expected: ExpectedSlice,
    record: Record[ShardRecord],
    *,
    model: IdTable,
) -> SliceWork:
    """Return the arguments of the check of the files of a slice with its record."""
    return SliceWork(
        expected=expected,
        out=folder.url,
        record_sha256=record.sha256,
        record_bytes=record.num_bytes,
        file_bytes=sum(file.size for file in record.value.files),
        vocabulary=Vocabulary.of(model, expected.settings),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceCheck:
    """The result of the check of a slice."""

    problems: tuple[str, ...] = ()
    sampled: int = 0
    """Number of documents compared with their source."""
    source_bytes: int = 0
    """Bytes of the documents that were read again from the sources."""


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """The reason why a slice could not be checked."""

    why: str


def check_slice(work: SliceWork) -> SliceCheck:
    """Check the files of a slice, and its documents to the requested depth.

    Raises:
        CorruptOutputError: The record is not the one that the driver read.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    folder = Folder(work.out)
    record = _same_record(folder, work)
    problems = check_files(folder, record, work.vocabulary)
    if problems or work.depth is None:
        return SliceCheck(problems=tuple(problems[:MAX_PROBLEMS]))
    settings = settings_of(work.slice, work.expected.settings)
    tokenizer = expected_tokenizer(folder.inside(TOKENIZER_FOLDER), settings.tokenizer_sha256)
    return compare_documents(
        folder,
        _by_content(work.slice),
        record,
        check=DocumentCheck(kind=work.slice.kind, settings=settings, tokenizer=tokenizer),
        depth=work.depth,
    )


def _by_content(slice_: Slice) -> Slice:
    """Return a slice whose files can have other times and etags, such as copies.

    The bytes are compared instead. A file of another size is refused when it is opened.
    """
    pieces = tuple(
        replace(piece, file=replace(piece.file, etag=None, mtime_ns=None))
        for piece in slice_.pieces
    )
    return replace(slice_, pieces=pieces)


def check_slices(todo: Iterable[SliceWork]) -> Iterator[SliceCheck | CheckFailure]:
    """Check slices one after the other.

    A slice that cannot be checked does not stop the others.
    """
    return map(_try_check, todo)


def _try_check(work: SliceWork) -> SliceCheck | CheckFailure:
    try:
        return check_slice(work)
    except (NanotokError, OSError) as error:
        return CheckFailure(f"{work.record_name}: {error}")


def _same_record(folder: Folder, work: SliceWork) -> ShardRecord:
    name = work.record_name
    try:
        data = folder.read_start(name, work.record_bytes + 1)
    except FileNotFoundError:
        data = b""
    if sha256_of(data) != work.record_sha256:
        raise CorruptOutputError(
            f"{folder.join(name)} is not what the driver read there: it was changed meanwhile, or "
            "not every node sees the same folder"
        )
    return load(ShardRecord, data, name=name)


MAX_NAMED = 5
"""Limit of the named documents of a slice; after a change of the source all of them differ."""


def compare_documents(
    folder: Folder,
    slice_: Slice,
    record: ShardRecord,
    *,
    check: DocumentCheck,
    depth: Depth,
) -> SliceCheck:
    """Compare the documents of a slice, whose files were checked, with its source, read again.

    The counts of reading must equal those of the record, and each document of the sample is
    checked. At full depth, all texts are also decoded, all conversations and vision documents are
    checked, document ids are compared, and the same renderer must quarantine the documents that
    are in no shard as in the quarantine file.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    if SKIPPED in record.quarantined:  # the slice was skipped unread
        return SliceCheck()
    settings, tokenizer = check.settings, check.tokenizer
    reading = SliceReading(slice_, max_document_bytes=settings.max_document_bytes)
    comparison = _Comparison(
        check=check,
        renderer=Renderer(settings=settings, tokenizer=tokenizer, reading=reading),
        chosen=choose_documents(record.shards),
        is_full=depth == "full",
    )
    problems: list[str] = []
    try:
        comparison.compare_all(folder, record)
    except (SourceError, OSError) as error:
        if isinstance(error, TransientIOError):
            raise
        problems.append(f"a source cannot be read again: {_naming(error, slice_)}")
        return comparison.result(problems)
    problems += account_problems(record, reading)
    if comparison.is_full:
        problems += quarantine_problems(folder, record, reading.quarantined)
        if not comparison.problems:
            problems += unused_problems(record, comparison.unused)
            problems += fim_problems(record, comparison.fim)
    return comparison.result(problems, source_bytes=reading.bytes_in)


def _naming(error: Exception, slice_: Slice) -> str:
    message = str(error)
    named = any(piece.file.url in message or piece.file.path in message for piece in slice_.pieces)
    return (
        message
        if named
        else f"{message} (of {', '.join(piece.file.path for piece in slice_.pieces[:3])})"
    )


@dataclass(kw_only=True, slots=True)
class _Comparison:
    """The comparison of one slice, batch by batch."""

    check: DocumentCheck
    renderer: Renderer
    """The renderer of the documents that are in no shard."""
    chosen: Mapping[str, npt.NDArray[np.int64]]
    """Indexes of the documents of the sample, by shard."""
    is_full: bool
    documents: int = 0
    """Number of compared documents."""
    problems: list[str] = field(default_factory=list)
    """The first few problems."""
    more: int = 0
    """Number of the other problems."""
    unused: dict[str, int] = field(default_factory=dict)
    """Text of the compared documents that is not rendered, by key."""
    fim: Counter[str] = field(default_factory=Counter)
    """The compared documents that were rearranged, by form."""

    def compare_all(self, folder: Folder, record: ShardRecord) -> None:
        """Read the source and the shards, and compare their documents."""
        reading = self.renderer.reading
        item_bytes = self.check.tokenizer.model.id_bytes
        with closing(WrittenDocuments(folder, record, item_bytes=item_bytes)) as written:
            for piece, batch in reading:
                source = source_range(reading.slice.pieces[piece], batch.group)
                self.compare(piece, batch, written.take(source, last=int(batch.numbers[-1])))
            if written.left:
                source_name = reading.slice.source
                self.add(f"{source_name}: {written.left:,} documents are no longer in the source")

    def add(self, problem: str) -> None:
        """Add a problem; beyond the limit, only count it."""
        if len(self.problems) < MAX_NAMED:
            self.problems.append(problem)
        else:
            self.more += 1

    def result(self, problems: list[str], *, source_bytes: int = 0) -> SliceCheck:
        """Return the check of the slice, with problems of the source before those of documents."""
        source = self.renderer.reading.slice.source
        more = [f"{source}: and {self.more:,} more of this slice"] if self.more else []
        return SliceCheck(
            problems=(*problems, *self.problems, *more)[:MAX_PROBLEMS],
            sampled=self.documents,
            source_bytes=source_bytes,
        )

    def compare(self, piece: int, batch: Batch, runs: Iterator[Run]) -> None:
        """Compare the documents of a batch with those of the shards."""
        source = self.renderer.reading.slice.pieces[piece]
        is_written = np.zeros(len(batch.documents), dtype=bool)
        for rows, documents in runs:
            at, missing = _positions_in(batch, rows)
            is_written[np.delete(at, missing)] = True
            problems = (
                ((number, None) for number in missing.tolist())
                if len(missing)
                else self._problems(documents, batch.documents, at, source.file.dialect)
            )
            for number, why in problems:
                row = (
                    f"{documents.describe(number)} is not row {rows[number]} of {source.file.path}"
                )
                self.add(row if why is None else f"{row}: {why}")
            if self.is_full and batch.document_ids is not None and not len(missing):
                for number in _other_ids(documents, batch.document_ids.take(at)):
                    self.add(
                        f"{documents.shard}.ids: the id of document {documents.first + number} is "
                        f"not that of row {rows[number]} of {source.file.path}"
                    )
        rest = np.flatnonzero(~is_written)
        if self.is_full and len(rest):
            self._check_not_written(piece, batch.take(rest), source)

    def _problems(
        self,
        written: DocumentBatch,
        documents: Documents,
        at: npt.NDArray[np.int64],
        dialect: str | None,
    ) -> Iterator[tuple[int, str]]:
        """Yield the index of each written document that differs from its row, and the reason."""
        numbers = self._chosen_of(written)
        wrong = numbers[:0]
        if self.is_full and dialect is None:
            texts = documents.take(at)
            if (fim := self.check.settings.fim) is not None:
                self.fim.update(choose(texts, fim).forms)
            wrong = self.check.differing_texts(texts, written)
            numbers = np.union1d(numbers, wrong)
        elif self.is_full:
            numbers = np.arange(len(written))
        self.documents += len(written) if self.is_full else len(numbers)
        for number in numbers.tolist():
            document = documents[int(at[number])]
            problem = self.check.problem(document, *written[number], dialect=dialect)
            if self.is_full and dialect is not None and problem is None:
                count_unused(self.unused, self._unused_of(document, dialect))
            if problem is not None or number in wrong:
                yield number, problem or OTHER_TEXT  # for a long text, outside the window

    def _unused_of(self, document: bytes, dialect: str) -> list[tuple[str, int]]:
        slice_ = self.renderer.reading.slice
        read_as = dialect_of(self.check.settings, slice_.kind, dialect, id_column=slice_.id_column)
        is_templated = self.check.settings.template is not None
        unused_of = unused_members if is_templated else unused_text
        return sorted(unused_of(value_of(document), read_as).items())

    def _chosen_of(self, written: DocumentBatch) -> npt.NDArray[np.int64]:
        """Return the indexes of the written documents that belong to the sample."""
        numbers = self.chosen.get(written.shard, np.zeros(0, np.int64)) - written.first
        return numbers[(numbers >= 0) & (numbers < len(written))]

    def _check_not_written(self, piece: int, batch: Batch, source: Piece) -> None:
        """Render documents that are in no shard; the renderer must quarantine them."""
        rendered = self.renderer.render(piece, batch)
        if rendered is not None:
            self.add(
                f"{source.file.path}: {len(rendered.rows):,} documents from row {rendered.rows[0]} "
                "on are in no shard"
            )


def _positions_in(
    batch: Batch, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the position of each row in a batch, and the indexes of the missing rows."""
    at = np.searchsorted(batch.numbers, rows).astype(np.int64)
    is_there = at < len(batch.numbers)
    is_there[is_there] = batch.numbers[at[is_there]] == rows[is_there]
    return at, np.flatnonzero(~is_there)


def _other_ids(written: DocumentBatch, ids: Documents) -> list[int]:
    """Return the indexes of the documents whose ids differ from those in the source."""
    assert written.document_ids is not None, "both are as the slice's id_column says"
    data, offsets = written.document_ids
    return np.flatnonzero(unequal(Documents(data=data, offsets=offsets), ids)).tolist()
