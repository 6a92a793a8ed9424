"""What a cloud's metadata server says of the end of this machine. Knows nothing of Ray.

AWS: a notice two minutes ahead, with its time; with `rebalance` also the earlier hint that it may
come. GCP: a flag that is set about 30 seconds ahead. No notice is None; a server that does not
answer is an OSError.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

ANSWER_SECONDS = 2.0
"""The server is on the machine itself; one that takes longer is asked again."""

TOKEN_SECONDS = 21600
"""How long AWS's token is valid: the longest that AWS gives."""

GCP_NOTICE_SECONDS = 30.0

AWS_SERVER = "http://169.254.169.254"
GCP_SERVER = "http://metadata.google.internal"

_OPENER = build_opener(ProxyHandler({}))  # link-local: never through a proxy of the environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """A machine will be taken away.

    Attributes:
        reason: in the cloud's words, for Ray's log.
        seconds: until then, at least 0; None: unknown.
    """

    reason: str
    seconds: float | None


Ask = Callable[[float], Notice | None]
"""Gives the notice that stands at a time (seconds since 1970). Raises OSError: no answer."""


def aws_notices(server: str = AWS_SERVER, *, rebalance: bool = False) -> Ask:
    """Give what asks AWS's server, by its version 2 (a token first)."""
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
                token = ""  # it has expired
        raise OSError(f"{server} refuses the token that it gave")

    def ask(now: float) -> Notice | None:
        if (action := get("spot/instance-action")) is not None:
            return _aws_action(action, now)
        if rebalance and get("events/recommendations/rebalance") is not None:
            return Notice(reason="AWS recommends to rebalance", seconds=None)
        return None

    return ask


def gcp_notices(server: str = GCP_SERVER) -> Ask:
    """Give what asks GCP's server."""

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
    """Read `{"action": "stop", "time": "2026-11-22T10:00:00Z"}`; other text is a notice too."""
    try:
        told = json.loads(text)
        seconds = max(0.0, datetime.fromisoformat(told["time"]).timestamp() - now)
        return Notice(reason=f"AWS: {told['action']} at {told['time']}", seconds=seconds)
    except (ValueError, KeyError, TypeError):
        return Notice(reason=f"AWS: {text[:100]!r}", seconds=None)


def _read(url: str, headers: dict[str, str], *, method: str = "GET") -> str | None:
    """Give the text at a URL; None where there is none (404). Raises OSError: no sound answer."""
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
