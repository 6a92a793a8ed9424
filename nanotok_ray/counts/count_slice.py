"""Counting: a slice of documents to a count file and its record, with quarantined documents."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nanotok_ray import _core
from nanotok_ray.chat import PLACEHOLDER
from nanotok_ray.chat.batches import texts_of
from nanotok_ray.counts.count_file import COUNTS_FORMAT, CountProvenance, pack_counts
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents.batch import Documents
from nanotok_ray.errors import SplitError
from nanotok_ray.formats.manifest import RECORD_FORMAT, key_of
from nanotok_ray.recipe import MAX_DOCUMENT_BYTES, Gaps
from nanotok_ray.sources import Batch, Slice
from nanotok_ray.sources.quarantine import COUNTED_SUFFIX, write_quarantine
from nanotok_ray.sources.slices import SliceReading
from nanotok_ray.storage import Folder


@dataclass(frozen=True, kw_only=True, slots=True)
class CountSettings:
    """What a count file depends on besides its slice."""

    pattern: str
    gaps: Gaps
    """spans or error."""
    doc_cap: int | None = None
    """Code points of a document that are counted; None: all."""
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    """A larger document is quarantined."""
    grounding: tuple[str, ...] = ()
    """Special tokens that are recognised where a vision document spells them out."""
    budget: int | None = None
    """Code points left for this slice under max_chars: counting ends after the document that
    passes it; None: no limit."""

    def to_dict(self) -> dict[str, Any]:
        """Return all that a count file depends on besides its slice."""
        values = {**asdict(self), "unicode": _core.UNICODE_VERSION, "format": COUNTS_FORMAT}
        if not self.grounding:  # as of sources that cannot have any
            del values["grounding"]
        return values

    def key(self, slice_: Slice) -> str:
        """Return the key of the count file of a slice."""
        return key_of({"slice": slice_.key, "counting": self.to_dict()})


def count_slice(
    slice_: Slice,
    settings: CountSettings,
    *,
    folder: Folder,
    name: str,
    give_up_after: int | None = None,
) -> dict[str, Any]:
    """Count the spans of a slice, write `name`.arrow and return its record.

    Raises:
        AllBadError: the first `give_up_after` documents were all quarantined; nothing is written.
        SourceError, TransientIOError: the input cannot be read.
        CountOverflowError: a count would pass 2**64 - 1.
    """
    reading = SliceReading(
        slice_,
        max_document_bytes=settings.max_document_bytes,
        with_document_ids=False,
        give_up_after=give_up_after,
    )
    counter = _core.SpanCounts(settings.pattern, gaps=settings.gaps)
    account = _Account(budget=settings.budget)
    for piece, batch in reading:
        texts, bounds = _texts(reading, settings, piece, batch)
        chosen = account.take(_capped(texts, settings.doc_cap))
        _update(counter, chosen, bounds, reading=reading, piece=piece, batch=batch)
        if account.is_spent:
            break
    origin = CountProvenance(
        pattern=settings.pattern,
        gaps=settings.gaps,
        texts=account.texts,
        text_bytes=account.text_bytes,
        spans=counter.total(),
        num_gaps=counter.num_gaps(),
    )
    data = pack_counts(counter.sorted_run(), origin)
    return {
        "format": RECORD_FORMAT,
        "stage": "count",
        "key": settings.key(slice_),
        "slice": {"source": slice_.source, "split": slice_.split, "number": slice_.number},
        "read": reading.read,
        "documents": {"in": reading.documents_in, "quarantined": len(reading.quarantined)},
        "quarantined": reading.reasons,
        "texts": account.texts,
        "text_bytes": account.text_bytes,
        "code_points": account.code_points,
        "spans": counter.total(),
        "distinct_spans": counter.num_distinct(),
        "gaps": counter.num_gaps(),
        "files": _write_files(data, reading, folder=folder, name=name),
    }


def _write_files(
    data: pa.Buffer, reading: SliceReading, *, folder: Folder, name: str
) -> list[dict[str, Any]]:
    """Write the count file, and the quarantine file if there is something for it."""
    with folder.create(f"{name}.arrow") as file:
        file.write(data)
    files = [{"name": f"{name}.arrow", "size": file.size, "sha256": file.sha256}]
    if reading.quarantined:
        listed = f"{name}{COUNTED_SUFFIX}"
        size, sha256 = write_quarantine(folder, reading.quarantined, name=listed)
        files.append({"name": listed, "size": size, "sha256": sha256})
    return files


@dataclass(slots=True)
class _Account:
    """Code points counted so far, and where a budget of them ends."""

    budget: int | None
    texts: int = 0
    text_bytes: int = 0
    code_points: int = 0
    is_spent: bool = False

    def take(self, texts: Documents) -> Documents:
        """Return the leading texts that are still counted; the last may pass the budget."""
        if self.is_spent:
            return texts.take(np.zeros(0, dtype=np.int64))
        lengths = _code_points(texts)
        if self.budget is not None:
            passed = np.flatnonzero(self.code_points + np.cumsum(lengths) > self.budget)
            if len(passed):
                self.is_spent = True
                texts = texts.take(np.arange(passed[0] + 1))
                lengths = lengths[: passed[0] + 1]
        self.texts += len(texts)
        self.text_bytes += texts.num_bytes
        self.code_points += int(lengths.sum())
        return texts


def _texts(
    reading: SliceReading, settings: CountSettings, piece: int, batch: Batch
) -> tuple[Documents, npt.NDArray[np.int64]]:
    """Return the texts of a batch, and the number of each document's first, and the end."""
    slice_ = reading.slice
    if slice_.kind == "text":
        return batch.documents, np.arange(len(batch.documents) + 1)
    name = slice_.pieces[piece].dialect
    assert name is not None, "the plan names the dialect of every such file"
    dialect = Dialect(
        kind=slice_.kind, name=name, image_token=PLACEHOLDER, grounding=settings.grounding
    )
    found = texts_of(dialect, batch.documents)
    for index, reason in found.problems.items():
        reading.quarantine(piece, batch, index, reason=reason)
    return found.texts, found.bounds


def _update(
    counter: _core.SpanCounts,
    texts: Documents,
    bounds: npt.NDArray[np.int64],
    *,
    reading: SliceReading,
    piece: int,
    batch: Batch,
) -> None:
    """Count texts; a document that cannot be split is quarantined, the others still count.

    An update that fails counts nothing of its call, so a failed batch is counted document by
    document; the texts of one conversation count together or not at all.
    """
    try:
        counter.update(texts.data, texts.offsets)
    except SplitError:
        ends = np.minimum(bounds, len(texts)).tolist()
        for number, (start, end) in enumerate(pairwise(ends)):
            document_texts = texts.part(start, end)
            try:
                counter.update(document_texts.data, document_texts.offsets)
            except SplitError as error:
                reading.quarantine(piece, batch, number, reason=error.reason)


def _capped(texts: Documents, doc_cap: int | None) -> Documents:
    if doc_cap is None:
        return texts
    return Documents.from_arrow(pc.utf8_slice_codeunits(texts.to_arrow(), 0, doc_cap))


def _code_points(texts: Documents) -> npt.NDArray[np.int64]:
    return np.asarray(pc.utf8_length(texts.to_arrow()), dtype=np.int64)
