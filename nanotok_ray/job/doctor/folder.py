"""The check of a folder: a file is written, read, listed, refused under its name, and removed."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from nanotok_ray.errors import NanotokError, TransientIOError
from nanotok_ray.job.doctor.result import CheckResult, failure, passed, warning
from nanotok_ray.job.probes import (
    ignores_conditions,
    missing_folders,
    refuses_taken_names,
    remove_empty,
)
from nanotok_ray.storage import CONDITIONAL, Folder, extra_for, find_files

MAX_SECONDS_APART = 60.0


def clock_finding(where: str, mtime_ns: int | None, *, before: float, after: float) -> CheckResult:
    """Compare the time of a file with the local clock around its writing (seconds since 1970)."""
    name = "clock"
    if mtime_ns is None:
        return passed(name, f"{where}: the store tells no time of a file")
    written = mtime_ns / 1e9
    apart = before - written if written < before else max(0.0, written - after)
    side = "ahead of" if written < before else "behind"
    if apart > MAX_SECONDS_APART:
        return warning(
            name,
            f"{where}: this machine is {apart:,.0f} s {side} the store: tokens may count as "
            "expired, and times in journals mislead (leases compare no clocks)",
            "synchronise clocks (chrony, systemd-timesyncd)",
        )
    return passed(name, f"{where}: within {max(1.0, apart):.0f} s of the store")


SLOW_SECONDS = 1.0
"""Limit of a step; a slower one causes a warning."""

_STORAGE = "storage"

T = TypeVar("T")


def check_folder(
    url: str,
    *,
    unsafe_store: bool = False,
    slow_seconds: float = SLOW_SECONDS,
    clock: Callable[[], float] = time.time,
) -> Iterator[CheckResult]:
    """Check that a job can use a folder as its output folder.

    Args:
        url: the path or URL of the folder.
        unsafe_store: whether a store that ignores conditional writes causes only a warning.
        slow_seconds: the limit of a step; a slower one causes a warning.
        clock: returns this machine's time, in seconds since 1970.
    """
    try:
        folder = Folder(url)
    except (NanotokError, OSError) as error:
        yield failure(_STORAGE, _why(error), _advice(error))
        return
    probe = _Probe(folder, unsafe_store=unsafe_store, slow_seconds=slow_seconds, clock=clock)
    missing = missing_folders(folder, "probe")
    try:
        findings = list(probe.findings())
    finally:
        problem = probe.remove()
        remove_empty(missing)
    if probe.passed:
        yield probe.access()
    yield from findings
    if problem is not None and probe.may_be_there:
        yield failure(
            _STORAGE,
            f"{folder.join(probe.name)} cannot be removed: {_why(problem)}",
            "allow deleting there, and remove this file by hand",
        )


class _Probe:
    """A small file with a random name and random bytes, and the state of its check."""

    def __init__(
        self,
        folder: Folder,
        *,
        unsafe_store: bool,
        slow_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.folder = folder
        self._unsafe_store = unsafe_store
        self._slow_seconds = slow_seconds
        self._clock = clock
        token = secrets.token_hex(8)
        self.name = f"nanotok-doctor-{token}/probe.tmp"
        self.data = f"nanotok doctor {token}\n".encode()
        self.seconds: dict[str, float] = {}
        self.passed = False
        """Whether it was written, read and listed."""
        self.may_be_there = True
        """Whether it was written, or may have been."""

    def findings(self) -> Iterator[CheckResult]:
        """Write, read, list, then check the existing file; stop at the first failure."""
        where = self.folder.url
        try:
            before = self._clock()
            self._timed("written", lambda: self.folder.write_bytes(self.name, self.data))
            after = self._clock()
            problem = self._problem()
            if problem is not None:
                advice = "use another store: a job reads back what it wrote, and compares"
                yield failure(_STORAGE, f"{where}: {problem}", advice)
                return
            self.passed = True
            mtime_ns = find_files(self.folder.join(self.name)).files[0].mtime_ns
            yield clock_finding(where, mtime_ns, before=before, after=after)
            yield self._refusal()
        except Exception as error:  # packages of stores raise many classes of errors
            self.may_be_there = bool(self.seconds) or isinstance(error, TransientIOError)
            text = f"{where}: a probe cannot be {self._doing}: {_why(error)}"
            yield failure(_STORAGE, text, _advice(error))

    def access(self) -> CheckResult:
        """Return a result with the duration of each step."""
        timings = ", ".join(
            f"{name} in {1000 * seconds:.0f} ms" for name, seconds in self.seconds.items()
        )
        slow = max(self.seconds.values()) > self._slow_seconds
        return CheckResult(
            name=_STORAGE,
            status="warn" if slow else "ok",
            found=f"{self.folder.url}: {timings}",
            advice="each file of a job takes this long: run the job near the store" if slow else "",
        )

    def remove(self) -> Exception | None:
        """Remove the file; return the error, if any."""
        try:
            self._timed("removed", lambda: self.folder.remove(self.name))
        except Exception as error:  # see above
            return error
        if path := self.folder.local_path(self.name):
            with suppress(OSError):
                Path(path).parent.rmdir()
        return None

    @property
    def _doing(self) -> str:
        """The step after the last finished one."""
        steps = ("written", "read", "listed", "created conditionally")
        return steps[min(len(self.seconds), len(steps) - 1)]

    def _timed(self, action: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        self.seconds[action] = time.perf_counter() - start
        return result

    def _problem(self) -> str | None:
        """Return the reason why what was written is not there, or None."""
        data = self._timed("read", lambda: self.folder.read_bytes(self.name))
        if data != self.data:
            return f"{len(self.data)} bytes were written, and {len(data)} other ones are read back"
        prefix = self.name.rpartition("/")[0] + "/"
        names = self._timed("listed", lambda: self.folder.list_temporaries(prefix))
        return None if self.name in names else "a file that was written is not in the listing"

    def _refusal(self) -> CheckResult:
        """Check that an existing name keeps its content, which leases and shards require."""
        name, where = "conditions", self.folder.url
        if not refuses_taken_names(self.folder, self.name.rpartition("/")[0]):
            return CheckResult(
                name=name,
                status="warn" if self._unsafe_store else "fail",
                found=ignores_conditions(where),
                advice="never start two runs on one output there"
                if self._unsafe_store
                else "use a store that checks If-None-Match, or set output.unsafe_store = true",
            )
        if extra_for(where) in CONDITIONAL and not self._refuses_upload():
            return failure(
                name,
                f"{where}: an upload replaces an existing object, so a late upload could "
                "replace a shard",
                "update the store, or use one that knows If-None-Match for uploads",
            )
        return passed(name, f"{where}: an existing object is not overwritten")

    def _refuses_upload(self) -> bool:
        try:
            with self.folder.create_once(self.name) as file:
                file.write(self.data[::-1])
        except TransientIOError as error:
            if "other bytes" in str(error):
                return True
            raise
        return False


def _why(error: Exception) -> str:
    if isinstance(error, NotImplementedError):
        return "this store can only be read"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _advice(error: Exception) -> str:
    if "pip install" in str(error):
        return ""  # the message has the next step
    if isinstance(error, PermissionError):
        return "allow this user or its credentials to write, read, list and delete there"
    if isinstance(error, TransientIOError):
        return "see that the store is up and can be reached from here"
    return "check the path or URL; docs/storage.md describes URLs of stores"
