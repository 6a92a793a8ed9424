"""Engines: what encodes and decodes with a tokenizer that a file of another tool defines.

The core encodes with the tokenizers for which its ids are proven to be those of the defining
library. For all others, the library itself runs: `tokenizers` for tokenizer.json, `sentencepiece`
for SentencePiece models. Libraries encode in one thread, take text only, and see U+FFFD for each
invalid byte.
"""

import importlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents import Documents, offsets_of, to_utf8
from nanotok_ray.errors import SplitError, TokenizerError, how_to_install
from nanotok_ray.tokenizer.decoders import PieceDecoder, TextDecoder
from nanotok_ray.tokenizer.file_model import SENTENCEPIECE_FILE, FileModel

Ids = NDArray[np.uint16] | NDArray[np.uint32]
Offsets = NDArray[np.int64]

MAX_BATCH = 1 << 10
"""Texts that a library encodes with one call."""

_ADDED = ("added_tokens", "post_processor", "truncation", "padding")
"""The parts of a tokenizer.json that make ids of anything but the text."""


class LibraryEngine(TextDecoder):
    """Encodes and decodes with the library that defines a tokenizer's file."""

    name: Literal["tokenizers", "sentencepiece"]

    def __init__(self, model: FileModel, *, recognize: bool = False) -> None:
        """Store the tokenizer; with `recognize`, texts can spell special tokens as in the library.

        The file is opened when it is first used.
        """
        self._model, self._recognize = model, recognize
        self._special = {number: name for name, number in model.special_tokens.items()}

    @property
    def version(self) -> str:
        """The version of the library."""
        return str(_library(self.name).__version__)

    @abstractmethod
    def check(self) -> None:
        """Open the file.

        Raises:
            TokenizerError: The library is not installed, or refuses the file.
        """

    @abstractmethod
    def _encoded(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of texts."""

    def encode(self, document: bytes) -> NDArray[np.uint32]:
        """Return the ids of one document.

        Raises:
            SplitError: The library cannot encode it.
        """
        return np.array(self.encode_text(document.decode(errors="replace")), dtype=np.uint32)

    def encode_text(self, text: str) -> list[int]:
        """Return the ids of one text.

        Raises:
            SplitError: The library cannot encode it.
        """
        return next(self._rows([text]))

    def encode_documents(
        self,
        documents: Documents,
        *,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
        wide: bool = False,
    ) -> tuple[Ids, Offsets]:
        """Return all ids back to back, as uint16 or, if `wide`, uint32, and n + 1 offsets.

        Raises:
            SplitError: The library cannot encode a document; the message has its index.
        """
        texts = [document.decode(errors="replace") for document in documents]
        return self._joined(self._rows(texts), before=before, after=after, wide=wide)

    def encode_strings(
        self,
        texts: Sequence[str],
        *,
        threads: int = 1,  # noqa: ARG002 - as of the core
        wide: bool = False,
    ) -> tuple[Ids, Offsets]:
        """Return the ids of texts as `encode_documents` does.

        Raises:
            SplitError: The library cannot encode a text; the message has its index.
        """
        return self._joined(self._rows(texts), wide=wide)

    def _rows(self, texts: Sequence[str]) -> Iterator[list[int]]:
        self.check()
        for start in range(0, len(texts), MAX_BATCH):
            batch = [*texts[start : start + MAX_BATCH]]
            try:
                yield from self._encoded(batch)
            except BaseException as error:
                if not _is_of_library(error):
                    raise
                yield from self._one_by_one(batch, first=start)

    def _one_by_one(self, texts: Sequence[str], *, first: int) -> Iterator[list[int]]:
        for number, text in enumerate(texts, first):
            try:
                yield self._encoded([to_utf8(text).decode()])[0]  # without lone surrogates
            except BaseException as error:
                if not _is_of_library(error):
                    raise
                raise SplitError(
                    f"document {number} cannot be split by {self.name}: {_explained(error)}"
                ) from None

    def _joined(
        self,
        rows: Iterator[list[int]],
        *,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
        wide: bool,
    ) -> tuple[Ids, Offsets]:
        dtype = np.uint32 if wide else np.uint16
        parts = [np.array([*before, *row, *after], dtype=dtype) for row in rows]
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        return np.concatenate([np.zeros(0, dtype=dtype), *parts]), offsets_of(lengths)


class TokenizersEngine(LibraryEngine):
    """Hugging Face's `tokenizers`.

    Texts are encoded without the special tokens of the post-processor. Unless `recognize` is set,
    no added token is matched in a text.
    """

    name = "tokenizers"

    def check(self) -> None:
        """Open the file.

        Raises:
            TokenizerError: The library is not installed, or refuses the file.
        """
        assert self._complete is not None

    @cached_property
    def _contents(self) -> Mapping[str, Any]:
        return dict(json.loads(self._model.data))

    @cached_property
    def _complete(self) -> Any:  # noqa: ANN401 - the library's class
        """The tokenizer of the file."""
        return self._opened({**self._contents, "truncation": None, "padding": None})

    @cached_property
    def _encoder(self) -> Any:  # noqa: ANN401 - the library's class
        if self._recognize:
            return self._complete
        none: dict[str, Any] = {key: [] if key == "added_tokens" else None for key in _ADDED}
        return self._opened({**self._contents, **none})

    def _opened(self, contents: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the library's class
        library = _library("tokenizers")
        try:
            return library.Tokenizer.from_str(json.dumps(contents))
        except BaseException as error:
            if not _is_of_library(error):
                raise
            raise TokenizerError(
                f"{self._model.description.file} is refused by tokenizers {self.version}: {error}"
            ) from None

    @cached_property
    def _added(self) -> Mapping[int, str]:
        """The special tokens that the file does not have."""
        special = self._special.items()
        return {number: name for number, name in special if not self._knows(name, number)}

    def text(self, ids: list[int]) -> str:
        """Return the text of ids; special tokens are decoded to their names.

        Raises:
            KeyError: An id is not a token.
        """
        known = self._model.text_tokens
        for number in ids:
            if number not in known and number not in self._special:
                raise KeyError(f"Invalid token for decoding: {number}")
        if not self._added:
            return self._decoded(ids)
        parts, start = [], 0
        for index, number in enumerate(ids):
            if number in self._added:
                parts += [self._decoded(ids[start:index]), self._added[number]]
                start = index + 1
        return "".join([*parts, self._decoded(ids[start:])])

    def _knows(self, name: str, number: int) -> bool:
        return bool(self._complete.token_to_id(name) == number)

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        encode = self._encoder.encode
        return [encode(text, add_special_tokens=False).ids for text in texts]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text, and their positions in characters."""
        encoding = self._encoder.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def _decoded(self, ids: list[int]) -> str:
        return str(self._complete.decode(ids, skip_special_tokens=False))


class SentencePieceEngine(LibraryEngine):
    """Google's `sentencepiece`.

    Control symbols are never matched in a text; user-defined symbols always are.
    """

    name = "sentencepiece"

    def check(self) -> None:
        """Open the file.

        Raises:
            TokenizerError: The library is not installed, or refuses the file.
        """
        assert self._processor is not None

    @cached_property
    def _processor(self) -> Any:  # noqa: ANN401 - the library's class
        return open_sentencepiece(self._model.data, name=self._model.description.file)

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        rows: list[list[int]] = self._processor.encode(texts, out_type=int, num_threads=1)
        return rows

    def text(self, ids: list[int]) -> str:
        """Return the text of ids; control symbols are decoded to their names.

        Raises:
            KeyError: An id is not a token.
        """
        return self._decoder.text(ids)

    @cached_property
    def _decoder(self) -> PieceDecoder:
        return PieceDecoder(self._model)


def open_sentencepiece(data: bytes, *, name: str) -> Any:  # noqa: ANN401 - the library's class
    """Return the library's processor of a SentencePiece model.

    Raises:
        TokenizerError: The library is not installed, or refuses the file.
    """
    library = _library("sentencepiece")
    try:
        return library.SentencePieceProcessor(model_proto=data)
    except BaseException as error:
        if not _is_of_library(error):
            raise
        raise TokenizerError(
            f"{name} is refused by sentencepiece {library.__version__}: {error}"
        ) from None


def engine_of(model: FileModel, *, recognize: bool = False) -> LibraryEngine:
    """Return the library that encodes with a tokenizer.

    Raises:
        TokenizerError: The library is not installed, or refuses the file.
    """
    if model.description.file == SENTENCEPIECE_FILE:
        return SentencePieceEngine(model, recognize=recognize)
    return TokenizersEngine(model, recognize=recognize)


def _library(name: Literal["tokenizers", "sentencepiece"]) -> Any:  # noqa: ANN401 - a module
    try:
        return importlib.import_module(name)
    except ImportError:
        raise TokenizerError(
            f"this tokenizer needs the package {name}: {how_to_install(name)}"
        ) from None


def _explained(error: BaseException) -> str:
    """Return the message of an error; that of Oniguruma's limit does not say what went wrong."""
    if "retry-limit" in str(error):
        return f"the tokenizer's pattern backtracks too often on this text ({error})"
    return str(error)


def _is_of_library(error: BaseException) -> bool:
    """Return whether an exception is raised by a library, whose panics are no `Exception`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
