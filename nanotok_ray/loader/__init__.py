"""Reading shards back: documents by global index, and batches for trainers.

Input is a finished output, local or on a remote store. Output is ids, masks and image positions,
by document or packed into rows with an exact state to resume from. Reading documents needs numpy
only; the names that pack rows need the compiled core and are loaded when they are first used.
"""

from typing import TYPE_CHECKING, Any

from nanotok_ray.loader.opened import open_shards
from nanotok_ray.loader.order import DocumentOrder
from nanotok_ray.loader.shard import Ids, Pieces
from nanotok_ray.loader.shards import Shards

if TYPE_CHECKING:
    from nanotok_ray.loader.batch import Batch, PackingReport, Segments, images_in
    from nanotok_ray.loader.loader import Loader
    from nanotok_ray.loader.nanochat import NanochatLoader

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

_HOMES = {
    "Batch": "batch",
    "Loader": "loader",
    "NanochatLoader": "nanochat",
    "PackingReport": "batch",
    "Segments": "batch",
    "images_in": "batch",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what a module attribute is, its home says
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'nanotok_ray.loader' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - importing the package stays free

    return getattr(importlib.import_module(f"nanotok_ray.loader.{home}"), name)
