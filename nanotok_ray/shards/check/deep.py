"""Every document of a slice compared with its source, which is read again from start to end.

Texts are decoded and compared as bytes; conversations and vision documents are rendered again,
ids, masks and images compared; what an `id_column` says is compared with NAME.ids. What was read,
the counts and the quarantine file must be as the record says. Texts are not encoded, except those
that are in no shard: the renderer must refuse them again.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.documents.batch import Documents, offsets_of
from nanotok_ray.formats.document_images import Images, images_of
from nanotok_ray.shards.check.record import quarantine_name
from nanotok_ray.shards.check.written import (
    Compared,
    Run,
    TextComparison,
    account_problems,
    positions_in,
    read_again,
    unequal,
)
from nanotok_ray.shards.render import Renderer
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.writer import Rendered
from nanotok_ray.sources import Batch, Slice
from nanotok_ray.sources.quarantine import SKIPPED, Quarantined
from nanotok_ray.sources.slices import SliceReading
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer


def compare_all(
    folder: Folder,
    slice_: Slice,
    values: Mapping[str, Any],
    *,
    tokenizer: Tokenizer,
    settings: ShardSettings,
) -> Compared:
    """Compare all documents of a slice whose files were checked.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    found = Compared()
    if SKIPPED in values["quarantined"]:  # it was left out unread
        return found
    reading = SliceReading(slice_, max_document_bytes=settings.max_document_bytes)
    comparison = _Comparison(
        renderer=Renderer(settings=settings, tokenizer=tokenizer, reading=reading),
        texts=TextComparison.of(tokenizer, settings),
        found=found,
    )
    is_read = read_again(
        folder,
        reading,
        values,
        item_bytes=tokenizer.model.id_bytes,
        found=found,
        on_batch=comparison.compare,
    )
    if is_read:
        found.problems[:0] = [
            *account_problems(values, reading),
            *_quarantine_problems(folder, values, reading),
        ]
        found.end(slice_.source)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Comparison:
    """One slice being compared, batch by batch."""

    renderer: Renderer
    texts: TextComparison
    found: Compared

    def compare(self, piece: int, batch: Batch, runs: Iterator[Run]) -> None:
        """Compare the documents of a batch with those of the shards."""
        if self.renderer.reading.slice.kind == "text":
            self._texts(piece, batch, runs)
        else:
            self._conversations(piece, batch, runs)

    def _texts(self, piece: int, batch: Batch, runs: Iterator[Run]) -> None:
        is_written = np.zeros(len(batch.documents), dtype=bool)
        for run in runs:
            at, missing = positions_in(batch, run)
            if len(missing):
                self._add(run, missing, piece=piece)
                continue
            is_written[at] = True
            wrong = self.texts.differing(run.ids, run.lengths, batch.documents.take(at))
            self._add(run, wrong, piece=piece)
            if batch.document_ids is not None:
                self._compare_ids(run, batch.document_ids.take(at), piece=piece)
        rest = np.flatnonzero(~is_written)
        if len(rest):
            rendered = self.renderer.render(piece, batch.take(rest))
            if rendered is not None:
                self._not_written(piece, rendered.rows)

    def _conversations(self, piece: int, batch: Batch, runs: Iterator[Run]) -> None:
        rendered = self.renderer.render(piece, batch)
        rows = np.zeros(0, dtype=np.int64) if rendered is None else rendered.rows
        bounds = np.zeros(1, np.int64) if rendered is None else offsets_of(rendered.lengths)
        taken = 0
        for run in runs:
            run_rows = rows[taken : taken + len(run.rows)]
            if rendered is None or not np.array_equal(run_rows, run.rows):
                self._add(run, _first_other(run.rows, run_rows), piece=piece)
                return
            first, last = bounds[taken], bounds[taken + len(run_rows)]
            wrong = _differing(
                run, rendered, slice(taken, taken + len(run_rows)), slice(first, last)
            )
            self._add(run, wrong, piece=piece)
            if rendered.document_ids is not None:
                ids = rendered.document_ids.part(taken, taken + len(run_rows))
                self._compare_ids(run, ids, piece=piece)
            taken += len(run_rows)
        if taken < len(rows):
            self._not_written(piece, rows[taken:])

    def _not_written(self, piece: int, rows: npt.NDArray[np.int64]) -> None:
        path = self.renderer.reading.slice.pieces[piece].path
        self.found.add(f"{path}: {len(rows):,} documents from row {rows[0]} on are in no shard")

    def _compare_ids(self, run: Run, ids: Documents, *, piece: int) -> None:
        """Compare the ids that documents have in their source with those beside the shard."""
        assert run.document_ids is not None, "both are as the slice's id_column says"
        path = self.renderer.reading.slice.pieces[piece].path
        for document in np.flatnonzero(unequal(run.document_ids, ids)).tolist():
            self.found.add(
                f"{run.name}.ids: the id of document {run.first + document} is not that of row "
                f"{run.rows[document]} of {path}"
            )

    def _add(self, run: Run, wrong: npt.NDArray[np.int64], *, piece: int) -> None:
        path = self.renderer.reading.slice.pieces[piece].path
        self.found.documents += len(run.rows)
        for document in wrong.tolist():
            self.found.add(f"{run.describe(document)} is not row {run.rows[document]} of {path}")


def _first_other(
    rows: npt.NDArray[np.int64], found: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the place of the first row that is not found, as an array of one."""
    common = min(len(rows), len(found))
    return np.append(np.flatnonzero(rows[:common] != found[:common]), common)[:1]


def _differing(
    run: Run, rendered: Rendered, documents: slice, tokens: slice
) -> npt.NDArray[np.int64]:
    """Return the documents of a run that are not these documents, with their masks and images."""
    lengths = rendered.lengths[documents]
    if not np.array_equal(run.lengths, lengths):
        return np.flatnonzero(run.lengths != lengths)[:1]
    wrong = run.ids != rendered.ids[tokens]
    if rendered.mask is not None and run.mask is not None:
        wrong |= run.mask != rendered.mask[tokens]
    differing = np.searchsorted(np.cumsum(lengths), np.flatnonzero(wrong), side="right")
    if rendered.images is not None and run.images is not None:
        images = images_of(rendered.images, documents)
        differing = np.append(differing, _other_images(run.images, images))
    return np.unique(differing).astype(np.int64)


def _other_images(images: Images, other: Images) -> npt.NDArray[np.int64]:
    """Return documents that have other images."""
    if np.array_equal(images, other):
        return np.zeros(0, dtype=np.int64)
    either = set(map(tuple, images.tolist())) ^ set(map(tuple, other.tolist()))
    return np.array(sorted({document for document, _, _ in either}), dtype=np.int64)


def _quarantine_problems(
    folder: Folder, values: Mapping[str, Any], reading: SliceReading
) -> Iterator[str]:
    """Compare the quarantine file with the one that would be written now."""
    name = quarantine_name(values)
    seen = None if name is None else folder.sha256(name)
    if seen != _sha256(reading.quarantined):
        where = name or f"record {values['key'][:16]}"
        yield f"{where}: what is quarantined is not what the source gives again"


def _sha256(quarantined: Quarantined) -> str | None:
    """Return the hex sha256 of the quarantine file that should be there; None: there is none."""
    digest = hashlib.sha256()
    for block in quarantined.blocks():
        digest.update(block)
    return digest.hexdigest() if len(quarantined) else None
