"""`nanotok train` without a recipe: files of text to a tokenizer, in this process, without Ray.

Input is the arguments of `train`. Output is the values of its JSON line.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from nanotok_ray.cli.corpora import TEXT_FILES_HELP, add_corpus, count_named, find_corpus
from nanotok_ray.cli.learn import add_limits, learn_timed, settings_of, sizes, values, write
from nanotok_ray.counts.patterns import PATTERNS, SPLIT_PATTERN
from nanotok_ray.counts.span_counts import SpanCounts
from nanotok_ray.errors import RecipeError, TokenizerError
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
from nanotok_ray.sources.named_files import suffix_format
from nanotok_ray.tokenizer.output import (
    WITHOUT_SPECIAL_TOKENS,
    file_suffix,
    files_there,
    sized_output,
)
from nanotok_ray.tokenizer.train import TrainSettings

HELP: Final = f"""\
Without a recipe, with --output, it learns from the files that are named, in this process alone:

  nanotok train --vocab-size 8000 --output my_tokenizer.tiktoken corpus.txt
  nanotok train --vocab-size 32768 --output my_tokenizer books/*.txt --document-per-file
  nanotok train --input-format parquet --vocab-size 50281 --output nanochat.tiktoken data/*.parquet
  nanotok train --column body --pattern gpt4 --vocab-size 50000 --output tokenizer.json \\
      --special-tokens '<|bos|>' '<|eos|>' -- a.jsonl.gz s3://bucket/b.jsonl

All documents are learned from; there is no val split. The merges are those of a recipe's job over
the same documents, and rustbpe's. Files come last, or after `--`.

OUTPUT is a folder of all files of a tokenizer, with report.json, or one file by itself: *.tiktoken
(ranks, which hold neither pattern nor special tokens: 8,000 ids are 256 bytes and 7,744 merges),
*.json (Hugging Face's tokenizer.json) or *.txt (nanotok's own readable file). What holds another
tokenizer, or anything else, is not overwritten without --force; the same bytes are no conflict.

{TEXT_FILES_HELP}"""

_FILE_FLAGS = {
    "input_format": "source.NAME.format",
    "document_per_file": "source.NAME.format",
    "column": "source.NAME.column",
    "max_quarantined_share": "limits.max_quarantined_share",
    "max_tails": "limits.max_tails",
    "pattern": "tokenizer.pattern",
    "special_tokens": "tokenizer.special_tokens",
    "min_pair_count": "tokenizer.min_pair_count",
    "max_token_bytes": "tokenizer.max_token_bytes",
    "threads": None,
    "force": None,
}
"""Flags that are for files alone, and the key of a recipe that says the same."""

_RECIPE_FLAGS = {
    "overrides": "--set",
    "workers": "--workers",
    "resplit": "--resplit",
    "dry_run": "--dry-run",
    "max_chars": "--max-chars",
    "doc_cap": "--doc-cap",
    "to_nanochat": "--to-nanochat",
}
"""Arguments that are for a recipe alone, and how they are spelled."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of learning from files; all are None where they are not given."""
    group = parser.add_argument_group("without a recipe")
    group.add_argument(
        "--output",
        metavar="OUTPUT",
        help="folder, *.tiktoken, *.json or *.txt; path or URL (default: none)",
    )
    group.add_argument(
        "--pattern",
        metavar="NAME|REGEX",
        help=f"{', '.join(PATTERNS)}, or a regular expression (default: nanochat)",
    )
    group.add_argument(
        "--special-tokens",
        nargs="*",
        metavar="NAME",
        help="part of --vocab-size; without a name: none (default: nanochat's nine, and none for "
        "*.tiktoken)",
    )
    add_limits(group)
    add_corpus(group)
    group.add_argument(
        "--force",
        action="store_true",
        default=None,
        help="overwrite what is there, also another tokenizer",
    )


def is_meant(arguments: argparse.Namespace) -> bool:
    """Return whether files are to be learned from, and not a recipe: if there is an --output.

    Raises:
        RecipeError: The arguments are of both, or --output was forgotten.
    """
    if arguments.output is None:
        _check_recipe(arguments)
        return False
    has_format = arguments.input_format is not None or arguments.document_per_file
    recipes = [path for path in arguments.inputs if path.endswith(".toml") and not has_format]
    if recipes:
        raise RecipeError(
            f"{recipes[0]} is a recipe, which says itself where its tokenizer goes: leave --output "
            "out (--set output.path=DIR), or, to learn from the text of this very file, add "
            "--input-format"
        )
    flags = [flag for name, flag in _RECIPE_FLAGS.items() if getattr(arguments, name)]
    if flags:
        raise RecipeError(
            f"{', '.join(flags)} {'is' if len(flags) == 1 else 'are'} for a recipe, and --output "
            "for files without one: leave one of them out, or write a recipe"
        )
    return True


def _check_recipe(arguments: argparse.Namespace) -> None:
    files = [
        path for path in arguments.inputs if suffix_format(path) is not None or Path(path).is_dir()
    ]
    if files or len(arguments.inputs) > 1:
        raise RecipeError(
            f"{(files or arguments.inputs)[0]} is no recipe: to learn from files say where the "
            "tokenizer goes with --output, and its size with --vocab-size; a job takes one recipe"
        )
    for name, key in _FILE_FLAGS.items():
        if getattr(arguments, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            instead = "leave it out" if key is None else f"say {key} in the recipe, or with --set"
            raise RecipeError(
                f"{flag} is for files without a recipe (then --output says where the tokenizer "
                f"goes): with a recipe {instead}"
            )


def train_files(arguments: argparse.Namespace) -> dict[str, Any]:
    """Learn from the files, write the tokenizer, and return the values for programs.

    Raises:
        NanotokError: As `find_corpus`, `count_named` and `learn`; or the output holds something
            else.
    """
    settings, also = _settings(arguments)
    pattern = SPLIT_PATTERN if arguments.pattern is None else arguments.pattern
    SpanCounts(pattern)  # one that cannot be compiled is refused before files are opened
    outputs = {arguments.output} | {sized_output(arguments.output, size) for size in also}
    if not arguments.force:
        _note_existing(sorted(outputs))
    start = time.perf_counter()
    named = find_corpus(arguments.inputs, arguments, output=arguments.output)
    found = count_named(named, arguments, pattern=pattern, threads=arguments.threads)
    counting = time.perf_counter() - start
    had = f"counted in {counting:.1f} s"
    learned, taken = learn_timed(found.counts, settings, threads=arguments.threads, had=had)
    more = {"documents": found.documents, "quarantined": dict(found.quarantined)}
    learned = replace(learned, report={**learned.report, **more})
    wrote = write(learned, arguments.output, also=also, force=bool(arguments.force))
    seconds = {"count": round(counting, 3), "learn": round(taken, 3)}
    results = values(learned, output=arguments.output, wrote=wrote, seconds=seconds)
    return results | {"files": len(named.files)}


def _settings(arguments: argparse.Namespace) -> tuple[TrainSettings, list[int]]:
    if not arguments.inputs:
        raise RecipeError("no file to learn from: name some after the flags")
    if arguments.vocab_size is None:
        raise RecipeError("--vocab-size is missing: say how many ids the tokenizer is to have")
    try:
        also = [] if arguments.also is None else sizes(arguments.also)
    except argparse.ArgumentTypeError as error:
        raise RecipeError(f"--also: {error}") from None
    names = _special_tokens(arguments)
    return settings_of(arguments, special_tokens=names, also=also), also


def _special_tokens(arguments: argparse.Namespace) -> Sequence[str]:
    """Return the names: those asked for, or what the output has by itself."""
    names: Sequence[str] | None = arguments.special_tokens
    if file_suffix(arguments.output) != WITHOUT_SPECIAL_TOKENS:
        return SPECIAL_TOKENS if names is None else names
    if names:
        raise TokenizerError(
            f"--special-tokens has {', '.join(names)}, and a {WITHOUT_SPECIAL_TOKENS} file has no "
            "place for special tokens: name a folder as --output, which gets one beside the files "
            "that have them; or leave --special-tokens out"
        )
    return ()


def _note_existing(outputs: Sequence[str]) -> None:
    for output in outputs:
        if names := files_there(output):
            print(
                f"note: {output} is there already ({', '.join(names)}): unless the same is learned "
                "again, it stays as it is and this fails; --force overwrites it",
                file=sys.stderr,
            )
