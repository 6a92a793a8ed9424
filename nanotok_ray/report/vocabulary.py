"""The vocabulary: its growth, the count of each merge, lengths of tokens, learned tokens."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.formats import NewTokens, TrainingReport, load
from nanotok_ray.job.summary import engine_summary
from nanotok_ray.report.charts import Axis, Chart, Mark, bar_marks, dot, linear_axis, log_axis
from nanotok_ray.report.corpus import use_of
from nanotok_ray.report.facts import NEW_TOKENS, REPORT, Facts
from nanotok_ray.report.render import Cell, Code, Part, Row, Tokens
from nanotok_ray.tokenizer import NUM_BYTES, Model, Tokenizer, why_stopped
from nanotok_ray.tokenizer.evaluation import Vocabulary
from nanotok_ray.units import format_bytes, format_share, quantity

_POINTS: Final = 240
"""Limit of the points of a curve."""


def vocabulary(facts: Facts) -> Iterator[Part]:
    """Yield the charts of a learned tokenizer."""
    if facts.report is not None:
        report = load(TrainingReport, facts.report, name=facts.out.join(REPORT))
        yield _learned(report, facts.tokenizer)
        yield from _growth(report)
        yield from _counts(report)
    elif facts.tokenizer is not None:
        engine = engine_summary(facts.tokenizer)
        if engine is not None:
            yield Part(text=f"The tokenizer is that of {engine.text}.")
        else:
            yield Part(text="The tokenizer was not learned here, so how it grew is not known.")


def _learned(report: TrainingReport, tokenizer: Tokenizer | None) -> Part:
    values: dict[str, Cell] = {
        "merges": f"{len(report.merges.count):,}",
        "stopped because": why_stopped(report),
        "learned from": f"{quantity(report.texts or 0, 'text')}, "
        f"{format_bytes(report.text_bytes or 0)}",
        "distinct spans": f"{report.distinct_spans:,}",
        "pattern": Code(report.pattern),
    }
    if report.base is not None:
        before, now = report.base.tokens, report.curve[-1].tokens
        values |= {
            "continues": f"{report.base.sha256[:16]}, {report.base.vocab_size:,} ids",
            "tokens saved": f"{1 - now / max(before, 1):.1%} of the counted text",
            "tokens of the base without use": f"{report.base.unused:,}",
        }
    if report.superwords is not None:
        second, others = report.superwords, NUM_BYTES + len(report.special_tokens)
        start, words = second.first_merges + others, second.max_words
        values["tokens of several words"] = f"from {start:,} ids on, at most {words:,} words"
        if tokenizer is not None:
            share = Vocabulary.of(tokenizer).superword_share
            values["share of tokens of several words"] = f"{share:.1%} of the vocabulary"
    if report.differs_from_rustbpe:
        values["not as rustbpe, because of"] = ", ".join(report.differs_from_rustbpe)
    return Part(pairs=values)


def _growth(report: TrainingReport) -> Iterator[Part]:
    second = report.superwords
    applied = report.merges.applied[: None if second is None else second.first_merges]
    start = report.span_bytes
    if not applied or not start:
        return
    first = start if report.base is None else report.base.tokens
    left = first - np.concatenate([[0], np.cumsum(np.array(applied, dtype=np.float64))])
    per_token = {merge: start / left[merge] for merge in spread(len(applied), _POINTS)}
    rows = [row for row in report.curve if row.merges and row.tokens]
    dots = [
        dot(
            (row.merges, row.bytes_per_token or 0.0),
            kind="dot",
            title=f"{quantity(row.merges, 'merge')}: {row.bytes_per_token:.3f} bytes per token, "
            f"{row.tokens / report.weight_unit:,.0f} tokens",
            label=f"{row.bytes_per_token:.2f}",
        )
        for row in rows
    ]
    chart = Chart(
        title="Bytes per token by number of merges",
        description=f"The text the tokenizer was learned from has {per_token[len(applied)]:.3f} "
        f"bytes per token after {quantity(len(applied), 'merge')}; the table below has more "
        "points.",
        x=log_axis(max(len(applied), 2), name="merges (logarithmic)"),
        y=linear_axis(max(per_token.values()) * 1.08, low=1.0, name="bytes per token"),
        marks=[Mark(points=[*per_token.items()], kind="curve"), *dots],
        kind="rising",
    )
    yield Part(
        title="Growth of the vocabulary",
        beside="Of the text that was counted, each source by its weight."
        + ("" if second is None else " Ends where tokens of several words begin."),
        chart=chart,
        rows=_curve_rows(report),
        texts=0,
        is_folded=True,
    )


def _curve_rows(report: TrainingReport) -> list[Row]:
    return [
        {
            "merges": row.merges,
            "vocabulary": row.vocab_size,
            "tokens": f"{row.tokens / report.weight_unit:,.0f}",
            "bytes per token": _known(row.bytes_per_token, ".3f"),
            "fewer tokens than before": _known(row.tokens_saved_share, ".1%"),
        }
        for row in report.curve
    ]


def _known(value: float | None, form: str) -> str:
    return "\u2013" if value is None else format(value, form)


def _counts(report: TrainingReport) -> Iterator[Part]:
    counts = [round(count / report.weight_unit) for count in report.merges.count]
    tokens = report.merges.token
    if not counts or max(counts) < 1:
        return
    marked = [merge for merge in (1, 10, 100, 1000, 10_000, 100_000) if merge <= len(counts)]
    rows: list[Row] = [
        {"merge": merge, "token": _visible(tokens[merge - 1]), "times": counts[merge - 1]}
        for merge in marked
    ]
    last = f"The last merge, number {len(counts):,}, occurred {quantity(counts[-1], 'time')}."
    yield Part(
        title="How often each merge occurred",
        beside="with the token that it made",
        chart=_counts_chart(counts, tokens, marked),
        rows=rows,
        texts=2,
        is_folded=True,
        note=last if counts[-1] else "",
    )


def _counts_chart(counts: Sequence[int], tokens: Sequence[str], marked: Sequence[int]) -> Chart:
    points = {merge: max(counts[merge - 1], 1) for merge in spread(len(counts), _POINTS)}
    dots = [
        dot(
            (merge, max(counts[merge - 1], 1)),
            kind="dot two",
            title=f"merge {merge:,}: {tokens[merge - 1]!r}, {quantity(counts[merge - 1], 'time')}",
            label=_visible(tokens[merge - 1])[:24],
        )
        for merge in marked
    ]
    return Chart(
        title="How often a pair occurred when it was merged, by the number of the merge",
        description=f"From {counts[0]:,} for the first merge to {counts[-1]:,} for the last, "
        f"number {len(counts):,}; both axes are logarithmic.",
        x=log_axis(max(len(counts), 2), name="number of the merge (logarithmic)"),
        y=log_axis(10 * max(counts), name="times (logarithmic)"),
        marks=[Mark(points=[*points.items()], kind="curve two"), *dots],
    )


def _visible(token: str) -> str:
    return token.replace(" ", "\u00b7").replace("\n", "\u21b5").replace("\t", "\u2192")


def spread(last: int, limit: int) -> Sequence[int]:
    """Return integers from 1 to `last`, evenly spaced on a logarithmic scale.

    >>> spread(4, 10), spread(1000, 4)
    ([1, 2, 3, 4], [1, 10, 100, 1000])
    """
    if last <= limit:
        return list(range(1, last + 1))
    numbers: list[int] = np.unique(np.rint(np.geomspace(1, last, limit)).astype(np.int64)).tolist()
    return numbers


_MAX_TOKEN_BYTES: Final = 16
"""Tokens of at least this number of bytes are combined."""


def token_lengths(facts: Facts) -> Iterator[Part]:
    """Yield the histogram of lengths of tokens, and what new tokens save in each source."""
    tokenizer = facts.tokenizer
    if tokenizer is None:
        return
    sizes = np.asarray(tokenizer.token_bytes(), dtype=np.int64)
    train = facts.shards.get("train")
    used = {} if train is None else use_of(train, num_ids=tokenizer.get_vocab_size())
    counts = np.sum([*used.values()], axis=0) if used else None
    shares = {"vocabulary": _by_size(sizes, np.ones(len(sizes), dtype=np.int64))}
    note = ""
    if counts is not None and counts.sum():
        shares["as used"] = _by_size(sizes, counts)
        note = _used_note(sizes, counts)
    kinds = {"vocabulary": "c3", "as used": "c1"}
    rows: list[Row] = [
        {"bytes": _size_label(size)}
        | {name: f"{values[size - 1]:.2f}%" for name, values in shares.items()}
        for size in range(1, _MAX_TOKEN_BYTES + 1)
    ]
    yield Part(
        title="Tokens by length",
        beside="bytes",
        legend={name: kinds[name] for name in shares},
        chart=_size_chart(shares, kinds),
        rows=rows,
        texts=0,
        is_folded=True,
        note=note,
    )
    if facts.new_tokens is not None:
        new = load(NewTokens, facts.new_tokens, name=facts.out.join(NEW_TOKENS))
        yield from _saved(new, used)


def _saved(new: NewTokens, used: Mapping[str, NDArray[np.int64]]) -> Iterator[Part]:
    """Yield a table of the tokens of each source with a continued tokenizer and with its base."""
    numbers = [token.id for token in new.tokens]
    fewer = np.array([len(token.base_ids) - 1 for token in new.tokens], dtype=np.int64)
    rows: list[Row] = []
    for source, counts in used.items():
        tokens, of_new = int(counts.sum()), counts[numbers]
        saved = int(of_new @ fewer)
        rows.append(
            {
                "source": source,
                "tokens": f"{tokens:,}",
                "of them new": format_share(int(of_new.sum()), tokens),
                "with the base": f"{tokens + saved:,}",
                "saved": format_share(saved, tokens + saved),
                "new tokens used": f"{int((of_new > 0).sum()):,} of {len(numbers):,}",
            }
        )
    if rows:
        yield Part(
            title="What the new tokens save",
            beside="in the beginnings of train shards that are evenly far apart",
            rows=rows,
            texts=1,
        )


def _size_chart(shares: Mapping[str, list[float]], kinds: Mapping[str, str]) -> Chart:
    bars = {
        kinds[name]: [
            (share, f"{_size_label(size)} byte{'s'[: size != 1]}: {share:.2f}%, {name}")
            for size, share in enumerate(values, 1)
        ]
        for name, values in shares.items()
    }
    ticks = {size - 0.5: _size_label(size) for size in (1, 2, 4, 6, 8, 10, 12, 14, 16)}
    return Chart(
        title="Tokens by length in bytes",
        description="Shares of the vocabulary, and of the tokens of a sample; also as a table.",
        x=Axis(low=0, high=_MAX_TOKEN_BYTES, ticks=ticks, name="bytes of a token"),
        y=linear_axis(max(map(max, shares.values())), unit="%", name="share of tokens"),
        marks=[*bar_marks(bars, gap=0.16)],
        kind="steps",
    )


def _by_size(sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> list[float]:
    """Return the shares of tokens of 1, 2, ... bytes in percent; the last is for 16 and more."""
    is_text = sizes > 0
    weights = counts[: len(sizes)][is_text]
    lengths = np.minimum(sizes[is_text], _MAX_TOKEN_BYTES)
    counted = np.bincount(lengths, weights=weights, minlength=_MAX_TOKEN_BYTES + 1)[1:]
    shares: list[float] = (100 * counted / max(counted.sum(), 1)).tolist()
    return shares


def _size_label(size: int) -> str:
    return f"{size}+" if size == _MAX_TOKEN_BYTES else str(size)


def _used_note(sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> str:
    is_text = sizes > 0
    unused = int((counts[: len(sizes)][is_text] == 0).sum())
    return (
        f"As used: in {quantity(int(counts.sum()), 'token')} from the beginnings of train shards "
        f"that are evenly far apart. {unused:,} of {int(is_text.sum()):,} tokens of text do not "
        "occur in them."
    )


_ROW_MERGES: Final = (0, 100, 1_000, 10_000, 100_000)
_ROW_LENGTH: Final = 8
_MAX_LENGTHS: Final = 8
_MAX_BYTES: Final = 200


def example_tokens(facts: Facts) -> Iterator[Part]:
    """Yield tables of learned tokens; nothing if there are none."""
    if facts.tokenizer is None:
        return
    model = facts.tokenizer.model
    if not (isinstance(model, Model) and model.merges):
        return
    merged = model.tokens[NUM_BYTES:]
    rows: list[Row] = [
        {"from merge": first, "tokens": Tokens([*map(_text, merged[first : first + _ROW_LENGTH])])}
        for first in _ROW_MERGES
        if first < len(merged)
    ]
    yield Part(title="Learned tokens", beside="from the first merge on", rows=rows, texts=2)
    order = sorted(range(len(merged)), key=lambda item: (-len(merged[item]), item))[:_MAX_LENGTHS]
    long_tokens: list[Row] = [
        {
            "token": Tokens([_text(merged[item])]),
            "bytes": len(merged[item]),
            "id": model.token_ids[NUM_BYTES + item],
        }
        for item in order
    ]
    yield Part(title="Longest tokens", rows=long_tokens)


def _text(token: bytes) -> str:
    text = token[:_MAX_BYTES].decode(errors="backslashreplace")
    return f"{text}\u2026" if len(token) > _MAX_BYTES else text
