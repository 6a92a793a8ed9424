"""Lengths of documents in tokens, and of tokens in bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.formats.paths import is_local
from nanotok_ray.loader.shards import Shards
from nanotok_ray.report import numbers
from nanotok_ray.report.charts import Plot, Scale, Tick, rectangle, round_top
from nanotok_ray.report.facts import Facts
from nanotok_ray.report.markup import escaped, folded, heading, legend, note, table
from nanotok_ray.tokenizer import Tokenizer

MAX_SHARDS = 256
MAX_REMOTE_SHARDS = 48
"""Shards of a split that are opened: of a URL each is some requests."""

_MAX_DOCUMENTS = 20_000
"""Of a shard."""

MAX_READ = 24
MAX_REMOTE_READ = 6
_MAX_TOKENS = 20_000
"""Shards that are read for their ids, and tokens of each."""

Numbers = NDArray[np.int64]


@dataclass(slots=True)
class Lengths:
    """Tokens of documents by source, of train and val together."""

    by_source: dict[str, Numbers] = field(default_factory=dict)
    documents: int = 0
    """How many there are in all; as many as were sampled, if all were."""

    @property
    def sampled(self) -> int:
        """How many of them are in the sample."""
        return sum(map(len, self.by_source.values()))


def lengths_of(shards: Mapping[str, Shards]) -> Lengths:
    """Return the lengths of documents.

    Raises:
        CorruptOutputError: an index is not what the manifest says.
    """
    found: dict[str, list[Numbers]] = {}
    documents = 0
    for shard in shards.values():
        documents += len(shard)
        for entry in _chosen(shard):
            source, numbers = _documents(shard, entry, limit=_MAX_DOCUMENTS)
            if len(numbers):
                found.setdefault(source, []).append(shard.lengths(numbers))
    names = [name for shard in list(shards.values())[:1] for name in shard.sources if name in found]
    return Lengths({name: np.concatenate(found[name]) for name in names}, documents)


def use_of(shards: Shards, *, num_ids: int) -> Numbers:
    """Count the ids of a sample: [num_ids].

    Raises:
        CorruptOutputError: a file is not what the manifest says.
    """
    counts = np.zeros(num_ids, dtype=np.int64)
    chosen = _chosen(shards)
    limit = MAX_READ if is_local(shards.files.url) else MAX_REMOTE_READ
    for entry in chosen[:: max(-(-len(chosen) // limit), 1)]:
        _, numbers = _documents(shards, entry, limit=_MAX_DOCUMENTS)
        left = _MAX_TOKENS
        for document in numbers.tolist():
            ids = shards[document][:left]
            counts += np.bincount(ids, minlength=num_ids)[:num_ids]
            left -= len(ids)
            if left <= 0:
                break
    return counts


def _chosen(shards: Shards) -> list[int]:
    limit = MAX_SHARDS if is_local(shards.files.url) else MAX_REMOTE_SHARDS
    count = len(shards.rows)
    chosen: list[int] = np.linspace(0, count - 1, min(count, limit)).astype(int).tolist()
    return sorted(set(chosen))


def _documents(shards: Shards, position: int, *, limit: int) -> tuple[str, Numbers]:
    """Return the source of a shard, and the numbers of documents of it."""
    row = shards.index.rows[int(shards.rows[position])]
    before = shards.index.rows["documents"][shards.rows[:position]].sum(dtype=np.int64)
    count = int(row["documents"])
    step = -(-count // limit) if count else 1
    return shards.sources[int(row["source"])], np.arange(before, before + count, step)


_QUANTILES: Final = {"10%": 0.1, "median": 0.5, "90%": 0.9, "99%": 0.99}
_MEGA: Final = 20
"""Powers of two from here on are written in units of it."""

_LONGEST_TOKEN = 16
"""Bytes: tokens of more are put together."""


def document_lengths(facts: Facts) -> str:
    """Return the histogram of lengths of documents; nothing if there are none."""
    if not facts.shards:
        return ""
    found = lengths_of(facts.shards)
    if not found.sampled:
        return ""
    return heading("Documents by length", "tokens") + _document_plot(found) + _quantiles(found)


def _document_plot(found: Lengths) -> str:
    """Draw bars from one power of two to the next."""
    everything = np.concatenate([*found.by_source.values()])
    powers = np.floor(np.log2(np.maximum(everything, 1))).astype(int)
    first, last = int(powers.min()), int(powers.max())
    counts = np.bincount(powers - first, minlength=last - first + 1).tolist()
    top = round_top(max(counts) / found.sampled * 100)
    bars = len(counts)
    shapes = [
        rectangle(
            (index + 0.04) / bars,
            0,
            0.92 / bars,
            count / found.sampled * 100 / top,
            kind="c1",
            title=(
                f"{2 ** (first + index):,} to {2 ** (first + index + 1) - 1:,} tokens: "
                f"{count:,} documents, {numbers.share(count, found.sampled)}"
            ),
        )
        for index, count in enumerate(counts)
    ]
    step = -(-(bars + 1) // 9)
    return Plot(
        title="Documents by length in tokens",
        description="Bars from one power of two to the next; the table below has quantiles.",
        shapes="".join(shapes),
        x_ticks=[
            Tick(position=index / bars, label=_power(first + index))
            for index in range(0, bars + 1, step)
        ],
        y_ticks=_percents(top),
        x_name="tokens of a document (powers of two)",
        y_name="share of documents",
    ).html()


def _power(number: int) -> str:
    return f"{2**number:,}" if number < _MEGA else f"{2 ** (number - _MEGA):,} Mi"


def _percents(top: float) -> list[Tick]:
    scale = Scale(low=0, high=top)
    return [Tick(position=scale.position(v), label=f"{v:g}%") for v in scale.ticks()]


def _quantiles(found: Lengths) -> str:
    rows = [
        (
            escaped(name, 80),
            f"{len(value):,}",
            f"{value.mean():,.0f}",
            *(f"{np.quantile(value, share):,.0f}" for share in _QUANTILES.values()),
            f"{value.max():,}",
        )
        for name, value in found.by_source.items()
    ]
    heads = ("source", "documents", "mean", *_QUANTILES, "longest")
    text = "All documents of train and val."
    if found.sampled < found.documents:
        text = (
            f"A sample: {found.sampled:,} of {found.documents:,} documents, from shards that are "
            "evenly far apart."
        )
    return table(heads, rows) + note(text)


def token_lengths(tokenizer: Tokenizer, facts: Facts) -> str:
    """Return the histogram of lengths of tokens: of the vocabulary, and as they are used."""
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
    """Return the bytes of each id, 0 for special tokens: [n]."""
    return np.asarray(tokenizer.token_bytes(), dtype=np.int64)


def _by_size(sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> list[float]:
    """Return the share of tokens of 1, 2 ... bytes in percent, the last of 16 and more."""
    is_text = sizes > 0
    weights = counts[: len(sizes)][is_text]
    lengths = np.minimum(sizes[is_text], _LONGEST_TOKEN)
    found = np.bincount(lengths, weights=weights, minlength=_LONGEST_TOKEN + 1)[1:]
    shares: list[float] = (100 * found / max(found.sum(), 1)).tolist()
    return shares


def _token_plot(columns: Sequence[tuple[str, str, list[float]]]) -> str:
    top = round_top(max(max(shares) for _, _, shares in columns))
    width = 0.84 / len(columns)
    shapes = [
        rectangle(
            (index + 0.08 + number * width) / _LONGEST_TOKEN,
            0,
            width / _LONGEST_TOKEN,
            share / top,
            kind=kind,
            title=f"{_size_name(index + 1)}: {share:.2f}%, {name}",
        )
        for number, (kind, name, shares) in enumerate(columns)
        for index, share in enumerate(shares)
    ]
    return Plot(
        title="Tokens by length in bytes",
        description="Shares of the vocabulary, and of the tokens of a sample; also as a table.",
        shapes="".join(shapes),
        x_ticks=[
            Tick(position=(size - 0.5) / _LONGEST_TOKEN, label=_size_label(size))
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
        (_size_label(index + 1), *(f"{shares[index]:.2f}%" for _, _, shares in columns))
        for index in range(_LONGEST_TOKEN)
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
