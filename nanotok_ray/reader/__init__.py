"""Shards back to documents: memory-mapped, by global index.

Takes a finished output folder; gives ids, masks and image positions. Local folders need numpy and
the standard library and nothing else; for URLs fsspec is loaded.
"""

from nanotok_ray.reader.opened import open_shards
from nanotok_ray.reader.order import DocumentOrder
from nanotok_ray.reader.pieces import Pieces
from nanotok_ray.reader.shard import Ids
from nanotok_ray.reader.shards import Shards

__all__ = ["DocumentOrder", "Ids", "Pieces", "Shards", "open_shards"]
