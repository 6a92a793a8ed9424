"""The corpus: totals by source, lengths of documents, loss masks, and examples of documents."""

from collections import Counter
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
from nanotok_ray.report.charts import Bars, Chart, ChartText, Tick, histogram
from nanotok_ray.report.document import (
    LEGEND,
    TEXT,
    TRAINED,
    UNTRAINED,
    Document,
    Image,
    Spelling,
    first_items,
    items_of,
    turns_of,
)
from nanotok_ray.report.facts import Facts, read_each
from nanotok_ray.report.render import Bar, Cell, Code, Part, Segment, Table, cut
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.units import format_bytes, format_ratio, format_share, quantity

_SPLITS: Final = {"train": "c1", "val": "c8"}


def sources(facts: Facts) -> Iterator[Part]:
    """Yield the table by source and split; nothing without a manifest."""
    if facts.manifest is None:
        return
    by_source = facts.sources
    totals_of_all = facts.manifest.totals["all"]
    highest = max((_per_token(totals) for totals in by_source.values()), default=0.0)
    rows: list[tuple[Cell, ...]] = []
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
            (
                cut(name, 80),
                Bar([segment], highest),
                format_ratio(totals.text_bytes, totals.tokens),
                f"{totals.documents.out:,}",
                format_bytes(totals.text_bytes),
                f"{totals.tokens:,}",
                format_share(totals.tokens, totals_of_all.tokens),
                "" if is_sum else cut(facts.manifest.kinds[source], 40),
            )
        )
    heads = (
        *("source", "bytes per token", "", "documents"),
        *("text", "tokens", "share of tokens", "kind"),
    )
    yield Part(
        title="Bytes per token, by source and split",
        legend={
            split: kind
            for split, kind in _SPLITS.items()
            if any(name.endswith(f"/{split}") for name in by_source)
        },
        table=Table(heads=heads, rows=rows, texts=2),
    )


_MAX_KEYS: Final = 60


def unused_text(facts: Facts) -> Iterator[Part]:
    """Yield the table of text that is not rendered, by source and key; nothing if there is none."""
    rows = [
        (cut(name, 80), Code(cut(key, 80)), f"{number:,}")
        for name, totals in facts.sources.items()
        for key, number in totals.unused_text.items()
    ]
    if rows:
        more = f"; the first {_MAX_KEYS} of {len(rows):,}" if len(rows) > _MAX_KEYS else ""
        yield Part(
            title="Text that is not rendered, by key",
            table=Table(heads=("source", "key", "values"), rows=rows[:_MAX_KEYS], texts=2),
            note=f"Values of keys that no dialect uses, in written documents{more}.",
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
    found: dict[str, list[_Numbers]] = {}
    documents = 0
    for shard in shards.values():
        documents += len(shard)
        for source, lengths in _read_entries(shard, _chosen(shard), _lengths_in):
            if len(lengths):
                found.setdefault(source, []).append(lengths)
    names = [name for shard in list(shards.values())[:1] for name in shard.sources if name in found]
    return Lengths({name: np.concatenate(found[name]) for name in names}, documents)


def use_of(shards: Shards, *, num_ids: int) -> _Numbers:
    """Return the counts of the ids of a sample, of shape (num_ids,).

    Raises:
        CorruptOutputError: A file contradicts the manifest.
    """
    chosen = _chosen(shards)
    limit = MAX_READ if is_local(shards.files.url) else MAX_REMOTE_READ
    entries = chosen[:: max(-(-len(chosen) // limit), 1)]
    counts = np.zeros(num_ids, dtype=np.int64)
    for own in _read_entries(shards, entries, partial(_use_in, num_ids=num_ids)):
        counts += own
    return counts


def _lengths_in(shards: Shards, entry: int) -> tuple[str, _Numbers]:
    """Return the source of a shard, and the lengths of its documents, or of a sample of them."""
    source, numbers = _documents(shards, entry, limit=_MAX_DOCUMENTS)
    return source, shards.lengths(numbers)


def _use_in(shards: Shards, entry: int, *, num_ids: int) -> _Numbers:
    """Return the counts of the first ids of a shard."""
    _, numbers = _documents(shards, entry, limit=_MAX_DOCUMENTS)
    counts = np.zeros(num_ids, dtype=np.int64)
    left = _MAX_TOKENS
    for document in numbers.tolist():
        ids = shards[document][:left]
        counts += np.bincount(ids, minlength=num_ids)[:num_ids]
        left -= len(ids)
        if left <= 0:
            break
    return counts


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

    return read_each(files.url, entries, read_in_thread)


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
_MEGA: Final = 20
"""Powers of two from this exponent on are written in units of it."""


def document_lengths(facts: Facts) -> Iterator[Part]:
    """Yield the histogram of lengths of documents; nothing if there are none."""
    found = lengths_of(facts.shards)
    if not found.sampled:
        return
    note = "All documents of train and val."
    if found.sampled < found.documents:
        note = (
            f"A sample: {found.sampled:,} of {found.documents:,} documents, from shards that are "
            "evenly far apart."
        )
    yield Part(
        title="Documents by length",
        beside="tokens",
        chart=_length_chart(found),
        table=_quantiles(found),
        note=note,
    )


def _length_chart(found: Lengths) -> Chart:
    """Return bars from one power of two to the next."""
    lengths = np.concatenate([*found.by_source.values()])
    powers = np.floor(np.log2(np.maximum(lengths, 1))).astype(int)
    first, last = int(powers.min()), int(powers.max())
    counts: list[int] = np.bincount(powers - first, minlength=last - first + 1).tolist()
    bars = Bars(
        kind="c1",
        values=[count / found.sampled * 100 for count in counts],
        titles=[
            f"{2**power:,} to {2 ** (power + 1) - 1:,} tokens: {quantity(count, 'document')}, "
            f"{format_share(count, found.sampled)}"
            for power, count in enumerate(counts, first)
        ],
    )
    step = -(-(len(counts) + 1) // 9)
    text = ChartText(
        title="Documents by length in tokens",
        description="Bars from one power of two to the next; the table below has quantiles.",
        x_name="tokens of a document (powers of two)",
        y_name="share of documents",
    )
    return histogram(
        text,
        [bars],
        [
            Tick(position=index / len(counts), label=_power(first + index))
            for index in range(0, len(counts) + 1, step)
        ],
        gap=0.08,
    )


def _power(number: int) -> str:
    return f"{2**number:,}" if number < _MEGA else f"{2 ** (number - _MEGA):,} Mi"


def _quantiles(found: Lengths) -> Table:
    rows = [
        (
            cut(name, 80),
            f"{len(value):,}",
            f"{value.mean():,.0f}",
            *(f"{np.quantile(value, share):,.0f}" for share in _QUANTILES.values()),
            f"{value.max():,}",
        )
        for name, value in found.by_source.items()
    ]
    return Table(heads=("source", "documents", "mean", *_QUANTILES, "longest"), rows=rows)


_SAMPLE: Final = 200
_SAMPLE_TOKENS: Final = 40_000
"""Limits of documents and tokens of a source in the sample."""

_ROLES: Final = {
    "assistant": "c2",
    "python": "c7",
    "user": "c1",
    "python_output": "c3",
    "image": "c4",
    "bos": "c6",
}
"""The class of the color of each role."""

_MASK_LEGEND: Final = {"trained on": "yes", "not trained on": "no"}


def masks(facts: Facts) -> Iterator[Part]:
    """Yield the shares of tokens that are trained on; nothing if no source has a mask."""
    masked = {name: value for name, value in facts.sources.items() if value.roles}
    if not masked:
        return
    heads = ("source", "", "trained on", "tokens trained on", "tokens", "documents without any")
    rows = [
        (
            cut(name, 80),
            _mask_bar(value.trainable_tokens, value.tokens),
            format_share(value.trainable_tokens, value.tokens),
            f"{value.trainable_tokens:,}",
            f"{value.tokens:,}",
            f"{value.without_trainable_token:,}",
        )
        for name, value in masked.items()
    ]
    yield Part(
        title="Trained on, by source",
        legend=_MASK_LEGEND,
        table=Table(heads=heads, rows=rows, texts=2),
    )
    yield _by_role(masked)
    yield from _trained_by_role(facts)


def _mask_bar(trained: int, tokens: int) -> Bar:
    rest = tokens - trained
    return Bar(
        [
            Segment(kind="yes", value=trained, title=f"{quantity(trained, 'token')} trained on"),
            Segment(kind="no", value=rest, title=f"{rest:,} not trained on"),
        ],
        tokens,
    )


def _by_role(masked: Mapping[str, Totals]) -> Part:
    roles = [role for role in _ROLES if any(value.roles.get(role) for value in masked.values())]
    rows: list[tuple[Cell, ...]] = []
    for name, value in masked.items():
        total = sum(value.roles.values())
        counts = {role: value.roles.get(role, 0) for role in roles}
        segments = [
            Segment(
                kind=_ROLES[role],
                value=count,
                title=f"{_named(role)}: {quantity(count, 'token')}",
            )
            for role, count in counts.items()
        ]
        shares = [format_share(count, total) for count in counts.values()]
        rows.append((cut(name, 80), Bar(segments, total), *shares))
    return Part(
        title="Tokens by role",
        legend={_named(role): _ROLES[role] for role in roles},
        table=Table(heads=("source", "", *map(_named, roles)), rows=rows, texts=2),
    )


def _named(role: str) -> str:
    return role.replace("_", " ")


def _trained_by_role(facts: Facts) -> Iterator[Part]:
    train, tokenizer = facts.shards.get("train"), facts.tokenizer
    if train is None or tokenizer is None:
        return
    rows, documents = [], 0
    for source, value in train.ranges().items():
        if train.mask(value[0]) is None:
            continue
        sampled, counts = _sampled(train, value, tokenizer)
        documents += sampled
        for role in sorted({role for role, _ in counts}, key=_role_order):
            trained, tokens = counts[role, 1], counts[role, 0] + counts[role, 1]
            rows.append(
                (
                    cut(source, 80),
                    cut(role, 40),
                    _mask_bar(trained, tokens),
                    format_share(trained, tokens),
                    f"{tokens:,}",
                )
            )
    if rows:
        heads = ("source", "role", "", "trained on", "tokens")
        yield Part(
            title="Trained on, by role",
            table=Table(heads=heads, rows=rows, texts=3),
            note=f"In a sample: {quantity(documents, 'document')} of train, the first of each "
            "source.",
        )


def _role_order(role: str) -> tuple[int, str]:
    known = [*map(_named, _ROLES)]
    return (known.index(role) if role in known else len(known)), role


def _sampled(
    shards: Shards, values: range, tokenizer: Tokenizer
) -> tuple[int, Counter[tuple[str, int]]]:
    """Count tokens of the first documents of a source by role and mask."""
    spelling = spelling_of(tokenizer)
    counts: Counter[tuple[str, int]] = Counter()
    sampled = 0
    for number in values[:_SAMPLE]:
        for turn in turns_of(items_of(_document(shards, number), spelling)):
            for block in turn.blocks:
                for item in block.items:
                    if isinstance(item, Image):
                        counts["image", 0] += item.count
                    else:
                        role = block.role or (item.text if item.is_special else "text")
                        counts[role, item.mask or 0] += 1
        sampled += 1
        if counts.total() >= _SAMPLE_TOKENS:
            break
    return sampled, counts


def spelling_of(tokenizer: Tokenizer) -> Spelling:
    """Return the spelling of the ids of a tokenizer."""
    return Spelling(
        bytes_of=tokenizer.decode_single_token_bytes, special_tokens=tokenizer.special_tokens
    )


def _document(shards: Shards, number: int) -> Document:
    shard, position = shards.shard_of(number)
    return Document(
        title=f"document {number}",
        location=f"document {position:,} of {shard}",
        ids=shards[number],
        mask=shards.mask(number),
        images=shards.images(number),
    )


NUM_EXAMPLES: Final = 300
ENOUGH_TOKENS: Final = 100
TRIED_DOCUMENTS: Final = 200
"""Limits of tokens of an example, of tokens of a document that is long enough, and of documents
that are tried.
"""


def example_documents(facts: Facts) -> Iterator[Part]:
    """Yield a text, and a conversation or document with images, if they exist."""
    train, tokenizer = facts.shards.get("train"), facts.tokenizer
    if train is None or tokenizer is None:
        return
    parts = [_example(train, value, tokenizer) for value in _example_sources(train)]
    if not parts:
        return
    yield from parts
    yield Part(
        note=f"The first document of train that has {ENOUGH_TOKENS} tokens or more, else the "
        f"longest of the first {TRIED_DOCUMENTS}; of the first source of texts and of the first "
        "with masks. More: ",
        command=cut(f"nanotok inspect {facts.out.url} --doc 0-9 --html FILE", 2000),
    )


def _example_sources(shards: Shards) -> Iterator[range]:
    """Yield the documents of the first source without masks and of the first with masks."""
    found: set[bool] = set()
    for value in shards.ranges().values():
        is_masked = shards.mask(value[0]) is not None
        if is_masked not in found:
            found.add(is_masked)
            yield value


def _chosen_document(shards: Shards, values: range) -> int:
    numbers = np.array(values[:TRIED_DOCUMENTS], dtype=np.int64)
    lengths = shards.lengths(numbers)
    enough = np.flatnonzero(lengths >= ENOUGH_TOKENS)
    return int(numbers[enough[0] if len(enough) else int(lengths.argmax())])


def _example(shards: Shards, values: range, tokenizer: Tokenizer) -> Part:
    document = _document(shards, _chosen_document(shards, values))
    items, left_out = first_items(document, spelling_of(tokenizer), limit=NUM_EXAMPLES)
    is_text = document.mask is None
    return Part(
        title="A text" if is_text else "A document with its mask",
        beside=cut(document.location, 200),
        legend=dict(LEGEND[kind] for kind in ((TEXT,) if is_text else (TRAINED, UNTRAINED))),
        turns=turns_of(items),
        note=f"The first {quantity(len(items), 'token')}; {left_out:,} more are not shown."
        if left_out
        else "",
    )
