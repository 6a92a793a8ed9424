"""Cross-check of ids with tiktoken, an encoder that shares no code with this project."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from nanotok_ray.tokenizer import Tokenizer

if TYPE_CHECKING:
    import tiktoken

NO_PACKAGE = "tiktoken is not installed"
SHARED_BYTES = "merges share bytes"
NO_PATTERN = "tiktoken cannot compile the pattern"
PANIC = "tiktoken panicked"
GAPS = "the pattern leaves gaps"
NOT_LEARNED = "no learner makes these merges"


class NoCrossCheckError(Exception):
    """A text cannot be cross-checked; the message is the reason, which the record counts."""


class TiktokenCrossCheck:
    """tiktoken with the merges of a tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Build tiktoken's tables, which takes 0.1 s for 32,768 ids."""
        self._model = tokenizer.model
        self._encoding: tiktoken.Encoding | None = None
        self._reason = ""
        if self._model.duplicates():
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
        """Return tiktoken's ids of a text; names of special tokens are text.

        Raises:
            NoCrossCheckError: tiktoken cannot encode the text.
        """
        if self._encoding is None:
            raise NoCrossCheckError(self._reason)
        try:
            return self._encoding.encode_ordinary(text)
        except BaseException as error:
            if not _is_panic(error):
                raise
            raise NoCrossCheckError(PANIC) from None

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
        ranks, tokens = self._model.ranks(), self._model.tokens
        return all(
            _parts(tokens[number], ranks, below=number) == [tokens[left], tokens[right]]
            for number, (left, right) in enumerate(self._model.merges, start=256)
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
