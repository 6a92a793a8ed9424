"""The implementation of `nanotok submit`: runs a recipe on a cluster and follows the job."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nanotok_ray.cli.display import Display
from nanotok_ray.cli.options import overrides_of
from nanotok_ray.cli.printing import INTERRUPTED, TERMINATED
from nanotok_ray.cluster.submit.following import Ending, JobLog, Summary, follow
from nanotok_ray.cluster.submit.job_server import JobServer, Started, digest_of, start
from nanotok_ray.cluster.submit.shipping import (
    JobCommand,
    Submission,
    check_id,
    ship,
    variables_of,
)
from nanotok_ray.errors import CorruptOutputError, RecipeError
from nanotok_ray.formats.codec import omitted
from nanotok_ray.job.doctor.ray_settings import check_transport, host_and_port
from nanotok_ray.job.summary import read_summary
from nanotok_ray.job.termination import Terminated

if TYPE_CHECKING:
    from nanotok_ray.cli.app import Arguments


MAX_NOTES = 20
"""Limit of the shown notes of a job; a job that loses many nodes has thousands."""


class SubmitLines:
    """Shows the newest line of a job's log; notes and messages of the connection stay visible."""

    def __init__(self, display: Display) -> None:
        """Print to a display."""
        self._display = display
        self._newest = ""
        self._notes = 0

    def show(self, line: str) -> None:
        """Show a line of the job, at most one every ten seconds unless lines can be rewritten."""
        line = line.rstrip()
        if not line or line.startswith("{"):
            return
        if line.startswith("note: "):
            self._note(line)
        else:
            self._newest = line
            if self._display.has_bars:
                self._display.rewrite(line)
            elif self._display.is_due:
                self.flush()

    def _note(self, line: str) -> None:
        """Show a note of a job, for example on its inputs or on a failed attempt."""
        self._notes += 1
        if self._notes <= MAX_NOTES:
            self._display.print(line)
        if self._notes == MAX_NOTES:
            self._display.print(
                "nanotok: further notes are only in the log and in the journal of the job"
            )

    def flush(self) -> None:
        """Show the newest line if it was held back."""
        if self._newest:
            self._display.print(self._newest)
        self._newest = ""

    def message(self, text: str) -> None:
        """Show a message of this command."""
        self._display.print(f"nanotok: {text}")

    def end(self, message: str, lines: Sequence[str] = ()) -> None:
        """Print a message after lines of the job; without any, its newest one."""
        self._display.close()
        if not lines:
            self.flush()
        for line in lines:
            self._display.print(line)
        self.message(message)


FIRST_PATIENCE, PATIENCE = 20.0, 300.0
"""Seconds that a job server may be unreachable: less for one that has never answered, since its
address may be wrong.
"""


def address_of(argument: str | None, environment: Mapping[str, str]) -> str:
    """Return the address of the job server.

    Raises:
        RecipeError: No address is given, or it is not a URL of http or https.

    >>> address_of(None, {"RAY_ADDRESS": "http://10.0.0.7:8265/"})
    'http://10.0.0.7:8265'
    """
    text = "pass the dashboard's URL, such as --address http://127.0.0.1:8265"
    address = argument or environment.get("RAY_API_SERVER_ADDRESS")
    if not address:
        address = environment.get("RAY_ADDRESS", "")
        if not address.startswith(("http://", "https://")):
            raise RecipeError(f"neither --address nor RAY_API_SERVER_ADDRESS is set: {text}")
    if not address.startswith(("http://", "https://")) or host_and_port(address) is None:
        raise RecipeError(f"the address {address!r} is not an http:// or https:// URL: {text}")
    return address.rstrip("/")


def run_submit(arguments: "Arguments") -> int:
    """Submit the job, follow it, and return the exit code."""
    console, submission = arguments.console, _submission(arguments)
    for note in submission.notes:
        console.note(note)
    address = address_of(arguments.address, os.environ)
    if arguments.dry_run:
        return _dry_run(arguments, submission, address)
    transport = check_transport(address)
    if transport is not None:
        console.note(f"{transport.found}; {transport.advice}")
    display, patience = Display(console.stream), arguments.patience
    lines = SubmitLines(display)
    server = JobServer(
        address=address,
        first_patience=FIRST_PATIENCE if patience is None else patience,
        patience=PATIENCE if patience is None else patience,
        on_message=lines.message,
    )
    started = start(server, submission, arguments.submission_id)
    display.print(_started_line(started, submission, address))
    if not arguments.no_wait:
        was_over = started.was_there is not None and started.was_there.status.is_terminal()
        submitted = started.submission_id
        return _follow(server, submitted, submission, arguments, lines, was_over=was_over)
    status = "PENDING" if started.was_there is None else started.was_there.status.value
    console.result(
        _Submitted(status="submitted", submission_id=started.submission_id, job_status=status)
    )
    return 0


def _follow(
    server: JobServer,
    submission_id: str,
    submission: Submission,
    arguments: "Arguments",
    lines: SubmitLines,
    *,
    was_over: bool,
) -> int:
    """Follow the job, print its result and return the exit code."""
    log = JobLog(lines.show)
    try:
        ending = follow(server, submission_id, submission, log, timeout=arguments.timeout)
    except KeyboardInterrupt:
        ending = Ending(status="interrupted", exit_code=INTERRUPTED, message="interrupted")
    except Terminated:
        ending = Ending(status="terminated", exit_code=TERMINATED, message="terminated")
    job = ending.job
    has_ended = job is not None and job.status.is_terminal()
    if job is not None and has_ended:
        if ending.exit_code:
            text = [f"  | {line}" for line in log.last or (job.message or "").splitlines()]
        else:
            text = _summary_lines(log.summary, submission.sources)
        again = _again(arguments) if ending.exit_code else ""
        lines.end(ending.message + again, text)
    else:
        lines.end(f"{ending.message}; {_next_step(ending, submission_id, server.address)}")
    is_own = ending.status in {"interrupted", "terminated"}
    cause = log.summary.get("error") if has_ended and isinstance(log.summary, dict) else None
    arguments.console.result(
        _Submitted(
            status=ending.status,
            submission_id=submission_id,
            job_status=None if job is None else job.status.value,
            exit_code=ending.exit_code,
            already_ran=was_over,
            error=(cause or ending.message) if ending.exit_code and not is_own else None,
            summary=log.summary if has_ended else None,
        )
    )
    return ending.exit_code


@dataclass(frozen=True, kw_only=True, slots=True)
class _Submitted:
    """The result as JSON."""

    status: str
    submission_id: str
    job_status: str | None
    exit_code: int = 0
    already_ran: bool = omitted(default=False)
    """Whether this id had ended before, so that nothing was submitted."""
    error: str | None = omitted()
    summary: Summary | None = omitted()


def _summary_lines(values: object, sources: Sequence[str]) -> list[str]:
    """Return the lines of a job's summary; none if the job has another version."""
    with suppress(CorruptOutputError, ValueError):
        summary = read_summary(values, name="the summary")
        if (corpus := summary.corpus) is not None:  # as JSON the sources are sorted by name
            order = sorted(corpus.sources, key=lambda name: sources.index(name.rpartition("/")[0]))
            ordered = replace(corpus, sources={name: corpus.sources[name] for name in order})
            summary = replace(summary, corpus=ordered)
        return summary.text().splitlines()
    return []


def _again(arguments: "Arguments") -> str:
    """Return how a job that has failed is run again: an id runs once."""
    if arguments.submission_id is None:
        return "; the same command submits it again, and it resumes"
    return "; to run it again, pass another --submission-id, and it resumes"


def _next_step(ending: Ending, submission_id: str, address: str) -> str:
    if ending.status == "gone":
        return "the same command submits it again, and it resumes"
    verb = "may still be running" if ending.status == "lost" else "keeps running"
    return (
        f"the job {verb}. The same command follows it again; to stop it: "
        f"ray job stop {submission_id} --address {address}"
    )


def _submission(arguments: "Arguments") -> Submission:
    if arguments.submission_id is not None:
        check_id(arguments.submission_id)
    if arguments.job == "tokenize" and (arguments.also is not None or arguments.relearn):
        raise RecipeError("--job tokenize learns nothing; omit --also and --relearn")
    asks = arguments.relearn and arguments.job == "prepare"  # `train` always learns
    flags = {
        "--relearn": asks,
        "--resplit": arguments.resplit,
        "--skip-unreadable": arguments.skip_unreadable,
    }
    command = JobCommand(
        job=arguments.job,
        overrides=overrides_of(arguments),
        also=None if arguments.also is None else ",".join(map(str, arguments.also)),
        flags=[flag for flag, is_given in flags.items() if is_given],
    )
    variables = variables_of(arguments.env, os.environ)
    return ship(arguments.recipe, command, variables=variables, environment=os.environ)


def _dry_run(arguments: "Arguments", submission: Submission, address: str) -> int:
    submission_id = arguments.submission_id or submission.base_id
    arguments.console.result(
        {
            "status": "dry run",
            "submission_id": submission_id,
            "address": address,
            "entrypoint": submission.entrypoint,
            "env": sorted(submission.variables),
            "output": submission.output,
        },
        lines=[
            f"would submit {submission_id} to {address}",
            f"entrypoint   {submission.entrypoint}",
            f"environment  {', '.join(sorted(submission.variables)) or 'none'}",
            f"output       {submission.output}",
        ],
    )
    return 0


def _started_line(started: Started, submission: Submission, address: str) -> str:
    """Return what was done.

    Raises:
        RecipeError: A job with the requested id has another recipe or other arguments.
    """
    submission_id, was = started.submission_id, started.was_there
    if was is None:
        return f"submitted {submission_id} to {address}"
    if digest_of(was) not in {None, submission.digest}:
        raise RecipeError(
            f"{submission_id} was submitted with another recipe or other arguments, and this "
            f"job was not: its status is {was.status.value}; pass another --submission-id"
        )
    if was.status.is_terminal():
        return f"{submission_id} has already run; to run it again, pass another --submission-id"
    return f"already submitted; following {submission_id}"
