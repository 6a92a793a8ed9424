"""The sources of a slice, read again from start to end beside the documents of its shards.

Hands over each batch with the documents that were made of it. Compares what was read and counted
with the record, and documents with nothing: that is for whoever is called.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.sources import Batch, Slice
from nanotok_ray.sources.slices import SliceReading
from nanotok_ray.storage import Folder
from nanotok_ray.verify.compared import Compared
from nanotok_ray.verify.written import Run, WrittenDocuments, place_of

OnBatch = Callable[[int, Batch, Iterator[Run]], None]
"""Takes the number of a piece, a batch of it, and the runs of documents made of the batch."""


def read_again(
    folder: Folder,
    reading: SliceReading,
    values: Mapping[str, Any],
    *,
    item_bytes: int,
    found: Compared,
    on_batch: OnBatch,
) -> bool:
    """Read a slice again and tell whether that could be done; if not, `found` says why.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    each = reading.slice
    with WrittenDocuments(
        folder,
        values["shards"],
        item_bytes=item_bytes,
        kind=each.kind,
        with_document_ids=reading.with_document_ids and each.id_column is not None,
    ) as written:
        try:
            for piece, batch in reading:
                place = place_of(each.pieces[piece], batch.group)
                on_batch(piece, batch, written.take(place, last=int(batch.numbers[-1])))
        except TransientIOError:
            raise
        except (SourceError, OSError) as error:
            found.problems.insert(0, f"a source cannot be read again: {_naming(error, each)}")
            return False
        if written.left:
            found.add(f"{each.source}: {written.left:,} documents are no longer in the source")
    found.source_bytes = reading.bytes_in
    return True


def _naming(error: Exception, each: Slice) -> str:
    told = str(error)
    named = any(piece.url in told or piece.path in told for piece in each.pieces)
    return told if named else f"{told} (of {', '.join(piece.path for piece in each.pieces[:3])})"


def places_in(batch: Batch, run: Run) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give the place in a batch of each document of a run, and the documents that are not there."""
    at = np.searchsorted(batch.numbers, run.rows).astype(np.int64)
    is_there = at < len(batch.numbers)
    is_there[is_there] = batch.numbers[at[is_there]] == run.rows[is_there]
    return at, np.flatnonzero(~is_there)


def account_problems(values: Mapping[str, Any], reading: SliceReading) -> Iterator[str]:
    """Compare what was read and counted again with the record."""
    for old, new in zip(values["read"], reading.read, strict=False):
        if (old["bytes"], old["sha256"]) != (new["bytes"], new["sha256"]):
            yield (
                f"{new['file']}, {new['start']} to {new['stop']}, has changed since it was read: "
                f"it had {old['bytes']} bytes, sha256 {old['sha256'][:16]}, and now has "
                f"{new['bytes']}, {new['sha256'][:16]}"
            )
    counted = {
        "documents in": (values["documents"]["in"], reading.documents_in),
        "bytes of documents in": (values["bytes"]["in"], reading.bytes_in),
        "blank lines": (values["blank_lines"], reading.blank_lines),
        "documents of the other split": (values["other_split"], reading.other_split),
    }
    for what, (then, now) in counted.items():
        if then != now:
            yield f"record {values['key'][:16]}: {then} {what}, the source has {now}"
