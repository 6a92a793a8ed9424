"""Positions of ids in a text that spells special tokens, and masks of parts of texts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.chat import Span
from nanotok_ray.documents import Documents
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.encoding import Encoding
from nanotok_ray.tokenizer.engines import TokenizersEngine
from nanotok_ray.tokenizer.pieces import SpecialRules, char_offsets
from nanotok_ray.tokenizer.rendering import Ids, Offsets
from nanotok_ray.tokenizer.vocabulary import Vocabulary

Part = tuple[str, int | None]
"""A part of a text, with the id of a special token that it is the name of."""


class Positions(Encoding, Vocabulary):
    """The part of a tokenizer that has positions of ids."""

    def mask_of_spans(
        self, ids: Ids, offsets: Offsets, texts: Documents, spans: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], list[int]]:
        """Return 1 for each id that overlaps a span of its text, else 0, by transformers' rule.

        Args:
            ids: the ids of all texts.
            offsets: the n + 1 positions of the texts in `ids`.
            texts: the texts.
            spans: rows of text, start and end in bytes, of shape (m, 3), sorted.

        Returns:
            The mask, and the indexes of texts whose ids have no known positions, with mask 0.
        """
        if not isinstance(self._decoder, _core.Decoder):
            return np.zeros(len(ids), dtype=np.uint8), [*range(len(texts))]
        mask, unaligned = self._decoder.mask_of_spans(
            ids, offsets, (texts.data, texts.offsets), spans
        )
        return mask, unaligned.tolist()

    def recognized_with_offsets(
        self, text: str, *, between: str = ""
    ) -> tuple[list[int], Sequence[Span]]:
        """Return the ids of a text as `encode_recognized`, and their positions in characters.

        Names of special tokens that have `between` inside stay text, and the positions are those in
        the text without it.

        Raises:
            SplitError: As for `encode_recognized`.
            TokenizerError: The positions are not known.
        """
        plain = text.replace(between, "") if between else text
        if plain != text:
            ids = [*chain.from_iterable(self._pieces(text, between))]
        else:
            ids = self.encode_recognized(Documents.from_strings([text]))[0].tolist()
        if isinstance(self._decoder, _core.Decoder):
            known = char_offsets(plain, [self._spelling[number] for number in ids])
            if known is not None:
                return ids, known
        library = self._recognizer if getattr(self.model, "has_library", False) else None
        if plain != text or not isinstance(library, TokenizersEngine):
            raise TokenizerError("the tokenizer changes the text, so its ids have no positions")
        ids_of_library, positions = library.encode_with_offsets(text)
        if ids_of_library != ids:
            raise TokenizerError(f"{library.name} gives other ids")
        return ids, positions

    def _pieces(self, text: str, between: str) -> list[list[int]]:
        """Return the ids of the parts of a text, special tokens and what is between them."""
        if self.added_tokens.reason:
            raise TokenizerError(
                'special_text = "text" is not possible with this tokenizer: '
                f"{self.added_tokens.reason}"
            )
        parts: list[Part] = [(text, None)]
        for names in self.added_tokens.passes:
            rules = SpecialRules(names, allowed="all", disallowed=())
            parts = [*_divided(parts, rules, names)]
        return [
            [number] if number is not None else self._encode_text(part.replace(between, ""))
            for part, number in parts
        ]


def _divided(
    parts: Iterable[Part], rules: SpecialRules, names: Mapping[str, int]
) -> Iterator[Part]:
    """Yield parts, of which the texts are divided at names."""
    for text, number in parts:
        if number is not None:
            yield text, number
            continue
        for piece, is_name in rules.pieces(text):
            yield piece, names[piece] if is_name else None
