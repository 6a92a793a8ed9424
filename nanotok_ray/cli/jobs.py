"""The commands that run the job: prepare, train, tokenize; train also learns without one."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nanotok_ray.cli import train_files
from nanotok_ray.cli.arguments import (
    add_executor,
    add_overrides,
    add_relearn,
    add_removed,
    add_resplit,
)
from nanotok_ray.cli.printing import print_json
from nanotok_ray.cli.progress import Progress
from nanotok_ray.recipe import Recipe, load_recipe
from nanotok_ray.tokenizer import Tokenizer, default_folder, save_for_nanochat

_PREPARE = """\
Learn a tokenizer from every train document, tokenize the corpus, verify.

  nanotok prepare recipe.toml
  nanotok prepare recipe.toml --set tokenizer.vocab_size=65536 --set output.path=/data/out
  nanotok prepare recipe.toml --also 8192,16384     (writes OUT/tokenizer-8192 ... too)
  nanotok prepare recipe.toml --dry-run

Without RAY_ADDRESS a local Ray is started. The same command again resumes where it stopped, and
takes in what was added since: the tokenizer and the splits stay as they are, unless --relearn and
--resplit ask for others, so that all that was made stays too.
"""

_TRAIN = f"""\
Learn the tokenizer of a recipe and write OUT/tokenizer, or one of files without a recipe.

  nanotok train recipe.toml --vocab-size 65536 --also 16384,32768
  python -m jobs.train_tokenizer --max-chars 2000000000 --doc-cap 10000 --to-nanochat

`python -m jobs.train_tokenizer` without a recipe takes nanochat's own data folder.

{train_files.HELP}"""

_TOKENIZE = """\
Tokenize the corpus of a recipe with the tokenizer that is there, and verify.

  nanotok tokenize recipe.toml
  nanotok tokenize recipe.toml --set tokenizer.path=/data/tokenizer
"""


_RECIPE = "the TOML file that says all of the job"


def add_commands(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", *, default_recipe: str | None
) -> None:
    """Add the three commands to a parser."""
    for name, text, run in (
        ("prepare", _PREPARE, _run_prepare),
        ("train", _TRAIN, _run_train),
        ("tokenize", _TOKENIZE, _run_tokenize),
    ):
        parser = commands.add_parser(
            name,
            help=text.partition("\n")[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == "train":
            _add_inputs(parser, default_recipe=default_recipe)
        else:
            parser.add_argument("recipe", metavar="RECIPE", help=_RECIPE)
        _add_common(parser)
        if name == "prepare":
            add_relearn(parser)
        if name != "tokenize":
            parser.add_argument(
                "--also",
                metavar="IDS,...",
                help="write tokenizers of these smaller sizes too, cut from the learned one "
                "(default: tokenizer.also of the recipe, which is none)",
            )
        if name == "train":
            _add_nanochat(parser)
            train_files.add_arguments(parser)
        parser.set_defaults(run=run)


def _add_inputs(parser: argparse.ArgumentParser, *, default_recipe: str | None) -> None:
    """Add the recipe, or files."""
    parser.add_argument(
        "inputs",
        metavar="RECIPE|FILE",
        nargs="*" if default_recipe else "+",
        help=f"{_RECIPE}; with --output: files of text, folders, globs",
    )
    parser.set_defaults(default_recipe=default_recipe)


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_overrides(parser)
    add_executor(parser)
    add_resplit(parser)
    add_removed(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be done, and start nothing"
    )


def _add_nanochat(parser: argparse.ArgumentParser) -> None:
    """Add nanochat's own flags, which it has spelled both ways."""
    parser.add_argument(
        "--vocab-size",
        "--vocab_size",
        type=int,
        help="ids of the tokenizer, special tokens included "
        "(default: the recipe's; needed without one)",
    )
    parser.add_argument(
        "--max-chars",
        "--max_chars",
        type=int,
        help="count up to the document that passes this many code points (default: the recipe's)",
    )
    parser.add_argument(
        "--doc-cap",
        "--doc_cap",
        type=int,
        help="count this many code points of a document (default: the recipe's)",
    )
    parser.add_argument(
        "--to-nanochat",
        action="store_true",
        help="also write tokenizer.pkl and token_bytes.pt to $NANOCHAT_BASE_DIR/tokenizer "
        "(~/.cache/nanochat if unset), or to that of $NANOCHAT_EXPERIMENT, over those that are "
        "there",
    )


def _run_prepare(arguments: argparse.Namespace) -> int:
    from nanotok_ray.api import prepare  # noqa: PLC0415 - Ray, where it is needed

    _override_also(arguments)
    return _run_job(arguments, prepare, relearn=arguments.relearn)


def _run_tokenize(arguments: argparse.Namespace) -> int:
    from nanotok_ray.api import tokenize  # noqa: PLC0415 - as above

    return _run_job(arguments, tokenize)


def _run_train(arguments: argparse.Namespace) -> int:
    if train_files.is_meant(arguments):
        print_json(train_files.train_files(arguments))
        return 0
    from nanotok_ray.api import train  # noqa: PLC0415 - as above

    arguments.recipe = arguments.inputs[0] if arguments.inputs else arguments.default_recipe
    flags = {
        "tokenizer.vocab_size": arguments.vocab_size,
        "limits.max_chars": arguments.max_chars,
        "limits.doc_cap": arguments.doc_cap,
    }
    arguments.overrides += [f"{key}={value}" for key, value in flags.items() if value is not None]
    _override_also(arguments)
    return _run_job(arguments, train, after=_copy_to_nanochat)


def _override_also(arguments: argparse.Namespace) -> None:
    if arguments.also is not None:
        sizes = [size.strip() for size in arguments.also.split(",")]
        arguments.overrides.append(f"tokenizer.also={json.dumps(sizes)}")


def _run_job(
    arguments: argparse.Namespace,
    job: Callable[..., Any],
    *,
    after: Callable[[argparse.Namespace, Recipe], None] | None = None,
    **options: bool,
) -> int:
    recipe = load_recipe(arguments.recipe, overrides=arguments.overrides)
    if arguments.dry_run:
        return _dry_run(arguments, recipe)
    with Progress(sys.stderr) as progress:
        summary = (arguments.job or job)(
            recipe,
            executor=arguments.executor,
            cpus=arguments.workers,
            resplit=arguments.resplit,
            on_event=progress,
            **options,
        )
    if after is not None:
        after(arguments, recipe)
    print(summary.text(), file=sys.stderr)
    print_json(summary.values)
    return 0


def _dry_run(arguments: argparse.Namespace, recipe: Recipe) -> int:
    from nanotok_ray.job.decide import decide  # noqa: PLC0415 - as above

    announced = decide(
        recipe,
        arguments.command,
        resplit=arguments.resplit,
        relearn=getattr(arguments, "relearn", False),
    )
    print(announced.text(), file=sys.stderr)
    print_json(announced.values)
    return 0


def _copy_to_nanochat(arguments: argparse.Namespace, recipe: Recipe) -> None:
    if not arguments.to_nanochat:
        return
    folder = Path(default_folder()).expanduser()
    learned = f"{recipe.output.path}/tokenizer"
    save_for_nanochat(Tokenizer.load(learned).model, folder)
    print(f"wrote       {folder}", file=sys.stderr)
