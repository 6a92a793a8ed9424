"""The check of conversations that a chat template rendered.

They are rendered again with Jinja2, and encoded by another library.
"""

from collections.abc import Sequence

import numpy as np

from nanotok_ray.chat import PlainRenderer
from nanotok_ray.dialects import Dialect
from nanotok_ray.formats import Ids, Mask, ShardSettings
from nanotok_ray.shards.check.cross_check import CrossCheck, NoCrossCheckError, cross_check_of
from nanotok_ray.tokenizer import Tokenizer, char_offsets

SPELLED = "names of special tokens are text"


class LibraryEncoder:
    """Another library as the encoder of texts of a template."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Open the library."""
        self.special_tokens, self.is_wide = tokenizer.special_tokens, tokenizer.is_wide
        self.library: CrossCheck = cross_check_of(tokenizer, recognize=True)
        self._bytes_of = tokenizer.decode_single_token_bytes

    def recognized_with_offsets(
        self, text: str, *, between: str
    ) -> tuple[list[int], Sequence[tuple[int, int]]]:
        """Return the ids of a text by the library, and their positions in characters.

        Raises:
            NoCrossCheckError: The library cannot encode the text.
        """
        if between in text:
            raise NoCrossCheckError(SPELLED)
        ids = self.library.ids(text)
        positions = char_offsets(text, [self._bytes_of(number) for number in ids])
        return self.library.offsets(text) if positions is None else (ids, positions)


class TemplateCheck:
    """Compares the conversations of one dialect with their ids and masks."""

    def __init__(self, tokenizer: Tokenizer, settings: ShardSettings, dialect: Dialect) -> None:
        """Open the library."""
        template, self._encoder = settings.template, LibraryEncoder(tokenizer)
        assert template is not None, "the source has a chat template"
        self._limit = settings.max_tokens if settings.too_long == "cut" else None
        self._plain = PlainRenderer(
            self._encoder, template, dialect, special_text=settings.special_text
        )

    def problem(self, document: bytes, ids: Ids, mask: Mask) -> str | None:
        """Return the difference between a conversation and its ids and mask, or None.

        Raises:
            NoCrossCheckError: The library cannot encode its text.
        """
        expected = self._plain.plain(document)
        if expected.problems:
            return f"the plain reading refuses it: {expected.problems[0]}"
        wanted = expected.ids[: self._limit], expected.mask[: self._limit]
        if np.array_equal(ids, wanted[0]) and np.array_equal(mask, wanted[1]):
            return None
        name = self._encoder.library.name
        return f"rendered with Jinja2 and {name} it has other ids or another mask"
