"""The address of a Ray cluster or of a job server: its form, and whether anything listens there.

Ray is not imported. Whether a cluster accepts the token is not known here.
"""

import socket
from urllib.parse import SplitResult, urlsplit

from nanotok_ray.doctor.finding import Finding

CONNECT_SECONDS = 5.0
"""Ray itself tries for minutes to reach what is not there."""

NO_CLUSTER = "see that the head runs, and give HOST:6379 as seen from here, or auto on one of it"

NO_SERVER = (
    "see that the head runs and its dashboard port (8265) can be reached from here: "
    "`ray dashboard cluster.yaml`, `kubectl port-forward`, or an SSH tunnel"
)

_PORTS = {"http": 80, "https": 443}


def check_form(address: str, *, name: str) -> Finding | None:
    """Return why a driver cannot connect to an address of this form; None if it can.

    >>> check_form("10.0.0.1:6379", name="RAY_ADDRESS")
    >>> check_form("10.0.0.1", name="RAY_ADDRESS").found
    "'10.0.0.1' is not the address of a Ray cluster"
    """
    if address in {"auto", "local"}:
        return None
    if address.startswith(("http://", "https://")):
        return Finding(
            name=name,
            status="fail",
            found=f"{address} is a job server, and a job that runs here cannot connect to it",
            advice="unset RAY_ADDRESS and give it to `nanotok submit --address`, or to "
            "`ray job submit` as RAY_API_SERVER_ADDRESS",
        )
    if address.startswith("ray://"):
        return Finding(
            name=name,
            status="fail",
            found=f"{address} is Ray Client, whose tasks end with this process' connection",
            advice="submit the job with `nanotok submit`, or run it on the head with "
            "RAY_ADDRESS=auto",
        )
    if "/" in address or host_and_port(address) is None:
        return Finding(
            name=name,
            status="fail",
            found=f"{address!r} is not the address of a Ray cluster",
            advice="give HOST:PORT of its head, as 10.0.0.1:6379, or auto on a node of it; local, "
            "or unset, starts a Ray of its own",
        )
    return None


def check_reachable(address: str, *, advice: str) -> Finding | None:
    """Return what keeps a connection from being opened; None if it can be opened."""
    target = host_and_port(address)
    if target is None:
        found = f"{address} is not http://HOST:PORT, HOST:PORT or auto"
        return Finding(name="address", status="fail", found=found, advice=advice)
    try:
        socket.create_connection(target, timeout=CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:  # a name may be none that can be asked for
        why = getattr(error, "strerror", None) or error
        found = f"{target[0]}:{target[1]} cannot be reached: {why}"
        return Finding(name="address", status="fail", found=found, advice=advice)
    return None


def host_and_port(address: str) -> tuple[str, int] | None:
    """Return the host and the port that an address or a URL names; None if it names none.

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
