"""Drains this node when the cloud announces its termination.

Run it as `python -m nanotok_ray.cluster.drain_on_notice aws`.
"""

import argparse
import json
import logging
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

ANSWER_SECONDS = 2.0
"""Time limit of an answer; the server is on the machine itself, and is asked again after the
limit.
"""

TOKEN_SECONDS = 21600
"""Validity of AWS's token in seconds: the maximum of AWS."""

GCP_NOTICE_SECONDS = 30.0

AWS_SERVER = "http://169.254.169.254"
GCP_SERVER = "http://metadata.google.internal"

_OPENER = build_opener(ProxyHandler({}))  # link-local addresses are never reached through a proxy


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """A notice that a machine will be terminated.

    Attributes:
        reason: the cloud's description, for Ray's log.
        seconds: the time until then, at least 0; None: unknown.
    """

    reason: str
    seconds: float | None


Ask = Callable[[float], Notice | None]
"""Returns the notice that is valid at a time (seconds since 1970), or None. Raises OSError without
an answer.
"""


def aws_notices(server: str = AWS_SERVER, *, rebalance: bool = False) -> Ask:
    """Return a function that asks AWS's server, version 2 (which requires a token)."""
    token = ""

    def get(path: str) -> str | None:
        nonlocal token
        for _ in range(2):
            token = token or _aws_token(server)
            try:
                return _read(
                    f"{server}/latest/meta-data/{path}", {"X-aws-ec2-metadata-token": token}
                )
            except HTTPError as error:
                if error.code != HTTPStatus.UNAUTHORIZED:
                    raise
                token = ""  # the token has expired
        raise OSError(f"{server} refuses the token that it gave")

    def ask(now: float) -> Notice | None:
        if (action := get("spot/instance-action")) is not None:
            return _aws_action(action, now)
        if rebalance and get("events/recommendations/rebalance") is not None:
            return Notice(reason="AWS recommends to rebalance", seconds=None)
        return None

    return ask


def gcp_notices(server: str = GCP_SERVER) -> Ask:
    """Return a function that asks GCP's server."""

    def ask(now: float) -> Notice | None:  # noqa: ARG001 - GCP names no time
        path = "/computeMetadata/v1/instance/preempted"
        if (_read(server + path, {"Metadata-Flavor": "Google"}) or "").strip() != "TRUE":
            return None
        return Notice(reason="GCP preempts the machine", seconds=GCP_NOTICE_SECONDS)

    return ask


def _aws_token(server: str) -> str:
    header = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
    return _read(f"{server}/latest/api/token", header, method="PUT") or ""


def _aws_action(text: str, now: float) -> Notice:
    """Parse `{"action": "stop", "time": "2026-11-22T10:00:00Z"}`; other text is a notice too."""
    try:
        message = json.loads(text)
        moment = datetime.fromisoformat(message["time"].replace("Z", "+00:00"))  # for Python 3.10
        seconds = max(0.0, moment.timestamp() - now)
        return Notice(reason=f"AWS: {message['action']} at {message['time']}", seconds=seconds)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Notice(reason=f"AWS: {text[:100]!r}", seconds=None)


def _read(url: str, headers: dict[str, str], *, method: str = "GET") -> str | None:
    """Return the text at a URL, or None if it does not exist (404).

    Raises:
        OSError: There was no valid answer.
    """
    request = Request(url, headers=headers, method=method)  # noqa: S310 - http, fixed above
    try:
        with _OPENER.open(request, timeout=ANSWER_SECONDS) as answer:
            return str(answer.read().decode(errors="replace"))
    except HTTPError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            return None
        raise
    except HTTPException as error:
        raise OSError(f"{url}: {error!r}") from error


PROCESSES = Path("/proc")


@dataclass(frozen=True, kw_only=True, slots=True)
class Raylet:
    """The process of a Ray node.

    Attributes:
        node_id: in hexadecimal digits.
        address: host:port of its cluster.
    """

    node_id: str
    address: str


def local_raylets(processes: Path = PROCESSES) -> list[Raylet]:
    """Return the nodes of any cluster on this machine, by node id; Linux only."""
    raylets = []
    for path in processes.glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:  # the process has ended
            continue
        if words[0].rpartition("/")[2] == "raylet":
            raylets.append(_raylet(words))
    return sorted(filter(None, raylets), key=lambda raylet: raylet.node_id)


def _raylet(words: list[str]) -> Raylet | None:
    options = dict(word[2:].split("=", 1) for word in words if word[:2] == "--" and "=" in word)
    node_id, address = options.get("node_id"), options.get("gcs-address")
    return Raylet(node_id=node_id, address=address) if node_id and address else None


LOG = logging.getLogger("drain_on_notice")

PAUSE_SECONDS = 2.0
"""Seconds between requests. GCP announces a termination 30 seconds ahead."""

COMMAND_SECONDS = 20.0
"""Time limit of `ray drain-node`, which takes a second or two; it is then stopped and run again."""

LOCK_NAME = "nanotok-drain-on-notice.lock"


def drain(notice: Notice, ray: str = "ray", processes: Path = PROCESSES) -> bool:
    """Notify Ray that its nodes on this machine will end.

    The nodes are named: without `--node-id`, if the command finds no running node, it starts a Ray
    of its own, drains that, and exits with 0.

    Returns:
        Whether Ray has accepted the notice.
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
    """Run a command and return whether it exited with 0; a failure is logged."""
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
    """Ask until a notice exists and `act` has succeeded, and return the notice."""
    silent = False
    while True:
        try:
            notice = ask(now())
            silent = False
        except OSError as error:
            if not silent:
                LOG.warning("the metadata server does not answer, asking again: %s", error)
            silent, notice = True, None
        if notice is not None and act(notice):
            return notice
        pause(PAUSE_SECONDS)


def main(arguments: Sequence[str]) -> int:
    """Watch until the node is drained."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if options.cloud == "aws":
        ask = aws_notices(options.server or AWS_SERVER, rebalance=options.rebalance)
    else:
        ask = gcp_notices(options.server or GCP_SERVER)
    lock = _lock(options.lock)
    if lock is None:
        LOG.info("another watcher is running: %s", options.lock)
        return 0
    with lock:
        LOG.info("watching for notices of %s", options.cloud)
        notice = watch(ask, lambda notice: drain(notice, options.ray, options.processes))
    LOG.info("drained: %s", notice.reason)
    return 0


def _lock(path: Path) -> IO[str] | None:
    """Return a file locked until this process ends, or None if another one has locked it."""
    import fcntl  # noqa: PLC0415 - Windows has no such module

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
        description="Drain the Ray node of this machine when the cloud announces that it will be "
        "reclaimed.",
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
