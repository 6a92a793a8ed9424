"""Encoding of texts with the core, or with the library that defines a tokenizer's file."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise

import numpy as np

from nanotok_ray import _core
from nanotok_ray.documents import Documents, to_utf8
from nanotok_ray.formats import Gaps
from nanotok_ray.tokenizer.added_tokens import AddedTokens
from nanotok_ray.tokenizer.engines import LibraryEngine, engine_of
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.pieces import Piece, Special, SpecialRules
from nanotok_ray.tokenizer.rendering import Ids, Offsets


class Encoding:
    """The part of a tokenizer that has an encoder."""

    model: Model | FileModel
    _cache_bytes: int
    _encoder: _core.Encoder | LibraryEngine

    def encode_documents(
        self,
        documents: Documents,
        *,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
        num_threads: int = 1,
        gaps: Gaps = "spans",
    ) -> tuple[Ids, Offsets]:
        """Return all ids of a batch as `encode_batch` does; invalid UTF-8 is encoded as bytes.

        `before` and `after` are ids that surround the ids of every document. Text that the pattern
        does not match becomes a span of its own, or raises an error with `gaps="error"`.

        Raises:
            SplitError: The regex engine gave up on a document, or a document has a gap and `gaps`
                is "error".
        """
        encoder = self._encoder if gaps == "spans" else self._strict_encoder
        if isinstance(encoder, LibraryEngine):
            return encoder.encode_documents(
                documents, before=before, after=after, wide=self.is_wide
            )
        return encoder.encode_batch(
            documents.data,
            documents.offsets,
            before=before,
            after=after,
            threads=num_threads,
            wide=self.is_wide,
        )

    def encode_recognized(
        self, documents: Documents, *, before: Sequence[int] = (), after: Sequence[int] = ()
    ) -> tuple[Ids, Offsets]:
        """Return the ids of texts in which names of special tokens become these tokens.

        The library that defines the tokenizer decides what is recognized; for tokenizers of this
        project and of tiktoken, the result is that of `allowed_special="all"`.

        Raises:
            SplitError: As for `encode_documents`.
            TokenizerError: The library is not installed.
        """
        if isinstance(self._encoder, _core.Encoder) and not self.added_tokens.reason:
            return self._encoder.encode_recognized(
                self._core_recognizer,
                documents.data,
                documents.offsets,
                before=before,
                after=after,
                wide=self.is_wide,
            )
        return self._recognizer.encode_documents(
            documents, before=before, after=after, wide=self.is_wide
        )

    def _rules(self, allowed: Special | None, disallowed: Special | None) -> SpecialRules:
        return SpecialRules(self.model.special_tokens, allowed=allowed, disallowed=disallowed)

    def _encode_pieces(self, text: str, rules: SpecialRules) -> list[int]:
        """Return the ids of a text whose allowed special tokens become their ids."""
        special = self.model.special_tokens
        parts = (
            [special[piece]] if is_special else self._encode_text(piece)
            for piece, is_special in rules.pieces(text)
        )
        return [*chain.from_iterable(parts)]

    def _encode_lists(self, texts: list[list[Piece]], num_threads: int) -> Iterator[list[int]]:
        """Yield the ids of each text from its parts."""
        special = self.model.special_tokens
        ordinary = [piece for pieces in texts for piece, is_special in pieces if not is_special]
        rows = self._encode_texts(ordinary, num_threads)
        for pieces in texts:
            parts = ([special[piece]] if is_special else next(rows) for piece, is_special in pieces)
            yield [*chain.from_iterable(parts)]

    def _encode_texts(self, texts: list[str], num_threads: int) -> Iterator[list[int]]:
        try:
            ids, offsets = self._encode_strings(texts, num_threads)
        except (TypeError, UnicodeEncodeError):  # not a str, or a lone surrogate
            documents = Documents.from_strings(texts)
            ids, offsets = self.encode_documents(documents, num_threads=num_threads)
        flat = ids.tolist()
        return (flat[start:stop] for start, stop in pairwise(offsets.tolist()))

    def _encode_strings(self, texts: Sequence[str], num_threads: int) -> tuple[Ids, Offsets]:
        return self._encoder.encode_strings(texts, threads=num_threads, wide=self.is_wide)

    @property
    def is_wide(self) -> bool:
        """Whether ids need more than 16 bits."""
        return self.model.id_bytes > np.dtype(np.uint16).itemsize

    def _encode_text(self, text: str) -> list[int]:
        try:
            return self._encoder.encode_text(text)
        except UnicodeEncodeError:  # a lone surrogate
            ids: list[int] = self._encoder.encode(to_utf8(text)).tolist()
            return ids

    @cached_property
    def added_tokens(self) -> AddedTokens:
        """The names of special tokens that `encode_recognized` finds.

        For a tokenizer.json, these are its added tokens; for all others the special tokens, as by
        `allowed_special="all"` of tiktoken.
        """
        if isinstance(self.model, FileModel):
            if self.model.added is not None:
                return self.model.added
            if self.model.has_library:
                return AddedTokens(passes=(), reason="sentencepiece finds its own symbols only")
        return AddedTokens(passes=(self.model.special_tokens,))

    @property
    def recognizer_version(self) -> str | None:
        """The library by which texts can spell special tokens; None if the core finds them."""
        if not self.added_tokens.reason:
            return None
        return f"{self._recognizer.name} {self._recognizer.version}"

    @cached_property
    def _core_recognizer(self) -> _core.Recognizer:
        return _core.Recognizer([[*names.items()] for names in self.added_tokens.passes])

    @cached_property
    def _recognizer(self) -> LibraryEngine:
        """The library, with which texts can spell special tokens."""
        assert isinstance(self.model, FileModel), "a model has no file of a library"
        return engine_of(self.model, recognize=True)

    @cached_property
    def _strict_encoder(self) -> _core.Encoder | LibraryEngine:
        """The encoder that refuses gaps; it has tables of its own, so it is built on first use."""
        return self._encoder_of("error")

    def _encoder_of(self, gaps: Gaps) -> _core.Encoder | LibraryEngine:
        model, tables, cache_bytes = self.model, self.model.tables, self._cache_bytes
        if isinstance(model, Model) and not model.continuations:
            return _core.Encoder(
                model.pattern,
                model.merge_array,
                gaps=gaps,
                byte_order=model.core_byte_order,
                cache_bytes=cache_bytes,
            )
        if tables is not None:
            return tables.encoder(gaps=gaps, cache_bytes=cache_bytes)
        assert isinstance(model, FileModel), "only a file can need a library"
        return engine_of(model)
