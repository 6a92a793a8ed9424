"""The command that runs a recipe on a cluster and says truly how that ended: submit."""

import argparse
import math
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nanotok_ray.cli.arguments import add_overrides, add_relearn, add_removed, add_resplit
from nanotok_ray.cli.json_line import print_json
from nanotok_ray.cli.submit_lines import SubmitLines
from nanotok_ray.errors import RecipeError
from nanotok_ray.job.doctor.ray_settings import host_and_port

if TYPE_CHECKING:
    from nanotok_ray.cluster.submit.ray_jobs import RayJobs
    from nanotok_ray.cluster.submit.shipping import Shipped
    from nanotok_ray.cluster.submit.submission import Started


FIRST_PATIENCE, PATIENCE = 20.0, 300.0
"""Seconds that a job server may be away: one that has never answered is perhaps another address."""

_SUBMIT = """\
Run a recipe on a Ray cluster by its job server, follow it, and say truly how it ended.

  export RAY_AUTH_MODE=token             (and the cluster's token in ~/.ray/auth_token)
  nanotok submit recipe.toml --address http://127.0.0.1:8265
  nanotok submit recipe.toml --job train --also 8192,16384
  nanotok submit recipe.toml --env DATA=s3://bucket/data --set output.path=s3://bucket/out
  nanotok submit recipe.toml --no-wait              (the same command again follows it)
  nanotok submit recipe.toml --dry-run              (prints the job, and contacts nothing)

The recipe travels alone, so its paths must be whole (or URLs), and mean the same on the cluster.

The same command finds its job again: one that runs is followed and not run a second time, and one
that has ended is run anew, as NAME-2, NAME-3 and so on. A job with an id of --submission-id is
run once: submitted again it is followed, or its end is told. So for cron, which knows % as \\%:

  30 2 * * *  nanotok submit /etc/nanotok/web.toml --submission-id web-$(date +\\%F)

Exit codes: 0 if the job succeeded and its output is complete (the last file is there; or, where
this machine cannot see the output, the job says so itself); a failed job's own code; 4 if it
succeeded and the output is not complete; 5 if it cannot be reached, or --timeout has passed; 7 if
it was stopped; 130 after Ctrl-C. A job goes on whatever becomes of this command, until it is
stopped: ray job stop ID --address URL
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    own = commands.add_parser(
        "submit",
        help=_SUBMIT.partition("\n")[0],
        description=_SUBMIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    own.add_argument("recipe", metavar="RECIPE", help="the TOML file that says all of the job")
    own.add_argument(
        "--address",
        metavar="URL",
        help="of the dashboard (default: $RAY_API_SERVER_ADDRESS, or $RAY_ADDRESS if it is a URL)",
    )
    own.add_argument(
        "--job",
        choices=("prepare", "train", "tokenize"),
        default="prepare",
        help="what to run (default: prepare)",
    )
    add_overrides(own)
    own.add_argument(
        "--also",
        metavar="IDS,...",
        help="tokenizers of smaller sizes (default: those of the recipe)",
    )
    add_relearn(own)
    add_resplit(own)
    add_removed(own)
    _add_environment(own)
    _add_following(own)
    own.set_defaults(run=_run_submit)


def _add_environment(own: argparse.ArgumentParser) -> None:
    own.add_argument(
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="give the job an environment variable, e.g. for ${NAME} in the recipe; repeatable; "
        "no secrets: all who see the dashboard see it (default: none)",
    )
    own.add_argument(
        "--submission-id", metavar="ID", help="run at most once (default: of the recipe's content)"
    )


def _add_following(own: argparse.ArgumentParser) -> None:
    own.add_argument(
        "--no-wait", action="store_true", help="print the id once the job is submitted, and exit 0"
    )
    own.add_argument(
        "--timeout", type=_seconds, metavar="S", help="follow for so long (default: to the end)"
    )
    own.add_argument(
        "--patience",
        type=_seconds,
        metavar="S",
        help="how long the job server may be away (default: 20 until it has answered, then 300)",
    )
    own.add_argument(
        "--dry-run", action="store_true", help="say what would be submitted, and contact nothing"
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 on")
    return seconds


def address_of(given: str | None, environment: Mapping[str, str]) -> str:
    """Give the address of the job server.

    Raises:
        RecipeError: none is given, or it is not a URL of http or https.

    >>> address_of(None, {"RAY_ADDRESS": "http://10.0.0.7:8265/"})
    'http://10.0.0.7:8265'
    """
    told = "give the dashboard's URL, as --address http://127.0.0.1:8265"
    address = given or environment.get("RAY_API_SERVER_ADDRESS")
    if not address:
        address = environment.get("RAY_ADDRESS", "")
        if not address.startswith(("http://", "https://")):
            raise RecipeError(f"no --address, nor RAY_API_SERVER_ADDRESS: {told}")
    if not address.startswith(("http://", "https://")) or host_and_port(address) is None:
        raise RecipeError(f"the address {address!r} is no http:// or https:// URL: {told}")
    return address.rstrip("/")


def _run_submit(arguments: argparse.Namespace) -> int:
    shipped = _shipped(arguments)
    for note in shipped.notes:
        print(f"nanotok: note: {note}", file=sys.stderr)
    address = address_of(arguments.address, os.environ)
    if arguments.dry_run:
        return _dry_run(arguments, shipped, address)
    from nanotok_ray.cli.submitted import Submitted  # noqa: PLC0415 - for this command alone
    from nanotok_ray.cluster.submit.ray_jobs import RayJobs  # noqa: PLC0415 - it imports Ray

    jobs = RayJobs(address)
    lines = SubmitLines(sys.stderr)
    started = _start(arguments, shipped, jobs, lines)
    if arguments.no_wait:
        return _leave(started)
    submitted = Submitted(
        submission_id=started.submission_id,
        job=arguments.job,
        output=shipped.output,
        jobs=jobs,
        lines=lines,
    )
    patience = PATIENCE if arguments.patience is None else arguments.patience
    return submitted.follow(patience=patience, timeout=arguments.timeout)


def _shipped(arguments: argparse.Namespace) -> "Shipped":
    from nanotok_ray.cluster.submit.shipping import check_id, ship, variables_of  # noqa: PLC0415 - for this command alone

    if arguments.submission_id is not None:
        check_id(arguments.submission_id)
    if arguments.job == "tokenize" and (arguments.also is not None or arguments.relearn):
        raise RecipeError("--job tokenize learns nothing: leave out --also and --relearn")
    asks = arguments.relearn and arguments.job == "prepare"  # `train` learns unasked
    named = (("--relearn", asks), ("--resplit", arguments.resplit))
    return ship(
        arguments.recipe,
        job=arguments.job,
        overrides=arguments.overrides,
        also=arguments.also,
        flags=[flag for flag, is_given in named if is_given],
        variables=variables_of(arguments.env, os.environ),
        environment=os.environ,
    )


def _dry_run(arguments: argparse.Namespace, shipped: "Shipped", address: str) -> int:
    submission = shipped.submission
    print_json(
        {
            "status": "dry run",
            "submission_id": arguments.submission_id or submission.base_id,
            "address": address,
            "entrypoint": submission.entrypoint,
            "env": sorted(submission.variables),
            "output": shipped.output,
        }
    )
    return 0


def _start(
    arguments: argparse.Namespace, shipped: "Shipped", jobs: "RayJobs", lines: SubmitLines
) -> "Started":
    from nanotok_ray.cluster.submit.submission import (
        Starter,  # noqa: PLC0415 - as above
        WallClock,  # noqa: PLC0415 - as above
    )

    started = Starter(
        jobs=jobs,
        submission=shipped.submission,
        chosen_id=arguments.submission_id,
        clock=WallClock(),
        patience=FIRST_PATIENCE if arguments.patience is None else arguments.patience,
        tell=lambda text: lines.tell(f"nanotok: {text}"),
    ).start()
    own, was = started.submission_id, started.was_there
    if was is None:
        lines.tell(f"submitted {own} to {jobs.address}")
    elif was.has_ended:
        lines.tell(f"{own} has run already; to run it again, give another --submission-id")
    else:
        lines.tell(f"already submitted; following {own}")
    if was is not None and was.digest not in {None, shipped.submission.digest}:
        lines.tell(f"nanotok: note: {own} was submitted with another recipe or other arguments")
    return started


def _leave(started: "Started") -> int:
    status = "PENDING" if started.was_there is None else started.was_there.status
    print_json(
        {
            "status": "submitted",
            "submission_id": started.submission_id,
            "job_status": status,
        }
    )
    return 0
