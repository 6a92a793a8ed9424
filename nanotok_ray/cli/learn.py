"""The command that learns from counts alone: learn. It starts no Ray and reads no text."""

import argparse
import sys
import time

from nanotok_ray.cli.goal import add_limits, check, goal_of, sizes
from nanotok_ray.cli.json_line import print_json
from nanotok_ray.cli.learned import summary, values, with_smaller
from nanotok_ray.cli.merge_progress import shown_merges
from nanotok_ray.counts.patterns import PATTERNS
from nanotok_ray.counts.stored import CountPaths, find_counts, load_counts
from nanotok_ray.errors import TokenizerError
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
from nanotok_ray.tokenizer.learn import LearnedTokenizer, learn
from nanotok_ray.tokenizer.output import OR_FORCE, check_free, file_suffix

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
        "--pattern",
        metavar="NAME|REGEX",
        help="what cut the texts into spans (see above; default: what count files say)",
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
        type=sizes,
        default=[],
        metavar="IDS,...",
        help="write tokenizers of these smaller sizes too, to DIR-IDS (default: none)",
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
        "--force", action="store_true", help="overwrite what is there, also another tokenizer"
    )
    add_limits(own)


def _run_learn(arguments: argparse.Namespace) -> int:
    if file_suffix(arguments.output) is not None:
        raise TokenizerError(
            f"--output is {arguments.output}: all files of a tokenizer and its report are written, "
            "so name a folder; it will have tokenizer.tiktoken and tokenizer.json in it"
        )
    goal = goal_of(arguments, special_tokens=arguments.special_tokens)
    check(goal, also=arguments.also)
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
    told = f"read in {seconds['read']:.1f} s"
    asked = goal["vocab_size"]
    print(summary(counts, learned, asked=asked, had=told, seconds=done - read), file=sys.stderr)
    for folder in written:
        print(f"wrote       {folder}", file=sys.stderr)
    print_json(values(learned, output=arguments.output, wrote=written, seconds=seconds))
    return 0


def _save(learned: LearnedTokenizer, arguments: argparse.Namespace) -> list[str]:
    """Write the tokenizer, and the smaller ones that were reached; give their folders."""
    stem = arguments.output.rstrip("/")
    every = with_smaller(
        learned, arguments.output, also=arguments.also, name=lambda size: f"{stem}-{size}"
    )
    if not arguments.force:
        for folder, each in every.items():
            check_free(each.tokenizer.model, folder, advice=OR_FORCE)
    for folder, each in every.items():
        each.save(folder, overwrite=True)
    return list(every)


def _told(paths: CountPaths) -> str:
    kinds = [("count", paths.count_files), ("parquet", paths.parquet)]
    return " and ".join(
        f"{len(files):,} {kind} {'file' if len(files) == 1 else 'files'}"
        for kind, files in kinds
        if files
    )
