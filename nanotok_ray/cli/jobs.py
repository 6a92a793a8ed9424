"""The commands that plan and run a job: plan, prepare, train, tokenize, submit."""

import shlex
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nanotok_ray.cli.app import Arguments, Choice, command
from nanotok_ray.cli.options import (
    COUNT,
    PATH,
    also_option,
    change_options,
    default_recipe,
    dry_run_option,
    execution_options,
    file_options,
    flag_of,
    number,
    options,
    override_option,
    overrides_of,
    recipe_argument,
    recipe_of,
    relearn_option,
    skip_option,
    vocab_size_option,
)
from nanotok_ray.units import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nanotok_ray.job.events import OnEvent
    from nanotok_ray.job.job_plan import JobPlan
    from nanotok_ray.job.summary import Summary
    from nanotok_ray.recipe import Recipe
    from nanotok_ray.sources import UnusableFile


@command(
    examples="""
nanotok plan recipe.toml
nanotok plan recipe.toml --cpus 96      # how long on 96 CPUs?
nanotok plan recipe.toml --rate 12      # if one CPU processes 12 MB of text per second
nanotok plan recipe.toml --set source.web.split=val --resplit
"""
)
@recipe_argument
@override_option
@change_options
@skip_option
@relearn_option
@click.option(
    "--cpus",
    type=COUNT,
    metavar="N",
    help="CPUs to estimate for.  [default: all of this machine]",
)
@click.option(
    "--rate",
    type=number(0, is_above=True),
    metavar="MB/S",
    help="Text that one CPU counts or tokenizes per second.  [default: measured]",
)
def plan(arguments: Arguments) -> int:
    """Save the plan of a recipe, and show what a job would do and how long it may take.

    The plan, OUT/plan.json, lists the files, the split of each (train or val), and how they are cut
    into slices. Files that are added later go to the train split, or with share:S to the splits of
    their documents' hashes. If a plan exists, the command shows which files were added, removed or
    changed since then. Slices with added or changed files are tokenized again, and all others are
    reused. A finished output keeps its plan until a job changes it, so pass --resplit and --relearn
    to that job too. While a job runs, no plan is saved. `nanotok prepare --dry-run` shows the same
    and saves nothing.

    The command opens every input, and reads up to 20 documents of up to five files of each source.
    It refuses the plan if none of the documents of a source can be used, for instance because of a
    wrong column, kind, dialect or format. If some cannot be used, it prints a note with the first.
    It does not start Ray.

    The time is an estimate from --rate, from the last run of this output, or from a measurement
    with the first texts. The time for learning is known only from the last run.
    """
    with _reading(arguments) as on_event:
        from nanotok_ray.api import plan as plan_job

        recipe, skipped = _usable(recipe_of(arguments), arguments, on_event)
        planned = plan_job(
            recipe,
            resplit=arguments.resplit,
            relearn=arguments.relearn,
            cpus=arguments.cpus,
            rate=arguments.rate,
            on_event=on_event,
        )
    _print_result(arguments, planned, skipped)
    return 0


job_options = options(
    override_option, execution_options, change_options, skip_option, dry_run_option
)


@command(
    examples="""
nanotok prepare recipe.toml
nanotok prepare recipe.toml --set tokenizer.vocab_size=65536 --set output.path=/data/out
nanotok prepare recipe.toml --also 8192,16384      # also writes OUT/tokenizer-8192, ...
nanotok prepare recipe.toml --local --cpus 4       # without Ray
nanotok prepare recipe.toml --dry-run
nanotok prepare /data/web /data/chats/*.jsonl --output /data/out --vocab-size 32768
"""
)
@click.argument("files", type=PATH, metavar="RECIPE|FILE...", nargs=-1, callback=default_recipe)
@click.option(
    "--output",
    type=PATH,
    metavar="DIR",
    help="Prepare files without a recipe, into this folder or URL. The recipe that `nanotok init` "
    "writes for the files is saved there as recipe.toml, and used again.",
)
@vocab_size_option("that of the recipe, 32768 without one")
@file_options
@job_options
@relearn_option
@also_option
def prepare(arguments: Arguments) -> int:
    """Learn a tokenizer from every train document, tokenize the corpus, and verify the output.

    Run the same command again to resume the job, or to process only inputs that were added or
    changed. The tokenizer and the splits stay the same unless you pass --relearn or --resplit. This
    also holds for files without a recipe: the saved recipe is used again, and extended if new files
    need another source.

    The job runs on the Ray cluster of --address or RAY_ADDRESS. Without an address, it starts a
    local Ray.
    """
    return _run_job("prepare", arguments, relearn=arguments.relearn)


@command(
    examples="""
nanotok train recipe.toml --vocab-size 65536 --also 16384,32768
python -m jobs.train_tokenizer --max-chars 2000000000 --doc-cap 10000 --to-nanochat
""",
    context_settings={"token_normalize_func": lambda name: name.replace("_", "-")},
)
@recipe_argument
@job_options
@also_option
@vocab_size_option("that of the recipe")
@click.option(
    "--max-chars",
    type=int,
    metavar="N",
    help="Count up to the document that passes "
    "this many code points.  [default: that of the recipe]",
)
@click.option(
    "--doc-cap",
    type=int,
    metavar="N",
    help="Count at most this many code points of each document.  [default: that of the recipe]",
)
@click.option(
    "--to-nanochat",
    is_flag=True,
    help="Also write tokenizer.pkl and token_bytes.pt to the tokenizer folder of nanochat, and "
    "overwrite existing files there. The folder is $NANOCHAT_BASE_DIR/tokenizer "
    "(~/.cache/nanochat/tokenizer if unset), or that of $NANOCHAT_EXPERIMENT.",
)
def train(arguments: Arguments) -> int:
    """Learn the tokenizer of a recipe and write OUT/tokenizer.

    `python -m jobs.train_tokenizer` is the same command. Without a recipe, it reads nanochat's data
    folder. To learn from files without a recipe, see `nanotok tokenizer train`.
    """
    return _run_job("train", arguments)


@command(
    examples="""
nanotok tokenize recipe.toml
nanotok tokenize recipe.toml --set tokenizer.path=/data/tokenizer
"""
)
@recipe_argument
@job_options
def tokenize(arguments: Arguments) -> int:
    """Tokenize the corpus of a recipe with an existing tokenizer, and verify the output.

    The command uses the tokenizer of tokenizer.path in the recipe, or else OUT/tokenizer.
    """
    return _run_job("tokenize", arguments)


@contextmanager
def _reading(arguments: Arguments) -> "Iterator[OnEvent]":
    """Print at once that the recipe is read, and yield the listener of the job's events."""
    from nanotok_ray.job.events import Activity

    with arguments.console.progress() as on_event:
        what = vars(arguments).get("recipe") or ", ".join(arguments.files)
        on_event(Activity(text=f"reading {what}"))
        yield on_event


def _recipe(arguments: Arguments, on_event: "OnEvent") -> "Recipe":
    """Return the recipe of the arguments, or the recipe that is drafted for files.

    Raises:
        click.UsageError: Files were given without an output.
    """
    from nanotok_ray.cli.init import drafted_recipe
    from nanotok_ray.sources import suffix_format

    if "files" in vars(arguments):
        if arguments.output is not None:
            return drafted_recipe(arguments, on_event)
        for option in ("input_format", "document_per_file", "column"):
            if vars(arguments)[option]:
                raise click.UsageError(
                    f"{flag_of(option)} is for files without a recipe; add --output "
                    "DIR, or set format or column in the recipe"
                )
        first, last = arguments.files[0], arguments.files[-1]
        if first != last or Path(first).is_dir() or suffix_format(first) is not None:
            raise click.UsageError(
                f"{last} is not a recipe; to prepare files without one, add --output DIR"
            )
        arguments.recipe = first
    return recipe_of(arguments)


def _run_job(name: str, arguments: Arguments, **options: bool) -> int:
    with _reading(arguments) as on_event:
        from nanotok_ray import api
        from nanotok_ray.job.job_plan import decide

        recipe, skipped = _usable(_recipe(arguments, on_event), arguments, on_event)
        if arguments.dry_run:
            resplit, relearn = arguments.resplit, options.get("relearn", False)
            planned = decide(recipe, name, resplit=resplit, relearn=relearn, on_event=on_event)
            _print_result(arguments, planned, skipped)
            return 0
        summary = (arguments.console.job or getattr(api, name))(
            recipe,
            executor="local" if arguments.local else None,
            address=arguments.address,
            cpus=arguments.cpus,
            resplit=arguments.resplit,
            on_event=on_event,
            **options,
        )
    if vars(arguments).get("to_nanochat"):
        _copy_to_nanochat(arguments, recipe)
    times = replace(summary.times, wall_seconds=round(arguments.console.seconds, 3))
    summary = replace(summary, times=times)
    of_recipe = _tokenize_command(arguments) if name == "train" else ""
    _print_result(arguments, summary, skipped, of_recipe=of_recipe)
    return 0


def _tokenize_command(arguments: Arguments) -> str:
    """Return the command that follows `train` with the same settings, without its first word."""
    words = ["tokenize", arguments.recipe, *(["--local"] if arguments.local else [])]
    words += ["--address", arguments.address] if arguments.address else []
    words += [word for override in overrides_of(arguments) for word in ("--set", override)]
    return shlex.join(words)


def _usable(
    recipe: "Recipe", arguments: Arguments, on_event: "OnEvent"
) -> "tuple[Recipe, list[UnusableFile]]":
    """Return the recipe without unusable files, and these, if --skip-unreadable is set."""
    from nanotok_ray.job.events import Activity, Note
    from nanotok_ray.sources import without_unusable

    if not arguments.skip_unreadable:
        return recipe, []

    def on_look(name: str, done: int, todo: int) -> None:
        on_event(Activity(text=f"opening the files of {name}", done=done, todo=todo))

    recipe, unusable = without_unusable(recipe, on_look=on_look)
    files = {file.path: file for file in (*vars(arguments).get("skipped_files", ()), *unusable)}
    for file in files.values():
        on_event(Note(text=f"left out {file}"))
    return recipe, list(files.values())


def _print_result(
    arguments: Arguments,
    result: "JobPlan | Summary",
    skipped: "list[UnusableFile]",
    *,
    of_recipe: str = "",
) -> None:
    """Print the result of a command, and the files that were left out."""
    from nanotok_ray.sources import listed_problems

    values, lines = dict(result.values), [result.text()]
    if of_recipe:
        lines = [lines[0].replace("tokenize RECIPE", of_recipe)]
    if skipped:
        values["left_out"] = [{"file": file.path, "why": file.reason} for file in skipped]
        lines.append(
            listed_problems(f"left out    {quantity(len(skipped), 'file')}", [*map(str, skipped)])
        )
    arguments.console.result(values, lines=lines)


def _copy_to_nanochat(arguments: Arguments, recipe: "Recipe") -> None:
    from nanotok_ray.tokenizer import Tokenizer, default_folder, save_for_nanochat

    folder = Path(default_folder()).expanduser()
    learned = f"{recipe.output.path}/tokenizer"
    save_for_nanochat(Tokenizer.load(learned).byte_level_model, folder)
    arguments.console.text(f"wrote       {folder}")


@command(
    examples="""
export RAY_AUTH_MODE=token     # and the token of the cluster in ~/.ray/auth_token
nanotok submit recipe.toml --address http://127.0.0.1:8265
nanotok submit recipe.toml --job train --also 8192,16384
nanotok submit recipe.toml --env DATA=s3://bucket/data --set output.path=s3://bucket/out
nanotok submit recipe.toml --no-wait
nanotok submit recipe.toml --dry-run

# In a crontab, where % is written \\%, once per day:
30 2 * * *  nanotok submit /etc/nanotok/web.toml --submission-id web-$(date +\\%F)
"""
)
@recipe_argument
@click.option(
    "--address",
    metavar="ADDRESS",
    help="URL of the dashboard.  [default: RAY_API_SERVER_ADDRESS, or RAY_ADDRESS if it is a URL]",
)
@click.option(
    "--job",
    type=Choice(("prepare", "train", "tokenize")),
    default="prepare",
    show_default=True,
    help="The job to run.",
)
@override_option
@change_options
@skip_option
@relearn_option
@also_option
@click.option(
    "--env",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Pass an environment variable to the job, for instance for ${NAME} in the recipe. Do not "
    "pass secrets, because the dashboard shows them. Repeatable.",
)
@click.option(
    "--submission-id",
    metavar="ID",
    help="Run the job with this id at most once.  [default: made from the recipe]",
)
@click.option(
    "--no-wait", is_flag=True, help="Print the id and exit as soon as the job is submitted."
)
@click.option(
    "--timeout",
    type=number(0),
    metavar="SECONDS",
    help="Follow the job for this long.  [default: until it ends]",
)
@click.option(
    "--patience",
    type=number(0),
    metavar="SECONDS",
    help="Wait this long for a job server that does not answer.  [default: 20, and 300 once it has "
    "answered]",
)
@dry_run_option
def submit(arguments: Arguments) -> int:
    """Submit a recipe to a Ray cluster, follow the job, and exit with its result.

    Only the recipe is sent. Its paths must be absolute paths or URLs that are valid on every node.

    If a job with the same recipe and options is running, the command follows it. If it has ended,
    the command starts a new job named NAME-2, NAME-3, and so on. A job with a --submission-id runs
    at most once. If you submit it again, the command follows it or reports its result.

    The command exits with 0 if the job succeeded and its output is complete, with 4 if it succeeded
    and the output is incomplete, with the exit code of a job that failed, with 5 if the job cannot
    be reached, --timeout has passed or the job server no longer knows the job, and with 7 if the
    job was stopped. The job keeps running when this command ends. To stop it, run `ray job stop ID
    --address URL`.
    """
    from nanotok_ray.cli.submit import run_submit

    return run_submit(arguments)
