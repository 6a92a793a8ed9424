"""Cross-check of ids with an encoder that shares no code with this project.

It is the library that defines the file of a tokenizer, and tiktoken for all others.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from nanotok_ray.errors import SplitError, TokenizerError
from nanotok_ray.tokenizer import (
    NUM_BYTES,
    FileModel,
    Model,
    Tokenizer,
    TokenizersEngine,
    engine_of,
)

if TYPE_CHECKING:
    import tiktoken

NO_PACKAGE = "tiktoken is not installed"
SHARED_BYTES = "merges share bytes"
NO_PATTERN = "tiktoken cannot compile the pattern"
PANIC = "tiktoken panicked"
GAPS = "the pattern leaves gaps"
NO_POSITIONS = "the tokenizer changes texts"
NOT_LEARNED = "no learner makes these merges"


class NoCrossCheckError(Exception):
    """A text cannot be cross-checked; the message is the reason, which the record counts."""


class CrossCheck(Protocol):
    """Another encoder with the same tokenizer."""

    @property
    def name(self) -> str:
        """The name of the library."""

    def ids(self, text: str) -> list[int]:
        """Return the library's ids of a text.

        Raises:
            NoCrossCheckError: The library cannot encode the text.
        """

    def offsets(self, _text: str) -> tuple[list[int], Sequence[tuple[int, int]]]:
        """Return the library's ids of a text and their positions in characters.

        Raises:
            NoCrossCheckError: The library cannot encode the text, or gives no positions.
        """

    def check_rule(self, *texts: str) -> None:
        """Check that the library must return the same ids for some texts.

        Raises:
            NoCrossCheckError: The ids can differ although both are correct.
        """


def cross_check_of(tokenizer: Tokenizer, *, recognize: bool) -> CrossCheck:
    """Return the other encoder of a tokenizer; with `recognize`, texts can spell special tokens."""
    model = tokenizer.model
    if isinstance(model, FileModel) and model.has_library:
        return LibraryCrossCheck(model, recognize=recognize)
    return TiktokenCrossCheck(tokenizer, recognize=recognize)


class LibraryCrossCheck:
    """The library that defines the file of a tokenizer."""

    def __init__(self, model: FileModel, *, recognize: bool) -> None:
        """Store the tokenizer, which the library opens with the first text."""
        self._engine = engine_of(model, recognize=recognize)
        self.name = self._engine.name

    def ids(self, text: str) -> list[int]:
        """Return the library's ids of a text.

        Raises:
            NoCrossCheckError: The library is not installed, or cannot encode the text.
        """
        try:
            return self._engine.encode_text(text)
        except SplitError as error:
            raise NoCrossCheckError(error.reason) from None
        except TokenizerError:
            raise NoCrossCheckError(f"{self.name} is not installed") from None

    def offsets(self, text: str) -> tuple[list[int], Sequence[tuple[int, int]]]:
        """Return the library's ids of a text and their positions in characters.

        Raises:
            NoCrossCheckError: The library gives no positions.
        """
        if not isinstance(self._engine, TokenizersEngine):
            raise NoCrossCheckError(NO_POSITIONS)
        return self._engine.encode_with_offsets(text)

    def check_rule(self, *texts: str) -> None:
        """Accept no other ids than those of the library, which defines them."""


class TiktokenCrossCheck:
    """tiktoken with the merges of a tokenizer."""

    name = "tiktoken"

    def __init__(self, tokenizer: Tokenizer, *, recognize: bool = False) -> None:
        """Build tiktoken's tables, which takes 0.1 s for 32,768 ids."""
        self._model, self._recognize = tokenizer.model, recognize
        self._encoding: tiktoken.Encoding | None = None
        self._reason = ""
        if isinstance(self._model, Model) and self._model.duplicates():
            self._reason = SHARED_BYTES
            return
        try:
            self._encoding = tokenizer.to_tiktoken()
        except ImportError:
            self._reason = NO_PACKAGE
        except ValueError:  # its regex engine supports fewer patterns
            self._reason = NO_PATTERN
        except BaseException as error:
            if not _is_panic(error):
                raise
            self._reason = PANIC

    def ids(self, text: str) -> list[int]:
        """Return tiktoken's ids of a text.

        Names of special tokens are text, unless `recognize` is set.

        Raises:
            NoCrossCheckError: tiktoken cannot encode the text.
        """
        if self._encoding is None:
            raise NoCrossCheckError(self._reason)
        try:
            if self._recognize:
                return self._encoding.encode(text, allowed_special="all")
            return self._encoding.encode_ordinary(text)
        except BaseException as error:
            if not _is_panic(error):
                raise
            raise NoCrossCheckError(PANIC) from None

    def offsets(self, _text: str) -> tuple[list[int], Sequence[tuple[int, int]]]:
        """Raise an error, since tiktoken changes no text.

        Raises:
            NoCrossCheckError: Always.
        """
        raise NoCrossCheckError(NO_POSITIONS)

    def check_rule(self, *texts: str) -> None:
        """Check that tiktoken must return the same ids for some texts.

        tiktoken drops text that the pattern does not match. It merges the two adjacent parts whose
        joined bytes have the lowest id, whereas the rule here is the lowest merge of two ids. Both
        are the same if each token, also by tiktoken's rule, results from the two parts of its
        merge, which holds for all learned tokens. This is slow, and only called if ids differ.

        Raises:
            NoCrossCheckError: The ids can differ although both are correct.
        """
        assert self._encoding is not None, "it has ids of these texts"
        for text in texts:
            if self._encoding.decode_bytes(self.ids(text)) != text.encode():
                raise NoCrossCheckError(GAPS)
        if not self._is_learned:
            raise NoCrossCheckError(NOT_LEARNED)

    @cached_property
    def _is_learned(self) -> bool:
        if isinstance(self._model, FileModel):
            return True  # its ranks are tiktoken's own rule
        ranks, tokens = self._model.ranks(), self._model.text_tokens
        numbers = self._model.token_ids[NUM_BYTES:]
        return all(
            _parts(tokens[number], ranks, below=number) == [tokens[left], tokens[right]]
            for number, (left, right) in zip(numbers, self._model.merges, strict=True)
        )


def _parts(token: bytes, ranks: dict[bytes, int], *, below: int) -> Sequence[bytes]:
    """Merge the bytes of a token as tiktoken does, using only merges with lower ids."""
    parts = [token[at : at + 1] for at in range(len(token))]
    while len(parts) > 1:
        joined = [ranks.get(a + b, below) for a, b in pairwise(parts)]
        lowest = min(joined)
        if lowest >= below:
            break
        at = joined.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def _is_panic(error: BaseException) -> bool:
    """Return whether an exception is a panic of native code, whose class cannot be imported."""
    return type(error).__name__ == "PanicException"
