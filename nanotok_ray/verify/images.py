"""The images of a shard against its ids: image tokens stand in images, and nowhere else.

Takes where images should be and where runs of image tokens are; opens no file.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nanotok_ray.formats.document_images import DocumentImages


def image_problems(
    images: DocumentImages,
    positions: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
    *,
    name: str,
) -> Iterator[str]:
    """Give where image tokens and images do not agree, if anywhere.

    Args:
        images: of a shard.
        positions: where each of its documents begins and the last ends.
        edges: where runs of image tokens begin and end in it, in turn.
        name: of the shard.
    """
    expected = _edges(images, positions)
    if np.array_equal(expected, edges):
        return
    common = min(len(expected), len(edges))
    other = np.flatnonzero(expected[:common] != edges[:common])
    place = int(other[0]) if len(other) else common
    token = min(int(own[place]) for own in (expected, edges) if place < len(own))
    document = int(np.searchsorted(positions, token, side="right")) - 1
    yield (
        f"{name}.bin: image tokens do not agree with {name}.images, first at token "
        f"{token - int(positions[document])} of document {document}"
    )


def _edges(images: DocumentImages, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Give where runs of images that touch each other begin and end in the shard, in turn."""
    placed = images.part(0, len(images))
    first = positions[placed[:, 0]]
    edges = np.column_stack([first + placed[:, 1], first + placed[:, 2]]).ravel()
    inner = np.zeros(len(edges), dtype=bool)
    touches = np.flatnonzero(edges[1:-1:2] == edges[2::2])
    inner[2 * touches + 1] = inner[2 * touches + 2] = True
    return edges[~inner]
