"""The tables with which the core encodes like another tool, and the engine that they make."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts import pattern_of_steps
from nanotok_ray.documents import as_documents
from nanotok_ray.errors import TokenizerError

if TYPE_CHECKING:
    from typing_extensions import Self

EVERYTHING = r"[\s\S]+"
"""The pattern of a single span."""

_SPECIAL_IN_PATTERN = re.compile(r"[\\.+*?()|\[\]{}^$#&\-~/ ]")

Step = tuple[
    str, Literal["isolated", "contiguous", "merged_with_previous", "merged_with_next"], bool
]
"""A step of splitting: pattern, behavior, and whether the text between matches is split off."""

Normalizer = (
    tuple[Literal["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "PrefixSpace"]]
    | tuple[Literal["Prepend"], str]
    | tuple[Literal["Replace"], str, str]
    | tuple[Literal["Strip"], bool, bool]
)
"""A change of the text before it is split: its name and its arguments."""


def pattern_of_text(text: str) -> str:
    r"""Return the pattern that matches exactly this text.

    >>> print(pattern_of_text("a.b"))
    a\.b
    """
    return _SPECIAL_IN_PATTERN.sub(r"\\\g<0>", text)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CoreTables:
    """Byte-level BPE as the core takes it; see `_core.Encoder`."""

    pattern: str | tuple[Step, ...]
    merges: NDArray[np.uint32]
    """The merges in internal ids, of shape (m, 2)."""
    span_tokens: tuple[bytes, ...]
    """The tokens that only a whole span becomes."""
    numbering: NDArray[np.uint32]
    """The id of each internal id."""
    normalizers: tuple[Normalizer, ...] = ()
    priorities: NDArray[np.uint32] | None = None
    """The priority of each merge; None: merges are in the order of their priorities."""
    space_runs: NDArray[np.uint32] | None = None
    """The id of each number of spaces that the leftmost pair of spaces makes after all merges."""

    @classmethod
    def of_ranks(cls, ids: Mapping[bytes, int], *, pattern: str, name: str) -> "Self":
        """Return the tables that encode as tiktoken does with tokens whose ids have their order.

        A token without bytes is one that no text has.

        Raises:
            TokenizerError: The tokens are not byte-level BPE, or not provably so.
        """
        tokens = sorted(filter(None, ids), key=ids.__getitem__)
        documents = as_documents(tokens)
        try:
            merges, (data, offsets), ranks = _core.merges_of_ranks(
                documents.data, documents.offsets
            )
        except TokenizerError as error:
            raise TokenizerError(f"{name}: {error}") from error
        span_tokens = tuple(bytes(data[start:stop]) for start, stop in pairwise(offsets))
        numbering = np.array([ids[tokens[rank]] for rank in ranks.tolist()], dtype=np.uint32)
        return cls(
            pattern=pattern,
            merges=merges,
            span_tokens=span_tokens,
            numbering=numbering,
            priorities=ranks[256 : 256 + len(merges)],
        )

    @property
    def count_pattern(self) -> str:
        """The pattern with which texts are counted as they are split here."""
        if isinstance(self.pattern, str) and not self.normalizers:
            return self.pattern
        return pattern_of_steps(self.pattern, self.normalizers)

    def span_encoder(self) -> _core.Encoder:
        """Return an encoder of spans, which splits nothing and needs no cache."""
        return replace(self, pattern=EVERYTHING, normalizers=()).encoder(
            gaps="spans", cache_bytes=0
        )

    @property
    def is_lossless(self) -> bool:
        """Whether the ids of a text decode to exactly this text."""
        return not self.normalizers

    def encoder(self, *, gaps: Literal["spans", "error"], cache_bytes: int) -> _core.Encoder:
        """Return the core's encoder.

        Raises:
            PatternError: A pattern cannot be compiled.
            TokenizerError: The tables contradict each other.
        """
        span_tokens = as_documents(self.span_tokens)
        return _core.Encoder(
            self.pattern,
            self.merges,
            gaps=gaps,
            priorities=self.priorities,
            whole=(span_tokens.data, span_tokens.offsets),
            numbering=self.numbering,
            space_runs=self.space_runs,
            normalizers=self.normalizers,
            cache_bytes=cache_bytes,
        )
