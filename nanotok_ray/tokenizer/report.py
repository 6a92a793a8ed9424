"""The training report: the corpus, every merge, and the result at each vocabulary size."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer import folder
from nanotok_ray.tokenizer.model import NUM_BYTES, Model

if TYPE_CHECKING:
    from typing_extensions import Self

    from nanotok_ray.counts import SpanCounts
    from nanotok_ray.tokenizer.train import TrainSettings

REACHED = "vocabulary size reached"
NO_PAIR_LEFT = "no pair left"
BELOW_MIN_PAIR_COUNT = "below min_pair_count"

FIRST_STEP = 1000
"""Merges of the first row after the row of 0 merges; each following row has twice as many."""


def size_curve(
    applied: Sequence[int], *, span_bytes: int, num_special_tokens: int
) -> list[dict[str, Any]]:
    """Return a row for 0 merges, for 1,000, 2,000, 4,000 and so on, and for all merges.

    >>> rows = size_curve([3, 1], span_bytes=9, num_special_tokens=1)
    >>> [(row["merges"], row["vocab_size"], row["tokens"], row["bytes_per_token"]) for row in rows]
    [(0, 257, 9, 1.0), (2, 259, 5, 1.8)]

    Args:
        applied: the number of applications of each merge, of shape (m,).
        span_bytes: bytes of all occurrences of spans, which is the number of tokens before any
            merge.
        num_special_tokens: the number of special tokens, which each vocabulary size includes.
    """
    left = list(accumulate(applied, lambda tokens, fewer: tokens - fewer, initial=span_bytes))
    rows: list[dict[str, Any]] = []
    for merges in _steps(len(applied)):
        tokens = left[merges]
        before = rows[-1]["tokens"] if rows else 0
        rows.append(
            {
                "merges": merges,
                "vocab_size": NUM_BYTES + merges + num_special_tokens,
                "tokens": tokens,
                "bytes_per_token": round(span_bytes / tokens, 4) if tokens else None,
                "tokens_saved_share": round(1 - tokens / before, 4) if before else None,
            }
        )
    return rows


def _steps(num_merges: int) -> list[int]:
    steps = [0]
    while (step := max(2 * steps[-1], FIRST_STEP)) < num_merges:
        steps.append(step)
    return [*steps, num_merges] if num_merges else steps


REPORT_NAME = folder.REPORT_NAME
REPORT_FORMAT = "nanotok-report 2"

NOTHING_DROPPED = {"distinct_spans": 0, "spans": 0, "bytes": 0}

_RULES = {
    "order": "highest count first; among equals the smallest (left, right)",
    "count": "overlapping windows count: 'aaa' holds the pair of 'a' and 'a' twice",
    "ids": "bytes are 0..255, merge k makes 256 + k, special tokens follow",
    "stop_reasons": [REACHED, NO_PAIR_LEFT, BELOW_MIN_PAIR_COUNT],
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """The result of the learner."""

    merges: NDArray[np.uint32]
    """The pair of each merge, in order, of shape (m, 2); merge k makes id 256 + k."""
    counts: NDArray[np.uint64]
    """The count of the pair of each merge when it was merged, of shape (m,)."""
    applied: NDArray[np.uint64]
    """How often each merge was applied, of shape (m,); each application removes one token."""
    stop_reason: str
    """Why learning ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """Totals of the corpus of a tokenizer; None: unknown."""

    documents: int | None
    """Documents of the corpus; a conversation contains several texts."""
    texts: int | None
    """Texts that were counted."""
    text_bytes: int | None
    """Bytes of the texts."""
    spans: int
    """Occurrences of spans in the texts."""
    distinct_spans: int
    """Number of different spans."""
    span_bytes: int
    """Bytes of all occurrences of spans, which is the number of tokens before the first merge."""
    gaps: int | None
    """Spans that the pattern did not match."""
    code_points: int | None = None
    """Code points of the texts."""
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """Documents that could not be used, by reason."""
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For each source its weight, and its counts without the weight."""
    weight_unit: int = 1
    """The number that an occurrence of weight 1 adds to weighted numbers.

    Weighted are `span_bytes`, `count`, `applied` and the tokens of the curve.
    """
    min_count: int = 1
    """Spans with a lower count were dropped."""
    dropped: Mapping[str, int] = field(default_factory=lambda: dict(NOTHING_DROPPED))
    """Totals of the dropped spans: distinct spans, their occurrences, and the bytes of these."""
    skipped_slices: Sequence[str] = ()
    """Slices that could not be counted and were skipped, as the recipe allows."""

    @classmethod
    def of(cls, counts: "SpanCounts") -> "Self":
        """Return the totals of counts without weights."""
        from nanotok_ray.counts import span_totals  # noqa: PLC0415 - needs pyarrow

        _, _, offsets, numbers = counts.run()
        return cls(
            documents=None,
            texts=counts.texts,
            text_bytes=counts.text_bytes,
            spans=counts.total,
            distinct_spans=len(numbers),
            span_bytes=span_totals(offsets, numbers).span_bytes,
            gaps=counts.gaps,
        )

    @property
    def has_weights(self) -> bool:
        """Whether the sources have different weights."""
        return len({source["multiplier"] for source in self.sources.values()}) > 1


def training_report(
    model: Model, settings: "TrainSettings", learned: Learned, counted: Counted
) -> dict[str, Any]:
    r"""Return the report of a tokenizer from the result of the learner.

    >>> from nanotok_ray.tokenizer.train import TrainSettings
    >>> settings = TrainSettings(vocab_size=258, pattern=r"\w+", special_tokens=["<|bos|>"])
    >>> found = Learned(merges=np.array([[97, 98]]), counts=np.array([3]), applied=np.array([3]),
    ...                 stop_reason=REACHED)
    >>> counted = Counted(documents=1, texts=1, text_bytes=9, spans=3, distinct_spans=1,
    ...                   span_bytes=9, gaps=0)
    >>> report = training_report(settings.model(found), settings, found, counted)
    >>> report["merges"]["token"], report["curve"][-1]["tokens"]
    (['ab'], 6)

    Args:
        model: the tokenizer.
        settings: the settings of learning.
        learned: the result of the learner for the same merges.
        counted: the totals of the corpus.

    Raises:
        TokenizerError: The number of counts differs from the number of merges.
    """
    counts = {"count": learned.counts.tolist(), "applied": learned.applied.tolist()}
    limits = {name: getattr(settings, name) for name in _LIMITS}
    goal = {"vocab_size_asked": settings.vocab_size, "stop_reason": learned.stop_reason, **limits}
    return _report(model, goal, counts, counted)


_LIMITS = ("min_pair_count", "max_token_bytes")


def cut_report(report: Mapping[str, Any], model: Model) -> dict[str, Any]:
    """Return the report of a tokenizer truncated to fewer merges, as if it had been learned so.

    `model` is the truncated tokenizer; `report` is that of the original one.

    Raises:
        TokenizerError: `report` has fewer merges than the model.
    """
    size = len(model.merges)
    counts = {name: report["merges"][name][:size] for name in ("count", "applied")}
    limits = {name: report[name] for name in _LIMITS}
    goal = {"vocab_size_asked": model.num_ids, "stop_reason": REACHED, **limits}
    counted = Counted(**{field.name: report[field.name] for field in fields(Counted)})
    return _report(model, goal, counts, counted)


def _report(
    model: Model, goal: Mapping[str, Any], counts: Mapping[str, list[int]], counted: Counted
) -> dict[str, Any]:
    for name, column in counts.items():
        if len(column) != len(model.merges):
            raise TokenizerError(
                f"{name} has {len(column)} numbers for {len(model.merges)} merges: pass what the "
                "learner returned with them"
            )
    curve = size_curve(
        counts["applied"],
        span_bytes=counted.span_bytes,
        num_special_tokens=len(model.special_tokens),
    )
    return {
        "format": REPORT_FORMAT,
        "pattern": model.pattern,
        "unicode_version": model.unicode_version,
        "special_tokens": list(model.special_tokens),
        "vocab_size_asked": goal["vocab_size_asked"],
        "vocab_size_reached": model.num_ids,
        "stop_reason": goal["stop_reason"],
        **{name: goal[name] for name in _LIMITS},
        "rules": _RULES,
        **asdict(counted),
        "differs_from_rustbpe": _differences(counted, max_token_bytes=goal["max_token_bytes"]),
        "duplicate_tokens": [list(pair) for pair in model.duplicates()],
        "curve": curve,
        "merges": {
            "left": [left for left, _ in model.merges],
            "right": [right for _, right in model.merges],
            "token": [token_text(token) for token in model.tokens[NUM_BYTES:]],
            **counts,
        },
    }


def short_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report without the parts that grow with the vocabulary, and without the rules."""
    long = {"curve", "duplicate_tokens", "format", "merges", "rules"}
    return {name: value for name, value in report.items() if name not in long}


def why_stopped(report: Mapping[str, Any]) -> str:
    """Return the reason why learning ended, with the value that caused it.

    >>> why_stopped({"stop_reason": "below min_pair_count", "min_pair_count": 5})
    'below min_pair_count = 5'
    """
    reason = str(report["stop_reason"])
    if reason == BELOW_MIN_PAIR_COUNT:
        return f"{reason} = {report['min_pair_count']:,}"
    longest = report.get("max_token_bytes")
    if reason == NO_PAIR_LEFT and longest is not None:
        return f"{reason} of at most max_token_bytes = {longest:,}"
    return reason


def token_text(token: bytes) -> str:
    r"""Return the bytes of a token as text, in a form from which the bytes can be restored.

    >>> token_text(" naïve".encode()), token_text(b"\xff\\")
    (' naïve', '\\xff\\\\')
    """
    return token.replace(b"\\", rb"\\").decode(errors="backslashreplace")


def _differences(counted: Counted, *, max_token_bytes: int | None) -> list[str]:
    """Return the reasons why rustbpe would learn other merges from the counted documents."""
    settings = {
        "weight": counted.has_weights,
        "min_count": counted.min_count > 1,
        "max_token_bytes": max_token_bytes is not None,
        "gaps": bool(counted.gaps),  # rustbpe drops them
    }
    return [name for name, makes_others in settings.items() if makes_others]
