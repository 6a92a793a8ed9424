"""The implementation of `nanotok submit`: runs a recipe on a cluster and follows the job."""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO

from nanotok_ray.cli.options import overrides_of
from nanotok_ray.cli.printing import INFRASTRUCTURE, INTERRUPTED, TERMINATED, Console, shown
from nanotok_ray.cluster.submit import (
    FollowedJob,
    Follower,
    JobCommand,
    JobLog,
    JobState,
    RayJobs,
    Shipped,
    Started,
    Starter,
    check_id,
    ending_of,
    ship,
    variables_of,
)
from nanotok_ray.errors import CorruptOutputError, RecipeError
from nanotok_ray.job.doctor import check_transport, host_and_port
from nanotok_ray.job.summary import read_summary
from nanotok_ray.job.termination import Terminated
from nanotok_ray.units import printable

if TYPE_CHECKING:
    from nanotok_ray.cli.app import Arguments


LINE_SECONDS = 10.0
"""Seconds between lines, unless the output is a terminal."""

MAX_NOTES = 20
"""Limit of the shown notes of a job; a job that loses many nodes has thousands."""


class SubmitLines:
    """Shows the newest line of a job's log; notes and messages of the connection stay visible."""

    def __init__(self, stream: TextIO, *, now: Callable[[], float] = time.monotonic) -> None:
        """Print to `stream`, on a single line if it is a terminal."""
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._now = now
        self._last_line = -LINE_SECONDS
        self._newest: str | None = None
        self._is_open = False
        self._notes = 0

    def show(self, line: str) -> None:
        """Show a line of the job, at most one every ten seconds."""
        if not line.strip() or line.startswith("{"):
            return
        if line.startswith("note: "):
            self._note(line.rstrip())
            return
        self._newest = line.rstrip()
        if self._is_terminal:
            self._rewrite(self._newest)
        elif self._now() - self._last_line >= LINE_SECONDS:
            self.flush()

    def _note(self, line: str) -> None:
        """Show a note of a job, for example on its inputs or on a failed attempt."""
        self._notes += 1
        if self._notes <= MAX_NOTES:
            self.print_line(line)
        if self._notes == MAX_NOTES:
            self.print_line(
                "nanotok: further notes are only in the log and in the journal of the job"
            )

    def flush(self) -> None:
        """Show the newest line if it was held back."""
        if self._newest is not None and not self._is_terminal:
            self._print(self._newest)
            self._last_line = self._now()
        self._newest = None

    def finish(self, summary: Sequence[str]) -> None:
        """Print the summary of the job; without one, its newest line if it was held back."""
        if not summary:
            self.flush()
            return
        self._newest = None
        if self._is_open:
            print("\r\x1b[K", end="", file=self._stream)
        self._is_open = False
        for line in summary:
            self._print(line)

    def print_line(self, text: str) -> None:
        """Print a separate line that stays visible."""
        if self._is_open:
            print(file=self._stream)
        self._is_open = False
        self._print(text)

    def _print(self, text: str) -> None:
        print(shown(text), file=self._stream, flush=True)

    def _rewrite(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{printable(text)[:width]}", end="", file=self._stream, flush=True)
        self._is_open = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitted:
    """A job on a cluster."""

    submission_id: str
    job: str
    """prepare, train or tokenize."""
    output: str
    """Its output folder, if it is known here."""
    sources: Sequence[str]
    """The names of its sources in the order of the recipe."""
    jobs: RayJobs
    lines: SubmitLines
    console: Console

    def follow(self, *, patience: float, timeout: float | None) -> int:
        """Follow the job, print its result and return the exit code. Times are in seconds."""
        log = JobLog(lambda: self.jobs.log_of(self.submission_id))
        try:
            followed = self._follower(log, patience=patience, timeout=timeout).follow()
        except KeyboardInterrupt:
            return self._leave("interrupted", INTERRUPTED)
        except Terminated:
            return self._leave("terminated", TERMINATED)
        if followed.given_up is not None or followed.state is None:
            return self._give_up(followed)
        return self._end(followed.state, log)

    def _follower(self, log: JobLog, *, patience: float, timeout: float | None) -> Follower:
        return Follower(
            jobs=self.jobs,
            submission_id=self.submission_id,
            log=log,
            patience=patience,
            timeout=timeout,
            show=self.lines.show,
            on_message=lambda text: self.lines.print_line(f"nanotok: {text}"),
        )

    def _leave(self, status: str, code: int) -> int:
        self.lines.print_line(f"nanotok: {status}; {self._next_step()}")
        self._print(status)
        return code

    def _give_up(self, followed: FollowedJob) -> int:
        verb = "keeps running" if followed.is_late else "may still be running"
        next_step = self._next_step(verb)
        if followed.is_gone:
            next_step = "the same command submits it again, and it resumes"
        self.lines.print_line(f"nanotok: {followed.given_up}; {next_step}")
        status = "timeout" if followed.is_late else "gone" if followed.is_gone else "lost"
        self._print(status, followed.state, error=followed.given_up)
        return INFRASTRUCTURE

    def _end(self, state: JobState, log: JobLog) -> int:
        summary = log.summary
        ending = ending_of(state, summary=summary, job=self.job, output=self.output)
        values = None if summary is None else summary.values
        error = ending.message if ending.exit_code else None
        if error is None:
            self.lines.finish(_summary_lines(values, self.sources))
        else:
            for line in log.last or state.message.splitlines():
                self.lines.print_line(f"  | {line}")
        self.lines.print_line(f"nanotok: {ending.message}")
        self._print(ending.status, state, error=error, summary=values)
        return ending.exit_code

    def _print(
        self,
        status: str,
        state: JobState | None = None,
        *,
        error: str | None = None,
        summary: object = None,
    ) -> None:
        job_status = None if state is None else state.status
        facts = {"status": status, "submission_id": self.submission_id, "job_status": job_status}
        others = {"error": error, "summary": summary}
        self.console.result({**facts, **{key: item for key, item in others.items() if item}})

    def _next_step(self, verb: str = "keeps running") -> str:
        return (
            f"the job {verb}. The same command follows it again; to stop it: "
            f"ray job stop {self.submission_id} --address {self.jobs.address}"
        )


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
    shipped = _shipped(arguments)
    for note in shipped.notes:
        arguments.console.note(note)
    address = address_of(arguments.address, os.environ)
    if arguments.dry_run:
        return _dry_run(arguments, shipped, address)
    transport = check_transport(address)
    if transport is not None:
        arguments.console.note(f"{transport.found}; {transport.advice}")
    jobs = RayJobs(address)
    lines = SubmitLines(arguments.console.stream)
    started = _start(arguments, shipped, jobs, lines)
    if arguments.no_wait:
        return _leave(started, arguments.console)
    submitted = Submitted(
        submission_id=started.submission_id,
        job=arguments.job,
        output=shipped.output,
        sources=shipped.sources,
        jobs=jobs,
        lines=lines,
        console=arguments.console,
    )
    patience = PATIENCE if arguments.patience is None else arguments.patience
    return submitted.follow(patience=patience, timeout=arguments.timeout)


def _shipped(arguments: "Arguments") -> Shipped:
    if arguments.submission_id is not None:
        check_id(arguments.submission_id)
    if arguments.job == "tokenize" and (arguments.also is not None or arguments.relearn):
        raise RecipeError("--job tokenize learns nothing; omit --also and --relearn")
    asks = arguments.relearn and arguments.job == "prepare"  # `train` always learns
    named = (
        *(("--relearn", asks), ("--resplit", arguments.resplit)),
        ("--skip-unreadable", arguments.skip_unreadable),
    )
    command = JobCommand(
        job=arguments.job,
        overrides=overrides_of(arguments),
        also=None if arguments.also is None else ",".join(map(str, arguments.also)),
        flags=[flag for flag, is_given in named if is_given],
    )
    variables = variables_of(arguments.env, os.environ)
    return ship(arguments.recipe, command, variables=variables, environment=os.environ)


def _dry_run(arguments: "Arguments", shipped: Shipped, address: str) -> int:
    submission = shipped.submission
    arguments.console.result(
        {
            "status": "dry run",
            "submission_id": arguments.submission_id or submission.base_id,
            "address": address,
            "entrypoint": submission.entrypoint,
            "env": sorted(submission.variables),
            "output": shipped.output,
        },
        f"would submit {arguments.submission_id or submission.base_id} to {address}",
        f"entrypoint   {submission.entrypoint}",
        f"environment  {', '.join(sorted(submission.variables)) or 'none'}",
        f"output       {shipped.output}",
    )
    return 0


def _start(arguments: "Arguments", shipped: Shipped, jobs: RayJobs, lines: SubmitLines) -> Started:
    started = Starter(
        jobs=jobs,
        submission=shipped.submission,
        chosen_id=arguments.submission_id,
        patience=FIRST_PATIENCE if arguments.patience is None else arguments.patience,
        on_message=lambda text: lines.print_line(f"nanotok: {text}"),
    ).start()
    submission_id, was = started.submission_id, started.was_there
    if was is not None and was.digest not in {None, shipped.submission.digest}:
        raise RecipeError(
            f"{submission_id} was submitted with another recipe or other arguments, and this "
            f"job was not: its status is {was.status}; pass another --submission-id"
        )
    if was is None:
        lines.print_line(f"submitted {submission_id} to {jobs.address}")
    elif was.has_ended:
        lines.print_line(
            f"{submission_id} has already run; to run it again, pass another --submission-id"
        )
    else:
        lines.print_line(f"already submitted; following {submission_id}")
    return started


def _leave(started: Started, console: Console) -> int:
    status = "PENDING" if started.was_there is None else started.was_there.status
    console.result(
        {
            "status": "submitted",
            "submission_id": started.submission_id,
            "job_status": status,
        }
    )
    return 0
