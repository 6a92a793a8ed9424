"""The training report: the corpus, every merge, and the result at each vocabulary size."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.errors import TokenizerError
from nanotok_ray.formats import (
    BaseTotals,
    Counted,
    CurveRow,
    MergeColumns,
    SuperwordTotals,
    TrainingReport,
    TrainingTotals,
    converted,
)
from nanotok_ray.tokenizer import folder
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.model import NUM_BYTES, Model

if TYPE_CHECKING:
    from nanotok_ray.counts import SpanCounts
    from nanotok_ray.tokenizer.train import TrainSettings

REACHED = "vocabulary size reached"
NO_PAIR_LEFT = "no pair left"
BELOW_MIN_PAIR_COUNT = "below min_pair_count"

REPORT_NAME = folder.REPORT_NAME

FIRST_STEP = 1000
"""Merges of the first row after the row of 0 merges; each following row has twice as many."""

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
    """The pair of each merge, in order, of shape (m, 2); merge k makes id 256 + k, or the number of
    ids of the base + k.
    """
    counts: NDArray[np.uint64]
    """The count of the pair of each merge when it was merged, of shape (m,)."""
    applied: NDArray[np.uint64]
    """How often each merge was applied, of shape (m,); each application removes one token."""
    stop_reason: str
    """Why learning ended."""

    def followed_by(self, other: "Learned") -> "Learned":
        """Return the result of learning further merges after these."""
        return Learned(
            merges=np.concatenate([self.merges, other.merges]),
            counts=np.concatenate([self.counts, other.counts]),
            applied=np.concatenate([self.applied, other.applied]),
            stop_reason=other.stop_reason,
        )

    def first(self, number: int) -> "Learned":
        """Return the result of learning this number of merges."""
        return Learned(
            merges=self.merges[:number],
            counts=self.counts[:number],
            applied=self.applied[:number],
            stop_reason=REACHED,
        )


def counted_of(counts: "SpanCounts") -> Counted:
    """Return the totals of counts without weights."""
    from nanotok_ray.counts import span_totals  # noqa: PLC0415 - needs pyarrow

    _, _, offsets, numbers = counts.run()
    return Counted(
        documents=None,
        texts=counts.texts,
        text_bytes=counts.text_bytes,
        spans=counts.total,
        distinct_spans=len(numbers),
        span_bytes=span_totals(offsets, numbers).span_bytes,
        gaps=counts.gaps,
    )


def training_report(
    model: Model | FileModel,
    settings: "TrainSettings",
    learned: Learned,
    counted: Counted,
    *,
    base: BaseTotals | None = None,
    superwords: SuperwordTotals | None = None,
) -> TrainingReport:
    r"""Return the report of a tokenizer from the result of the learner.

    >>> from nanotok_ray.tokenizer.train import TrainSettings
    >>> settings = TrainSettings(vocab_size=258, pattern=r"\w+", special_tokens=["<|bos|>"])
    >>> learned = Learned(merges=np.array([[97, 98]]), counts=np.array([3]), applied=np.array([3]),
    ...                   stop_reason=REACHED)
    >>> counted = Counted(documents=1, texts=1, text_bytes=9, spans=3, distinct_spans=1,
    ...                   span_bytes=9, gaps=0)
    >>> report = training_report(settings.model(learned), settings, learned, counted)
    >>> report.merges.token, report.curve[-1].tokens
    (('ab',), 6)

    Args:
        model: the tokenizer.
        settings: the settings of learning.
        learned: the result of the learner for the same merges.
        counted: the totals of the corpus.
        base: the tokenizer that learning continued, if any.
        superwords: the second stage, if there was one.

    Raises:
        TokenizerError: The number of counts differs from the number of merges.
    """
    totals = converted(
        counted,
        TrainingTotals,
        pattern=model.pattern if isinstance(model, Model) else settings.pattern,
        unicode_version=_core.UNICODE_VERSION,
        special_tokens=tuple(model.special_tokens),
        vocab_size_asked=settings.vocab_size,
        vocab_size_reached=model.num_ids,
        stop_reason=learned.stop_reason,
        min_pair_count=settings.min_pair_count,
        max_token_bytes=settings.max_token_bytes,
        differs_from_rustbpe=_differences(
            counted,
            max_token_bytes=settings.max_token_bytes,
            superword=superwords is not None,
            base=base is not None,
        ),
        base=base,
        superwords=superwords,
    )
    return _report(model, totals, learned)


def learned_of(report: TrainingReport) -> Learned:
    """Return the result of the learner from its report."""
    merges = report.merges
    return Learned(
        merges=np.array([merges.left, merges.right], dtype=np.uint32).T,
        counts=np.array(merges.count, dtype=np.uint64),
        applied=np.array(merges.applied, dtype=np.uint64),
        stop_reason=report.stop_reason,
    )


def cut_report(report: TrainingReport, model: Model | FileModel) -> TrainingReport:
    """Return the report of a tokenizer truncated to fewer merges, as if it had been learned so.

    `model` is the truncated tokenizer; `report` is that of the original one.

    Raises:
        TokenizerError: `report` has fewer merges than the model.
    """
    totals = converted(
        report,
        TrainingTotals,
        vocab_size_asked=model.num_ids,
        vocab_size_reached=model.num_ids,
        stop_reason=REACHED,
    )
    return _report(model, totals, learned_of(report).first(len(_new_tokens(model, totals.base))))


def short_report(report: TrainingReport) -> TrainingTotals:
    """Return the report without the parts that grow with the vocabulary, and without the rules."""
    return converted(report, TrainingTotals)


def _report(model: Model | FileModel, totals: TrainingTotals, learned: Learned) -> TrainingReport:
    tokens, base, rules = _new_tokens(model, totals.base), totals.base, _RULES
    applied: list[int] = learned.applied.tolist()
    for name, column in (("count", learned.counts), ("applied", applied)):
        if len(column) != len(tokens):
            raise TokenizerError(
                f"{name} has {len(column)} numbers for {len(tokens)} merges: pass what the "
                "learner returned with them"
            )
    if base is not None:
        rules = {**rules, "ids": f"merge k makes {base.vocab_size} + k, after the ids of the base"}
    # What the pattern of several words changes besides the merges is not known.
    first = None if totals.superwords is None else totals.superwords.first_merges
    curve = size_curve(
        applied[:first],
        span_bytes=totals.span_bytes,
        tokens=totals.span_bytes if base is None else base.tokens,
        num_ids=NUM_BYTES + len(model.special_tokens) if base is None else base.vocab_size,
    )
    return converted(
        totals,
        TrainingReport,
        rules=rules,
        duplicate_tokens=tuple(model.duplicates()) if isinstance(model, Model) else (),
        curve=tuple(curve),
        merges=MergeColumns(
            left=tuple(learned.merges[:, 0].tolist()),
            right=tuple(learned.merges[:, 1].tolist()),
            token=tuple(map(token_text, tokens)),
            count=tuple(learned.counts.tolist()),
            applied=tuple(applied),
        ),
    )


def _new_tokens(model: Model | FileModel, base: BaseTotals | None) -> list[bytes]:
    """Return the tokens that the merges of a report make."""
    first = NUM_BYTES if base is None else base.vocab_size
    return [token for number, token in model.text_tokens.items() if number >= first]


def size_curve(
    applied: Sequence[int], *, span_bytes: int, tokens: int, num_ids: int
) -> list[CurveRow]:
    """Return a row for 0 merges, for 1,000, 2,000, 4,000 and so on, and for all merges.

    >>> rows = size_curve([3, 1], span_bytes=9, tokens=9, num_ids=257)
    >>> [(row.merges, row.vocab_size, row.tokens, row.bytes_per_token) for row in rows]
    [(0, 257, 9, 1.0), (2, 259, 5, 1.8)]

    Args:
        applied: the number of applications of each merge, of shape (m,).
        span_bytes: bytes of all occurrences of spans.
        tokens: the number of tokens before any of these merges.
        num_ids: the number of ids before any of these merges, special tokens included.
    """
    left = list(accumulate(applied, lambda number, fewer: number - fewer, initial=tokens))
    rows: list[CurveRow] = []
    for merges in _steps(len(applied)):
        remaining = left[merges]
        before = rows[-1].tokens if rows else 0
        rows.append(
            CurveRow(
                merges=merges,
                vocab_size=num_ids + merges,
                tokens=remaining,
                bytes_per_token=round(span_bytes / remaining, 4) if remaining else None,
                tokens_saved_share=round(1 - remaining / before, 4) if before else None,
            )
        )
    return rows


def _steps(num_merges: int) -> list[int]:
    steps = [0]
    while (step := max(2 * steps[-1], FIRST_STEP)) < num_merges:
        steps.append(step)
    return [*steps, num_merges] if num_merges else steps


def why_stopped(totals: TrainingTotals) -> str:
    """Return the reason why learning ended, with the value that caused it."""
    if totals.stop_reason == BELOW_MIN_PAIR_COUNT:
        return f"{totals.stop_reason} = {totals.min_pair_count:,}"
    if totals.stop_reason == NO_PAIR_LEFT and totals.max_token_bytes is not None:
        return f"{totals.stop_reason} of at most max_token_bytes = {totals.max_token_bytes:,}"
    return totals.stop_reason


def token_text(token: bytes) -> str:
    r"""Return the bytes of a token as text, in a form from which the bytes can be restored.

    >>> token_text(" naïve".encode()), token_text(b"\xff\\")
    (' naïve', '\\xff\\\\')
    """
    return token.replace(b"\\", rb"\\").decode(errors="backslashreplace")


def _differences(counted: Counted, *, max_token_bytes: int | None, **more: bool) -> tuple[str, ...]:
    """Return the reasons why rustbpe would learn other merges from the counted documents."""
    settings = {
        "weight": counted.has_weights,
        "min_count": counted.min_count > 1,
        "max_token_bytes": max_token_bytes is not None,
        "gaps": bool(counted.gaps),  # rustbpe drops them
        **more,
    }
    return tuple(name for name, makes_others in settings.items() if makes_others)
