"""Where the images of a batch stand in its inputs.

Takes shards and a batch of theirs; gives positions. Does not know what an image shows.
"""

from itertools import pairwise

import numpy as np

from nanotok_ray.packing.batch import Batch, Numbers
from nanotok_ray.reader import Shards


def images_in(shards: Shards, batch: Batch) -> Numbers:
    """Find the image tokens of a batch, so that what an encoder gives can be put in their place.

    Args:
        shards: those that the batch is of.
        batch: of a loader.

    Returns:
        int64 (m, 5), by row and column: row, the first column of the inputs that is a token of the
        image and the first that is none any more, document, number of the image in its document.
        Of an image that the packing cut (never `conversations`), what of it is in the row.
    """
    segments, length = batch.segments, batch.inputs.shape[1]
    found: list[tuple[int, int, int, int, int]] = []
    for row, (first, stop) in enumerate(pairwise(segments.rows.tolist())):
        column = 0
        for place in range(first, stop):
            document, start = int(segments.documents[place]), int(segments.starts[place])
            end = start + int(segments.lengths[place])
            images = shards.images(document)
            for own, behind, number in [] if images is None else images.tolist():
                begin, after = max(own, start), min(behind, end)
                shift = column - start
                if begin < after and begin + shift < length:
                    after = min(after + shift, length)
                    found.append((row, begin + shift, after, document, number))
            column += end - start
    return np.array(found, dtype=np.int64).reshape(-1, 5)
