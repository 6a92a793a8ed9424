"""A head node with token authentication, and the demo's corpus for it."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs import demo_corpus
from tests.support.machine_speed import scaled

BIN = Path(sys.executable).parent
NANOTOK = (sys.executable, "-c", "import sys; from nanotok_ray.cli import main; sys.exit(main())")
"""The command line, which also runs where only the dependencies are installed."""

MODULES = (
    *("bisect.py", "calendar.py", "decimal.py", "difflib.py", "doctest.py", "enum.py"),
    *("fractions.py", "heapq.py", "locale.py", "pickle.py", "random.py", "statistics.py"),
    *("textwrap.py", "typing.py"),
)


def free_port():
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass(frozen=True)
class Head:
    """A running head node."""

    dashboard: str
    """URL of its job server, which exists only with a dashboard."""
    address: str
    """The address that drivers join."""
    environment: dict[str, str]
    """Environment of a client, with the token."""


@contextmanager
def started_head(*flags, cpus=2):
    """Start a head node with further options of `ray start`."""
    environment = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    environment.pop("RAY_ADDRESS", None)
    environment.pop("RAY_API_SERVER_ADDRESS", None)
    dashboard, port, folder = free_port(), free_port(), f"/tmp/nanotok-{secrets.token_hex(4)}"
    process = subprocess.Popen(
        [
            *(BIN / "ray", "start", "--head", "--block", "--num-cpus", str(cpus)),
            *("--port", str(port), "--ray-client-server-port", str(free_port())),
            *("--dashboard-host", "127.0.0.1", "--dashboard-port", str(dashboard)),
            *("--dashboard-agent-listen-port", str(free_port())),
            *("--temp-dir", folder),
            *flags,
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield Head(f"http://127.0.0.1:{dashboard}", f"127.0.0.1:{port}", environment)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=scaled(30))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def write_demo(folder):
    """Make the demo's corpus of a few modules of the standard library with doctests."""
    library = folder / "library"
    library.mkdir()
    for name in MODULES:
        shutil.copy(Path(sysconfig.get_path("stdlib"), name), library)
    demo_corpus.main([str(folder / "demo/corpus"), "--library", str(library)])
    return folder / "demo"
