"""SIGTERM and Ctrl-C during a real run: it ends soon and cleanly, and the next run resumes.

The driver is a separate process in its own terminal, so that Ctrl-C also reaches the processes of
workers, as on a laptop.
"""

import fcntl
import json
import os
import pty
import secrets
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.job import StageStarted
from tests.support.machine_speed import scaled
from tests.support.small_corpus import RECIPE, contents, recipe, write_corpus

pytestmark = [pytest.mark.timeout(180)]


class Terminal:
    """A run in a terminal; all its processes have a mark in their environment."""

    def __init__(self, root, *options, after):
        self.mark = f"NANOTOK_TEST_MARK={secrets.token_hex(8)}"
        name, _, value = self.mark.partition("=")
        self.keyboard, screen = pty.openpty()
        self.answer = root / "answer"
        command = [
            sys.executable,
            "-m",
            "tests.support.gated_cli",
            root / "recipe.toml",
            str(after),
        ]
        with self.answer.open("wb") as answer:
            self.process = subprocess.Popen(
                [*command, *options],
                stdin=screen,
                stdout=answer,
                stderr=screen,
                env={**os.environ, name: value},
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no locks
            )
        os.close(screen)
        os.set_blocking(self.keyboard, False)
        self.reported = ""

    def until(self, is_so, *, seconds=60):
        """Wait, and read the screen output, so that no process waits for buffer space."""
        end = time.monotonic() + scaled(seconds)
        is_over = False
        while not is_over:
            is_over = is_so()
            with suppress(BlockingIOError, OSError):
                while data := os.read(self.keyboard, 65536):
                    self.reported += data.decode()
            assert time.monotonic() < end, self.reported
            time.sleep(0.02)

    def end(self, *, pressing=b""):
        """Wait for the end and press keys; return exit code, seconds, and the JSON on stdout."""
        start = time.monotonic()

        def has_ended():
            if pressing and self.process.poll() is None:
                os.write(self.keyboard, pressing)
            return self.process.poll() is not None

        self.until(has_ended)
        seconds = time.monotonic() - start
        return self.process.returncode, seconds, json.loads(self.answer.read_text())

    def is_gone(self):
        """Return whether no process with the mark is left."""
        return not any(map(self._is_own, Path("/proc").glob("[0-9]*")))

    def _is_own(self, path):
        with suppress(OSError):
            return self.mark.encode() in (path / "environ").read_bytes()
        return False


def type_ctrl_c(run):
    os.write(run.keyboard, b"\x03")


def send_sigterm(run):
    run.process.send_signal(signal.SIGTERM)


def counted(root):
    return len(list(root.glob("out-work/counts/*/*.json")))


@pytest.mark.parametrize("options", [pytest.param([], marks=pytest.mark.ray), ["--local"]])
def test_stopped_runs_end_soon_and_the_next_resumes(tmp_path, in_process, options):
    write_corpus(tmp_path / "in")
    text = RECIPE.format(root=tmp_path / "in", out=tmp_path / "out")
    (tmp_path / "recipe.toml").write_text(text)
    for after, stop, again, code, status in (
        (2, type_ctrl_c, b"\x03", 130, "interrupted"),
        (4, send_sigterm, b"", 143, "terminated"),
    ):
        kept = counted(tmp_path)
        run = Terminal(tmp_path, *options, after=after)
        run.until(lambda: counted(tmp_path) >= after)  # noqa: B023 - called at once
        stop(run)
        found, seconds, answer = run.end(pressing=again)
        assert (found, answer["status"]) == (code, status), run.reported
        assert seconds < scaled(10)
        assert "Traceback" not in run.reported
        assert "Exception" not in run.reported
        assert run.reported.count(f"nanotok: {status}; the same command resumes from here") == 1
        assert (f"({kept} more are done already)" in run.reported) == (kept > 0)
        run.until(run.is_gone, seconds=10)
        [lease] = tmp_path.glob("out/run/lease/*.json")
        assert json.loads(lease.read_text())["state"] == "released"
    events = []
    prepare(recipe(tmp_path / "in", tmp_path / "out"), on_event=events.append)
    [counting] = [e for e in events if isinstance(e, StageStarted) and e.stage == "count"]
    assert counting.num_done == counted(tmp_path) - counting.todo >= 4
    prepare(recipe(tmp_path / "in", tmp_path / "quiet"))
    assert contents(tmp_path / "out") == contents(tmp_path / "quiet")
    assert contents(tmp_path / "out-work") == contents(tmp_path / "quiet-work")
