"""The implementation of `nanotok tokenizer compare` and `eval`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nanotok_ray.cli.inputs import (
    about,
    check_plot_of,
    counters_of,
    max_bytes_of,
    print_skipped,
    readers_of,
    reading_progress,
    superwords_text,
    write_plot,
)
from nanotok_ray.cli.options import output_of
from nanotok_ray.cli.printing import ratio, signed_percent, table_lines
from nanotok_ray.cli.progress import token_label
from nanotok_ray.documents import Documents, batches_of, to_utf8
from nanotok_ray.formats import SPLITS, TOKENIZER_FOLDER
from nanotok_ray.loader import open_shards
from nanotok_ray.report.figures import RatioRow, ratio_figure
from nanotok_ray.tokenizer import Tokenizer, token_text
from nanotok_ray.tokenizer.evaluation import (
    SAMPLE_TEXTS,
    CorpusReader,
    Measurement,
    Overlap,
    Tally,
    Texts,
    TokenizerCounter,
    measure,
    overlap_of,
)
from nanotok_ray.units import format_share

if TYPE_CHECKING:
    from nanotok_ray.cli.app import Arguments

ALL: Final = "all"
"""The row of all sources together."""

MAX_BARS: Final = 60
"""Limit of rows of a picture."""


def run_compare(arguments: "Arguments") -> int:
    """Compare tokenizers and return the exit code."""
    check_plot_of(arguments.plot)
    counters = counters_of(arguments.tokenizers, arguments.pattern)
    readers = readers_of(arguments.corpus, arguments)
    rows = _rows(_measured(counters, readers, arguments))
    overlaps = [overlap_of(counters[0].vocabulary, counter.vocabulary) for counter in counters[1:]]
    sources = [tally for (name, label), tally in rows.items() if label is None and name != ALL]
    arguments.console.text(
        *_table(counters, rows),
        *_superword_lines(counters, sources),
        *_overlap_lines(counters, overlaps),
    )
    if arguments.plot is not None:
        _plot(counters, rows, arguments)
    arguments.console.result(_values(counters, rows, overlaps))
    return 0


def _measured(
    counters: Sequence[TokenizerCounter], readers: Sequence[CorpusReader], arguments: "Arguments"
) -> dict[str, Measurement]:
    total = sum(reader.estimated_bytes for reader in readers)
    with reading_progress(arguments, total=total) as done:
        measured = {
            reader.corpus.name: measure(counters, reader, on_bytes=done) for reader in readers
        }
    print_skipped(readers, arguments)
    return measured


_Rows = Mapping[tuple[str, str | None], Tally]
"""Totals by source and label; the label is None for the whole source. `ALL` is last if there are
several sources.
"""


def _rows(measured: Mapping[str, Measurement]) -> _Rows:
    rows: dict[tuple[str, str | None], Tally] = {}
    for name, value in measured.items():
        rows[name, None] = value.total
        rows |= {(name, label): tally for label, tally in value.by_label.items()}
    if len(measured) > 1:
        tallies = [value.total for value in measured.values()]
        total = Tally.empty(len(tallies[0].tokens))
        for tally in tallies:
            total.add(tally)
        rows[ALL, None] = total
    return rows


def _table(counters: Sequence[TokenizerCounter], rows: _Rows) -> Iterator[str]:
    for counter in counters:
        yield f"tokenizer   {counter.num_ids:>9,} ids  {counter.name}"
    yield ""
    yield "bytes per token"
    yield from table_lines([_head(counters), *_cells(rows)])


def _head(counters: Sequence[TokenizerCounter]) -> list[str]:
    first, *others = [counter.name for counter in counters]
    head = ["source", "bytes", "code point", first]
    return head + [cell for name in others for cell in (name, "diff")]


def _cells(rows: _Rows) -> Iterator[list[str]]:
    for (name, label), tally in rows.items():
        text = name if label is None else f"  {label}"
        cells = [text, f"{tally.num_bytes:,}", ratio(tally.bytes_per_character)]
        for index in range(len(tally.tokens)):
            cells.append(ratio(tally.bytes_per_token(index)))
            if index:
                cells.append(signed_percent(tally.diff_percent(index)))
        yield cells


def _superword_lines(
    counters: Sequence[TokenizerCounter], tallies: Iterable[Tally]
) -> Iterator[str]:
    """Yield lines on tokens of several words, for tokenizers that have some."""
    total = Tally.empty(len(counters))
    for tally in tallies:
        total.add(tally)
    lines = [
        f"  {counter.name}: {superwords_text(counter.vocabulary)}, "
        f"{format_share(superwords, tokens)} of the encoded tokens"
        for counter, superwords, tokens in zip(
            counters, total.superwords, total.tokens, strict=True
        )
        if counter.vocabulary.num_superwords
    ]
    if lines:
        yield from ("", "tokens of several words", *lines)


def _overlap_lines(
    counters: Sequence[TokenizerCounter], overlaps: Sequence[Overlap]
) -> Iterator[str]:
    first = counters[0].name
    for counter, overlap in zip(counters[1:], overlaps, strict=True):
        other = counter.name
        yield ""
        yield (
            f"{first} and {other}: {overlap.shared:,} tokens in both, {overlap.only_left:,} only "
            f"in "
            f"{first}, {overlap.only_right:,} only in {other}"
        )
        yield f"  {_parting(overlap, first, other)}"


def _parting(overlap: Overlap, first: str, other: str) -> str:
    if overlap.equal_merges is None:
        return "merges are not compared, as one of them has none"
    if overlap.left is None and overlap.right is None:
        return f"all {overlap.equal_merges:,} merges are equal"
    if overlap.left is None or overlap.right is None:
        longer = first if overlap.right is None else other
        return f"the first {overlap.equal_merges:,} merges are equal, and {longer} has more"
    return (
        f"merge {overlap.equal_merges:,} (from 0) is the first that differs: {first} has "
        f"{token_label(overlap.left)}, {other} {token_label(overlap.right)}"
    )


def _values(
    counters: Sequence[TokenizerCounter], rows: _Rows, overlaps: Sequence[Overlap]
) -> dict[str, Any]:
    names = [counter.name for counter in counters]
    return {
        "status": "compared",
        "tokenizers": [about(counter) for counter in counters],
        "rows": [
            {"source": name, "label": label} | tally_values(tally, counters)
            for (name, label), tally in rows.items()
        ],
        "overlaps": [
            {
                "first": names[0],
                "other": name,
                "shared": overlap.shared,
                "only_first": overlap.only_left,
                "only_other": overlap.only_right,
                "equal_merges": overlap.equal_merges,
                "first_token": None if overlap.left is None else token_text(overlap.left),
                "other_token": None if overlap.right is None else token_text(overlap.right),
            }
            for name, overlap in zip(names[1:], overlaps, strict=True)
        ],
    }


def tally_values(tally: Tally, counters: Sequence[TokenizerCounter]) -> dict[str, Any]:
    """Return totals as JSON values; `diff_percent` compares the first tokenizer with each.

    `superword_tokens` has the tokens of several words for each tokenizer that has some.
    """
    names = [counter.name for counter in counters]
    superwords = {
        counter.name: number
        for counter, number in zip(counters, tally.superwords, strict=True)
        if counter.vocabulary.num_superwords
    }
    ratios = [tally.bytes_per_token(index) for index in range(len(names))]
    diffs = [tally.diff_percent(index) for index in range(len(names))]
    rounded = [None if value is None else round(value, 4) for value in (*ratios, *diffs)]
    return {
        "texts": tally.texts,
        "bytes": tally.num_bytes,
        "code_points": tally.characters,
        "tokens": dict(zip(names, tally.tokens, strict=True)),
        **({"superword_tokens": superwords} if superwords else {}),
        "bytes_per_token": dict(zip(names, rounded[: len(names)], strict=True)),
        "diff_percent": dict(zip(names[1:], rounded[len(names) + 1 :], strict=True)),
    }


def _plot(counters: Sequence[TokenizerCounter], rows: _Rows, arguments: "Arguments") -> None:
    chosen = _limited(rows)
    tallies = {
        (name if label is None else f"{name}: {label}"): tally
        for (name, label), tally in chosen.items()
    }
    is_cut = len(chosen) < len(rows)
    more = f" The largest {len(chosen):,} of {len(rows):,} rows." if is_cut else ""
    _plot_tallies(counters, tallies, arguments, title="Bytes per token", more=more)


def _plot_tallies(
    counters: Sequence[TokenizerCounter],
    tallies: Mapping[str, Tally],
    arguments: "Arguments",
    *,
    title: str,
    more: str = "",
) -> None:
    rows = {
        name: RatioRow(
            [*map(tally.bytes_per_token, range(len(counters)))], tally.bytes_per_character
        )
        for name, tally in tallies.items()
    }
    note = f"More is better; one token per byte would have 1.{more}"
    names = [counter.name for counter in counters]
    write_plot(arguments, ratio_figure(rows, names, title=title, note=note))


def _limited(rows: _Rows) -> _Rows:
    """Return the rows with the most bytes, in their order, since a picture has limited space."""
    order = sorted(rows, key=lambda key: -rows[key].num_bytes)
    remaining = set(order[:MAX_BARS])
    return {key: tally for key, tally in rows.items() if key in remaining}


def run_eval(arguments: "Arguments") -> int:
    """Evaluate a tokenizer on the samples and return the exit code."""
    check_plot_of(arguments.plot)
    counters = counters_of([arguments.tokenizer, *arguments.against], arguments.pattern)
    tallies = {
        name: measure(counters, (Texts(documents=batch) for batch in batches)).total
        for name, batches in _texts(arguments).items()
    }
    arguments.console.text(
        *_sample_lines(counters, tallies), *_superword_lines(counters, tallies.values())
    )
    if arguments.plot is not None:
        _plot_tallies(counters, tallies, arguments, title="Bytes per token of sample texts")
    values = {name: tally_values(tally, counters) for name, tally in tallies.items()}
    text = [about(counter) for counter in counters]
    arguments.console.result({"status": "evaluated", "tokenizers": text, "texts": values})
    return 0


def _texts(arguments: "Arguments") -> dict[str, Iterable[Documents]]:
    limit = max_bytes_of(arguments)
    texts: dict[str, Iterable[Documents]] = {
        name: [Documents.from_strings([text])] for name, text in SAMPLE_TEXTS.items()
    }
    if arguments.splits_of is not None:
        folder = output_of(arguments.splits_of)
        for split in SPLITS:
            texts[split] = output_texts(folder, split=split, max_bytes=limit)
    return texts


def _sample_lines(
    counters: Sequence[TokenizerCounter], tallies: Mapping[str, Tally]
) -> Iterator[str]:
    first = counters[0]
    yield f"tokenizer   {first.name}, {first.num_ids:,} ids"
    for index, other in enumerate(counters[1:], 1):
        yield ""
        yield f"against {other.name}, {other.num_ids:,} ids"
        head = ["text", "bytes", other.name, "ratio", first.name, "ratio", "diff"]
        rows = [[name, *_sample_cells(tally, index)] for name, tally in tallies.items()]
        yield from table_lines([head, *rows])
    if len(counters) == 1:
        yield ""
        head = ["text", "bytes", "code points", "tokens", "bytes per token"]
        rows = [[name, *_tokenizer_cells(tally)] for name, tally in tallies.items()]
        yield from table_lines([head, *rows])


def _tokenizer_cells(tally: Tally) -> list[str]:
    numbers = (tally.num_bytes, tally.characters, tally.tokens[0])
    return [*(f"{number:,}" for number in numbers), ratio(tally.bytes_per_token(0))]


def _sample_cells(tally: Tally, position: int) -> list[str]:
    return [
        f"{tally.num_bytes:,}",
        f"{tally.tokens[position]:,}",
        ratio(tally.bytes_per_token(position)),
        f"{tally.tokens[0]:,}",
        ratio(tally.bytes_per_token(0)),
        signed_percent(tally.diff_percent(position)),
    ]


def output_texts(folder: str, *, split: str, max_bytes: int) -> Iterator[Documents]:
    """Return the texts of a split's first documents up to `max_bytes`.

    A conversation is one text with all of its messages.

    Raises:
        CorruptOutputError: A file contradicts the manifest.
        IncompleteOutputError: The folder has no manifest.
        SourceError: The split does not exist.
        TokenizerError: The output's tokenizer cannot be read.
    """
    shards = open_shards(folder, split=split)
    tokenizer = Tokenizer.load(f"{folder}/{TOKENIZER_FOLDER}")
    special = np.array([*tokenizer.special_tokens.values()], dtype=np.uint32)

    def texts() -> Iterator[str]:
        left = max_bytes
        for ids in shards:
            text = tokenizer.decode(ids[~np.isin(ids, special)])
            yield text
            left -= len(to_utf8(text))
            if left <= 0:
                return

    return batches_of(texts())
