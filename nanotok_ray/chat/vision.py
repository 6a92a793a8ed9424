"""Renders documents with images to segments, and computes the number of tokens of an image."""

import re
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from nanotok_ray.chat import conversation as chat
from nanotok_ray.chat.segments import Composed, Segment
from nanotok_ray.errors import SourceError

PLACEHOLDER: Final = "<image>"
"""The placeholder of an image in a text, whatever the name of the special token."""

MAX_IMAGE_TOKENS: Final = 2**20
"""Limit of the tokens of all images of a document; a line of JSON could request any number."""

_END: Final = "<|assistant_end|>"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSettings:
    """How the images of a document are rendered, and which special tokens its texts can spell."""

    token: str
    """The special token that is repeated."""
    counts: object = None
    """The number of tokens of each image, a list of ints; None: `num_tokens` for each."""
    num_tokens: int | None = None
    """The number of tokens of every image if `counts` is None; None: one."""
    grounding: Sequence[str] = ()
    """Special tokens that a text can spell."""


def prompt_segments(
    prompt: str, response: str, images: ImageSettings, *, train_prompt: bool = True
) -> list[Segment]:
    """Return the segments of a question about images with its answer.

    Args:
        prompt: the question, in which each placeholder is an image.
        response: the answer, in which a placeholder is text.
        images: the settings of images.
        train_prompt: whether the text of the prompt is trained on.

    >>> segments = prompt_segments("<image> OCR", "A", ImageSettings(token="<image>", counts=[5]))
    >>> [(each.text, each.count, each.mask) for each in segments]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('<|bos|>', 1, 0), ('<image>', 5, 0), (' OCR', 1, 1), ('A', 1, 1),
     ('<|assistant_end|>', 1, 1)]

    Raises:
        SourceError: The counts do not match the placeholders, or are invalid.
        TypeError: `counts` is not a list.
    """
    asked = _text(prompt, mask=int(train_prompt), role="user")
    answered = _text(response, mask=1, role="assistant")
    return [
        _special("<|bos|>", mask=0, role="bos"),
        *_cut_at_names(_cut_at_images([asked] if prompt else [], images), images.grounding),
        *_cut_at_names([answered] if response else [], images.grounding),
        _special(_END, mask=1, role="assistant"),
    ]


def text_segments(text: str, images: ImageSettings) -> list[Segment]:
    """Return the segments of one text, in which each placeholder is an image.

    `<|assistant_end|>` at the very end is the special token; elsewhere it is text.

    Raises:
        SourceError: The counts do not match the placeholders, or are invalid.
        TypeError: `counts` is not a list.
    """
    body = _text(text.removesuffix(_END), mask=1, role="user")
    end = [_special(_END, mask=1, role="assistant")] if text.endswith(_END) else []
    return [
        _special("<|bos|>", mask=0, role="bos"),
        *_cut_at_names(_cut_at_images([body] if body.text else [], images), images.grounding),
        *end,
    ]


def message_segments(conversation: chat.Conversation, images: ImageSettings) -> list[Segment]:
    """Return the segments of a conversation, in which each placeholder of the user is an image.

    Without placeholders and grounding, they equal those of `chat.layout`.

    Raises:
        SourceError: The counts do not match the placeholders, or are invalid.
        TypeError: `counts` is not a list, or the conversation is malformed.
        AssertionError, IndexError, KeyError, ValueError: The conversation is malformed; the
            message has the reason.
    """
    segments = list(chat.layout(conversation))
    return list(_cut_at_names(_cut_at_images(segments, images), images.grounding))


def cut(composed: Composed, max_tokens: int | None) -> Composed:
    """Return the first ids of a document; text can be cut, but not images.

    Raises:
        SourceError: An image does not end before the cut, or the cut is below 0.
    """
    if max_tokens is None:
        return composed
    if max_tokens < 0:
        raise SourceError(f"max_tokens is {max_tokens}: it must be 0 or more, or None")
    if any(end > max_tokens for _, end in composed.images):
        raise SourceError(f"max_tokens={max_tokens} cuts an image span")
    return Composed(
        ids=composed.ids[:max_tokens],
        labels=composed.labels[:max_tokens],
        images=composed.images,
    )


def _numbers(placeholders: int, images: ImageSettings) -> Iterator[int]:
    """Return the number of tokens of each image, in the order of the placeholders."""
    if images.counts is None:
        numbers = [_checked(1 if images.num_tokens is None else images.num_tokens)] * placeholders
    elif isinstance(images.counts, list | tuple):
        numbers = [_checked(count) for count in images.counts]
    else:
        raise TypeError(
            "image_token_counts must be a list of ints, one for each image, "
            f"got {reprlib.repr(images.counts)}"
        )
    if len(numbers) != placeholders:
        raise SourceError(
            f"{placeholders} {PLACEHOLDER} placeholders but {len(numbers)} image_token_counts"
        )
    if sum(numbers) > MAX_IMAGE_TOKENS:
        raise SourceError(
            f"the images have {sum(numbers)} tokens together: at most {MAX_IMAGE_TOKENS} are "
            "allowed in a document"
        )
    return iter(numbers)


def _checked(count: object) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise SourceError(f"image token count must be an int >= 1, got {reprlib.repr(count)}")
    return count


def _cut_at_images(segments: Sequence[Segment], images: ImageSettings) -> list[Segment]:
    """Return segments with the texts of the user as images and the non-empty texts around them."""
    asked = [segment.text for segment in segments if _is_asked(segment)]
    numbers = _numbers(sum(text.count(PLACEHOLDER) for text in asked), images)
    image, pieces = _special(images.token, mask=0, role="image"), list[Segment]()
    for segment in segments:
        first, *others = segment.text.split(PLACEHOLDER) if _is_asked(segment) else [segment.text]
        if first or not others:
            pieces.append(replace(segment, text=first))
        for part in others:
            pieces.append(replace(image, count=next(numbers)))
            if part:
                pieces.append(replace(segment, text=part))
    return pieces


def _cut_at_names(segments: Iterable[Segment], names: Sequence[str]) -> Iterator[Segment]:
    """Split the texts of user and assistant at these names of special tokens, the longest first."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    pattern = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
    for segment in segments:
        is_said = not segment.is_special and segment.role in {"user", "assistant"}
        parts = pattern.split(segment.text) if names and is_said else [segment.text]
        if len(parts) == 1:
            yield segment
            continue
        for position, part in enumerate(parts):
            if part:
                yield replace(segment, text=part, is_special=position % 2 == 1)


def _is_asked(segment: Segment) -> bool:
    return segment.role == "user" and not segment.is_special


def _special(name: str, *, mask: int, role: str) -> Segment:
    return Segment(text=name, is_special=True, mask=mask, role=role)


def _text(text: str, *, mask: int, role: str) -> Segment:
    return Segment(text=text, is_special=False, mask=mask, role=role)


_PIXELS_A_TOKEN: Final = 64
"""Pixels of a token along an edge: patches of 16 pixels, of which four make a token."""
_TILE_PIXELS: Final = 640


def base_image_tokens(size: int) -> int:
    """Return the tokens of a square image, with one more for each row and for the image.

    >>> [base_image_tokens(size) for size in (512, 640, 1024, 1280)]
    [73, 111, 273, 421]

    Raises:
        SourceError: The size is not a positive multiple of 64 pixels.
    """
    if size < _PIXELS_A_TOKEN or size % _PIXELS_A_TOKEN:
        raise SourceError(f"image size must be a multiple of {_PIXELS_A_TOKEN} pixels, got {size}")
    along = size // _PIXELS_A_TOKEN
    return (along + 1) * along + 1


def tiled_image_tokens(high: int, wide: int, *, base: int = 1024) -> int:
    """Return the tokens of an image as a square of `base` pixels and as tiles.

    The tiles have 640 pixels along an edge and form one grid, so a row of tokens across all tiles
    has one more token. With a single tile, only the square is used.

    >>> tiled_image_tokens(1, 1), tiled_image_tokens(3, 2)
    (273, 903)

    Raises:
        SourceError: The number of tiles is 0, or the base is not a positive multiple of 64 pixels.
    """
    if min(high, wide) < 1:
        raise SourceError(f"an image has at least one tile each way, got {high} by {wide}")
    base_tokens = base_image_tokens(base)
    if high == wide == 1:
        return base_tokens
    along = _TILE_PIXELS // _PIXELS_A_TOKEN
    return base_tokens + high * along * (wide * along + 1)


def tiles_of(width: int, height: int, *, least: int = 2, most: int = 9) -> tuple[int, int]:
    """Return the number of tiles that DeepSeek-OCR makes of an image, as (high, wide).

    The rule is that of deepseek-ai/DeepSeek-OCR (`dynamic_preprocess` of process/image_process.py,
    also in vLLM): an image of at most 640 pixels each way is not tiled; of all shapes of `least`
    to `most` tiles, the one with the nearest proportions is used. Of equal ones it is the largest
    that the image fills by more than half, else the smallest. The model as published allows
    9 tiles, its configuration for vLLM 6.

    >>> tiles_of(640, 480), tiles_of(1240, 1754), tiles_of(1240, 1754, most=6)
    ((1, 1), (3, 2), (3, 2))

    Raises:
        SourceError: The image has no pixels, or the limits allow no number of tiles.
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
    # Floats as in the original: their rounding decides which shapes are equally near.
    distances = [abs(width / height - wide / high) for high, wide in shapes]
    nearest = [
        shape
        for shape, distance in zip(shapes, distances, strict=True)
        if distance == min(distances)
    ]
    filled = width * height / (0.5 * _TILE_PIXELS**2)
    return [
        nearest[0],
        *(candidate for candidate in nearest if filled > candidate[0] * candidate[1]),
    ][-1]
