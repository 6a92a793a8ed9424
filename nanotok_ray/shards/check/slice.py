"""The check of a slice in an output: a pure function of a small value and storage.

The driver has checked the record by itself (`record.py`); this module reads its files, and compares
its documents with their sources as far as the depth says.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError, NanotokError, SourceError, TransientIOError
from nanotok_ray.formats import RECORD_FORMAT, TOKENIZER_FOLDER, check_record_shape, from_json
from nanotok_ray.shards.check.document import OTHER_TEXT, DocumentCheck, DocumentParts, unequal
from nanotok_ray.shards.check.files import check_files
from nanotok_ray.shards.check.record import account_problems, quarantine_problems
from nanotok_ray.shards.check.sample import choose_documents
from nanotok_ray.shards.check.written import Run, WrittenDocuments, source_range
from nanotok_ray.shards.output import Expected
from nanotok_ray.shards.render import Renderer
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.sink import MASKED
from nanotok_ray.sources import SKIPPED, Batch, Piece, Slice, SliceReading
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import expected_tokenizer

Depth = Literal["sample", "full"]
"""How many documents of a slice are compared with its source: some, or every one."""

MAX_PROBLEMS = 50
"""The limit of problems reported of one slice."""


def depth_of(slice_: Slice, *, deep: bool, masks: bool, sampled: bool) -> Depth | None:
    """Return how far a slice is checked, by the request, its kind, and the sample.

    None: its files alone, as of what has no masks where masks are asked for.
    """
    if deep or (masks and slice_.kind in MASKED):
        return "full"
    return "sample" if sampled and not masks else None


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceWork:
    """The arguments of the check of a slice."""

    slice: Slice
    settings: ShardSettings
    key: str
    out: str
    """URL of the output folder."""
    record_sha256: str
    """Of the record as the driver read it."""
    record_bytes: int
    file_bytes: int
    """Of the files that it names."""
    item_bytes: int
    num_ids: int
    special_tokens: Mapping[str, int]
    """Of the tokenizer, with their ids."""
    depth: Depth | None
    """None: the files alone are checked."""

    @property
    def record_name(self) -> str:
        """Path of the record in the output folder."""
        return Expected(slice=self.slice, key=self.key).record_name


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceCheck:
    """The result of the check of a slice."""

    problems: tuple[str, ...] = ()
    sampled: int = 0
    """Documents compared with their source."""
    source_bytes: int = 0
    """Bytes of the documents that were read again from the sources."""


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Why a slice could not be checked."""

    why: str


Result = tuple[int, SliceCheck | Unchecked]
"""The place of the work in its list, and what became of it."""


def check_slice(work: SliceWork) -> SliceCheck:
    """Check the files of a slice, and documents against their source as the depth says.

    Raises:
        CorruptOutputError: the record is not the one that the driver read.
        TransientIOError: a remote store failed in a way that may pass.
    """
    folder = Folder(work.out)
    values = _same_record(folder, work)
    found = check_files(
        folder,
        values,
        item_bytes=work.item_bytes,
        num_ids=work.num_ids,
        special_tokens=work.special_tokens,
        image_token=work.settings.image_token,
    )
    problems = tuple(itertools.islice(found, MAX_PROBLEMS))
    if problems or work.depth is None:
        return SliceCheck(problems=problems)
    sha256 = work.settings.tokenizer_sha256
    tokenizer = expected_tokenizer(folder.join(TOKENIZER_FOLDER), sha256)
    compared = compare_documents(
        folder,
        _by_content(work.slice),
        values,
        check=DocumentCheck(kind=work.slice.kind, settings=work.settings, tokenizer=tokenizer),
        depth=work.depth,
    )
    return SliceCheck(
        problems=tuple(compared.problems[:MAX_PROBLEMS]),
        sampled=compared.documents,
        source_bytes=compared.source_bytes,
    )


def check_slices(works: Sequence[SliceWork]) -> Iterator[Result]:
    """Check slices one after the other; yield each result with its index.

    A slice that cannot be checked does not stop the others.
    """
    yield from enumerate(map(_try_check, works))


def in_order(results: Iterable[Result], number: int) -> list[SliceCheck | Unchecked]:
    """Return what became of each of a number of works, in their order."""
    ended = dict(results)
    return [ended.get(index, Unchecked("it never ended")) for index in range(number)]


def _by_content(slice_: Slice) -> Slice:
    """Return a slice whose files may have other times and etags, as a copy has: bytes are compared.

    A file of another size is refused when it is opened.
    """
    pieces = tuple(replace(piece, etag=None, mtime_ns=None) for piece in slice_.pieces)
    return replace(slice_, pieces=pieces)


def _try_check(work: SliceWork) -> SliceCheck | Unchecked:
    try:
        return check_slice(work)
    except (NanotokError, OSError) as error:
        return Unchecked(f"{work.record_name}: {error}")


def _same_record(folder: Folder, work: SliceWork) -> dict[str, Any]:
    name = work.record_name
    try:
        data = folder.read_start(name, work.record_bytes + 1)
    except FileNotFoundError:
        data = b""
    if hashlib.sha256(data).hexdigest() != work.record_sha256:
        raise CorruptOutputError(
            f"{folder.join(name)} is not what the driver read there: it was changed meanwhile, or "
            "not every node sees the same folder"
        )
    values = from_json(data, name=name, expected_format=RECORD_FORMAT)
    check_record_shape(values, name=name, of_shards=True)
    return values


MAX_NAMED = 5
"""Documents named of a slice; a changed source makes all of them differ."""


@dataclass(slots=True)
class Compared:
    """The result of comparing documents: counts and problems."""

    documents: int = 0
    source_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    more: int = 0
    """Problems beyond the first few."""

    def add(self, problem: str) -> None:
        """Add a problem; beyond the limit, only count it."""
        if len(self.problems) < MAX_NAMED:
            self.problems.append(problem)
        else:
            self.more += 1

    def end(self, source: str) -> None:
        """Add a line with the number of problems beyond the limit."""
        if self.more:
            self.problems.append(f"{source}: and {self.more:,} more of this slice")


def compare_documents(
    folder: Folder,
    slice_: Slice,
    values: Mapping[str, Any],
    *,
    check: DocumentCheck,
    depth: Depth,
) -> Compared:
    """Compare documents of a slice, whose files were checked, with its source, which is read again.

    What was read and counted must be as the record says, and each document of the sample is
    checked. At full depth all texts are decoded besides, all conversations and vision documents are
    checked, document ids are compared, and what is in no shard must be quarantined again, by the
    same renderer, as the quarantine file says.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    found = Compared()
    if SKIPPED in values["quarantined"]:  # it was left out unread
        return found
    settings, tokenizer = check.settings, check.tokenizer
    reading = SliceReading(slice_, max_document_bytes=settings.max_document_bytes)
    comparison = _Comparison(
        check=check,
        renderer=Renderer(settings=settings, tokenizer=tokenizer, reading=reading),
        chosen=choose_documents(values["shards"]),
        is_full=depth == "full",
        found=found,
    )
    if not _read_again(folder, reading, values, comparison):
        return found
    found.source_bytes = reading.bytes_in
    problems = list(account_problems(values, reading))
    if comparison.is_full:
        problems += quarantine_problems(folder, values, reading.quarantined)
    found.problems[:0] = problems
    found.end(slice_.source)
    return found


def _read_again(
    folder: Folder, reading: SliceReading, values: Mapping[str, Any], comparison: "_Comparison"
) -> bool:
    """Compare batch by batch; return whether all sources could be read."""
    slice_, found = reading.slice, comparison.found
    with WrittenDocuments(
        folder,
        values["shards"],
        item_bytes=comparison.check.tokenizer.model.id_bytes,
        kind=slice_.kind,
        with_document_ids=slice_.id_column is not None,
    ) as written:
        try:
            for piece, batch in reading:
                source = source_range(slice_.pieces[piece], batch.group)
                runs = written.take(source, last=int(batch.numbers[-1]))
                comparison.compare(piece, batch, runs)
        except TransientIOError:
            raise
        except (SourceError, OSError) as error:
            found.problems.insert(0, f"a source cannot be read again: {_naming(error, slice_)}")
            return False
        if written.left:
            found.add(f"{slice_.source}: {written.left:,} documents are no longer in the source")
    return True


def _naming(error: Exception, slice_: Slice) -> str:
    message = str(error)
    named = any(piece.url in message or piece.path in message for piece in slice_.pieces)
    return (
        message
        if named
        else f"{message} (of {', '.join(piece.path for piece in slice_.pieces[:3])})"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Comparison:
    """One slice being compared, batch by batch."""

    check: DocumentCheck
    renderer: Renderer
    """Of the documents that are in no shard."""
    chosen: Mapping[str, npt.NDArray[np.int64]]
    """Numbers of the sample's documents, by shard."""
    is_full: bool
    found: Compared

    def compare(self, piece: int, batch: Batch, runs: Iterator[Run]) -> None:
        """Compare the documents of a batch with those of the shards."""
        source = self.renderer.reading.slice.pieces[piece]
        is_written = np.zeros(len(batch.documents), dtype=bool)
        for run in runs:
            at, missing = _positions_in(batch, run)
            is_written[np.delete(at, missing)] = True
            problems = (
                ((number, None) for number in missing.tolist())
                if len(missing)
                else self._problems(run, batch.documents, at, source.dialect)
            )
            for number, why in problems:
                row = f"{run.describe(number)} is not row {run.rows[number]} of {source.path}"
                self.found.add(row if why is None else f"{row}: {why}")
            if self.is_full and batch.document_ids is not None and not len(missing):
                self._compare_ids(run, batch.document_ids.take(at), source)
        rest = np.flatnonzero(~is_written)
        if self.is_full and len(rest):
            self._check_not_written(piece, batch.take(rest), source)

    def _problems(
        self, run: Run, documents: Documents, at: npt.NDArray[np.int64], dialect: str | None
    ) -> Iterator[tuple[int, str]]:
        """Yield the number in the run of each document that is not the one of its row, and why."""
        numbers = self._chosen_of(run)
        wrong = numbers[:0]
        if self.is_full and dialect is None:
            wrong = self.check.differing_texts(documents.take(at), run.ids, run.lengths)
            numbers = np.union1d(numbers, wrong)
        elif self.is_full:
            numbers = np.arange(len(run.rows))
        self.found.documents += len(run.rows) if self.is_full else len(numbers)
        parts = DocumentParts(run.ids, run.lengths, run.mask, run.images)
        for number in numbers.tolist():
            document = documents[int(at[number])]
            problem = self.check.problem(document, *parts[number], dialect=dialect)
            if problem is not None or number in wrong:
                yield number, problem or OTHER_TEXT  # of a long text outside the window

    def _chosen_of(self, run: Run) -> npt.NDArray[np.int64]:
        """Return the numbers in a run of the documents that belong to the sample."""
        numbers = self.chosen.get(run.name, np.zeros(0, np.int64)) - run.first
        return numbers[(numbers >= 0) & (numbers < len(run.rows))]

    def _compare_ids(self, run: Run, ids: Documents, source: Piece) -> None:
        """Compare the ids that documents have in their source with those beside the shard."""
        assert run.document_ids is not None, "both are as the slice's id_column says"
        for number in np.flatnonzero(unequal(run.document_ids, ids)).tolist():
            self.found.add(
                f"{run.name}.ids: the id of document {run.first + number} is not that of row "
                f"{run.rows[number]} of {source.path}"
            )

    def _check_not_written(self, piece: int, batch: Batch, source: Piece) -> None:
        """Render documents that are in no shard, which must quarantine them."""
        rendered = self.renderer.render(piece, batch)
        if rendered is not None:
            self.found.add(
                f"{source.path}: {len(rendered.rows):,} documents from row {rendered.rows[0]} on "
                "are in no shard"
            )


def _positions_in(batch: Batch, run: Run) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return each document's position in a batch, and the documents that are missing."""
    at = np.searchsorted(batch.numbers, run.rows).astype(np.int64)
    is_there = at < len(batch.numbers)
    is_there[is_there] = batch.numbers[at[is_there]] == run.rows[is_there]
    return at, np.flatnonzero(~is_there)
