"""The commands about tokenizers: tokenizer train, learn, show, compare, eval, extend, convert."""

from collections.abc import Callable
from inspect import cleandoc
from typing import Any

import click

from nanotok_ray.cli.app import Arguments, Choice, Group, command
from nanotok_ray.cli.options import (
    COUNT,
    PATH,
    also_option,
    corpus_options,
    cpus_option,
    file_options,
    integer,
    max_bytes_option,
    number,
    options,
    vocab_size_option,
)

PATTERN_NAMES = "nanochat, gpt4, cl100k, r50k, o200k, nanochat-superwords, gpt4-superwords"
TOKENIZERS_HELP = """
A tokenizer is a folder, a tokenizer.txt, tokenizer.json or tokenizer.pkl, a file of ranks with its
pattern, such as ranks.tiktoken:gpt4, or the name of an encoding of tiktoken, such as cl100k_base or
gpt2. The names cl100k and o200k need the package bpe-openai.
"""
FILES_HELP = """
Files are parquet (a document per row), .jsonl and .ndjson (a JSON object per line) or .txt (a
document per line; blank lines are skipped), the latter two also as .gz or .zst. Paths, URLs,
globs, and folders of one format are accepted.
"""
BAD_DOCUMENTS_HELP = """
Documents that cannot be used (invalid UTF-8, invalid JSON, no text) are skipped, counted, and
listed with their reasons. If there are too many of them, or if a file is truncated or damaged, the
command exits with 3 and writes nothing.
"""

tokenizer = Group(
    "tokenizer",
    sections={
        "Make a tokenizer": dict.fromkeys(("train", "learn", "extend", "convert"), "tokenizer"),
        "Look at tokenizers": {
            "show": "tokenizer",
            "compare": "tokenizer",
            "eval": "tokenizer:evaluate",
        },
    },
    examples="""
nanotok tokenizer train --vocab-size 8000 --output my_tokenizer corpus.txt
nanotok tokenizer show /data/out/tokenizer
nanotok tokenizer eval /data/out/tokenizer --against /data/old/tokenizer
""",
    help="Train a tokenizer from files or counts, and show, compare and extend tokenizers.",
)


def describe(*parts: str) -> Callable[[Callable[[Arguments], int]], Callable[[Arguments], int]]:
    """Return a decorator that adds paragraphs to a docstring."""

    def decorate(function: Callable[[Arguments], int]) -> Callable[[Arguments], int]:
        texts = [cleandoc(text) for text in (function.__doc__ or "", *parts)]
        function.__doc__ = "\n\n".join(texts)
        return function

    return decorate


def split_pattern_option(default: str) -> Callable[[Any], Any]:
    """Return `--pattern` of the commands that learn, with its default."""
    return click.option(
        "--pattern",
        metavar="NAME|REGEX",
        help=f"Split pattern: {PATTERN_NAMES}, or a regular expression.  [default: {default}]",
    )


training_options = options(
    vocab_size_option(is_required=True),
    click.option(
        "--output", type=PATH, required=True, metavar="FILE|FOLDER", help="File or folder to write."
    ),
    also_option,
    click.option(
        "--base",
        type=PATH,
        metavar="TOKENIZER",
        help="Tokenizer of byte-level BPE to continue: its ids stay, new ones follow.",
    ),
    click.option(
        "--special-token",
        "special_tokens",
        metavar="NAME",
        multiple=True,
        help="Special token. Repeatable.  [default: nanochat's nine; none for *.tiktoken]",
    ),
    click.option("--no-special-tokens", is_flag=True, help="Use no special tokens."),
    click.option(
        "--min-pair-count",
        type=COUNT,
        default=1,
        show_default=True,
        metavar="N",
        help="Stop when no remaining pair occurs at least N times.",
    ),
    click.option(
        "--max-token-bytes",
        type=integer(2),
        metavar="N",
        help="Maximum length of a token in bytes.",
    ),
    cpus_option,
    click.option("--force", is_flag=True, help="Overwrite existing files, also another tokenizer."),
)

pattern_option = click.option(
    "--pattern",
    metavar="NAME|REGEX",
    help="Split pattern of tokenizers that are .tiktoken files, which do not store it.",
)

open_options = options(
    pattern_option,
    click.option("--plot", type=PATH, metavar="FILE", help="Also write a plot: *.svg or *.png."),
)


@command(
    examples="""
nanotok tokenizer train --vocab-size 8000 --output my_tokenizer.tiktoken corpus.txt
nanotok tokenizer train --vocab-size 32768 --output my_tokenizer --document-per-file books/*.txt
nanotok tokenizer train --vocab-size 50000 --output tokenizer.json --column body --pattern gpt4 \\
    --special-token '<|bos|>' --special-token '<|eos|>' a.jsonl.gz s3://bucket/b.jsonl
nanotok tokenizer train --base qwen/tokenizer.json --vocab-size 155000 --output longer mine/*.txt
"""
)
@click.argument("files", type=PATH, nargs=-1, required=True, metavar="FILES...")
@training_options
@split_pattern_option("nanochat")
@file_options
@click.option(
    "--max-quarantined-share",
    type=number(0, 1),
    metavar="SHARE",
    help="Share of the documents that may be unusable.  [default: 0.001]",
)
@click.option(
    "--max-tails",
    type=integer(0),
    metavar="N",
    help="How many files may be truncated or damaged.  [default: 0]",
)
@describe(FILES_HELP, BAD_DOCUMENTS_HELP)
def train(arguments: Arguments) -> int:
    """Train a tokenizer from files, in this process and without a recipe.

    All documents are used; there is no val split. The merges equal those of a job with the same
    documents, and those of rustbpe.

    --output is a folder for all files of a tokenizer and its report.json, or a single file:
    *.tiktoken (ranks, without the pattern and special tokens), *.json (tokenizer.json of Hugging
    Face) or *.txt (readable, the format of nanotok_ray). --also writes smaller tokenizers beside
    it, such as my_tokenizer-4096. Files of another tokenizer are not overwritten without --force.

    With --base, the tokens of another tokenizer come first, with their ids, its split pattern and
    its special tokens. The folder then has new_tokens.json too: the ids of each new token in the
    base, from which a model can initialize its embedding.
    """
    from nanotok_ray.cli.tokenizer_train import run_train

    return run_train(arguments)


@command(
    examples="""
nanotok tokenizer learn WORK/counts --vocab-size 65536 --output /data/tokenizer
nanotok tokenizer learn WORK/counts --vocab-size 65536 --also 16384,32768 --output /data/tokenizer
nanotok tokenizer learn a.arrow s3://bucket/b.arrow --vocab-size 32768 --output s3://bucket/t
nanotok tokenizer learn counts.parquet --span-column token --count-column n --pattern gpt4 \\
    --vocab-size 50000 --special-token '<|bos|>' --output /data/tokenizer
"""
)
@click.argument("counts", type=PATH, nargs=-1, required=True, metavar="COUNTS...")
@training_options
@split_pattern_option("the one that count files store")
@click.option(
    "--span-column",
    default="span",
    show_default=True,
    metavar="NAME",
    help="Column of spans in parquet files.",
)
@click.option(
    "--count-column",
    default="count",
    show_default=True,
    metavar="NAME",
    help="Column of counts in parquet files.",
)
def learn(arguments: Arguments) -> int:
    """Learn a tokenizer from counts of spans, without reading any text.

    COUNTS are count files (WORK/counts/**/*.arrow of a job, or what SpanCounts.save writes),
    parquet files with a row per span (from Spark, SQL or other tools), or folders of them. The
    command adds them up. A count file stores the pattern that split the texts. Parquet files do
    not, so pass it with --pattern. The tokenizer is correct only if the texts were split with that
    pattern.

    The work folder of a job also has counts of earlier runs and, with max_chars, counts of slices
    past the limit. If the corpus or the recipe has changed, or if the recipe has max_chars, name
    the files to use.

    --output is a folder. --also writes smaller tokenizers beside it, such as /data/tokenizer-16384;
    they are cut from the learned tokenizer, so nothing is learned twice. Files of another tokenizer
    are not overwritten without --force.
    """
    from nanotok_ray.cli.tokenizer_train import run_learn

    return run_learn(arguments)


@command(
    examples="""
nanotok tokenizer show /data/out/tokenizer
nanotok tokenizer show /data/out/tokenizer /data/web/*.parquet --plot tokenizer.svg
nanotok tokenizer show /data/out/tokenizer --id 300 --id 301 --token ' the'
nanotok tokenizer show ranks.tiktoken:gpt4 corpus.txt.gz --top 50
"""
)
@click.argument("tokenizer", type=PATH, metavar="TOKENIZER")
@click.argument("files", type=PATH, nargs=-1, metavar="[FILES]...")
@click.option("--id", "ids", type=int, multiple=True, metavar="N", help="Show this id. Repeatable.")
@click.option(
    "--token", "tokens", multiple=True, metavar="TEXT", help="Show this token. Repeatable."
)
@click.option(
    "--top", type=COUNT, default=20, show_default=True, metavar="N", help="Length of each list."
)
@open_options
@corpus_options
@max_bytes_option("100MB")
@describe(TOKENIZERS_HELP, FILES_HELP)
def show(arguments: Arguments) -> int:
    """Show a tokenizer: sizes, merges, special tokens, longest tokens; with files, their use.

    Tokens are shown as Python literals. In JSON, and for --token, a byte that is not UTF-8 is \\xNN
    and a backslash is \\\\. Unused tokens are those that occur in no text of the files. Every text
    is decoded again and compared.
    """
    from nanotok_ray.cli.tokenizer_show import run_show

    return run_show(arguments)


@command(
    examples="""
nanotok tokenizer compare /data/a/tokenizer /data/b/tokenizer --corpus 'web/*.parquet'
nanotok tokenizer compare ours=/data/out/tokenizer cl100k o200k \\
    --corpus 'english=en/*.parquet' --corpus 'code=code/*.parquet' --plot compare.svg
nanotok tokenizer compare A B --corpus pages.jsonl --by language --max-bytes 1GB
"""
)
@click.argument("tokenizers", type=PATH, nargs=-1, required=True, metavar="[NAME=]TOKENIZER...")
@click.option(
    "--corpus",
    type=PATH,
    required=True,
    multiple=True,
    metavar="[NAME=]FILES",
    help="Files, folder or glob (quote it), optionally with the name of a source. Repeatable.",
)
@open_options
@corpus_options
@click.option(
    "--by",
    metavar="COLUMN",
    help="Parquet column or JSON field to group documents by, such as their language.",
)
@max_bytes_option("100MB")
@describe(TOKENIZERS_HELP, FILES_HELP)
def compare(arguments: Arguments) -> int:
    """Compare tokenizers on corpora: bytes per token by source and language, and shared tokens.

    The first tokenizer is compared with each of the others. "diff" states how many percent fewer
    tokens it makes. The column "code point" is the bytes per token of a tokenizer with one token
    per code point. Every text is decoded again and compared. Then the vocabularies are compared:
    the tokens that both have, and the first merge that differs.
    """
    from nanotok_ray.cli.tokenizer_compare import run_compare

    return run_compare(arguments)


@command(
    "eval",
    examples="""
nanotok tokenizer eval /data/out/tokenizer
nanotok tokenizer eval /data/out/tokenizer --against cl100k --against o200k --plot eval.png
nanotok tokenizer eval /data/out/tokenizer --against /data/old/tokenizer --splits-of /data/out
""",
)
@click.argument("tokenizer", type=PATH, metavar="[NAME=]TOKENIZER")
@click.option(
    "--against",
    type=PATH,
    multiple=True,
    metavar="[NAME=]TOKENIZER",
    help="Another tokenizer. Repeatable.",
)
@click.option(
    "--splits-of",
    type=PATH,
    metavar="OUTPUT|RECIPE",
    help="Also use the first train and val documents of this finished output.",
)
@open_options
@max_bytes_option("1MB")
@describe(TOKENIZERS_HELP)
def evaluate(arguments: Arguments) -> int:
    """Evaluate a tokenizer on sample texts: news, Korean, code, math, science.

    The table has the form of nanochat's tok_eval, but other texts, so compare the numbers with each
    other and not with published ones. "diff" states how many percent fewer tokens the first
    tokenizer makes. Every text is decoded again and compared. The texts of --splits-of are used
    without special tokens.
    """
    from nanotok_ray.cli.tokenizer_compare import run_eval

    return run_eval(arguments)


@command(
    examples="""
nanotok tokenizer extend /data/out/tokenizer --preset seed --output /data/vision-tokenizer
nanotok tokenizer extend s3://bucket/tokenizer --special-token '<|pad|>' \\
    --special-token '<|image|>' --output s3://bucket/padded
nanotok tokenizer extend ranks.tiktoken:gpt4 --special-token '<|bos|>' --output /data/with-bos
"""
)
@click.argument("tokenizer", type=PATH, metavar="TOKENIZER")
@click.option(
    "--preset",
    type=Choice(("seed", "nano-deepseek-ocr")),
    help="Named group of special tokens, added before those of --special-token.",
)
@click.option(
    "--special-token",
    "special_tokens",
    metavar="NAME",
    multiple=True,
    help="Special token to add. Repeatable.",
)
@click.option(
    "--output", type=PATH, required=True, metavar="FILE|FOLDER", help="Folder, *.json or *.txt."
)
@pattern_option
@describe(TOKENIZERS_HELP)
def extend(arguments: Arguments) -> int:
    """Add special tokens to a tokenizer, without changing any id.

    New tokens get the ids after the last one, in the given order. Existing ids do not change, so
    tokenized text stays valid, and a model needs only more rows in its embedding. Files of another
    tokenizer are not overwritten. A job does the same with tokenizer.extend = ["preset:seed"] in
    its recipe.

    \b
    Presets:
      seed               <image> <|grounding|> <|ref|> <|/ref|> <|det|> <|/det|>
      nano-deepseek-ocr  <|image|>
    """
    from nanotok_ray.cli.tokenizer_train import run_extend

    return run_extend(arguments)


@command(
    examples="""
nanotok tokenizer convert /data/out/tokenizer --output tokenizer.json
nanotok tokenizer convert tokenizer.json --output /data/tokenizer
nanotok tokenizer convert ranks.tiktoken:gpt4 --output tokenizer.txt
"""
)
@click.argument("tokenizer", type=PATH, metavar="TOKENIZER")
@click.option(
    "--output",
    type=PATH,
    required=True,
    metavar="FILE|FOLDER",
    help="Folder, *.tiktoken, *.json or *.txt.",
)
@pattern_option
@describe(TOKENIZERS_HELP)
def convert(arguments: Arguments) -> int:
    """Write a tokenizer in another format, with the same ids.

    --output is a folder for the files of all formats, or a single file: *.tiktoken (ranks, without
    the pattern and special tokens), *.json (tokenizer.json of Hugging Face) or *.txt (readable, the
    format of nanotok_ray). Files of another tokenizer are not overwritten.
    """
    from nanotok_ray.cli.tokenizer_train import run_convert

    return run_convert(arguments)
