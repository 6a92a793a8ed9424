"""Checks of what the environment tells Ray: auth mode, token, address. Ray is not imported."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nanotok_ray.doctor.finding import Finding
from nanotok_ray.doctor.ray_address import (
    NO_CLUSTER,
    check_form,
    check_reachable,
    host_and_port,
)

_MODE, _TOKEN, _PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_ray_settings(*, address: str | None) -> Iterator[Finding]:
    """Check the settings that a process started here would hand to Ray.

    Args:
        address: the cluster or job server that is meant; None: what RAY_ADDRESS names, if that.
    """
    is_remote = address is not None or os.environ.get("RAY_ADDRESS") not in {None, "", "local"}
    yield check_auth_mode(is_remote=is_remote)
    if os.environ.get(_MODE) != "disabled":
        yield check_token(is_remote=is_remote)
    finding = check_ray_address()
    named = os.environ.get("RAY_ADDRESS", "")
    if finding.status == "ok" and address is None and host_and_port(named) is not None:
        finding = _unreachable(named) or finding
    yield finding


def _unreachable(address: str) -> Finding | None:
    finding = check_reachable(address, advice=NO_CLUSTER)
    return None if finding is None else replace(finding, name="RAY_ADDRESS")


def check_auth_mode(*, is_remote: bool) -> Finding:
    """Check that the auth mode is stated, where it is not for a local Ray alone."""
    name, mode = "Ray auth mode", os.environ.get(_MODE)
    if not mode and not is_remote:
        found = f"{_MODE} is not set: the Ray that nanotok starts here asks for a token"
        return Finding(name=name, status="ok", found=found)
    if not mode:
        return Finding(
            name=name,
            status="warn",
            found=f"{_MODE} is not set: whether a token is asked for then depends on Ray's version "
            "and on what an earlier session left in ~/.ray, and a client may be answered 401",
            advice=f"export {_MODE}=token here and on every node",
        )
    if mode == "token":
        return Finding(name=name, status="ok", found="token")
    if mode == "disabled":
        return Finding(
            name=name,
            status="warn",
            found="disabled: whoever reaches Ray's ports may run any code",
            advice=f"export {_MODE}=token here and on every node",
        )
    return Finding(
        name=name,
        status="fail",
        found=f"{_MODE} is {mode!r}, which Ray does not know",
        advice=f"export {_MODE}=token",
    )


def check_token(*, is_remote: bool) -> Finding:
    """Check the token, from the first place of three that has one, without showing it."""
    name, told = "Ray token", "RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH and ~/.ray/auth_token"
    if _TOKEN in os.environ:
        return _token_of_variable(name)
    path = Path(os.environ.get(_PATH) or "~/.ray/auth_token").expanduser()
    origin = f"{path} (of {_PATH})" if os.environ.get(_PATH) else str(path)
    if not path.exists() and not os.environ.get(_PATH):
        found = f"none in {told}"
        if not is_remote:
            told = f"{found}; nanotok makes one for the Ray that it starts here"
            return Finding(name=name, status="ok", found=told)
        advice = "put the cluster's token into ~/.ray/auth_token, with mode 0600"
        return Finding(name=name, status="fail", found=found, advice=advice)
    return _token_of_file(name, path, origin=origin)


def _token_of_variable(name: str) -> Finding:
    if not os.environ[_TOKEN].strip():
        return Finding(
            name=name,
            status="fail",
            found=f"{_TOKEN} is set and empty",
            advice=f"unset {_TOKEN}, or put the cluster's token into it",
        )
    return Finding(name=name, status="ok", found=f"from {_TOKEN}")


def _token_of_file(name: str, path: Path, *, origin: str) -> Finding:
    try:
        is_empty = not path.read_bytes().strip()
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        found = f"{origin} cannot be read: {error.strerror}"
        advice = "put the cluster's token there, readable for this user alone (mode 0600)"
        return Finding(name=name, status="fail", found=found, advice=advice)
    if is_empty:
        advice = "put the cluster's token into it"
        return Finding(name=name, status="fail", found=f"{origin} is empty", advice=advice)
    if mode & _OTHERS:
        found = f"{origin} has mode {mode:04o}: other users can read it"
        return Finding(name=name, status="warn", found=found, advice=f"chmod 600 {path}")
    return Finding(name=name, status="ok", found=f"from {origin}")


def check_ray_address() -> Finding:
    """Check that RAY_ADDRESS is what a driver can connect to."""
    name, address = "RAY_ADDRESS", os.environ.get("RAY_ADDRESS")
    if not address or address == "local":
        return Finding(name=name, status="ok", found="not set: jobs started here start a local Ray")
    return check_form(address, name=name) or Finding(
        name=name, status="ok", found=f"{address}: jobs started here run there"
    )
