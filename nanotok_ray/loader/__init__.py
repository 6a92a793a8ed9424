"""Reading shards: documents by global index, and batches for trainers.

The input is a finished output, local or on a remote store. The results are ids, masks and image
positions, by document or packed into rows, with a state from which a loader resumes exactly.
Reading documents requires only numpy. The classes that pack rows require the compiled core and are
loaded when they are first used.
"""

from typing import TYPE_CHECKING

from nanotok_ray import lazy_attributes
from nanotok_ray.formats import Ids
from nanotok_ray.loader.opened import open_shards
from nanotok_ray.loader.order import MAX_SIZE, DocumentOrder, Permutation
from nanotok_ray.loader.shard import Pieces
from nanotok_ray.loader.shards import Shards

if TYPE_CHECKING:
    from nanotok_ray.loader.batch import Batch, PackingReport, Segments, images_in
    from nanotok_ray.loader.conversations import (
        ConversationLoader,
        ConversationSettings,
        StoredConversations,
    )
    from nanotok_ray.loader.loader import IgnoredMasksWarning, Loader
    from nanotok_ray.loader.mixture import Mixture
    from nanotok_ray.loader.nanochat import ApproximateResumeWarning, NanochatLoader
    from nanotok_ray.loader.rank_batches import RowGroups
    from nanotok_ray.loader.settings import RowSettings
else:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "rank_batches": "RowGroups",
            "settings": "RowSettings",
            "mixture": "Mixture",
            "conversations": "ConversationLoader ConversationSettings StoredConversations",
            "batch": "Batch PackingReport Segments images_in",
            "loader": "IgnoredMasksWarning Loader",
            "nanochat": "ApproximateResumeWarning NanochatLoader",
        },
    )

__all__ = [
    "MAX_SIZE",
    "ApproximateResumeWarning",
    "Batch",
    "ConversationLoader",
    "ConversationSettings",
    "DocumentOrder",
    "Ids",
    "IgnoredMasksWarning",
    "Loader",
    "Mixture",
    "NanochatLoader",
    "PackingReport",
    "Permutation",
    "Pieces",
    "RowGroups",
    "RowSettings",
    "Segments",
    "Shards",
    "StoredConversations",
    "images_in",
    "open_shards",
]
