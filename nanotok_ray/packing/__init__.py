"""Packing: documents of shards to rows of a trainer, batch by batch.

loader: batches for one rank, exactly resumable. settings: what a loader is asked for. streams,
mixture: which documents a packing group has. groups: a group to rows. row_stream: the rows of all
groups. nanochat, rank_batches, row_groups: the batches of nanochat's own loader. rows: rows to
arrays. state: where to go on. batch, report: what comes out. images: where they stand in a batch.
"""

from nanotok_ray.packing.batch import Batch, Segments
from nanotok_ray.packing.images import images_in
from nanotok_ray.packing.loader import Loader
from nanotok_ray.packing.nanochat import NanochatLoader
from nanotok_ray.packing.report import PackingReport

__all__ = ["Batch", "Loader", "NanochatLoader", "PackingReport", "Segments", "images_in"]
