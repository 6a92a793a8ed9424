"""Every document of a slice compared with its source, which is read again from start to end.

Texts are decoded and compared as bytes; conversations are rendered again, ids and masks compared;
what an `id_column` says is compared with NAME.ids. What was read, the counts and the quarantine
file must come out as the record says. Does not encode texts: what is in no shard alone goes through
the renderer, which must refuse it again.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.documents import Documents, offsets_of
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.plan import Slice
from nanotok_ray.quarantine import SKIPPED, Quarantined
from nanotok_ray.shards import ShardSettings
from nanotok_ray.shards.render import Renderer
from nanotok_ray.slices import SliceReading
from nanotok_ray.sources import Batch
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.verify.compared import Compared
from nanotok_ray.verify.record import quarantine_name
from nanotok_ray.verify.texts import TextFrame, unequal
from nanotok_ray.verify.written import Run, WrittenDocuments, place_of


def compare_all(
    folder: Folder,
    each: Slice,
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
    reading = SliceReading(each, max_document_bytes=settings.max_document_bytes)
    with WrittenDocuments(
        folder,
        values["shards"],
        item_bytes=tokenizer.model.id_bytes,
        with_mask=each.kind == "chat",
        with_document_ids=each.id_column is not None,
    ) as written:
        comparison = _Comparison(
            renderer=Renderer(settings=settings, tokenizer=tokenizer, reading=reading),
            frame=TextFrame.of(tokenizer, settings),
            written=written,
            found=found,
        )
        try:
            for piece, batch in reading:
                comparison.compare(piece, batch)
        except TransientIOError:
            raise
        except (SourceError, OSError) as error:
            found.problems.insert(0, f"a source cannot be read again: {_naming(error, each)}")
            return found
        if written.left:
            found.add(f"{each.source}: {written.left:,} documents are no longer in the source")
    found.source_bytes = reading.bytes_in
    found.problems[:0] = _account_problems(folder, values, reading)
    found.end(each.source)
    return found


def _naming(error: Exception, each: Slice) -> str:
    told = str(error)
    named = any(piece.url in told or piece.path in told for piece in each.pieces)
    return told if named else f"{told} (of {', '.join(piece.path for piece in each.pieces[:3])})"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Comparison:
    """One slice being compared, batch by batch."""

    renderer: Renderer
    frame: TextFrame
    written: WrittenDocuments
    found: Compared

    def compare(self, piece: int, batch: Batch) -> None:
        """Compare the documents of a batch with the next ones of the shards."""
        place = place_of(self.renderer.reading.slice.pieces[piece], batch.group)
        runs = self.written.take(place, last=int(batch.numbers[-1]))
        if self.renderer.reading.slice.kind == "text":
            self._texts(piece, batch, runs)
        else:
            self._conversations(piece, batch, runs)

    def _texts(self, piece: int, batch: Batch, runs: Iterator[Run]) -> None:
        is_written = np.zeros(len(batch.documents), dtype=bool)
        for run in runs:
            at = np.searchsorted(batch.numbers, run.rows)
            is_there = at < len(batch.numbers)
            is_there[is_there] = batch.numbers[at[is_there]] == run.rows[is_there]
            if not is_there.all():
                self._tell(run, np.flatnonzero(~is_there), place=piece)
                continue
            is_written[at] = True
            wrong = self.frame.differing(run.ids, run.lengths, batch.documents.take(at))
            self._tell(run, wrong, place=piece)
            if batch.document_ids is not None:
                self._compare_ids(run, batch.document_ids.take(at), place=piece)
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
            own = rows[taken : taken + len(run.rows)]
            if rendered is None or not np.array_equal(own, run.rows):
                self._tell(run, _first_other(run.rows, own), place=piece)
                return
            first, last = bounds[taken], bounds[taken + len(own)]
            mask = None if rendered.mask is None else rendered.mask[first:last]
            lengths = rendered.lengths[taken : taken + len(own)]
            wrong = _differing(run, rendered.ids[first:last], lengths, mask)
            self._tell(run, wrong, place=piece)
            if rendered.document_ids is not None:
                ids = rendered.document_ids.part(taken, taken + len(own))
                self._compare_ids(run, ids, place=piece)
            taken += len(own)
        if taken < len(rows):
            self._not_written(piece, rows[taken:])

    def _not_written(self, piece: int, rows: npt.NDArray[np.int64]) -> None:
        path = self.renderer.reading.slice.pieces[piece].path
        self.found.add(f"{path}: {len(rows):,} documents from row {rows[0]} on are in no shard")

    def _compare_ids(self, run: Run, ids: Documents, *, place: int) -> None:
        """Compare the ids that documents have in their source with those beside the shard."""
        assert run.document_ids is not None, "both are as the slice's id_column says"
        path = self.renderer.reading.slice.pieces[place].path
        for document in np.flatnonzero(unequal(run.document_ids, ids)).tolist():
            self.found.add(
                f"{run.name}.ids: the id of document {run.first + document} is not that of row "
                f"{run.rows[document]} of {path}"
            )

    def _tell(self, run: Run, wrong: npt.NDArray[np.int64], *, place: int) -> None:
        path = self.renderer.reading.slice.pieces[place].path
        self.found.documents += len(run.rows)
        for document in wrong.tolist():
            self.found.add(f"{run.told(document)} is not row {run.rows[document]} of {path}")


def _first_other(
    rows: npt.NDArray[np.int64], found: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Give the place of the first row that is not found, as an array of one."""
    common = min(len(rows), len(found))
    return np.append(np.flatnonzero(rows[:common] != found[:common]), common)[:1]


def _differing(
    run: Run,
    ids: npt.NDArray[Any],
    lengths: npt.NDArray[np.int64],
    mask: npt.NDArray[np.uint8] | None,
) -> npt.NDArray[np.int64]:
    """Give the documents of a run that are not these ids under this mask."""
    if np.array_equal(run.lengths, lengths):
        wrong = run.ids != ids
        if mask is not None and run.mask is not None:
            wrong |= run.mask != mask
        ends = np.cumsum(lengths)
        return np.unique(np.searchsorted(ends, np.flatnonzero(wrong), side="right"))
    return np.flatnonzero(run.lengths != lengths)[:1]


def _account_problems(
    folder: Folder, values: Mapping[str, Any], reading: SliceReading
) -> Iterator[str]:
    """Compare what was read, counted and quarantined with the record."""
    for old, new in zip(values["read"], reading.read, strict=False):
        if (old["bytes"], old["sha256"]) != (new["bytes"], new["sha256"]):
            yield (
                f"{new['file']}, {new['start']} to {new['stop']}, has changed since it was read: "
                f"it had {old['bytes']} bytes, sha256 {old['sha256'][:16]}, and now has "
                f"{new['bytes']}, {new['sha256'][:16]}"
            )
    told = f"record {values['key'][:16]}"
    counted = {
        "documents in": (values["documents"]["in"], reading.documents_in),
        "bytes of documents in": (values["bytes"]["in"], reading.bytes_in),
        "blank lines": (values["blank_lines"], reading.blank_lines),
        "documents of the other split": (values["other_split"], reading.other_split),
    }
    for what, (then, now) in counted.items():
        if then != now:
            yield f"{told}: {then} {what}, the source has {now}"
    name = quarantine_name(values)
    seen = None if name is None else folder.sha256(name)
    if seen != _sha256(reading.quarantined):
        yield f"{name or told}: what is quarantined is not what the source gives again"


def _sha256(quarantined: Quarantined) -> str | None:
    """Give the hex sha256 of the quarantine file that should be there; None: there is none."""
    digest = hashlib.sha256()
    for block in quarantined.blocks():
        digest.update(block)
    return digest.hexdigest() if len(quarantined) else None
