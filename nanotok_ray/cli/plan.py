"""The command that plans and starts nothing: plan."""

import argparse
import math
import sys

from nanotok_ray.cli.arguments import (
    add_overrides,
    add_relearn,
    add_removed,
    add_resplit,
    positive,
)
from nanotok_ray.cli.printing import print_json
from nanotok_ray.recipe import load_recipe

_PLAN = """\
Freeze the inputs of a recipe and say what a job would do, and how long it may take.

  nanotok plan recipe.toml
  nanotok plan recipe.toml --workers 96             (how long it takes on 96 CPUs)
  nanotok plan recipe.toml --rate 12                (if one CPU does 12 MB of text in a second)
  nanotok plan recipe.toml --set source.web.split=val --resplit

Every input is opened, so that files that cannot be read are found now. Of each source up to 20
documents of up to five files (the first, the last, and some between) are read by the rules of the
job: if none of them can be used, because of a wrong column, kind, dialect or format, the plan is
refused; if some cannot, a note names the first. Bad documents further on are found by the job. Also
read are the first document of each file of conversations, which tells its dialect, and the texts
that speed is measured with. Starts no Ray.

Written is OUT/plan.json alone: which files there are, which of them are val, and how they are cut
into slices. A file that is added later is train, even if it sorts last. A second `plan` compares
with the frozen one and names the files that were added, removed or changed: slices with added or
changed files are tokenized, all others are left alone. The tokenizer stays, unless --relearn is
given or the recipe learns by other rules: then they are counted too. A finished output keeps its
plan until a job changes it (give --resplit and --relearn to that job too); under a run that is at
work none is frozen. `nanotok prepare --dry-run` says what there is to do and freezes nothing.

The time is an estimate: text by the rate of one CPU, of --rate, of the last run of this output, or
measured here with the first texts; no less than the largest slice takes. Learning is one process
and is estimated from the last run alone.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "plan",
        help=_PLAN.partition("\n")[0],
        description=_PLAN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", metavar="RECIPE", help="the TOML file that says all of the job")
    add_overrides(parser)
    add_resplit(parser)
    add_removed(parser)
    add_relearn(parser)
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="CPUs to estimate for (default: all of this machine)",
    )
    parser.add_argument(
        "--rate",
        type=_rate,
        metavar="MB/s",
        help="text that one CPU counts or tokenizes in a second (default: see above)",
    )
    parser.set_defaults(run=_run_plan)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate above 0 in MB/s")
    return rate


def _run_plan(arguments: argparse.Namespace) -> int:
    from nanotok_ray.api import plan  # noqa: PLC0415 - slow to import

    recipe = load_recipe(arguments.recipe, overrides=arguments.overrides)
    announced = plan(
        recipe,
        resplit=arguments.resplit,
        relearn=arguments.relearn,
        cpus=arguments.workers,
        rate=arguments.rate,
    )
    print(announced.text(), file=sys.stderr)
    print_json(announced.values)
    return 0
