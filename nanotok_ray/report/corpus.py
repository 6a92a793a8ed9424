"""The corpus: totals by source, lengths of documents, loss masks, and examples of documents."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import local
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.formats import Totals, is_local
from nanotok_ray.loader.remote import RemoteFiles
from nanotok_ray.loader.shards import Shards
from nanotok_ray.report.charts import Axis, Chart, bar_marks, linear_axis
from nanotok_ray.report.facts import Facts, read_all
from nanotok_ray.report.render import Bar, Code, Part, Row, Segment
from nanotok_ray.units import format_bytes, format_ratio, format_share, quantity

_SPLITS: Final = {"train": "c1", "val": "c8"}


def sources(facts: Facts) -> Iterator[Part]:
    """Yield the table by source and split; nothing without a manifest."""
    if facts.manifest is None:
        return
    by_source = facts.sources
    totals_of_all = facts.manifest.totals["all"]
    highest = max((_per_token(totals) for totals in by_source.values()), default=0.0)
    rows: list[Row] = []
    for name, totals in [*by_source.items(), ("all", totals_of_all)]:
        source, _, split = name.rpartition("/")
        is_sum = name == "all"
        if is_sum and len(by_source) == 1:
            continue
        ratio = _per_token(totals)
        segment = Segment(
            kind="c6" if is_sum else _SPLITS[split],
            value=ratio,
            title=f"{ratio:.3f} bytes per token",
        )
        rows.append(
            {
                "source": name,
                "bytes per token": Bar([segment], highest),
                "": format_ratio(totals.text_bytes, totals.tokens),
                "documents": totals.documents.out,
                "text": format_bytes(totals.text_bytes),
                "tokens": totals.tokens,
                "share of tokens": format_share(totals.tokens, totals_of_all.tokens),
                "kind": "" if is_sum else facts.manifest.kinds[source],
            }
        )
    yield Part(
        title="Bytes per token, by source and split",
        legend={
            split: kind
            for split, kind in _SPLITS.items()
            if any(name.endswith(f"/{split}") for name in by_source)
        },
        rows=rows,
        texts=2,
    )


_MAX_KEYS: Final = 60


def unused_text(facts: Facts) -> Iterator[Part]:
    """Yield the table of text that is not rendered, by source and key; nothing if there is none."""
    rows: list[Row] = [
        {"source": name, "key": Code(key), "values": number}
        for name, totals in facts.sources.items()
        for key, number in totals.unused_text.items()
    ]
    yield from _first_rows(
        "Text that is not rendered, by key",
        rows,
        note="Values of keys that no dialect uses, in written documents",
    )


def dropped(facts: Facts) -> Iterator[Part]:
    """Yield the table of dropped rows, by source and reason; nothing if there is none."""
    rows: list[Row] = [
        {
            "source": name,
            "reason": why,
            "rows": number,
            "share": format_share(number, number + totals.documents.in_),
        }
        for name, totals in facts.sources.items()
        for why, number in totals.dropped.items()
    ]
    yield from _first_rows(
        "Dropped rows, by source and reason",
        rows,
        note="Rows that functions of sources left out, and duplicates, with their share of these "
        "and the documents that were read",
    )


def _first_rows(title: str, rows: list[Row], *, note: str) -> Iterator[Part]:
    """Yield a table of the first rows; nothing without a row."""
    if rows:
        more = f"; the first {_MAX_KEYS} of {len(rows):,}" if len(rows) > _MAX_KEYS else ""
        yield Part(title=title, rows=rows[:_MAX_KEYS], texts=2, note=f"{note}{more}.")


def rearranged(facts: Facts) -> Iterator[Part]:
    """Yield the table of documents that were rearranged for filling in the middle, if any."""
    rows: list[Row] = [
        {
            "source": name,
            "form": form,
            "documents": number,
            "share": format_share(number, totals.documents.out),
        }
        for name, totals in facts.sources.items()
        for form, number in totals.fim.items()
    ]
    if rows:
        yield Part(
            title="Documents rearranged to fill in the middle, by source and form",
            rows=rows,
            texts=2,
            note="psm: prefix, suffix, middle; spm: suffix, prefix, middle. The share is of the "
            "written documents.",
        )


def _per_token(totals: Totals) -> float:
    return totals.text_bytes / totals.tokens if totals.tokens else 0.0


MAX_SHARDS = 256
MAX_REMOTE_SHARDS = 48
"""Limit of opened shards of a split; each shard of a URL needs several requests."""

_MAX_DOCUMENTS = 20_000
"""Limit of documents of a shard."""

MAX_READ = 24
MAX_REMOTE_READ = 6
_MAX_TOKENS = 20_000
"""Limits of shards whose ids are read, and of tokens of each."""

_Numbers = NDArray[np.int64]


@dataclass(slots=True)
class Lengths:
    """Numbers of tokens of documents by source, train and val together."""

    by_source: dict[str, _Numbers] = field(default_factory=dict)
    documents: int = 0
    """Number of all documents; equal to the sample if all were sampled."""

    @property
    def sampled(self) -> int:
        """Number of documents in the sample."""
        return sum(map(len, self.by_source.values()))


def lengths_of(shards: Mapping[str, Shards]) -> Lengths:
    """Return the lengths of documents.

    Raises:
        CorruptOutputError: An index contradicts the manifest.
    """
    by_source: dict[str, list[_Numbers]] = {}
    documents = 0
    for shard in shards.values():
        documents += len(shard)
        for source, lengths in _read_entries(shard, _chosen(shard), _lengths_in):
            if len(lengths):
                by_source.setdefault(source, []).append(lengths)
    known = [name for shard in list(shards.values())[:1] for name in shard.sources]
    names = [name for name in known if name in by_source]
    return Lengths({name: np.concatenate(by_source[name]) for name in names}, documents)


def use_of(shards: Shards, *, num_ids: int) -> dict[str, _Numbers]:
    """Return the counts of the ids of a sample of each source, of shape (num_ids,).

    Raises:
        CorruptOutputError: A file contradicts the manifest.
    """
    chosen = _chosen(shards)
    limit = MAX_READ if is_local(shards.files.url) else MAX_REMOTE_READ
    entries = chosen[:: max(-(-len(chosen) // limit), 1)]
    counts: dict[str, _Numbers] = {}
    for source, use in _read_entries(shards, entries, partial(_use_in, num_ids=num_ids)):
        counts[source] = counts.get(source, 0) + use
    return counts


def _lengths_in(shards: Shards, entry: int) -> tuple[str, _Numbers]:
    """Return the source of a shard, and the lengths of its documents, or of a sample of them."""
    source, numbers = _documents(shards, entry, limit=_MAX_DOCUMENTS)
    return source, shards.lengths(numbers)


def _use_in(shards: Shards, entry: int, *, num_ids: int) -> tuple[str, _Numbers]:
    """Return the source of a shard, and the counts of its first ids."""
    source, numbers = _documents(shards, entry, limit=_MAX_DOCUMENTS)
    counts = np.zeros(num_ids, dtype=np.int64)
    left = _MAX_TOKENS
    for document in numbers.tolist():
        ids = shards[document][:left]
        counts += np.bincount(ids, minlength=num_ids)[:num_ids]
        left -= len(ids)
        if left <= 0:
            break
    return source, counts


_Read = TypeVar("_Read")


def _read_entries(
    shards: Shards, entries: Iterable[int], read: Callable[[Shards, int], _Read]
) -> list[_Read]:
    """Return what `read` returns for some shards; those at a URL are read by several threads."""
    files = shards.files
    if not isinstance(files, RemoteFiles):
        return [read(shards, entry) for entry in entries]
    of_thread = local()  # remote files make one request at a time

    def read_in_thread(entry: int) -> _Read:
        if not hasattr(of_thread, "shards"):
            of_thread.shards = replace(shards, files=files.copy())
        return read(of_thread.shards, entry)

    return read_all(files.url, entries, read_in_thread)


def _chosen(shards: Shards) -> list[int]:
    limit = MAX_SHARDS if is_local(shards.files.url) else MAX_REMOTE_SHARDS
    count = len(shards.rows)
    chosen: list[int] = np.linspace(0, count - 1, min(count, limit)).astype(int).tolist()
    return sorted(set(chosen))


def _documents(shards: Shards, position: int, *, limit: int) -> tuple[str, _Numbers]:
    """Return the source of a shard, and the indexes of some of its documents."""
    row = shards.index.rows[int(shards.rows[position])]
    before = shards.index.rows["documents"][shards.rows[:position]].sum(dtype=np.int64)
    count = int(row["documents"])
    step = -(-count // limit) if count else 1
    return shards.sources[int(row["source"])], np.arange(before, before + count, step)


_QUANTILES: Final = {"10%": 0.1, "median": 0.5, "90%": 0.9, "99%": 0.99}
_UNITS: Final = {20: " Mi", 10: " Ki", 0: ""}
"""Names of powers of two by exponent; labels of an axis must be short on a phone."""


def document_lengths(facts: Facts) -> Iterator[Part]:
    """Yield the histogram of lengths of documents; nothing if there are none."""
    lengths = lengths_of(facts.shards)
    if not lengths.sampled:
        return
    note = "All documents of train and val."
    if lengths.sampled < lengths.documents:
        note = (
            f"A sample: {lengths.sampled:,} of {lengths.documents:,} documents, from shards that "
            "are evenly far apart."
        )
    yield Part(
        title="Documents by length",
        beside="tokens",
        chart=_length_chart(lengths),
        rows=_quantiles(lengths),
        note=note,
    )


def _length_chart(sample: Lengths) -> Chart:
    """Return bars from one power of two to the next."""
    lengths = np.concatenate([*sample.by_source.values()])
    powers = np.floor(np.log2(np.maximum(lengths, 1))).astype(int)
    first, last = int(powers.min()), int(powers.max())
    counts: list[int] = np.bincount(powers - first, minlength=last - first + 1).tolist()
    bars = []
    for power, count in enumerate(counts, first):
        documents = f"{quantity(count, 'document')}, {format_share(count, sample.sampled)}"
        title = f"{2**power:,} to {2 ** (power + 1) - 1:,} tokens: {documents}"
        bars.append((count / sample.sampled * 100, title))
    ticks = range(0, len(counts) + 1, -(-(len(counts) + 1) // 9))
    return Chart(
        title="Documents by length in tokens",
        description="Bars from one power of two to the next; the table below has quantiles.",
        x=Axis(
            low=0,
            high=len(counts),
            ticks={index: _power(first + index) for index in ticks},
            name="tokens of a document (powers of two)",
        ),
        y=linear_axis(max(share for share, _ in bars), unit="%", name="share of documents"),
        marks=[*bar_marks({"c1": bars}, gap=0.08)],
    )


def _power(number: int) -> str:
    """Return a power of two as the label of an axis tick.

    >>> _power(6), _power(14), _power(20)
    ('64', '16 Ki', '1 Mi')
    """
    limit, unit = next(item for item in _UNITS.items() if number >= item[0])
    return f"{2 ** (number - limit):,}{unit}"


def _quantiles(lengths: Lengths) -> list[Row]:
    return [
        {
            "source": name,
            "documents": len(value),
            "mean": f"{value.mean():,.0f}",
            **{key: f"{np.quantile(value, share):,.0f}" for key, share in _QUANTILES.items()},
            "longest": int(value.max()),
        }
        for name, value in lengths.by_source.items()
    ]
