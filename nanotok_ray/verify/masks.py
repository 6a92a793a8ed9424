"""Every conversation or vision document of a slice compared with the plain reading of its dialect.

The sources are read again from start to end; which of their rows are in the shards is as the source
maps say. What renders for shards has no part in it, so that a bug there does not hide itself. That
what is in no shard cannot be used is for `deep` to find.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nanotok_ray.shards import ShardSettings
from nanotok_ray.sources import Batch, Slice
from nanotok_ray.sources.quarantine import SKIPPED
from nanotok_ray.sources.slices import SliceReading
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.verify.again import account_problems, places_in, read_again
from nanotok_ray.verify.compared import Compared
from nanotok_ray.verify.plain import PlainReading
from nanotok_ray.verify.written import Run


def compare_masks(
    folder: Folder,
    each: Slice,
    values: Mapping[str, Any],
    *,
    tokenizer: Tokenizer,
    settings: ShardSettings,
) -> Compared:
    """Compare all documents of a slice whose files were checked, and which have masks.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    found = Compared()
    if SKIPPED in values["quarantined"]:  # it was left out unread
        return found
    # With the ids, which are among the bytes that the record's sha256 is of.
    reading = SliceReading(each, max_document_bytes=settings.max_document_bytes)
    comparison = _Comparison(
        slice=each,
        settings=settings,
        plain=PlainReading.of(tokenizer, settings),
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
        found.problems[:0] = account_problems(values, reading)
        found.end(each.source)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Comparison:
    """One slice being compared, batch by batch."""

    slice: Slice
    settings: ShardSettings
    plain: PlainReading
    found: Compared

    def compare(self, piece: int, batch: Batch, runs: Iterator[Run]) -> None:
        """Compare the written documents of a batch with those of the source."""
        own = self.slice.pieces[piece]
        assert own.dialect is not None, "the plan names the dialect of every such file"
        dialect = self.settings.dialect(self.slice.kind, own.dialect)
        for run in runs:
            self.found.documents += len(run.rows)
            at, missing = places_in(batch, run)
            for number in missing.tolist():
                self.found.add(f"{run.told(number)} is not row {run.rows[number]} of {own.path}")
            if len(missing):
                continue
            for number, why in self.plain.problems(run, batch.documents.take(at), dialect):
                row = run.rows[number]
                self.found.add(f"{run.told(number)} is not row {row} of {own.path}: {why}")
