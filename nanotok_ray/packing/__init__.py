"""Packing: documents of shards to rows of a trainer, batch by batch.

loader: batches of this project's own modes, exactly resumable. settings: what a loader is asked
for. mixture: which documents a packing group has. groups: a group to rows. rows: rows to arrays.
batch, report: what comes out.
"""

from nanotok_ray.packing.batch import Batch, Segments
from nanotok_ray.packing.report import PackingReport

__all__ = ["Batch", "PackingReport", "Segments"]
