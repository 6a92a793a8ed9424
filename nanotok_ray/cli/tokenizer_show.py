"""The command that shows one tokenizer, and how a corpus uses it: tokenizer show.

Takes arguments; prints for people on stderr, for programs one line of JSON. Does not know how a
vocabulary or its use is worked out.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nanotok_ray.cli.arguments import positive
from nanotok_ray.cli.jobs import print_json
from nanotok_ray.cli.measured_corpora import (
    FILES_TOLD,
    add_corpus_flags,
    readers_of,
    shown_bytes,
    tell_left_out,
)
from nanotok_ray.cli.merge_line import shown_token
from nanotok_ray.cli.named_tokenizers import TOKENIZERS_TOLD, add_pattern, opened
from nanotok_ray.cli.text_table import ratio, table_lines
from nanotok_ray.cli.written_plot import add_plot, check_plot_of, write_plot
from nanotok_ray.evaluation import TokenizerCounter, TokenView, Usage, Vocabulary
from nanotok_ray.evaluation.figures import vocabulary_figure
from nanotok_ray.evaluation.plot_file import Numbers
from nanotok_ray.patterns import PATTERNS
from nanotok_ray.printable import printable
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.training_report import token_text

MOST: Final = 20

_SHOW: Final = f"""\
Show a tokenizer: its sizes, merges, special tokens, longest tokens; with a corpus, which it uses.

  nanotok tokenizer show /data/out/tokenizer
  nanotok tokenizer show /data/out/tokenizer /data/web/*.parquet --plot tokenizer.svg
  nanotok tokenizer show /data/out/tokenizer --id 300 --id 301 --token ' the'
  nanotok tokenizer show ranks.tiktoken --pattern gpt4 corpus.txt --most 50

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
    own.add_argument("corpus", metavar="CORPUS", nargs="*", help="files, folders, globs of texts")
    own.add_argument(
        "--id", type=int, action="append", default=[], metavar="N", help="show this id; repeatable"
    )
    own.add_argument(
        "--token", action="append", default=[], metavar="TEXT", help="show this token; repeatable"
    )
    own.add_argument(
        "--most", type=positive, default=MOST, metavar="N", help=f"of a list (default: {MOST})"
    )
    add_pattern(own)
    add_corpus_flags(own)
    add_plot(own, what="lengths of tokens, and use by rank,")
    own.set_defaults(run=_run_show)


@dataclass(slots=True)
class _Corpus:
    """What a corpus says of the tokenizer."""

    usage: Usage
    texts: int = 0
    num_bytes: int = 0

    @property
    def bytes_per_token(self) -> float | None:
        return self.num_bytes / self.usage.total if self.usage.total else None


def _run_show(arguments: argparse.Namespace) -> int:
    check_plot_of(arguments)
    tokenizer = opened(arguments.tokenizer, arguments)
    vocabulary = Vocabulary.of(tokenizer)
    numbers = [*arguments.id, *map(vocabulary.number_of, arguments.token)]
    views = [vocabulary.view(number) for number in numbers]
    corpus = _measured(tokenizer, arguments) if arguments.corpus else None
    if views:
        lines, values = _token_lines(views, vocabulary, corpus), _tokens(views, corpus)
    else:
        lines = _lines(tokenizer, vocabulary, corpus, arguments)
        values = _values(tokenizer, vocabulary, corpus, most=arguments.most)
    for line in lines:
        print(printable(line), file=sys.stderr)
    if arguments.plot is not None:
        _plot(tokenizer, vocabulary, corpus, arguments)
    print_json({"status": "shown", "tokenizer": arguments.tokenizer} | values)
    return 0


def _measured(tokenizer: Tokenizer, arguments: argparse.Namespace) -> _Corpus:
    readers = readers_of(arguments.corpus, arguments)
    counter = TokenizerCounter(arguments.tokenizer, tokenizer)
    corpus = _Corpus(Usage(counter.vocabulary))
    total = sum(reader.estimated_bytes for reader in readers)
    with shown_bytes(sys.stderr, total=total) as done:
        for batch in (batch for reader in readers for batch in reader):
            corpus.usage.add(counter.encode(batch.documents)[0])
            corpus.texts += len(batch.documents)
            corpus.num_bytes += batch.documents.num_bytes
            done(batch.documents.num_bytes)
    tell_left_out(readers)
    return corpus


def _lines(
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    corpus: _Corpus | None,
    arguments: argparse.Namespace,
) -> Iterator[str]:
    most = arguments.most
    yield f"tokenizer   {arguments.tokenizer}"
    yield f"sha256      {tokenizer.sha256}"
    yield (
        f"ids         {tokenizer.get_vocab_size():,}: 256 bytes, {len(tokenizer.merges):,} merges, "
        f"{len(tokenizer.special_tokens):,} special tokens"
    )
    yield f"pattern     {_pattern_name(tokenizer)}"
    table = tokenizer.span_table_size
    yield f"span table  {f'{table:,} spans' if table else 'none'}"
    for name, number in tokenizer.special_tokens.items():
        yield f"special     {number:>9,}  {name}"
    yield ""
    yield from _length_lines(vocabulary)
    merged = range(vocabulary.num_bytes, len(vocabulary.tokens))
    yield from _section("first merges", merged[:most], vocabulary, with_pairs=True)
    yield from _section("longest tokens", vocabulary.longest(most), vocabulary, with_lengths=True)
    cut = vocabulary.not_utf8
    title = f"tokens of several bytes that are not UTF-8: {len(cut):,}"
    yield from _section(title, cut[:most], vocabulary)
    if corpus is not None:
        yield from _corpus_lines(corpus, vocabulary, most=most)


def _pattern_name(tokenizer: Tokenizer) -> str:
    known = [name for name, pattern in PATTERNS.items() if pattern == tokenizer.pattern]
    return f"{known[0]}: {tokenizer.pattern}" if known else tokenizer.pattern


def _length_lines(vocabulary: Vocabulary) -> Iterator[str]:
    lengths = vocabulary.length_counts
    longest = max(lengths)
    yield f"lengths     {vocabulary.mean_length:.2f} bytes on average, at most {longest:,}"
    highest = max(lengths.values())
    rows = [
        [f"{length:,}", f"{number:,}", "#" * round(40 * number / highest)]
        for length, number in lengths.items()
    ]
    yield from table_lines([["bytes", "tokens", ""], *rows], left=(2,))


def _section(
    title: str,
    numbers: Sequence[int],
    vocabulary: Vocabulary,
    *,
    with_pairs: bool = False,
    with_lengths: bool = False,
) -> Iterator[str]:
    yield ""
    yield title
    for number in numbers:
        token = vocabulary.tokens[number]
        told = f"{number:>9,}  "
        if with_lengths:
            told += f"{len(token):>5,} bytes  "
        yield told + shown_token(token) + (_pair(vocabulary, number) if with_pairs else "")


def _pair(vocabulary: Vocabulary, number: int) -> str:
    """Spell what a token was merged from."""
    pairs = vocabulary.pairs
    if pairs is None or number < vocabulary.num_bytes:
        return ""
    left, right = (
        shown_token(vocabulary.tokens[each]) for each in pairs[number - vocabulary.num_bytes]
    )
    return f" = {left} + {right}"


def _corpus_lines(corpus: _Corpus, vocabulary: Vocabulary, *, most: int) -> Iterator[str]:
    usage = corpus.usage
    merges = len(vocabulary.tokens) - vocabulary.num_bytes
    unused, unused_merged = usage.unused, usage.unused_merged
    yield ""
    yield f"corpus      {corpus.num_bytes:,} bytes in {corpus.texts:,} texts"
    yield f"tokens      {usage.total:,}, {ratio(corpus.bytes_per_token)} bytes per token"
    yield (
        f"unused      {len(unused_merged):,} of {merges:,} merged tokens, "
        f"{len(unused) - len(unused_merged):,} of {vocabulary.num_bytes:,} bytes"
    )
    if unused_merged:
        yield from _section("first unused tokens", unused_merged[:most], vocabulary)
    yield ""
    yield "most used tokens"
    rows = [
        [
            f"{number:>9,}",
            f"{usage.counts[number]:,}",
            _share(usage, number),
            _shown(vocabulary, number),
        ]
        for number in usage.most_used(most)
    ]
    yield from table_lines([["id", "times", "share", "token"], *rows], left=(3,))


def _share(usage: Usage, number: int) -> str:
    return f"{usage.counts[number] / usage.total:.2%}"


def _shown(vocabulary: Vocabulary, number: int) -> str:
    return shown_token(vocabulary.tokens[number])


def _token_lines(
    views: Sequence[TokenView], vocabulary: Vocabulary, corpus: _Corpus | None
) -> Iterator[str]:
    for view in views:
        kind = "special token" if view.is_special else "byte" if view.merge is None else "token"
        name = view.token.decode() if view.is_special else shown_token(view.token)
        yield f"id          {view.id:,}, {kind} {name}, {len(view.token):,} bytes"
        if view.merge is not None:
            yield f"merge       {view.merge:,}{_pair(vocabulary, view.id)} {view.pair}"
        if view.parts_of:
            users = ", ".join(_shown(vocabulary, number) for number in view.parts_of[:MOST])
            yield f"part of     {len(view.parts_of):,} merges: {users}"
        if corpus is not None and not view.is_special:
            times = int(corpus.usage.counts[view.id])
            of_all = f"of {corpus.usage.total:,} tokens"
            yield f"used        {times:,} times {of_all}"


def _tokens(views: Sequence[TokenView], corpus: _Corpus | None) -> dict[str, Any]:
    return {
        "tokens": [
            {
                "id": view.id,
                "token": token_text(view.token),
                "bytes": len(view.token),
                "special": view.is_special,
                "merge": view.merge,
                "pair": view.pair,
                "parts_of": view.parts_of,
                "times": None
                if corpus is None or view.is_special
                else int(corpus.usage.counts[view.id]),
            }
            for view in views
        ]
    }


def _values(
    tokenizer: Tokenizer, vocabulary: Vocabulary, corpus: _Corpus | None, *, most: int
) -> dict[str, Any]:
    def listed(numbers: Sequence[int]) -> list[dict[str, Any]]:
        tokens = vocabulary.tokens
        return [{"id": number, "token": token_text(tokens[number])} for number in numbers]

    merged = range(vocabulary.num_bytes, len(vocabulary.tokens))
    values = {
        "tokenizer_sha256": tokenizer.sha256,
        "vocab_size": tokenizer.get_vocab_size(),
        "merges": len(tokenizer.merges),
        "pattern": tokenizer.pattern,
        "unicode_version": tokenizer.model.unicode_version,
        "special_tokens": tokenizer.special_tokens,
        "span_table": tokenizer.span_table_size,
        "lengths": {str(length): n for length, n in vocabulary.length_counts.items()},
        "mean_length": round(vocabulary.mean_length, 4),
        "first_merges": listed(merged[:most]),
        "longest": listed(vocabulary.longest(most)),
        "not_utf8": len(vocabulary.not_utf8),
    }
    if corpus is None:
        return values
    usage = corpus.usage
    used = usage.most_used(most)
    return values | {
        "texts": corpus.texts,
        "text_bytes": corpus.num_bytes,
        "tokens": usage.total,
        "bytes_per_token": _rounded(corpus.bytes_per_token),
        "unused": len(usage.unused),
        "unused_merged": len(usage.unused_merged),
        "first_unused": listed(usage.unused_merged[:most]),
        "most_used": [own | {"times": int(usage.counts[own["id"]])} for own in listed(used)],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _plot(
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    corpus: _Corpus | None,
    arguments: argparse.Namespace,
) -> None:
    note = f"{tokenizer.get_vocab_size():,} ids, sha256 {tokenizer.sha256[:16]}"
    if corpus is not None:
        told = ratio(corpus.bytes_per_token)
        note += f"; corpus of {corpus.num_bytes / 1e6:,.1f} MB, {told} bytes per token"
    figure = vocabulary_figure(
        vocabulary.length_counts,
        title=arguments.tokenizer,
        note=note,
        counts=None if corpus is None else np.asarray(corpus.usage.by_rank()).tolist(),
        unused=0 if corpus is None else len(corpus.usage.unused),
    )
    lengths = vocabulary.length_counts.items()
    rows = [[f"{length:,}", f"{number:,}"] for length, number in lengths]
    write_plot(arguments, figure, numbers=Numbers(head=["bytes of a token", "tokens"], rows=rows))
