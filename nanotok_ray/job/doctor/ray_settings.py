"""Checks of the environment variables of Ray: address, authentication mode, token."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from nanotok_ray.job.doctor.result import CheckResult, failure, passed, warning

CONNECT_SECONDS = 5.0
"""Time limit of a connection; Ray itself tries for minutes."""

NO_CLUSTER = (
    "check that the head runs, and use HOST:6379 as seen from here, or auto on a node of it"
)

NO_SERVER = (
    "check that the head runs and that its dashboard port (default: 8265) can be reached "
    "from here: `ray dashboard cluster.yaml`, `kubectl port-forward`, or an SSH tunnel"
)

_PORTS = {"http": 80, "https": 443}


def check_form(address: str, *, name: str) -> CheckResult | None:
    """Return the reason why a driver cannot use an address of this form, or None.

    >>> check_form("10.0.0.1:6379", name="RAY_ADDRESS")
    >>> check_form("10.0.0.1", name="RAY_ADDRESS").found
    "'10.0.0.1' is not the address of a Ray cluster"
    """
    if address in {"auto", "local"}:
        return None
    if address.startswith(("http://", "https://")):
        return failure(
            name,
            f"{address} is a job server, and a job that runs here cannot connect to it",
            "unset RAY_ADDRESS and pass it to `nanotok submit --address`, or to "
            "`ray job submit` as RAY_API_SERVER_ADDRESS",
        )
    if address.startswith("ray://"):
        return failure(
            name,
            f"{address} is Ray Client, whose tasks end with this process' connection",
            "submit the job with `nanotok submit`, or run it on the head with RAY_ADDRESS=auto",
        )
    if "/" in address or host_and_port(address) is None:
        return failure(
            name,
            f"{address!r} is not the address of a Ray cluster",
            "use HOST:PORT of its head, such as 10.0.0.1:6379, or auto on a node of it; "
            "local, or no value, starts a local Ray",
        )
    return None


def check_reachable(address: str, *, advice: str, name: str = "address") -> CheckResult | None:
    """Return the reason why a connection cannot be opened, or None."""
    target = host_and_port(address)
    if target is None:
        text = f"{address} is not http://HOST:PORT, HOST:PORT or auto"
        return failure(name, text, advice)
    try:
        socket.create_connection(target, timeout=CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:  # a name can be invalid for DNS
        why = getattr(error, "strerror", None) or error
        text = f"{target[0]}:{target[1]} cannot be reached: {why}"
        return failure(name, text, advice)
    return None


def host_and_port(address: str) -> tuple[str, int] | None:
    """Return the host and the port of an address or a URL, or None.

    >>> host_and_port("10.0.0.1:6379"), host_and_port("https://ray.internal")
    (('10.0.0.1', 6379), ('ray.internal', 443))
    >>> host_and_port("http://head:web")
    """
    try:
        parts: SplitResult = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if not host or port is None or any(map(str.isspace, address)):
        return None
    return host, port


def check_transport(address: str) -> CheckResult | None:
    """Return a warning if requests to a job server would carry the token in clear, or None."""
    target = host_and_port(address)
    if os.environ.get(_MODE) != "token" or target is None or not address.startswith("http://"):
        return None
    host = target[0]
    with suppress(ValueError):  # a name
        if ip_address(host).is_loopback:
            return None
    if host == "localhost":
        return None
    return warning(
        "transport",
        f"the token is sent to {host} over http, in clear: whoever reads it on the way can "
        "run any code on the cluster",
        "use https, or a tunnel (`ray dashboard cluster.yaml`, `kubectl port-forward`, ssh) "
        "and http://127.0.0.1:8265",
    )


_MODE, _TOKEN, _PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_ray_settings(*, address: str | None) -> Iterator[CheckResult]:
    """Check the settings that a process on this machine would pass to Ray.

    Args:
        address: the cluster or job server; None: that of RAY_ADDRESS, if set.
    """
    is_remote = address is not None or os.environ.get("RAY_ADDRESS") not in {None, "", "local"}
    yield check_auth_mode(is_remote=is_remote)
    if os.environ.get(_MODE) != "disabled":
        yield check_token(is_remote=is_remote)
    finding = check_ray_address()
    named = os.environ.get("RAY_ADDRESS", "")
    if finding.status == "ok" and address is None and host_and_port(named) is not None:
        finding = check_reachable(named, advice=NO_CLUSTER, name="RAY_ADDRESS") or finding
    yield finding


def check_auth_mode(*, is_remote: bool) -> CheckResult:
    """Check that the authentication mode is set, unless only a local Ray is used."""
    name, mode = "Ray auth mode", os.environ.get(_MODE)
    if not mode and not is_remote:
        text = f"{_MODE} is not set: the Ray that nanotok starts here asks for a token"
        return passed(name, text)
    if not mode:
        return warning(
            name,
            f"{_MODE} is not set: whether a token is asked for then depends on Ray's version "
            "and on what an earlier session left in ~/.ray, and a client may be answered 401",
            f"export {_MODE}=token here and on every node",
        )
    if mode == "token":
        return passed(name, "token")
    if mode == "disabled":
        return warning(
            name,
            "disabled: anyone who reaches Ray's ports can run any code",
            f"export {_MODE}=token here and on every node",
        )
    return failure(name, f"{_MODE} is {mode!r}, which Ray does not know", f"export {_MODE}=token")


def check_token(*, is_remote: bool) -> CheckResult:
    """Check the token of the first of three places that has one, without printing it."""
    name, named = "Ray token", os.environ.get(_PATH)
    path = Path(named or "~/.ray/auth_token").expanduser()
    origin, token, mode = _TOKEN, os.environ.get(_TOKEN), 0
    if token is None and not named and not path.exists():
        return _missing_token(name, is_remote=is_remote)
    if token is None:
        origin = f"{path} (of {_PATH})" if named else str(path)
        try:
            token, mode = path.read_text(errors="replace"), stat.S_IMODE(path.stat().st_mode)
        except OSError as error:
            advice = "put the cluster's token there, readable for this user alone (mode 0600)"
            return failure(name, f"{origin} cannot be read: {error.strerror}", advice)
    if not token.strip():
        return failure(name, f"{origin} is empty", "put the cluster's token into it")
    if mode & _OTHERS:
        text = f"{origin} has mode {mode:04o}: other users can read it"
        return warning(name, text, f"chmod 600 {path}")
    return passed(name, f"from {origin}")


def _missing_token(name: str, *, is_remote: bool) -> CheckResult:
    text = "none in RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH and ~/.ray/auth_token"
    if is_remote:
        advice = "put the cluster's token into ~/.ray/auth_token, with mode 0600"
        return failure(name, text, advice)
    return passed(name, f"{text}; nanotok creates one for the Ray that it starts here")


def check_ray_address() -> CheckResult:
    """Check that a driver can connect to RAY_ADDRESS."""
    name, address = "RAY_ADDRESS", os.environ.get("RAY_ADDRESS")
    if not address or address == "local":
        return passed(name, "not set: jobs started here start a local Ray")
    return check_form(address, name=name) or passed(name, f"{address}: jobs started here run there")
