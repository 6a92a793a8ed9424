"""A job that was submitted, followed to its end: lines for people, one of JSON, an exit code.

Takes the job's id and the job server; prints. Does not know how the job was started.
"""

from dataclasses import dataclass

from nanotok_ray.cli.exit_codes import INFRASTRUCTURE, INTERRUPTED, TERMINATED
from nanotok_ray.cli.json_line import print_json
from nanotok_ray.cli.submit_lines import SubmitLines
from nanotok_ray.cluster.submit.job_log import LogTail, LogText
from nanotok_ray.cluster.submit.ray_jobs import RayJobs
from nanotok_ray.cluster.submit.submission import Followed, Follower, JobState, WallClock, ending_of
from nanotok_ray.job.termination import Terminated


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitted:
    """One job on a cluster."""

    submission_id: str
    job: str
    """prepare, train or tokenize."""
    output: str
    """Its output folder, as far as that is known here."""
    jobs: RayJobs
    lines: SubmitLines

    def follow(self, *, patience: float, timeout: float | None) -> int:
        """Follow the job and print how it ended; give the exit code. Times are in seconds."""
        try:
            with self._log() as log:
                followed = self._follower(log, patience=patience, timeout=timeout).follow()
        except KeyboardInterrupt:
            return self._leave("interrupted", INTERRUPTED)
        except Terminated:
            return self._leave("terminated", TERMINATED)
        if followed.given_up is not None or followed.state is None:
            return self._give_up(followed)
        return self._end(followed.state, log.text)

    def _log(self) -> LogTail:
        own = self.submission_id
        return LogTail(
            lambda: self.jobs.client().tail_job_logs(own), whole=lambda: self.jobs.whole_log(own)
        )

    def _follower(self, log: LogTail, *, patience: float, timeout: float | None) -> Follower:
        return Follower(
            jobs=self.jobs,
            submission_id=self.submission_id,
            log=log,
            clock=WallClock(),
            patience=patience,
            timeout=timeout,
            show=self.lines.show,
            tell=lambda text: self.lines.tell(f"nanotok: {text}"),
        )

    def _leave(self, status: str, code: int) -> int:
        self.lines.tell(f"nanotok: {status}; {self._goes_on()}")
        self._print(status, None, {})
        return code

    def _give_up(self, followed: Followed) -> int:
        verb = "goes" if followed.is_late else "may go"
        self.lines.tell(f"nanotok: {followed.given_up}; {self._goes_on(verb)}")
        status = "timeout" if followed.is_late else "lost"
        self._print(status, followed.state, {"error": followed.given_up})
        return INFRASTRUCTURE

    def _end(self, state: JobState, log: LogText) -> int:
        summary = log.summary
        ending = ending_of(state, summary=summary, job=self.job, output=self.output)
        values: dict[str, object] = {} if summary is None else {"summary": summary}
        if ending.exit_code:
            values["error"] = ending.told
            for line in log.last or state.message.splitlines():
                self.lines.tell(f"  | {line}")
        else:
            self.lines.flush()
        self.lines.tell(f"nanotok: {ending.told}")
        self._print(ending.status, state, values)
        return ending.exit_code

    def _print(self, status: str, state: JobState | None, values: dict[str, object]) -> None:
        job_status = None if state is None else state.status
        facts = {"status": status, "submission_id": self.submission_id, "job_status": job_status}
        print_json({**facts, **values})

    def _goes_on(self, verb: str = "goes") -> str:
        return (
            f"the job {verb} on. The same command follows it again; to stop it: "
            f"ray job stop {self.submission_id} --address {self.jobs.address}"
        )
