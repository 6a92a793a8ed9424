"""Drain this node when the cloud gives notice: `python -m nanotok_ray.cluster.drain_on_notice aws`.

Started beside Ray on every spot machine by cluster.yaml. Asks the cloud's metadata server again
and again; at a notice it tells Ray, by `ray drain-node`, that the node will go: no new tasks come,
those that run may finish, and those that do not are tried elsewhere without this counting as a
failure. Ends when the node is drained, because Ray's autoscaler may start Ray on the machine once
more, and this beside it. One at a time: while one runs, another ends at once.
"""

import argparse
import fcntl
import logging
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from nanotok_ray.cluster.raylets import PROCESSES, Raylet, local_raylets
from nanotok_ray.cluster.spot_notices import (
    AWS_SERVER,
    GCP_SERVER,
    Ask,
    Notice,
    aws_notices,
    gcp_notices,
)

LOG = logging.getLogger("drain_on_notice")

PAUSE_SECONDS = 2.0
"""Between two questions. GCP's notice is 30 seconds long."""

COMMAND_SECONDS = 20.0
"""`ray drain-node` takes a second or two; one that takes longer is stopped and run again."""

LOCK_NAME = "nanotok-drain-on-notice.lock"


def drain(notice: Notice, ray: str = "ray", processes: Path = PROCESSES) -> bool:
    """Tell Ray that its nodes on this machine will go.

    Nodes are named: without `--node-id`, where the command finds no running node, it starts a
    Ray of its own, drains that, and exits 0.

    Returns:
        whether Ray has taken note of it.
    """
    raylets = local_raylets(processes)
    if not raylets:
        LOG.warning("no node of Ray runs here, looking again: %s", notice.reason)
    done = [_run(_drain_command(raylet, notice, ray)) for raylet in raylets]
    return bool(done) and all(done)


def _drain_command(raylet: Raylet, notice: Notice, ray: str) -> list[str]:
    command = [ray, "drain-node", "--address", raylet.address, "--node-id", raylet.node_id]
    command += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", notice.reason]
    if notice.seconds is not None:
        command += ["--deadline-remaining-seconds", str(math.floor(notice.seconds))]
    return command


def _run(command: Sequence[str]) -> bool:
    """Run a command and give whether it exited 0; the log says how it failed."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words and the cloud's notice, no shell
            command, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        LOG.warning("not drained, trying again: %s", error)
        return False
    if done.returncode != 0:
        LOG.warning("not drained, trying again: exit %d: %s", done.returncode, done.stderr[-1000:])
    return done.returncode == 0


def watch(
    ask: Ask,
    act: Callable[[Notice], bool],
    *,
    now: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
) -> Notice:
    """Ask until there is a notice on which `act` has acted, and give that notice."""
    silent = False
    while True:
        try:
            notice = ask(now())
            silent = False
        except OSError as error:
            if not silent:
                LOG.warning("the metadata server does not answer, asking on: %s", error)
            silent, notice = True, None
        if notice is not None and act(notice):
            return notice
        pause(PAUSE_SECONDS)


def main(arguments: Sequence[str]) -> int:
    """Watch until the node is drained."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if given.cloud == "aws":
        ask = aws_notices(given.server or AWS_SERVER, rebalance=given.rebalance)
    else:
        ask = gcp_notices(given.server or GCP_SERVER)
    lock = _lock(given.lock)
    if lock is None:
        LOG.info("another one watches already: %s", given.lock)
        return 0
    with lock:
        LOG.info("watching for notices of %s", given.cloud)
        notice = watch(ask, lambda notice: drain(notice, given.ray, given.processes))
    LOG.info("drained: %s", notice.reason)
    return 0


def _lock(path: Path) -> IO[str] | None:
    """Hold a file that is let go when this process ends; None: another process holds it."""
    held = path.open("a")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        return None
    return held


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nanotok_ray.cluster.drain_on_notice",
        description="Drain the Ray node of this machine when the cloud says that it will be taken.",
    )
    parser.add_argument("cloud", choices=["aws", "gcp"])
    parser.add_argument(
        "--rebalance",
        action="store_true",
        help="aws: drain on the earlier hint too that the machine may be taken",
    )
    parser.add_argument("--server", help="URL of the metadata server, for tests")
    parser.add_argument("--ray", default="ray", help="the command (default: ray)")
    parser.add_argument("--processes", type=Path, default=PROCESSES, help="/proc, for tests")
    folder = Path(tempfile.gettempdir())
    parser.add_argument("--lock", type=Path, default=folder / LOCK_NAME, help="one watcher a file")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
