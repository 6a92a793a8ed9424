"""The result of one check."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The result of a check, with advice.

    >>> CheckResult(name="disk", status="warn", found="/data: 2 GB free", advice="free some").line()
    'warn  disk              /data: 2 GB free; free some'
    """

    name: str
    status: Status
    """`warn`: a job runs, but perhaps not well; `fail`: it does not run, or not safely."""
    found: str
    advice: str = ""
    """The next step; empty if none is needed."""

    def line(self) -> str:
        """Return the line for people."""
        text = f"{self.found}; {self.advice}" if self.advice else self.found
        return f"{self.status:<4}  {self.name:<16}  {text}"


def passed(name: str, text: str) -> CheckResult:
    """Return the result of a check that found no problem."""
    return CheckResult(name=name, status="ok", found=text)


def warning(name: str, text: str, advice: str) -> CheckResult:
    """Return the result of a check that a job may not run well."""
    return CheckResult(name=name, status="warn", found=text, advice=advice)


def failure(name: str, text: str, advice: str = "") -> CheckResult:
    """Return the result of a check that a job does not run, or not safely."""
    return CheckResult(name=name, status="fail", found=text, advice=advice)


def worst(findings: "list[CheckResult]") -> Status:
    """Return the worst status of a list of results.

    >>> worst([]), worst([CheckResult(name="a", status="warn", found="")])
    ('ok', 'warn')
    """
    statuses = {finding.status for finding in findings}
    return "fail" if "fail" in statuses else "warn" if "warn" in statuses else "ok"
