"""The command that learns from counts, and the flags of all commands that learn."""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from nanotok_ray.cli.printing import print_json
from nanotok_ray.cli.progress import merge_bar
from nanotok_ray.counts.patterns import PATTERNS
from nanotok_ray.counts.span_counts import CountPaths, SpanCounts, find_counts, load_counts
from nanotok_ray.errors import TokenizerError, VocabularySizeError
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
from nanotok_ray.tokenizer.model import NUM_BYTES
from nanotok_ray.tokenizer.output import OR_FORCE, check_free, file_suffix, sized_output, write_file
from nanotok_ray.tokenizer.report import short_report, why_stopped
from nanotok_ray.tokenizer.train import (
    LearnedTokenizer,
    TrainSettings,
    checked_threads,
    learn_counts,
)


def add_limits(group: "argparse._ActionsContainer") -> None:
    """Add what may end learning early, and --threads; all are None where they are not given."""
    group.add_argument(
        "--min-pair-count",
        type=int,
        metavar="N",
        help="end where no pair occurs so often (default: 1)",
    )
    group.add_argument(
        "--max-token-bytes", type=int, metavar="N", help="make no longer token (default: any)"
    )
    group.add_argument(
        "--threads", type=int, metavar="N", help="default: all cores; the result is the same"
    )


def sizes(text: str) -> list[int]:
    """Read --also, as argparse wants it.

    >>> sizes("300, 280,300")
    [280, 300]
    """
    numbers = text.replace(" ", "").split(",")
    if not all(map(str.isdecimal, numbers)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of sizes like 8192,16384")
    return sorted(set(map(int, numbers)))


def settings_of(
    arguments: argparse.Namespace, *, special_tokens: Sequence[str], also: Sequence[int]
) -> TrainSettings:
    """Return what is to be learned; `arguments` have --vocab-size and the limits.

    So what cannot be reached is refused before hours of reading and not after.

    Raises:
        VocabularySizeError: There is no room for 256 bytes and the special tokens.
        TokenizerError: Another number is out of its range, or a special token comes twice.
    """
    _check_size("--vocab-size is", arguments.vocab_size, special_tokens)
    least = arguments.min_pair_count
    settings = TrainSettings(
        vocab_size=arguments.vocab_size,
        special_tokens=special_tokens,
        min_pair_count=1 if least is None else least,
        max_token_bytes=arguments.max_token_bytes,
    )
    checked_threads(arguments.threads)
    for size in also:
        _check_size("--also has", size, special_tokens)
        if size > settings.vocab_size:
            raise TokenizerError(
                f"--also has {size}, and a tokenizer of --vocab-size {settings.vocab_size} holds "
                "smaller ones alone: learn the largest, and name the others"
            )
    return settings


def _check_size(text: str, size: int, special_tokens: Sequence[str]) -> None:
    least = NUM_BYTES + len(special_tokens)
    if size < least:
        raise VocabularySizeError(
            f"{text} {size}: {NUM_BYTES} bytes and {len(special_tokens)} special tokens are "
            f"{least} ids, so name {least} or more"
        )


def learn_timed(
    counts: SpanCounts, settings: TrainSettings, *, threads: int | None, had: str
) -> tuple[LearnedTokenizer, float]:
    """Learn with a bar, print what was counted, how, and what was learned; return the seconds."""
    start = time.perf_counter()
    with merge_bar(sys.stderr) as on_progress:
        learned = learn_counts(counts, settings, threads=threads, on_progress=on_progress)
    seconds = time.perf_counter() - start
    size, asked = learned.tokenizer.get_vocab_size(), settings.vocab_size
    ids = f"{size:,} ids" if size == asked else f"{size:,} ids of the {asked:,} asked for"
    texts = "" if counts.texts is None else f" in {counts.texts:,} texts"
    counted = f"{counts.total:,} spans{texts}, {counts.num_distinct:,} distinct"
    why = why_stopped(learned.report)
    print(f"counts      {counted}; {had}", file=sys.stderr)
    print(f"tokenizer   {ids}, learned in {seconds:.1f} s: {why}", file=sys.stderr)
    return learned, seconds


def write(learned: LearnedTokenizer, output: str, *, also: Sequence[int], force: bool) -> list[str]:
    """Write the tokenizer and the smaller ones that were reached; return what was written.

    Raises:
        TokenizerError: An output holds something else, and `force` is not set; then none is
            written.
    """
    outputs = {output: learned}
    for size in also:
        name = sized_output(output, size)
        if size > learned.tokenizer.get_vocab_size():
            print(f"note: {size:,} ids were not reached; no {name}", file=sys.stderr)
        else:
            outputs[name] = learned.truncated(size)
    if not force:
        for path, result in outputs.items():
            check_free(result.tokenizer.model, path, advice=OR_FORCE)
    for path, result in outputs.items():
        if file_suffix(path) is None:
            result.save(path, overwrite=True)
        else:
            write_file(result.tokenizer.model, path)
    for path in outputs:
        print(f"wrote       {path}", file=sys.stderr)
    return list(outputs)


def values(
    learned: LearnedTokenizer, *, output: str, wrote: Sequence[str], seconds: Mapping[str, float]
) -> dict[str, Any]:
    """Return what programs read."""
    return {
        "status": "done",
        "output": output,
        "tokenizer_sha256": learned.tokenizer.sha256,
        "vocab_size": learned.tokenizer.get_vocab_size(),
        "seconds": seconds,
        **short_report(learned.report),
        "wrote": list(wrote),
    }


_LEARN = f"""\
Learn a tokenizer from counts of spans: no text is read.

  nanotok learn WORK/counts --vocab-size 65536 --output /data/tokenizer
  nanotok learn WORK/counts --vocab-size 65536 --also 16384,32768 --output /data/tokenizer
  nanotok learn a.arrow s3://bucket/b.arrow --vocab-size 32768 --output s3://bucket/tokenizer
  nanotok learn spark-out/ --pattern nanochat --vocab-size 32768 --output /data/tokenizer
  nanotok learn counts.parquet --span-column token --count-column n --pattern gpt4 \\
      --vocab-size 50000 --special-tokens '<|bos|>' '<|eos|>' --output /data/tokenizer

COUNTS are count files (a job's WORK/counts/**/*.arrow, or SpanCounts.save), parquet files of one
row a span (made by Spark, SQL or any other tool), or folders of them; all are added up. A count
file says which pattern cut its spans. Parquet does not, so say it with --pattern: a regular
expression, or {", ".join(PATTERNS)}. The tokenizer is right only if that cut the texts.

A job keeps counts of earlier runs, and with max_chars those of slices past it: if its corpus or its
recipe changed since, or it has max_chars, name the files that you mean.

The first merges of a tokenizer are the smaller ones: --also writes these beside it, as
/data/tokenizer-16384, and learns nothing twice. report.json says what each size gives. What holds
another tokenizer, or anything else, is not overwritten without --force.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "learn",
        help=_LEARN.partition("\n")[0],
        description=_LEARN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "counts", metavar="COUNTS", nargs="+", help="count files, parquet files, folders, globs"
    )
    _add_goal(parser)
    parser.add_argument(
        "--pattern",
        metavar="NAME|REGEX",
        help="what cut the texts into spans (see above; default: what count files say)",
    )
    parser.add_argument(
        "--span-column", metavar="NAME", default="span", help="of parquet files (default: span)"
    )
    parser.add_argument(
        "--count-column", metavar="NAME", default="count", help="of parquet files (default: count)"
    )
    parser.set_defaults(run=_run_learn)


def _add_goal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vocab-size",
        type=int,
        required=True,
        metavar="N",
        help="ids of the tokenizer, special tokens included",
    )
    parser.add_argument(
        "--also",
        type=sizes,
        default=[],
        metavar="IDS,...",
        help="write tokenizers of these smaller sizes too, to DIR-IDS (default: none)",
    )
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="folder or URL of the tokenizer"
    )
    parser.add_argument(
        "--special-tokens",
        nargs="*",
        metavar="NAME",
        default=list(SPECIAL_TOKENS),
        help="names, after COUNTS; without a name: none (default: nanochat's nine)",
    )
    parser.add_argument(
        "--force", action="store_true", help="overwrite what is there, also another tokenizer"
    )
    add_limits(parser)


def _run_learn(arguments: argparse.Namespace) -> int:
    if file_suffix(arguments.output) is not None:
        raise TokenizerError(
            f"--output is {arguments.output}: all files of a tokenizer and its report are written, "
            "so name a folder; it will have tokenizer.tiktoken and tokenizer.json in it"
        )
    settings = settings_of(arguments, special_tokens=arguments.special_tokens, also=arguments.also)
    start = time.perf_counter()
    paths = find_counts(arguments.counts)
    print(f"reading     {_message(paths)}", file=sys.stderr)
    counts = load_counts(
        paths,
        pattern=arguments.pattern,
        span_column=arguments.span_column,
        count_column=arguments.count_column,
    )
    read = time.perf_counter() - start
    had = f"read in {read:.1f} s"
    learned, taken = learn_timed(counts, settings, threads=arguments.threads, had=had)
    wrote = write(learned, arguments.output, also=arguments.also, force=arguments.force)
    seconds = {"read": round(read, 3), "learn": round(taken, 3)}
    print_json(values(learned, output=arguments.output, wrote=wrote, seconds=seconds))
    return 0


def _message(paths: CountPaths) -> str:
    kinds = [("count", paths.count_files), ("parquet", paths.parquet)]
    return " and ".join(
        f"{len(files):,} {kind} {'file' if len(files) == 1 else 'files'}"
        for kind, files in kinds
        if files
    )
