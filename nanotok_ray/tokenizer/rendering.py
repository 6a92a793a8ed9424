"""What a tokenizer renders, and arrays of token ids."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict, TypeGuard

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import chat as vision
from nanotok_ray.chat import conversation as chat
from nanotok_ray.chat.batches import BatchRenderer, RenderedBatch
from nanotok_ray.chat.segments import Composed, Segment, compose
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents.batch import Documents, as_documents
from nanotok_ray.errors import TokenizerError
from nanotok_ray.recipe.special_tokens import IMAGE_TOKENS, image_token_of

MAX_TOKENS = 2048
"""Where nanochat cuts a conversation by default."""

_GREEN, _RED, _GRAY, _RESET = "\x1b[92m", "\x1b[91m", "\x1b[90m", "\x1b[0m"

ImageTokenCounts = Sequence[int] | None
"""Tokens of each image; None: one each."""

Positions = list[tuple[int, int]]
"""Where each image begins and ends in the ids."""


class _VisionSettings(TypedDict):
    """What the segments of a vision document depend on beside its texts."""

    counts: object
    image_token: str
    image_tokens: int | None
    grounding: Sequence[str]


class Rendering(ABC):
    """What is rendered with the ids of a tokenizer."""

    @property
    @abstractmethod
    def special_tokens(self) -> dict[str, int]:
        """Id of each special token by name."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""

    @abstractmethod
    def encode_special(self, text: str) -> int:
        """Return the id of a special token."""

    @abstractmethod
    def batch_renderer(self, dialect: Dialect) -> BatchRenderer:
        """Return what renders batches of documents."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids."""

    def render_conversation(
        self, conversation: chat.Conversation, max_tokens: int | None = MAX_TOKENS
    ) -> tuple[list[int], list[int]]:
        """Return the ids of a conversation and their mask: 1 where the assistant learns.

        Raises:
            AssertionError, IndexError, KeyError, TypeError, ValueError: It is malformed, and how.
        """
        return chat.render(self.encode, self.encode_special, conversation, max_tokens=max_tokens)

    def render_for_completion(self, conversation: chat.Conversation) -> list[int]:
        """Return the ids that ask for the last message, which must be the assistant's.

        Raises:
            AssertionError, IndexError, KeyError, TypeError, ValueError: It is malformed, and how.
        """
        return chat.render_for_completion(
            self.encode, self.encode_special, conversation, max_tokens=MAX_TOKENS
        )

    def render_batch(
        self,
        documents: Sequence[str] | Sequence[bytes] | Documents,
        dialect: Dialect | str = "messages",
        *,
        threads: int = 1,
    ) -> RenderedBatch:
        """Render many documents at once: ids, mask, offsets, images, and what was wrong with which.

        `documents` are JSON, each what a line of a file holds; `dialect` is the name of one of
        conversations, or says all of how they are read. Nothing is cut.

        >>> from nanotok_ray.tokenizer import Tokenizer
        >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
        >>> batch = tokenizer.render_batch(['[{"role": "user", "content": "hi"}]', "[]"])
        >>> batch.ids.tolist(), batch.offsets.tolist(), batch.problems
        ([256, 257, 104, 105, 258], [0, 5, 5], {1: 'the conversation has no messages'})

        Raises:
            TokenizerError: there is no such dialect.
            TypeError: one of the documents is not a str, or not bytes as the first is.
        """
        if isinstance(dialect, str):
            dialect = Dialect(kind="chat", name=dialect)
        first: object = documents[0] if len(documents) else None
        if isinstance(first, dict | list):
            name = type(first).__name__
            raise TypeError(f"a document is JSON as str or bytes, got a {name}: json.dumps it")
        return self.batch_renderer(dialect).render(as_documents(documents), threads=threads)

    def render_vision_pretraining(
        self,
        text: str,
        max_tokens: int | None = MAX_TOKENS,
        image_token_counts: ImageTokenCounts = None,
        *,
        grounding: bool = False,
    ) -> tuple[list[int], Positions]:
        """Return the ids of a text in which each `<image>` is an image, and where the images are.

        `<|assistant_end|>` at its very end is the special token; what else is spelled out stays
        text, but for the names of `grounding`. All of it is learned from, except the images.

        Raises:
            ValueError: The counts do not fit, an image is cut, or a special token is missing.
            TypeError: `image_token_counts` is no list.
        """
        _check_texts(text)
        settings = self._vision_settings(image_token_counts, grounding=grounding)
        composed = self._composed(vision.text_segments(text, **settings), max_tokens)
        return composed.ids, composed.images

    def render_vision(
        self,
        prompt: str,
        response: str,
        max_tokens: int | None = MAX_TOKENS,
        image_token_counts: ImageTokenCounts = None,
        *,
        grounding: bool = False,
        train_prompt: bool = True,
    ) -> tuple[list[int], list[int], Positions]:
        """Return the ids of a question about images and its answer, their mask, and the images.

        An `<image>` in the response is text. The mask is 0 for images, and for the prompt unless
        `train_prompt`.

        Raises:
            ValueError: The counts do not fit, an image is cut, or a special token is missing.
            TypeError: `image_token_counts` is no list.
        """
        _check_texts(prompt, response)
        segments = vision.prompt_segments(
            prompt,
            response,
            train_prompt=train_prompt,
            **self._vision_settings(image_token_counts, grounding=grounding),
        )
        composed = self._composed(segments, max_tokens)
        return composed.ids, composed.mask, composed.images

    def render_vision_conversation(
        self,
        conversation: chat.Conversation,
        max_tokens: int | None = MAX_TOKENS,
        image_token_counts: ImageTokenCounts | int = None,
        *,
        grounding: bool = False,
    ) -> tuple[list[int], list[int], Positions]:
        """Render as `render_conversation` does, with each `<image>` of the user as an image.

        An int for `image_token_counts` is the number of every image.

        Raises:
            AssertionError, IndexError, KeyError, TypeError, ValueError: It is malformed, and how;
                or, as `render_vision`.
        """
        settings = self._vision_settings(image_token_counts, grounding=grounding)
        if isinstance(image_token_counts, int) and not isinstance(image_token_counts, bool):
            settings |= {"counts": None, "image_tokens": image_token_counts}
        segments = vision.message_segments(conversation, **settings)
        composed = self._composed(segments, max_tokens)
        return composed.ids, composed.mask, composed.images

    def visualize_tokenization(
        self, ids: Sequence[int], mask: Sequence[int], with_token_id: bool = False
    ) -> str:
        """Return ids as text for a terminal: green where the mask is 1, else red."""
        parts = []
        for number, flag in zip(ids, mask, strict=False):
            colour = _GREEN if flag == 1 else _RED
            parts.append(f"{colour}{self.decode([number])}{_RESET}")
            if with_token_id:
                parts.append(f"{_GRAY}({number}){_RESET}")
        return "|".join(parts)

    def _composed(self, segments: Iterable[Segment], max_tokens: int | None) -> Composed:
        return vision.cut(compose(self.encode, self.encode_special, segments), max_tokens)

    def _vision_settings(self, counts: object, *, grounding: bool) -> _VisionSettings:
        has = self.special_tokens
        image_token = image_token_of(has)
        lacking = [name for name in vision.GROUNDING if grounding and name not in has]
        if image_token is None or lacking:
            missing = f"no {lacking[0]}" if lacking else f"neither {' nor '.join(IMAGE_TOKENS)}"
            raise TokenizerError(
                f"the tokenizer has {missing}: give it those of a preset, as "
                'tokenizer.extended(nanotok_ray.chat.PRESETS["seed"].special_tokens) or '
                "`nanotok tokenizer extend` does"
            )
        return _VisionSettings(
            counts=counts,
            image_token=image_token,
            image_tokens=None,
            grounding=vision.GROUNDING if grounding else (),
        )


def _check_texts(*texts: object) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"Invalid input type: {type(text)}")  # noqa: TRY004 - as `encode`


Ids = NDArray[np.uint16] | NDArray[np.uint32]
Offsets = NDArray[np.int64]

_ID_TYPES = (np.dtype(np.uint16), np.dtype(np.uint32))
_OFFSET_TYPES = (np.dtype(np.int64),)


def is_plain(ids: NDArray[Any]) -> TypeGuard[Ids]:
    """Return whether ids are of one dimension, a width of ours, and without holes between them.

    >>> is_plain(np.array([7, 8], np.uint16)), is_plain(np.array([7, 8], np.int64))
    (True, False)
    """
    flags = ids.flags
    return ids.dtype in _ID_TYPES and ids.ndim == 1 and flags.c_contiguous and flags.aligned


def required(ids: Ids, offsets: Offsets) -> tuple[Ids, Offsets]:
    """Return both as they are, copied only if they lie otherwise than the core reads them.

    >>> ids, offsets = required(np.arange(9, dtype=np.uint16)[::4], np.array([0, 3]))
    >>> ids.tolist(), is_plain(ids)
    ([0, 4, 8], True)

    Raises:
        TypeError: One is no array of one dimension and of its types; the message says what it is.
    """
    _check(ids, "ids", _ID_TYPES)
    _check(offsets, "offsets", _OFFSET_TYPES)
    plain: tuple[Literal["C"], Literal["A"]] = ("C", "A")
    return np.require(ids, requirements=plain), np.require(offsets, requirements=plain)


def _check(array: object, name: str, types: Sequence[np.dtype[Any]]) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype not in types:
        given = f"{array.ndim}-d {array.dtype}" if isinstance(array, np.ndarray) else type(array)
        wanted = " or ".join(map(str, types))
        raise TypeError(f"{name} must be a 1-d array of {wanted}, got {given}")
