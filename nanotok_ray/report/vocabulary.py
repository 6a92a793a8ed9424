"""How the vocabulary grew: bytes per token by number of merges, and how often each merge occurred.

Input is the training report of a tokenizer. Output is charts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nanotok_ray.report import numbers
from nanotok_ray.report.charts import Label, Plot, Scale, Tick, curve, dot, round_top
from nanotok_ray.report.markup import code, escaped, folded, heading, note, pairs, table
from nanotok_ray.tokenizer.report import why_stopped

_POINTS = 240
"""Of a curve at most."""


def vocabulary(report: Mapping[str, Any]) -> str:
    """Return the charts of a tokenizer that was learned."""
    return _learned(report) + _growth(report) + _counts(report)


def _learned(report: Mapping[str, Any]) -> str:
    merges = len(report["merges"]["count"])
    text = {
        "merges": f"{merges:,}",
        "ended": why_stopped(report),
        "learned from": f"{report['texts']:,} texts, {numbers.num_bytes(report['text_bytes'])}",
        "distinct spans": f"{report['distinct_spans']:,}",
        "pattern": code(report["pattern"], 2000),
    }
    if report["differs_from_rustbpe"]:
        text["not as rustbpe, because of"] = ", ".join(report["differs_from_rustbpe"])
    return pairs(text)


def _growth(report: Mapping[str, Any]) -> str:
    applied = [int(item) for item in report["merges"]["applied"]]
    start = int(report["span_bytes"])
    if not applied or not start:
        return ""
    left = start - np.concatenate([[0], np.cumsum(np.array(applied, dtype=np.float64))])
    merges = spread(len(applied), _POINTS)
    x = Scale(low=1, high=max(len(applied), 2), is_log=True)
    per_token = {position: start / left[position] for position in merges}
    y = Scale(low=1.0, high=max(round_top(max(per_token.values()) * 1.08), 1.5))
    rows = [row for row in report["curve"] if row["merges"] and row["tokens"]]
    named = rows[-4:]
    plot = Plot(
        title="Bytes per token by number of merges",
        description=(
            f"The text the tokenizer was learned from has {per_token[merges[-1]]:.3f} bytes per "
            f"token after {len(applied):,} merges; the table below has more points."
        ),
        shapes=curve(((x.position(p), y.position(v)) for p, v in per_token.items()), kind="curve")
        + "".join(
            dot(
                x.position(row["merges"]),
                y.position(row["bytes_per_token"]),
                title=f"{row['merges']:,} merges: {row['bytes_per_token']:.3f} bytes per token, "
                f"{row['tokens']:,} tokens",
            )
            for row in rows
        ),
        x_ticks=_ticks(x),
        y_ticks=[Tick(position=y.position(v), label=f"{v:g}") for v in y.ticks()],
        labels=[
            Label(
                x=x.position(row["merges"]),
                y=y.position(row["bytes_per_token"]),
                text=f"{row['bytes_per_token']:.2f}",
                is_before=True,
            )
            for row in named
        ],
        x_name="merges (logarithmic)",
        y_name="bytes per token",
    )
    text = "Of the text that was counted, each source by its weight."
    return (
        heading("Growth of the vocabulary", text)
        + plot.html()
        + folded("The same in numbers", _curve_table(report))
    )


def _curve_table(report: Mapping[str, Any]) -> str:
    heads = ("merges", "vocabulary", "tokens", "bytes per token", "fewer tokens than before")
    lines = [
        (
            f"{row['merges']:,}",
            f"{row['vocab_size']:,}",
            f"{row['tokens']:,}",
            "\u2013" if row["bytes_per_token"] is None else f"{row['bytes_per_token']:.3f}",
            "\u2013" if row["tokens_saved_share"] is None else f"{row['tokens_saved_share']:.1%}",
        )
        for row in report["curve"]
    ]
    return table(heads, lines, texts=0)


def _counts(report: Mapping[str, Any]) -> str:
    counts = [int(item) for item in report["merges"]["count"]]
    tokens = report["merges"]["token"]
    if not counts or max(counts) < 1:
        return ""
    x = Scale(low=1, high=max(len(counts), 2), is_log=True)
    y = Scale(low=1, high=10 * max(counts), is_log=True)
    merges = spread(len(counts), _POINTS)
    points = [(x.position(merge), y.position(max(counts[merge - 1], 1))) for merge in merges]
    marked = [merge for merge in (1, 10, 100, 1000, 10_000, 100_000) if merge <= len(counts)]
    plot = Plot(
        title="How often a pair occurred when it was merged, by the number of the merge",
        description=(
            f"From {counts[0]:,} for the first merge to {counts[-1]:,} for the last, number "
            f"{len(counts):,}; both axes are logarithmic."
        ),
        shapes=curve(points, kind="curve two")
        + "".join(
            dot(
                x.position(merge),
                y.position(max(counts[merge - 1], 1)),
                title=f"merge {merge:,}: {tokens[merge - 1]!r}, {counts[merge - 1]:,} times",
                kind="dot two",
            )
            for merge in marked
        ),
        x_ticks=_ticks(x),
        y_ticks=[Tick(position=y.position(v), label=numbers.tick(v)) for v in y.ticks()],
        labels=[
            Label(
                x=x.position(position),
                y=y.position(max(counts[position - 1], 1)),
                text=escaped(_seen(tokens[position - 1]), 24),
            )
            for position in marked
        ],
        x_name="number of the merge (logarithmic)",
        y_name="times (logarithmic)",
    )
    rows = [(f"{p:,}", escaped(_seen(tokens[p - 1]), 60), f"{counts[p - 1]:,}") for p in marked]
    return (
        heading("How often each merge occurred", "with the token that it made")
        + plot.html()
        + folded("The same in numbers", table(("merge", "token", "times"), rows, texts=2))
        + (
            note(f"The last merge, number {len(counts):,}, occurred {counts[-1]:,} times.")
            if counts[-1]
            else ""
        )
    )


def _seen(token: str) -> str:
    return token.replace(" ", "\u00b7").replace("\n", "\u21b5").replace("\t", "\u2192")


def _ticks(scale: Scale) -> list[Tick]:
    return [Tick(position=scale.position(v), label=numbers.tick(v)) for v in scale.ticks()]


def spread(last: int, limit: int) -> Sequence[int]:
    """Return whole numbers from 1 to `last`, evenly far apart on a logarithmic scale.

    >>> spread(4, 10), spread(1000, 4)
    ([1, 2, 3, 4], [1, 10, 100, 1000])
    """
    if last <= limit:
        return list(range(1, last + 1))
    found: list[int] = np.unique(np.rint(np.geomspace(1, last, limit)).astype(np.int64)).tolist()
    return found
