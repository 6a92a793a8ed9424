"""The command that shows one tokenizer, and how a corpus uses it: tokenizer show.

Takes arguments; prints for people on stderr, for programs one line of JSON. Does not know how a
vocabulary or its use is worked out.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Final

from nanotok_ray.cli.arguments import positive
from nanotok_ray.cli.json_line import print_json
from nanotok_ray.cli.measured_corpora import (
    FILES_TOLD,
    add_corpus_flags,
    readers_of,
    shown_bytes,
    tell_left_out,
)
from nanotok_ray.cli.named_tokenizers import TOKENIZERS_TOLD, add_pattern, opened
from nanotok_ray.cli.shown_vocabulary import (
    length_rows,
    token_lines,
    token_values,
    tokenizer_lines,
    tokenizer_values,
    usage_lines,
    usage_values,
    vocabulary_lines,
)
from nanotok_ray.cli.text_table import ratio
from nanotok_ray.cli.written_plot import add_plot, check_plot_of, write_plot
from nanotok_ray.report.figures import Numbers, vocabulary_figure
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.evaluation import TokenizerCounter, Usage, Vocabulary
from nanotok_ray.units import printable

MOST: Final = 20

_SHOW: Final = f"""\
Show a tokenizer: its sizes, merges, special tokens, longest tokens; with a corpus, which it uses.

  nanotok tokenizer show /data/out/tokenizer
  nanotok tokenizer show /data/out/tokenizer /data/web/*.parquet --plot tokenizer.svg
  nanotok tokenizer show /data/out/tokenizer --id 300 --id 301 --token ' the'
  nanotok tokenizer show ranks.tiktoken:gpt4 corpus.txt.gz --most 50

Tokens are shown as Python literals; in the JSON line a byte that is not UTF-8 is \\xNN and a
backslash \\\\, and --token takes these too. Unused tokens of a corpus are those that no text of it
is made of; special tokens never are. Every text is decoded again and compared.

{TOKENIZERS_TOLD}
{FILES_TOLD}"""


def add_action(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the action to `nanotok tokenizer`."""
    own = actions.add_parser(
        "show",
        help=_SHOW.partition("\n")[0],
        description=_SHOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    own.add_argument("tokenizer", metavar="TOKENIZER", help="folder, file or URL of the tokenizer")
    own.add_argument(
        "corpus",
        metavar="CORPUS",
        nargs="*",
        help="files, folders, globs of texts",
    )
    own.add_argument(
        "--id",
        type=int,
        action="append",
        default=[],
        metavar="N",
        help="show this id; repeatable (default: none)",
    )
    own.add_argument(
        "--token",
        action="append",
        default=[],
        metavar="TEXT",
        help="show this token; repeatable (default: none)",
    )
    own.add_argument(
        "--most", type=positive, default=MOST, metavar="N", help=f"of a list (default: {MOST})"
    )
    add_pattern(own)
    add_corpus_flags(own)
    add_plot(own, what="lengths of tokens, and use by rank,")
    own.set_defaults(run=_run_show)


def _run_show(arguments: argparse.Namespace) -> int:
    check_plot_of(arguments)
    tokenizer = opened(arguments.tokenizer, arguments)
    vocabulary, most = Vocabulary.of(tokenizer), arguments.most
    numbers = [*arguments.id, *map(vocabulary.number_of, arguments.token)]
    views = [vocabulary.view(number) for number in numbers]
    usage = _measured(tokenizer, vocabulary, arguments) if arguments.corpus else None
    if views:
        lines = token_lines(views, vocabulary, usage, most=most)
        values = token_values(views, usage)
    else:
        lines = _lines(tokenizer, vocabulary, usage, arguments)
        values = tokenizer_values(tokenizer, vocabulary, most=most)
        values |= {} if usage is None else usage_values(usage, most=most)
    for line in lines:
        print(printable(line), file=sys.stderr)
    if arguments.plot is not None:
        _plot(tokenizer, vocabulary, usage, arguments)
    print_json({"status": "shown", "tokenizer": arguments.tokenizer} | values)
    return 0


def _measured(tokenizer: Tokenizer, vocabulary: Vocabulary, arguments: argparse.Namespace) -> Usage:
    readers = readers_of(arguments.corpus, arguments)
    counter = TokenizerCounter(arguments.tokenizer, tokenizer)
    usage = Usage(vocabulary)
    total = sum(reader.estimated_bytes for reader in readers)
    with shown_bytes(sys.stderr, total=total) as done:
        for batch in chain.from_iterable(readers):
            usage.add(counter.encode(batch.documents)[0], batch.documents)
            done(batch.documents.num_bytes)
    tell_left_out(readers)
    return usage


def _lines(
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    usage: Usage | None,
    arguments: argparse.Namespace,
) -> Iterator[str]:
    yield from tokenizer_lines(arguments.tokenizer, tokenizer, vocabulary)
    yield from vocabulary_lines(vocabulary, most=arguments.most)
    if usage is not None:
        yield from usage_lines(usage, most=arguments.most)


def _plot(
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    usage: Usage | None,
    arguments: argparse.Namespace,
) -> None:
    note = f"{tokenizer.get_vocab_size():,} ids, sha256 {tokenizer.sha256[:16]}"
    if usage is not None:
        told = f"{usage.num_bytes / 1e6:,.1f} MB, {ratio(usage.bytes_per_token)} bytes per token"
        note += f"; corpus of {told}"
    lengths = vocabulary.length_counts
    figure = vocabulary_figure(
        lengths,
        title=arguments.tokenizer,
        note=note,
        counts=None if usage is None else usage.by_rank().tolist(),
        unused=0 if usage is None else len(usage.unused),
    )
    numbers = Numbers(head=["bytes of a token", "tokens"], rows=length_rows(lengths))
    write_plot(arguments, figure, numbers=numbers)
