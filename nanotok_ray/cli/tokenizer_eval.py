"""The command that evaluates a tokenizer on sample texts, as nanochat's tok_eval."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from nanotok_ray.cli.corpora import max_bytes_of
from nanotok_ray.cli.printing import print_json, ratio, signed_percent, table_lines
from nanotok_ray.cli.tokenizer_compare import tally_values
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
from nanotok_ray.documents.batch import Documents, to_utf8
from nanotok_ray.documents.texts import batches_of
from nanotok_ray.formats.manifest import SPLITS, TOKENIZER_FOLDER
from nanotok_ray.loader import open_shards
from nanotok_ray.report.figures import ratio_figure
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.evaluation import SAMPLE_TEXTS, SampleRow, TokenizerCounter, sample_rows
from nanotok_ray.units import printable


def output_texts(folder: str, *, split: str, max_bytes: int) -> Iterator[Documents]:
    """Return the texts of a split's first documents, until they reach `max_bytes`.

    A conversation is one text: all that is said in it.

    Raises:
        CorruptOutputError: A file is not what the manifest says.
        IncompleteOutputError: The folder has no manifest.
        SourceError: There is no such split.
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


MAX_BYTES: Final = "1MB"

_EVAL: Final = f"""\
Evaluate a tokenizer on sample texts: news, Korean, code, math, science; with an output, its splits.

  nanotok tokenizer eval /data/out/tokenizer
  nanotok tokenizer eval /data/out/tokenizer --against cl100k o200k --plot eval.png
  nanotok tokenizer eval /data/out/tokenizer --against /data/old/tokenizer --output-folder /data/out

The table is that of nanochat's tok_eval on short texts of our own, so numbers of tokens are to be
compared with each other and not with published ones. Diff is (theirs - ours) / theirs: how many
percent fewer tokens ours makes. With --output-folder also the first documents of the splits of a
finished job, without special tokens. Every text is decoded again and compared.

{TOKENIZERS_HELP}{NAMES_HELP}"""


def add_action(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the action to `nanotok tokenizer`."""
    parser = actions.add_parser(
        "eval",
        help=_EVAL.partition("\n")[0],
        description=_EVAL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "tokenizer", metavar="TOKENIZER", help="folder, file or URL of the tokenizer"
    )
    parser.add_argument(
        "--against",
        metavar="TOKENIZER",
        nargs="+",
        action="extend",
        default=[],
        help="other tokenizers (default: none)",
    )
    parser.add_argument(
        "--output-folder",
        metavar="DIR",
        help="a finished output, whose train and val texts are taken too (default: none)",
    )
    parser.add_argument(
        "--max-bytes",
        default=MAX_BYTES,
        metavar="SIZE",
        help=f"take so much text of each split (default: {MAX_BYTES})",
    )
    add_pattern(parser)
    add_plot(parser, what="bytes per token by text")
    parser.set_defaults(run=_run_eval)


def _run_eval(arguments: argparse.Namespace) -> int:
    check_plot_of(arguments)
    counters = counters_of([arguments.tokenizer, *arguments.against], arguments)
    rows = [*sample_rows(counters, _texts(arguments))]
    for line in _lines(counters, rows):
        print(printable(line), file=sys.stderr)
    if arguments.plot is not None:
        _plot(counters, rows, arguments)
    names = [counter.name for counter in counters]
    values: dict[str, Any] = {row.name: tally_values(row.tally, names) for row in rows}
    text = [about(counter) for counter in counters]
    print_json({"status": "evaluated", "tokenizers": text, "texts": values})
    return 0


def _texts(arguments: argparse.Namespace) -> dict[str, Iterable[Documents]]:
    limit = max_bytes_of(arguments)
    texts: dict[str, Iterable[Documents]] = {
        name: [Documents.from_strings([text])] for name, text in SAMPLE_TEXTS.items()
    }
    if arguments.output_folder is not None:
        for split in SPLITS:
            texts[split] = output_texts(arguments.output_folder, split=split, max_bytes=limit)
    return texts


def _lines(counters: Sequence[TokenizerCounter], rows: Sequence[SampleRow]) -> Iterator[str]:
    first = counters[0]
    yield f"tokenizer   {first.name}, {first.num_ids:,} ids"
    for index, other in enumerate(counters[1:], 1):
        yield ""
        yield f"against {other.name}, {other.num_ids:,} ids"
        yield from table_lines([_head(first, other), *(_cells(row, index) for row in rows)])
    if len(counters) == 1:
        yield ""
        head = ["text", "bytes", "code points", "tokens", "bytes per token"]
        yield from table_lines([head, *map(_tokenizer_cells, rows)])


def _head(tokenizer_counter: TokenizerCounter, other: TokenizerCounter) -> list[str]:
    return ["text", "bytes", other.name, "ratio", tokenizer_counter.name, "ratio", "diff"]


def _tokenizer_cells(row: SampleRow) -> list[str]:
    tally = row.tally
    numbers = (tally.num_bytes, tally.characters, tally.tokens[0])
    return [row.name, *(f"{number:,}" for number in numbers), ratio(tally.bytes_per_token(0))]


def _cells(row: SampleRow, position: int) -> list[str]:
    tally = row.tally
    return [
        row.name,
        f"{tally.num_bytes:,}",
        f"{tally.tokens[position]:,}",
        ratio(tally.bytes_per_token(position)),
        f"{tally.tokens[0]:,}",
        ratio(tally.bytes_per_token(0)),
        signed_percent(row.diff_percent(position)),
    ]


def _plot(
    counters: Sequence[TokenizerCounter], rows: Sequence[SampleRow], arguments: argparse.Namespace
) -> None:
    indexes = range(len(counters))
    bars = {row.name: [row.tally.bytes_per_token(position) for position in indexes] for row in rows}
    figure = ratio_figure(
        bars,
        [counter.name for counter in counters],
        title="Bytes per token of sample texts",
        note="More is better; a token a byte would have 1.",
        marks=[row.tally.bytes_per_character for row in rows],
        marks_name="a token a code point",
    )
    write_plot(arguments, figure)
