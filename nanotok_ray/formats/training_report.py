"""The values of report.json, the training report of a tokenizer; None: unknown."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from nanotok_ray.formats.codec import Finite, Natural, Number, Sha256, omitted


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedSource:
    """The weight of a source, and its counts without the weight."""

    weight: str
    """As the recipe has it."""
    multiplier: Natural
    """The weight in units of `weight_unit`."""
    texts: Natural
    text_bytes: Natural
    spans: Natural


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedSpans:
    """Totals of the spans with a count below `min_count`."""

    distinct_spans: Natural = 0
    spans: Natural = 0
    """Their occurrences."""
    bytes: Natural = 0
    """The bytes of the occurrences."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """Totals of the corpus of a tokenizer."""

    documents: Natural | None
    """Documents of the corpus; a conversation contains several texts."""
    texts: Natural | None
    """Texts that were counted."""
    text_bytes: Natural | None
    """Bytes of the texts."""
    spans: Natural
    """Occurrences of spans in the texts."""
    distinct_spans: Natural
    """Number of different spans."""
    span_bytes: Natural
    """Bytes of all occurrences of spans, which is the number of tokens before the first merge."""
    gaps: Natural | None
    """Spans that the pattern did not match."""
    code_points: Natural | None = None
    """Code points of the texts."""
    quarantined: Mapping[str, Natural] = field(default_factory=dict)
    """Documents that could not be used, by reason."""
    sources: Mapping[str, CountedSource] = field(default_factory=dict)
    weight_unit: Natural = 1
    """The number that an occurrence of weight 1 adds to weighted numbers.

    Weighted are `span_bytes`, `count`, `applied` and the tokens of the curve.
    """
    min_count: Natural = 1
    """Spans with a lower count were dropped."""
    dropped: DroppedSpans = field(default_factory=DroppedSpans)
    skipped_slices: tuple[str, ...] = ()
    """Slices that could not be counted and were skipped, as the recipe allows."""

    @property
    def has_weights(self) -> bool:
        """Whether the sources have different weights."""
        return len({source.multiplier for source in self.sources.values()}) > 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseTotals:
    """The tokenizer that learning continued."""

    sha256: Sha256
    vocab_size: Number
    """Its number of ids, which is the id of the first new token."""
    tokens: Natural
    """The tokens of the counted text with this tokenizer."""
    unreachable: tuple[Number, ...] = ()
    """The new tokens that their own bytes do not become; none are expected."""
    unused: Number = 0
    """The number of its tokens that the counted text no longer contains."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SuperwordTotals:
    """The second stage of learning, in which tokens can have several words."""

    first_merges: Number
    """The number of merges of the first stage."""
    max_words: Number
    forbidden: str
    min_merge_count: Natural
    """The count from which on pairs of adjacent ids were kept together; the last merge has it."""
    distinct_segments: Natural
    """Number of different sequences of ids from which the merges were learned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingTotals(Counted):
    """The report of a tokenizer without the parts that grow with its vocabulary."""

    pattern: str
    unicode_version: str
    special_tokens: tuple[str, ...]
    vocab_size_asked: Number
    vocab_size_reached: Number
    stop_reason: str
    """Why learning ended."""
    min_pair_count: Natural
    max_token_bytes: Natural | None
    differs_from_rustbpe: tuple[str, ...]
    """The reasons why rustbpe would learn other merges from the counted documents."""
    base: BaseTotals | None = omitted()
    """The tokenizer that learning continued; None: learning began with bytes."""
    superwords: SuperwordTotals | None = omitted()
    """The second stage; None: every token is part of one span of the pattern of words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveRow:
    """The result of learning at a number of merges."""

    merges: Number
    vocab_size: Number
    """The number of ids, special tokens included."""
    tokens: Natural
    """The tokens of the counted text."""
    bytes_per_token: Finite | None
    tokens_saved_share: Finite | None
    """The share of the tokens of the row before that this row does not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeColumns:
    """A value for each merge, in order."""

    left: tuple[Number, ...]
    right: tuple[Number, ...]
    """The pair of ids."""
    token: tuple[str, ...]
    """The token that the merge makes, as `token_text` writes it."""
    count: tuple[Natural, ...]
    """The count of the pair when it was merged."""
    applied: tuple[Natural, ...]
    """How often the merge was applied; each application removes one token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingReport(TrainingTotals):
    """The content of report.json."""

    FORMAT: ClassVar[str] = "nanotok-report 2"

    rules: Any
    """The rules of learning, for people."""
    duplicate_tokens: tuple[tuple[Number, Number], ...]
    """Pairs of ids of the same bytes."""
    curve: tuple[CurveRow, ...]
    merges: MergeColumns


@dataclass(frozen=True, kw_only=True, slots=True)
class NewToken:
    """A token that a continued tokenizer has and its base has not."""

    id: Number
    bytes: str
    """Its bytes in base64."""
    text: str
    """Its bytes as `token_text` writes them."""
    base_ids: tuple[Number, ...]
    """The ids of these bytes in the base, from which its embedding can be initialized."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewTokens:
    """The content of new_tokens.json, beside a continued tokenizer."""

    FORMAT: ClassVar[str] = "nanotok-new-tokens 1"

    base_sha256: Sha256
    tokens: tuple[NewToken, ...]
    """All new tokens, in the order of their ids."""
    unreachable: tuple[Number, ...]
    """The new tokens that their own bytes do not become; none are expected."""
    unused: tuple[Number, ...]
    """The tokens of the base that the counted text no longer contains."""

    def below(self, vocab_size: int) -> "NewTokens":
        """Return the new tokens of a smaller tokenizer, with the ids below a size."""
        return replace(
            self,
            tokens=tuple(token for token in self.tokens if token.id < vocab_size),
            unreachable=tuple(number for number in self.unreachable if number < vocab_size),
        )
