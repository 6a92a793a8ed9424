"""The command that learns from counts alone: learn. It starts no Ray and reads no text."""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any, TypedDict

from nanotok_ray.cli.jobs import print_json
from nanotok_ray.cli.merge_progress import shown_merges
from nanotok_ray.errors import TokenizerError
from nanotok_ray.learning import LearnedTokenizer, learn
from nanotok_ray.patterns import PATTERNS
from nanotok_ray.span_counts import SpanCounts
from nanotok_ray.special_tokens import SPECIAL_TOKENS
from nanotok_ray.stored_counts import CountPaths, find_counts, load_counts
from nanotok_ray.tokenizer.training import check_goal
from nanotok_ray.training_report import short_report, why_stopped

COMMANDS = ("learn",)

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
/data/tokenizer-16384, and learns nothing twice. report.json says what each size gives.
"""


class _Goal(TypedDict):
    """What is to be learned, as `learn` takes it."""

    vocab_size: int
    special_tokens: list[str]
    min_pair_count: int
    max_token_bytes: int | None
    threads: int | None


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    own = commands.add_parser(
        "learn",
        help=_LEARN.partition("\n")[0],
        description=_LEARN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    own.add_argument(
        "counts", metavar="COUNTS", nargs="+", help="count files, parquet files, folders, globs"
    )
    _add_goal(own)
    own.add_argument(
        "--pattern", metavar="NAME|REGEX", help="what cut the texts into spans (see above)"
    )
    own.add_argument(
        "--span-column", metavar="NAME", default="span", help="of parquet files (default: span)"
    )
    own.add_argument(
        "--count-column", metavar="NAME", default="count", help="of parquet files (default: count)"
    )
    own.set_defaults(run=_run_learn)


def _add_goal(own: argparse.ArgumentParser) -> None:
    own.add_argument(
        "--vocab-size",
        type=int,
        required=True,
        metavar="N",
        help="ids of the tokenizer, special tokens included",
    )
    own.add_argument(
        "--also",
        type=_sizes,
        default=[],
        metavar="IDS,...",
        help="write tokenizers of these smaller sizes too, to DIR-IDS",
    )
    own.add_argument(
        "--output", required=True, metavar="DIR", help="folder or URL of the tokenizer"
    )
    own.add_argument(
        "--special-tokens",
        nargs="*",
        metavar="NAME",
        default=list(SPECIAL_TOKENS),
        help="names, after COUNTS; without a name: none (default: nanochat's nine)",
    )
    own.add_argument(
        "--min-pair-count",
        type=int,
        default=1,
        metavar="N",
        help="end where no pair occurs so often (default: 1)",
    )
    own.add_argument(
        "--max-token-bytes", type=int, metavar="N", help="make no longer token (default: any)"
    )
    own.add_argument(
        "--threads", type=int, metavar="N", help="default: all cores; the result is the same"
    )


def _sizes(text: str) -> list[int]:
    sizes = text.replace(" ", "").split(",")
    if not all(map(str.isdecimal, sizes)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of sizes like 8192,16384")
    return sorted(set(map(int, sizes)))


def _run_learn(arguments: argparse.Namespace) -> int:
    goal = _Goal(
        vocab_size=arguments.vocab_size,
        special_tokens=arguments.special_tokens,
        min_pair_count=arguments.min_pair_count,
        max_token_bytes=arguments.max_token_bytes,
        threads=arguments.threads,
    )
    _check(goal, also=arguments.also)  # before hours of reading, not after
    start = time.perf_counter()
    paths = find_counts(arguments.counts)
    print(f"reading     {_told(paths)}", file=sys.stderr)
    counts = load_counts(
        paths,
        pattern=arguments.pattern,
        span_column=arguments.span_column,
        count_column=arguments.count_column,
    )
    read = time.perf_counter()
    with shown_merges(sys.stderr) as on_progress:
        learned = learn(counts, **goal, on_progress=on_progress)
    done = time.perf_counter()
    written = _save(learned, arguments)
    seconds = {"read": round(read - start, 3), "learn": round(done - read, 3)}
    print(_summary(counts, learned, arguments, seconds), file=sys.stderr)
    for folder in written:
        print(f"wrote       {folder}", file=sys.stderr)
    print_json(_values(learned, arguments, seconds) | {"wrote": written})
    return 0


def _check(goal: _Goal, *, also: Sequence[int]) -> None:
    check_goal(**goal)
    for size in also:
        check_goal(vocab_size=size, special_tokens=goal["special_tokens"])
        if size > goal["vocab_size"]:
            raise TokenizerError(
                f"--also has {size}, and a tokenizer of --vocab-size {goal['vocab_size']} holds "
                "smaller ones alone: learn the largest, and name the others"
            )


def _save(learned: LearnedTokenizer, arguments: argparse.Namespace) -> list[str]:
    """Write the tokenizer, and the smaller ones that were reached; give their folders."""
    learned.save(arguments.output)
    written = [arguments.output]
    for size in arguments.also:
        folder = f"{arguments.output.rstrip('/')}-{size}"
        if size > learned.tokenizer.get_vocab_size():
            print(f"note: {size:,} ids were not reached; no {folder}", file=sys.stderr)
            continue
        learned.truncated(size).save(folder)
        written.append(folder)
    return written


def _told(paths: CountPaths) -> str:
    kinds = [("count", paths.count_files), ("parquet", paths.parquet)]
    return " and ".join(
        f"{len(files):,} {kind} {'file' if len(files) == 1 else 'files'}"
        for kind, files in kinds
        if files
    )


def _summary(
    counts: SpanCounts,
    learned: LearnedTokenizer,
    arguments: argparse.Namespace,
    seconds: dict[str, float],
) -> str:
    size, asked = learned.tokenizer.get_vocab_size(), arguments.vocab_size
    ids = f"{size:,} ids" if size == asked else f"{size:,} ids of the {asked:,} asked for"
    texts = "" if counts.texts is None else f" in {counts.texts:,} texts"
    counted = f"{counts.total:,} spans{texts}, {counts.num_distinct:,} distinct"
    why = why_stopped(learned.report)
    return "\n".join(
        (
            f"counts      {counted}; read in {seconds['read']:.1f} s",
            f"tokenizer   {ids}, learned in {seconds['learn']:.1f} s: {why}",
        )
    )


def _values(
    learned: LearnedTokenizer, arguments: argparse.Namespace, seconds: dict[str, float]
) -> dict[str, Any]:
    return {
        "status": "done",
        "output": arguments.output,
        "tokenizer_sha256": learned.tokenizer.sha256,
        "vocab_size": learned.tokenizer.get_vocab_size(),
        "seconds": seconds,
        **short_report(learned.report),
    }
