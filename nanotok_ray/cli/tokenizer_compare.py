"""The command that compares tokenizers on corpora: tokenizer compare.

It prints a table on stderr and one line of JSON on stdout.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from nanotok_ray.cli.corpora import (
    MEASURED_FILES_HELP,
    add_corpus_flags,
    byte_bar,
    print_left_out,
    readers_of,
)
from nanotok_ray.cli.printing import print_json, ratio, signed_percent, table_lines
from nanotok_ray.cli.progress import token_label
from nanotok_ray.cli.tokenizers import (
    NAMES_HELP,
    TOKENIZERS_HELP,
    about,
    add_pattern,
    add_plot,
    check_plot_of,
    counters_of,
    write_plot,
)
from nanotok_ray.report.figures import ratio_figure
from nanotok_ray.tokenizer.evaluation import (
    CorpusReader,
    Measured,
    Overlap,
    Tally,
    TokenizerCounter,
    diff_percent,
    measure,
    overlap_of,
)
from nanotok_ray.tokenizer.report import token_text
from nanotok_ray.units import printable

ALL: Final = "all"
"""The row of all sources together."""

MAX_BARS: Final = 60
"""Rows of a picture."""

_COMPARE: Final = f"""\
Compare tokenizers on corpora: bytes per token by source and language, and what tokens they share.

  nanotok tokenizer compare /data/a/tokenizer /data/b/tokenizer --corpus web/*.parquet
  nanotok tokenizer compare ours=/data/out/tokenizer cl100k o200k \\
      --corpus 'english=en/*.parquet' 'code=code/*.parquet' --plot compare.svg
  nanotok tokenizer compare A B --corpus pages.jsonl --by language --max-bytes 1GB

Each NAME= of --corpus is a source; files without one are a source together. The first tokenizer is
set against each other one: "diff" says how many percent fewer tokens it makes. A tokenizer of one
token a byte has 1 byte per token, one of a token a code point what stands under "code point". Every
text is decoded again and compared. Then the vocabularies are: tokens that both have, and the first
merge that differs.

{TOKENIZERS_HELP}{NAMES_HELP}
{MEASURED_FILES_HELP}"""


def add_action(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the action to `nanotok tokenizer`."""
    parser = actions.add_parser(
        "compare",
        help=_COMPARE.partition("\n")[0],
        description=_COMPARE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "tokenizers", metavar="TOKENIZER", nargs="+", help="folders, files or URLs of tokenizers"
    )
    parser.add_argument(
        "--corpus",
        metavar="[NAME=]FILES",
        nargs="+",
        action="extend",
        required=True,
        help="files, folders, globs of texts, with the name of a source",
    )
    add_pattern(parser)
    add_corpus_flags(parser, with_labels=True)
    add_plot(parser, what="bytes per token by source")
    parser.set_defaults(run=_run_compare)


def _run_compare(arguments: argparse.Namespace) -> int:
    check_plot_of(arguments)
    counters = counters_of(arguments.tokenizers, arguments)
    readers = readers_of(arguments.corpus, arguments)
    rows = _rows(_measured(counters, readers))
    overlaps = [overlap_of(counters[0].vocabulary, counter.vocabulary) for counter in counters[1:]]
    for line in chain(_table(counters, rows), _overlap_lines(counters, overlaps)):
        print(printable(line), file=sys.stderr)
    if arguments.plot is not None:
        _plot(counters, rows, arguments)
    print_json(_values(counters, rows, overlaps))
    return 0


def _measured(
    counters: Sequence[TokenizerCounter], readers: Sequence[CorpusReader]
) -> dict[str, Measured]:
    total = sum(reader.estimated_bytes for reader in readers)
    with byte_bar(sys.stderr, total=total) as done:
        measured = {
            reader.corpus.name: measure(counters, reader, on_bytes=done) for reader in readers
        }
    print_left_out(readers)
    return measured


_Rows = Mapping[tuple[str, str | None], Tally]
"""By source and label, None for all of the source; `ALL` last if there are several sources."""


def _rows(measured: Mapping[str, Measured]) -> _Rows:
    rows: dict[tuple[str, str | None], Tally] = {}
    for name, value in measured.items():
        rows[name, None] = value.total
        rows |= {(name, label): tally for label, tally in value.by_label.items()}
    if len(measured) > 1:
        tallies = [value.total for value in measured.values()]
        total = Tally(tokens=[0] * len(tallies[0].tokens))
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
        for index, tokens in enumerate(tally.tokens):
            cells.append(ratio(tally.bytes_per_token(index)))
            if index:
                cells.append(signed_percent(diff_percent(tokens, tally.tokens[0])))
        yield cells


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
            {"source": name, "label": label} | tally_values(tally, names)
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


def tally_values(tally: Tally, names: Sequence[str]) -> dict[str, Any]:
    """Return sums over texts as JSON values; `diff_percent` is the first against each other one."""
    ratios = [tally.bytes_per_token(index) for index in range(len(names))]
    diffs = [diff_percent(tokens, tally.tokens[0]) for tokens in tally.tokens]
    rounded = [None if value is None else round(value, 4) for value in (*ratios, *diffs)]
    return {
        "texts": tally.texts,
        "bytes": tally.num_bytes,
        "code_points": tally.characters,
        "tokens": dict(zip(names, tally.tokens, strict=True)),
        "bytes_per_token": dict(zip(names, rounded[: len(names)], strict=True)),
        "diff_percent": dict(zip(names[1:], rounded[len(names) + 1 :], strict=True)),
    }


def _plot(counters: Sequence[TokenizerCounter], rows: _Rows, arguments: argparse.Namespace) -> None:
    indexes, chosen = range(len(counters)), _largest(rows)
    bars = {
        (name if label is None else f"{name}: {label}"): [
            tally.bytes_per_token(position) for position in indexes
        ]
        for (name, label), tally in chosen.items()
    }
    note = "More is better; a token a byte would have 1."
    if len(chosen) < len(rows):
        note += f" The largest {len(chosen):,} of {len(rows):,} rows."
    figure = ratio_figure(
        bars,
        [counter.name for counter in counters],
        title="Bytes per token",
        note=note,
        marks=[tally.bytes_per_character for tally in chosen.values()],
        marks_name="a token a code point",
    )
    write_plot(arguments, figure)


def _largest(rows: _Rows) -> _Rows:
    """Return the rows of most bytes, in their order: a picture has no room for hundreds."""
    order = sorted(rows, key=lambda key: -rows[key].num_bytes)
    remaining = set(order[:MAX_BARS])
    return {key: tally for key, tally in rows.items() if key in remaining}
