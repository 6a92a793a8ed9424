"""Histograms: how long documents are in tokens, and tokens in bytes.

Takes the facts; gives charts.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.report_page import numbers
from nanotok_ray.report_page.facts import Facts
from nanotok_ray.report_page.lengths import Lengths, lengths_of, use_of
from nanotok_ray.report_page.markup import folded, heading, legend, note, shown, table
from nanotok_ray.report_page.plot import Plot, Tick, rectangle
from nanotok_ray.report_page.scale import Scale, round_top
from nanotok_ray.tokenizer import Tokenizer

_QUANTILES: Final = {"10%": 0.1, "median": 0.5, "90%": 0.9, "99%": 0.99}
_MEGA: Final = 20
"""Powers of two from here on are written in units of it."""

_LONGEST_TOKEN = 16
"""Bytes: tokens of more are put together."""


def document_lengths(facts: Facts) -> str:
    """Give the histogram of lengths of documents; nothing if there are none."""
    if not facts.shards:
        return ""
    found = lengths_of(facts.shards)
    if not found.looked_at:
        return ""
    return heading("Documents by length", "tokens") + _document_plot(found) + _quantiles(found)


def _document_plot(found: Lengths) -> str:
    """Draw bars from one power of two to the next."""
    everything = np.concatenate([*found.by_source.values()])
    powers = np.floor(np.log2(np.maximum(everything, 1))).astype(int)
    first, last = int(powers.min()), int(powers.max())
    counts = np.bincount(powers - first, minlength=last - first + 1).tolist()
    top = round_top(max(counts) / found.looked_at * 100)
    bars = len(counts)
    shapes = [
        rectangle(
            (place + 0.04) / bars,
            0,
            0.92 / bars,
            count / found.looked_at * 100 / top,
            kind="c1",
            title=(
                f"{2 ** (first + place):,} to {2 ** (first + place + 1) - 1:,} tokens: "
                f"{count:,} documents, {numbers.share(count, found.looked_at)}"
            ),
        )
        for place, count in enumerate(counts)
    ]
    step = -(-(bars + 1) // 9)
    return Plot(
        title="Documents by length in tokens",
        description="Bars from one power of two to the next; the table below has quantiles.",
        shapes="".join(shapes),
        x_ticks=[
            Tick(place=place / bars, label=_power(first + place))
            for place in range(0, bars + 1, step)
        ],
        y_ticks=_percents(top),
        x_name="tokens of a document (powers of two)",
        y_name="share of documents",
    ).html()


def _power(number: int) -> str:
    return f"{2**number:,}" if number < _MEGA else f"{2 ** (number - _MEGA):,} Mi"


def _percents(top: float) -> list[Tick]:
    scale = Scale(low=0, high=top)
    return [Tick(place=scale.place(v), label=f"{v:g}%") for v in scale.ticks()]


def _quantiles(found: Lengths) -> str:
    rows = [
        (
            shown(name, 80),
            f"{len(own):,}",
            f"{own.mean():,.0f}",
            *(f"{np.quantile(own, share):,.0f}" for share in _QUANTILES.values()),
            f"{own.max():,}",
        )
        for name, own in found.by_source.items()
    ]
    heads = ("source", "documents", "mean", *_QUANTILES, "longest")
    told = "All documents of train and val."
    if found.looked_at < found.documents:
        told = (
            f"A sample: {found.looked_at:,} of {found.documents:,} documents, from shards that are "
            "evenly far apart."
        )
    return table(heads, rows) + note(told)


def token_lengths(tokenizer: Tokenizer, facts: Facts) -> str:
    """Give the histogram of lengths of tokens: of the vocabulary, and as they are used."""
    sizes = token_sizes(tokenizer)
    listed = _by_size(sizes, np.ones(len(sizes), dtype=np.int64))
    train = facts.shards.get("train")
    counts = None if train is None else use_of(train, num_ids=tokenizer.get_vocab_size())
    used = None if counts is None or not counts.sum() else _by_size(sizes, counts)
    columns = [("c3", "vocabulary", listed), *([] if used is None else [("c1", "as used", used)])]
    sample = 0 if counts is None else int(counts.sum())
    return (
        heading("Tokens by length", "bytes")
        + legend({name: kind for kind, name, _ in columns})
        + _token_plot(columns)
        + folded("The same in numbers", _token_table(columns))
        + _used_note(sample, sizes, counts)
    )


def token_sizes(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Give the bytes of each id, 0 for special tokens: [n]."""
    return np.asarray(tokenizer.token_bytes(), dtype=np.int64)


def _by_size(sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> list[float]:
    """Give the share of tokens of 1, 2 ... bytes in percent, the last of 16 and more."""
    is_text = sizes > 0
    weights = counts[: len(sizes)][is_text]
    places = np.minimum(sizes[is_text], _LONGEST_TOKEN)
    found = np.bincount(places, weights=weights, minlength=_LONGEST_TOKEN + 1)[1:]
    shares: list[float] = (100 * found / max(found.sum(), 1)).tolist()
    return shares


def _token_plot(columns: Sequence[tuple[str, str, list[float]]]) -> str:
    top = round_top(max(max(shares) for _, _, shares in columns))
    width = 0.84 / len(columns)
    shapes = [
        rectangle(
            (place + 0.08 + number * width) / _LONGEST_TOKEN,
            0,
            width / _LONGEST_TOKEN,
            share / top,
            kind=kind,
            title=f"{_size_name(place + 1)}: {share:.2f}%, {name}",
        )
        for number, (kind, name, shares) in enumerate(columns)
        for place, share in enumerate(shares)
    ]
    return Plot(
        title="Tokens by length in bytes",
        description="Shares of the vocabulary, and of the tokens of a sample; also as a table.",
        shapes="".join(shapes),
        x_ticks=[
            Tick(place=(size - 0.5) / _LONGEST_TOKEN, label=_size_label(size))
            for size in (1, 2, 4, 6, 8, 10, 12, 14, 16)
        ],
        y_ticks=_percents(top),
        x_name="bytes of a token",
        y_name="share of tokens",
        kind="steps",
    ).html()


def _size_label(size: int) -> str:
    return f"{size}+" if size == _LONGEST_TOKEN else str(size)


def _size_name(size: int) -> str:
    return f"{_size_label(size)} byte{'s'[: size != 1]}"


def _token_table(columns: Sequence[tuple[str, str, list[float]]]) -> str:
    rows = [
        (_size_label(place + 1), *(f"{shares[place]:.2f}%" for _, _, shares in columns))
        for place in range(_LONGEST_TOKEN)
    ]
    return table(("bytes", *(name for _, name, _ in columns)), rows, texts=0)


def _used_note(sample: int, sizes: NDArray[np.int64], counts: NDArray[np.int64] | None) -> str:
    if counts is None or not sample:
        return ""
    is_text = sizes > 0
    unused = int((counts[: len(sizes)][is_text] == 0).sum())
    return note(
        f"As used: in {sample:,} tokens from the beginnings of train shards that are evenly far "
        f"apart. {unused:,} of {int(is_text.sum()):,} tokens of text do not occur in them."
    )
