"""How many tokens an image has, from its pixels: the arithmetic of DeepSeek-OCR.

A square seen whole, or seen whole and in tiles. Takes and gives numbers; opens no picture.
"""

from typing import Final

from nanotok_ray.errors import SourceError

_PIXELS_A_TOKEN: Final = 64
"""Along an edge: patches of 16 pixels, four of them for a token."""
_TILE_PIXELS: Final = 640


def base_image_tokens(size: int) -> int:
    """Give the tokens of a square image: a row ends with one more, and so does the image.

    >>> [base_image_tokens(size) for size in (512, 640, 1024, 1280)]
    [73, 111, 273, 421]

    Raises:
        SourceError: The size is no positive multiple of 64 pixels.
    """
    if size < _PIXELS_A_TOKEN or size % _PIXELS_A_TOKEN:
        raise SourceError(f"image size must be a multiple of {_PIXELS_A_TOKEN} pixels, got {size}")
    along = size // _PIXELS_A_TOKEN
    return (along + 1) * along + 1


def tiled_image_tokens(high: int, wide: int, *, base: int = 1024) -> int:
    """Give the tokens of an image seen whole, as a square of `base` pixels, and in tiles.

    The tiles have 640 pixels along an edge; they lie together, so a row of tokens ends once. One
    tile is none: the image is seen whole alone.

    >>> tiled_image_tokens(1, 1), tiled_image_tokens(3, 2)
    (273, 903)

    Raises:
        SourceError: There is no tile, or the base is no positive multiple of 64 pixels.
    """
    if min(high, wide) < 1:
        raise SourceError(f"an image has at least one tile each way, got {high} by {wide}")
    whole = base_image_tokens(base)
    if high == wide == 1:
        return whole
    along = _TILE_PIXELS // _PIXELS_A_TOKEN
    return whole + high * along * (wide * along + 1)


def tiles_of(width: int, height: int, *, least: int = 2, most: int = 9) -> tuple[int, int]:
    """Give how many tiles DeepSeek-OCR makes of an image: (high, wide), as `tiled_image_tokens`.

    The rule is that of deepseek-ai/DeepSeek-OCR (`dynamic_preprocess` of process/image_process.py,
    as vLLM has it too): an image of at most 640 pixels each way is not tiled; of all shapes of
    `least` to `most` tiles the one whose proportions are nearest is taken. Among equals it is the
    largest that the image fills by more than half, else the smallest. The model as published allows
    9 tiles, its configuration for vLLM 6.

    >>> tiles_of(640, 480), tiles_of(1240, 1754), tiles_of(1240, 1754, most=6)
    ((1, 1), (3, 2), (3, 2))

    Raises:
        SourceError: The image has no pixels, or no number of tiles is allowed.
    """
    if min(width, height) < 1:
        raise SourceError(f"an image has at least one pixel each way, got {width} by {height}")
    if not 1 <= least <= most:
        raise SourceError(f"least and most tiles must be 1 <= least <= most, got {least}, {most}")
    if max(width, height) <= _TILE_PIXELS:
        return 1, 1
    shapes = [
        (tiles // wide, wide)
        for tiles in range(least, most + 1)
        for wide in range(1, tiles + 1)
        if tiles % wide == 0
    ]
    # Floats, as there: what is as near as another depends on their rounding.
    distances = [abs(width / height - wide / high) for high, wide in shapes]
    nearest = [shape for shape, own in zip(shapes, distances, strict=True) if own == min(distances)]
    filled = width * height / (0.5 * _TILE_PIXELS**2)
    return [nearest[0], *(each for each in nearest if filled > each[0] * each[1])][-1]
