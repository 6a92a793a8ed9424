"""What an independent implementation, tiktoken, makes of a text with the same merges.

Takes texts; gives ids, or the kind of reason why tiktoken has no opinion that counts. Does not know
where a text comes from, nor what our ids for it are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from nanotok_ray.tokenizer import Tokenizer

if TYPE_CHECKING:
    import tiktoken

NO_PACKAGE = "tiktoken is not installed"
SHARED_BYTES = "merges share bytes"
NO_PATTERN = "tiktoken cannot compile the pattern"
PANIC = "tiktoken panicked"
GAPS = "the pattern leaves gaps"
NOT_LEARNED = "no learner makes these merges"


@dataclass(frozen=True, slots=True)
class Silence:
    """Why tiktoken has no opinion on a text."""

    reason: str


class SecondOpinion:
    """tiktoken with the merges of a tokenizer, or why there is none: `silence`."""

    def __init__(self, encoding: "tiktoken.Encoding | None", silence: Silence | None) -> None:
        self._encoding = encoding
        self.silence = silence
        """Why tiktoken has no opinion on any text; None: it may have one."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """Build tiktoken's tables; takes 0.1 s for 32,768 ids."""
        if tokenizer.model.duplicates():
            return cls(None, Silence(SHARED_BYTES))
        try:
            return cls(tokenizer.to_tiktoken(), None)
        except ImportError:
            return cls(None, Silence(NO_PACKAGE))
        except ValueError:  # its regex engine knows less than ours
            return cls(None, Silence(NO_PATTERN))
        except BaseException as error:
            if not _is_panic(error):
                raise
            return cls(None, Silence(PANIC))

    def ids(self, text: str) -> list[int] | Silence:
        """Give tiktoken's ids of a text, special tokens in it being text."""
        if self._encoding is None:
            assert self.silence is not None
            return self.silence
        try:
            ids = self._encoding.encode_ordinary(text)
        except BaseException as error:
            if not _is_panic(error):
                raise
            return Silence(PANIC)
        if self._encoding.decode_bytes(ids) != text.encode():
            return Silence(GAPS)  # it drops what the pattern does not match
        return ids


def disagreement(tokenizer: Tokenizer) -> Silence | None:
    """Say why tiktoken may honestly give other ids than ours; None: it may not.

    It merges the two neighbours whose joined bytes have the lowest id, where our rule is the lowest
    merge of two ids. That is the same if by tiktoken's rule, too, every token comes from the two
    parts of its merge, as all that are learned do. Slow: only asked for where ids differ.
    """
    ranks = tokenizer.model.ranks()
    tokens = tokenizer.model.tokens
    for number, (left, right) in enumerate(tokenizer.model.merges, start=256):
        if _parts(tokens[number], ranks, below=number) != [tokens[left], tokens[right]]:
            return Silence(NOT_LEARNED)
    return None


def _parts(token: bytes, ranks: dict[bytes, int], *, below: int) -> Sequence[bytes]:
    """Merge the bytes of a token as tiktoken does, with the merges before its own alone."""
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
    """Tell a panic in native code, which is no Exception and no class that can be imported."""
    return type(error).__name__ == "PanicException"
