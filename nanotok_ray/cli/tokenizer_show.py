"""The implementation of `nanotok tokenizer show`: describes a tokenizer and its use by a corpus."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from nanotok_ray.cli.inputs import (
    check_plot_of,
    opened,
    print_skipped,
    readers_of,
    reading_progress,
    superwords_text,
    write_plot,
)
from nanotok_ray.cli.printing import ratio, table_lines
from nanotok_ray.cli.progress import token_label
from nanotok_ray.counts import PATTERNS
from nanotok_ray.report.figures import vocabulary_figure
from nanotok_ray.tokenizer import FileModel, Model, Tokenizer, token_text
from nanotok_ray.tokenizer.evaluation import TokenizerCounter, TokenView, Usage, Vocabulary
from nanotok_ray.units import format_share, quantity

if TYPE_CHECKING:
    from nanotok_ray.cli.app import Arguments

_SINGLE_LENGTHS = 16
"""Longer tokens are counted in ranges that double."""
_BAR_CHARS = 40


def tokenizer_lines(name: str, tokenizer: Tokenizer, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield lines that describe a tokenizer."""
    special = tokenizer.special_tokens
    yield f"tokenizer   {name}"
    yield f"sha256      {tokenizer.sha256}"
    if isinstance(tokenizer.model, FileModel):
        yield from _file_lines(tokenizer.model)
    else:
        pattern = tokenizer.pattern
        known = [f"{name}: " for name, value in PATTERNS.items() if value == pattern]
        yield (
            f"ids         {tokenizer.get_vocab_size():,}: {vocabulary.num_bytes} bytes, "
            f"{quantity(len(tokenizer.merges), 'merge')}, {quantity(len(special), 'special token')}"
        )
        yield f"pattern     {''.join(known[:1])}{pattern}"
    for token, number in special.items():
        yield f"special     {number:>9,}  {token}"


def _file_lines(model: FileModel) -> Iterator[str]:
    """Yield lines that describe a tokenizer of another tool."""
    described = model.description
    yield (
        f"ids         {model.num_ids:,}: {len(model.text_tokens):,} of text, "
        f"{quantity(len(model.special_tokens), 'special token')}"
    )
    yield f"file        {described.file}, sha256 {described.sha256}"
    yield f"engine      {model.engine_text}"
    yield f"documents   {' '.join([*described.prepend, 'TEXT', *described.append])}"


def vocabulary_lines(vocabulary: Vocabulary, *, limit: int) -> Iterator[str]:
    """Yield lines on the tokens, at most `limit` of each list."""
    lengths = vocabulary.length_counts
    yield ""
    yield f"lengths     {vocabulary.mean_length:.2f} bytes on average, at most {max(lengths):,}"
    if vocabulary.num_superwords:
        yield f"superwords  {superwords_text(vocabulary)}"
    yield from _length_lines(lengths)
    if vocabulary.pairs is not None:
        yield from _section("first merges")
        for number in vocabulary.merged[:limit]:
            yield f"{number:>9,}  {_spelled(vocabulary, number)} = {_pair(vocabulary, number)}"
    yield from _section("longest tokens")
    for number in vocabulary.longest(limit):
        length = len(vocabulary.tokens[number])
        yield f"{number:>9,}  {length:>5,} bytes  {_spelled(vocabulary, number)}"
    cut = vocabulary.not_utf8
    yield from _section(f"tokens of several bytes that are not UTF-8: {len(cut):,}")
    yield from _listed(cut[:limit], vocabulary)


def usage_lines(usage: Usage, *, limit: int) -> Iterator[str]:
    """Yield lines on the use of tokens by a corpus, at most `limit` of each list."""
    vocabulary, unused = usage.vocabulary, usage.unused_merged
    yield ""
    yield f"corpus      {quantity(usage.num_bytes, 'byte')} in {quantity(usage.texts, 'text')}"
    yield f"tokens      {usage.total:,}, {ratio(usage.bytes_per_token)} bytes per token"
    yield (
        f"unused      {len(unused):,} of {len(vocabulary.merged):,} merged tokens, "
        f"{len(usage.unused) - len(unused):,} of {vocabulary.num_bytes} bytes"
    )
    if vocabulary.num_superwords:
        share = format_share(usage.superwords, usage.total)
        yield f"superwords  {usage.superwords:,} of the tokens have several words, {share}"
    if unused:
        yield from _section("first unused tokens")
        yield from _listed(unused[:limit], vocabulary)
    yield from _section("most used tokens")
    rows = [
        [
            f"{number:>9,}",
            f"{usage.counts[number]:,}",
            f"{usage.counts[number] / usage.total:.2%}",
            _spelled(vocabulary, number),
        ]
        for number in usage.most_used(limit)
    ]
    yield from table_lines([["id", "times", "share", "token"], *rows], left=(3,))


def token_lines(
    views: Sequence[TokenView], vocabulary: Vocabulary, usage: Usage | None, *, limit: int
) -> Iterator[str]:
    """Yield lines on single tokens, including their use by a corpus if there is one."""
    for view in views:
        kind = "special token" if view.is_special else "byte" if view.merge is None else "token"
        name = view.token.decode() if view.is_special else token_label(view.token)
        yield f"id          {view.id:,}, {kind} {name}, {quantity(len(view.token), 'byte')}"
        if view.pair is not None:
            yield f"merge       {view.merge:,} = {_pair(vocabulary, view.id)} {view.pair}"
        if view.parts_of:
            users = ", ".join(_spelled(vocabulary, number) for number in view.parts_of[:limit])
            yield f"part of     {quantity(len(view.parts_of), 'merge')}: {users}"
        if usage is not None and not view.is_special:
            times, tokens = int(usage.counts[view.id]), quantity(usage.total, "token")
            yield f"used        {quantity(times, 'time')} of {tokens}"


def tokenizer_values(tokenizer: Tokenizer, vocabulary: Vocabulary, *, limit: int) -> dict[str, Any]:
    """Return the content of `tokenizer_lines` and `vocabulary_lines` as JSON values."""
    return {
        "tokenizer_sha256": tokenizer.sha256,
        "vocab_size": tokenizer.get_vocab_size(),
        "merges": len(tokenizer.merges),
        **_model_values(tokenizer.model),
        "special_tokens": tokenizer.special_tokens,
        "lengths": {str(length): n for length, n in vocabulary.length_counts.items()},
        "mean_length": round(vocabulary.mean_length, 4),
        **({"superwords": number} if (number := vocabulary.num_superwords) else {}),
        "first_merges": _entries(vocabulary.merged[:limit], vocabulary),
        "longest": _entries(vocabulary.longest(limit), vocabulary),
        "not_utf8": len(vocabulary.not_utf8),
        "first_not_utf8": _entries(vocabulary.not_utf8[:limit], vocabulary),
    }


def _model_values(model: Model | FileModel) -> dict[str, Any]:
    if isinstance(model, Model):
        return {"pattern": model.pattern, "unicode_version": model.unicode_version}
    described = model.description
    return {
        "file": described.file,
        "file_sha256": described.sha256,
        "engine": described.engine,
        "reason": model.reason,
        "prepend": described.prepend,
        "append": described.append,
    }


def usage_values(usage: Usage, *, limit: int) -> dict[str, Any]:
    """Return the content of `usage_lines` as JSON values."""
    vocabulary, bytes_per_token = usage.vocabulary, usage.bytes_per_token
    used = _entries(usage.most_used(limit), vocabulary)
    return {
        "texts": usage.texts,
        "text_bytes": usage.num_bytes,
        "tokens": usage.total,
        **({"superword_tokens": usage.superwords} if vocabulary.num_superwords else {}),
        "bytes_per_token": None if bytes_per_token is None else round(bytes_per_token, 4),
        "unused": len(usage.unused),
        "unused_merged": len(usage.unused_merged),
        "first_unused": _entries(usage.unused_merged[:limit], vocabulary),
        "most_used": [token | {"times": int(usage.counts[token["id"]])} for token in used],
    }


def length_rows(lengths: Mapping[int, int]) -> list[list[str]]:
    """Return the number of tokens by length, for long tokens by ranges that double.

    >>> length_rows({1: 256, 17: 3, 30: 1})
    [['1', '256'], ['17-32', '4']]
    """
    sums: dict[str, int] = {}
    for length, number in sorted(lengths.items()):
        name = _length_name(length)
        sums[name] = sums.get(name, 0) + number
    return [[name, f"{number:,}"] for name, number in sums.items()]


def _length_name(length: int) -> str:
    if length <= _SINGLE_LENGTHS:
        return str(length)
    end = 1 << (length - 1).bit_length()
    return f"{end // 2 + 1:,}-{end:,}"


def _length_lines(lengths: Mapping[int, int]) -> Iterator[str]:
    rows = length_rows(lengths)
    numbers = [int(number.replace(",", "")) for _, number in rows]
    bars = ["#" * round(_BAR_CHARS * number / max(numbers)) for number in numbers]
    text = [[*row, bar] for row, bar in zip(rows, bars, strict=True)]
    yield from table_lines([["bytes", "tokens", ""], *text], left=(2,))


def _section(title: str) -> Iterator[str]:
    yield ""
    yield title


def _listed(numbers: Sequence[int], vocabulary: Vocabulary) -> Iterator[str]:
    for number in numbers:
        yield f"{number:>9,}  {_spelled(vocabulary, number)}"


def _spelled(vocabulary: Vocabulary, number: int) -> str:
    return token_label(vocabulary.tokens[number])


def _pair(vocabulary: Vocabulary, number: int) -> str:
    """Return the two tokens that a token was merged from, as text."""
    assert vocabulary.pairs is not None
    left, right = vocabulary.pairs[number]
    return f"{_spelled(vocabulary, left)} + {_spelled(vocabulary, right)}"


def _entries(numbers: Sequence[int], vocabulary: Vocabulary) -> list[dict[str, Any]]:
    return [{"id": number, "token": token_text(vocabulary.tokens[number])} for number in numbers]


def _token_values(view: TokenView, usage: Usage | None) -> dict[str, Any]:
    """Return the content of `token_lines` for a token as JSON values."""
    is_counted = usage is not None and not view.is_special
    return {
        "id": view.id,
        "token": token_text(view.token),
        "bytes": len(view.token),
        "special": view.is_special,
        "merge": view.merge,
        "pair": view.pair,
        "parts_of": view.parts_of,
        "times": int(usage.counts[view.id]) if usage is not None and is_counted else None,
    }


def run_show(arguments: "Arguments") -> int:
    """Show a tokenizer and return the exit code."""
    check_plot_of(arguments.plot)
    tokenizer = opened(arguments.tokenizer, arguments.pattern)
    vocabulary, limit = Vocabulary.of(tokenizer), arguments.top
    numbers = [*arguments.ids, *map(vocabulary.number_of, arguments.tokens)]
    views = [vocabulary.view(number) for number in numbers]
    usage = _measured(tokenizer, vocabulary, arguments) if arguments.files else None
    if views:
        lines = token_lines(views, vocabulary, usage, limit=limit)
        values = {"tokens": [_token_values(view, usage) for view in views]}
    else:
        lines = _lines(tokenizer, vocabulary, usage, arguments)
        values = tokenizer_values(tokenizer, vocabulary, limit=limit)
        values |= {} if usage is None else usage_values(usage, limit=limit)
    arguments.console.text(*lines)
    if arguments.plot is not None:
        _plot(tokenizer, vocabulary, usage, arguments)
    arguments.console.result({"status": "shown", "tokenizer": arguments.tokenizer}, values)
    return 0


def _measured(tokenizer: Tokenizer, vocabulary: Vocabulary, arguments: "Arguments") -> Usage:
    readers = readers_of(arguments.files, arguments)
    counter = TokenizerCounter(arguments.tokenizer, tokenizer)
    usage = Usage(vocabulary)
    total = sum(reader.estimated_bytes for reader in readers)
    with reading_progress(arguments, total=total) as done:
        for batch in chain.from_iterable(readers):
            usage.add(counter.encode(batch.documents)[0], batch.documents)
            done(batch.documents.num_bytes)
    print_skipped(readers, arguments)
    return usage


def _lines(
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    usage: Usage | None,
    arguments: "Arguments",
) -> Iterator[str]:
    yield from tokenizer_lines(arguments.tokenizer, tokenizer, vocabulary)
    yield from vocabulary_lines(vocabulary, limit=arguments.top)
    if usage is not None:
        yield from usage_lines(usage, limit=arguments.top)


def _plot(
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
    usage: Usage | None,
    arguments: "Arguments",
) -> None:
    note = f"{tokenizer.get_vocab_size():,} ids, sha256 {tokenizer.sha256[:16]}"
    if usage is not None:
        text = f"{usage.num_bytes / 1e6:,.1f} MB, {ratio(usage.bytes_per_token)} bytes per token"
        note += f"; corpus of {text}"
    figure = vocabulary_figure(
        vocabulary.length_counts,
        title=arguments.tokenizer,
        note=note,
        counts=None if usage is None else usage.by_rank().tolist(),
        unused=0 if usage is None else len(usage.unused),
    )
    write_plot(arguments, figure)
