"""Reading shards back: documents by global index, and batches for trainers.

Input is a finished output, local or on a remote store. Output is ids, masks and image positions,
by document or packed into rows with an exact state to resume from. The package needs numpy only.
"""

from nanotok_ray.loader.batch import Batch, PackingReport, Segments, images_in
from nanotok_ray.loader.loader import Loader
from nanotok_ray.loader.nanochat import NanochatLoader
from nanotok_ray.loader.opened import open_shards
from nanotok_ray.loader.order import DocumentOrder
from nanotok_ray.loader.shard import Ids, Pieces
from nanotok_ray.loader.shards import Shards

__all__ = [
    "Batch",
    "DocumentOrder",
    "Ids",
    "Loader",
    "NanochatLoader",
    "PackingReport",
    "Pieces",
    "Segments",
    "Shards",
    "images_in",
    "open_shards",
]
