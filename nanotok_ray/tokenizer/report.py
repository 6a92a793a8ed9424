"""The training report: what was learned from what, every merge, and the result at each size."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer import folder
from nanotok_ray.tokenizer.merges import BELOW_MIN_PAIR_COUNT, NO_PAIR_LEFT, REACHED
from nanotok_ray.tokenizer.model import NUM_BYTES, Model

FIRST_STEP = 1000
"""Merges of the first row after the start; every row after it has twice as many."""


def size_curve(
    applied: Sequence[int], *, span_bytes: int, num_special_tokens: int
) -> list[dict[str, Any]]:
    """Return a row for 0 merges, 1,000, 2,000, 4,000 and so on, and for all of them.

    >>> rows = size_curve([3, 1], span_bytes=9, num_special_tokens=1)
    >>> [(row["merges"], row["vocab_size"], row["tokens"], row["bytes_per_token"]) for row in rows]
    [(0, 257, 9, 1.0), (2, 259, 5, 1.8)]

    Args:
        applied: [m], how often each merge was applied.
        span_bytes: bytes of all spans, each as often as it occurs: the tokens before any merge.
        num_special_tokens: part of each vocabulary size.
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

Numbers = Sequence[int] | NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """What a tokenizer was learned from; None: not known."""

    documents: int | None
    """Documents in which they are; a conversation holds several texts."""
    texts: int | None
    """Texts that were counted."""
    text_bytes: int | None
    """Bytes of these."""
    spans: int
    """Spans in them."""
    distinct_spans: int
    """How many different ones."""
    span_bytes: int
    """Bytes of all spans, each as often as it occurs: the tokens before the first merge."""
    gaps: int | None
    """Spans that the pattern did not match."""
    code_points: int | None = None
    """Code points of the texts."""
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """Documents that could not be used, by reason."""
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For each source its weight, and what was counted of it, without the weight."""
    weight_unit: int = 1
    """A count of weight 1 is so much in what was learned from: `span_bytes`, `count`, `applied`
    and the curve's tokens; all else is without weights."""
    min_count: int = 1
    """Spans that occur less often were left out."""
    dropped: Mapping[str, int] = field(default_factory=lambda: dict(NOTHING_DROPPED))
    """What that left out: distinct spans, spans, and bytes of these."""
    skipped_slices: Sequence[str] = ()
    """Slices that could not be counted and were left out, as the recipe allows."""

    @property
    def has_weights(self) -> bool:
        """Whether some source counts more than another."""
        return len({source["multiplier"] for source in self.sources.values()}) > 1


def training_report(
    model: Model,
    *,
    vocab_size: int,
    counts: Numbers,
    applied: Numbers,
    stop_reason: str,
    counted: Counted,
    min_pair_count: int = 1,
    max_token_bytes: int | None = None,
) -> dict[str, Any]:
    r"""Build the report of a tokenizer from what the learner found.

    >>> model = Model(pattern=r"\w+", unicode_version="16.0.0", merges=((97, 98),),
    ...               special_tokens={"<|bos|>": 257})
    >>> counted = Counted(documents=1, texts=1, text_bytes=9, spans=3, distinct_spans=1,
    ...                   span_bytes=9, gaps=0)
    >>> report = training_report(model, vocab_size=258, counts=[3], applied=[3],
    ...                          stop_reason=REACHED, counted=counted)
    >>> report["merges"]["token"], report["curve"][-1]["tokens"]
    (['ab'], 6)

    Args:
        model: the tokenizer.
        vocab_size: ids that were asked for, special tokens included.
        counts: [m], how often the pair of each merge occurred when it was merged.
        applied: [m], how often it was merged.
        stop_reason: why there are no more merges, as the learner says it.
        counted: what it was learned from.
        min_pair_count: pairs that occur less often were not merged.
        max_token_bytes: pairs of more bytes were not merged; None: of any number.

    Raises:
        TokenizerError: There are not as many numbers as merges.
    """
    _check_lengths(model, counts=counts, applied=applied)
    curve = size_curve(
        _integers(applied),
        span_bytes=counted.span_bytes,
        num_special_tokens=len(model.special_tokens),
    )
    return {
        "format": REPORT_FORMAT,
        "pattern": model.pattern,
        "unicode_version": model.unicode_version,
        "special_tokens": list(model.special_tokens),
        "vocab_size_asked": vocab_size,
        "vocab_size_reached": model.num_ids,
        "stop_reason": stop_reason,
        "min_pair_count": min_pair_count,
        "max_token_bytes": max_token_bytes,
        "rules": _RULES,
        **asdict(counted),
        "differs_from_rustbpe": _differences(counted, max_token_bytes=max_token_bytes),
        "duplicate_tokens": [list(pair) for pair in model.duplicates()],
        "curve": curve,
        "merges": {
            "left": [left for left, _ in model.merges],
            "right": [right for _, right in model.merges],
            "token": [token_text(token) for token in model.tokens[NUM_BYTES:]],
            "count": _integers(counts),
            "applied": _integers(applied),
        },
    }


def cut_report(report: Mapping[str, Any], model: Model) -> dict[str, Any]:
    """Return the report of a tokenizer truncated to fewer merges: as if it had been learned so.

    `model` is the truncated one, `report` that of the tokenizer it was taken from.

    Raises:
        TokenizerError: `report` has fewer merges than the model.
    """
    size, merges = len(model.merges), report["merges"]
    return training_report(
        model,
        vocab_size=model.num_ids,
        counts=merges["count"][:size],
        applied=merges["applied"][:size],
        stop_reason=REACHED,
        counted=Counted(**{field.name: report[field.name] for field in fields(Counted)}),
        min_pair_count=report["min_pair_count"],
        max_token_bytes=report["max_token_bytes"],
    )


def short_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report without what grows with the vocabulary, and without the rules."""
    long = {"curve", "duplicate_tokens", "format", "merges", "rules"}
    return {name: value for name, value in report.items() if name not in long}


def why_stopped(report: Mapping[str, Any]) -> str:
    """Return why learning ended, with the value that ended it.

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
    r"""Return the bytes of a token as text from which they can be had back.

    >>> token_text(" naïve".encode()), token_text(b"\xff\\")
    (' naïve', '\\xff\\\\')
    """
    return token.replace(b"\\", rb"\\").decode(errors="backslashreplace")


def _differences(counted: Counted, *, max_token_bytes: int | None) -> list[str]:
    """Return why the merges differ from those that rustbpe learns from the counted documents."""
    settings = {
        "weight": counted.has_weights,
        "min_count": counted.min_count > 1,
        "max_token_bytes": max_token_bytes is not None,
        "gaps": bool(counted.gaps),  # rustbpe loses them
    }
    return [name for name, makes_others in settings.items() if makes_others]


def _check_lengths(model: Model, **columns: Numbers) -> None:
    for name, column in columns.items():
        if len(column) != len(model.merges):
            raise TokenizerError(
                f"{name} has {len(column)} numbers for {len(model.merges)} merges: give what the "
                "learner gave beside them"
            )


def _integers(numbers: Numbers) -> list[int]:
    """Return Python's integers, which JSON can hold and whose sums have no limit."""
    return numbers.tolist() if isinstance(numbers, np.ndarray) else list(numbers)
