"""A Ray session: the current one, a session on the cluster of RAY_ADDRESS, or a local one."""

import logging
import os
import secrets
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from nanotok_ray.cluster.local_ray import abandon, has_died, loopback_only
from nanotok_ray.cluster.node_check import check_nodes
from nanotok_ray.errors import (
    DiskFullError,
    NanotokError,
    RecipeError,
    RefusedError,
    SliceError,
    UnreachableError,
)
from nanotok_ray.job.doctor.ray_settings import NO_CLUSTER, check_form, check_reachable, check_token
from nanotok_ray.job.doctor.result import CheckResult, failure
from nanotok_ray.job.probes import Shared
from nanotok_ray.job.termination import terminable
from nanotok_ray.units import format_bytes

CALL_SECONDS = 15.0
"""Time limit of an answer of the head, which can be busy."""

_METHODS = (
    "/ray.rpc.NodeInfoGcsService/CheckAlive",
    "/ray.rpc.InternalKVGcsService/InternalKVGet",
)
"""Calls that a head answers; the second is used if another version of Ray lacks the first."""

_NO_HEAD = (
    "use the head's own port (6379), and not that of its dashboard (8265) or of Ray Client (10001)"
)
_NO_RAY = "start one with `ray start --head`, or use HOST:6379 of a cluster's head"
NOT_JOINED = (
    "check that Ray and Python have the same versions there, and that a node of the cluster runs "
    "on this machine: elsewhere submit the job with `nanotok submit`"
)
ACCESS = (
    "export RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN=... or RAY_AUTH_TOKEN_PATH=FILE with the "
    "cluster's token"
)

_MAX_CHARS = 300
"""Limit of the characters of an error of Ray."""

Problem = tuple[type[NanotokError], CheckResult]
"""The error for a job, and the result for the doctor."""


def joining_problem(address: str) -> Problem | None:
    """Return the problem that would prevent a driver from joining a cluster, or None."""
    finding = check_form(address, name="address")
    if finding is not None:
        return RecipeError, finding
    try:
        head = _head_of_auto() if address == "auto" else address
    except ConnectionError:
        return UnreachableError, _failed("it is auto, and no Ray runs on this machine", _NO_RAY)
    except ImportError:  # another version of Ray, which reports it later
        return None
    finding = check_reachable(head, advice=NO_CLUSTER)
    if finding is not None:
        return UnreachableError, finding
    return _refusal(head)


def first_line(error: BaseException) -> str:
    r"""Return the first sentence of an error of Ray, without the paragraphs of advice.

    >>> first_line(RuntimeError("Forbidden: Invalid authentication token\n\nToken authentication"))
    'Forbidden: Invalid authentication token'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0].partition(". ")[0].rstrip(".") if lines else type(error).__name__
    return first if len(first) <= _MAX_CHARS else f"{first[:_MAX_CHARS]} ..."


def _head_of_auto() -> str:
    """Return HOST:PORT of the head to which "auto" refers on this machine.

    Raises:
        ConnectionError: No head was found.
    """
    from ray._private.authentication import (  # noqa: PLC0415 - Ray is slow to import
        authentication_token_setup,
    )
    from ray._private.services import canonicalize_bootstrap_address  # noqa: PLC0415 - as above

    head = str(canonicalize_bootstrap_address("auto"))
    # `ray.init` also does this, but only for this address.
    authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    return head


def _refusal(head: str) -> Problem | None:
    """Return the reason why the head refuses this process's token, or None."""
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import
    from ray.exceptions import AuthenticationError  # noqa: PLC0415 - as above

    code = grpc.StatusCode.UNIMPLEMENTED
    for method in _METHODS:
        try:
            _call(head, method)
        except ImportError:  # as above
            return None
        except AuthenticationError as error:  # no token was found
            return RefusedError, _failed(f"{head}: {first_line(error)}", ACCESS)
        except grpc.RpcError as error:
            code = error.code()
        else:
            return None
        if code == grpc.StatusCode.UNAUTHENTICATED:
            token = check_token(is_remote=True).found
            return RefusedError, _failed(f"{head} does not accept the token ({token})", ACCESS)
        if code != grpc.StatusCode.UNIMPLEMENTED:
            break
    text = f"{head} does not answer as the head of a Ray cluster ({code.name})"
    return UnreachableError, _failed(text, _NO_HEAD)


def _call(head: str, method: str) -> None:
    """Make one call like Ray's own calls, with its token, certificates and proxies."""
    from ray._private.grpc_utils import init_grpc_channel  # noqa: PLC0415 - slow to import
    from ray._private.ray_constants import GLOBAL_GRPC_OPTIONS  # noqa: PLC0415 - as above

    with closing(init_grpc_channel(head, options=GLOBAL_GRPC_OPTIONS)) as channel:
        call = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        call(b"", timeout=CALL_SECONDS)


def _failed(text: str, advice: str) -> CheckResult:
    return failure("cluster", text, advice)


LOCAL_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # A slice that needs more memory than available must fail instead of being retried forever.
    "RAY_task_oom_retries": "3",
    # A virtual environment is inherited unchanged; `uv run` must not rebuild it in each worker.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""Environment of a local Ray, unless the caller has set it. A caller that has imported Ray has
chosen its environment; Ray (2.59 and later) then enables token authentication itself.
"""

MIN_FREE = 1_000_000
"""Free bytes that Ray's temporary folder needs; with less, no session starts."""

_REMOVALS = 5
_ORIGIN = "the environment variable RAY_ADDRESS"


def check_address(address: str | None = None) -> None:
    """Check that the cluster of a session can be joined, if there is one.

    Args:
        address: as in `ray_session`.

    Raises:
        RecipeError: A driver cannot use the address.
        UnreachableError: Nothing listens at the address, or it is not a head.
        RefusedError: The head requires another token.
    """
    target, origin = _address(address)
    if target == "local" or _is_open():
        return
    if (problem := joining_problem(target)) is not None:
        kind, finding = problem
        raise kind(f"cannot join the Ray cluster of {origin}: {finding.found}; {finding.advice}")


def _address(address: str | None) -> tuple[str, str]:
    """Return the address to use, and where it was set."""
    if address is not None:
        return address, "the address that was given"
    return os.environ.get("RAY_ADDRESS") or "local", _ORIGIN


def _is_open() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


@contextmanager
def ray_session(
    *,
    address: str | None = None,
    cpus: int | None = None,
    shared: Collection[Shared] = (),
) -> Iterator[None]:
    """Use Ray inside the block; a Ray that was started here is shut down at its end.

    Args:
        address: HOST:PORT of a cluster's head, "auto" or "local"; None: RAY_ADDRESS, otherwise
            "local".
        cpus: the CPUs of a local Ray; None: all CPUs of the machine. Ignored on a running cluster.
        shared: folders and sources that every node must see with the same content.

    Raises:
        RecipeError: A driver cannot use the address.
        UnreachableError: The cluster cannot be reached or refuses the token.
        NodeError: A node lacks this package; or a SharedFolderError: it does not see a folder or a
            source.
        Terminated: SIGTERM was received.
    """
    if _is_open():
        check_nodes(shared)
        yield
        return
    check_address(address)
    target, origin = _address(address)
    if target == "local" and "ray" not in sys.modules:
        for name, value in (LOCAL_SETTINGS | _auth(os.environ)).items():
            os.environ.setdefault(name, value)
    session = _started(cpus) if target == "local" else _joined(target, origin=origin)
    with terminable() as listen, session:
        listen()  # ray.init has installed its own handler of SIGTERM
        check_nodes(shared)
        yield


@contextmanager
def _started(cpus: int | None) -> Iterator[None]:
    """Start a local Ray; at its end, remove its session folder unless its logs may be needed."""
    import ray  # noqa: PLC0415 - reads the auth mode from the environment when it is imported

    folder: Path | None = None
    _check_temporary_folder()
    try:
        folder = _start(cpus)
        yield
    except Exception as error:
        if isinstance(error, SliceError) or not isinstance(error, NanotokError) or has_died():
            folder = None  # its logs may contain the reason
        raise
    finally:
        if has_died():
            abandon()
        else:
            ray.shutdown()
        if folder is not None:
            _remove_session(folder)


def _start(cpus: int | None) -> Path:
    """Start a local Ray, and return its session folder.

    Raises:
        UnreachableError: Ray does not start.
        DiskFullError: Its temporary folder is full.
    """
    import ray  # noqa: PLC0415 - as above

    try:
        with loopback_only():
            context = ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
    except Exception as error:  # Ray raises many classes of errors here
        _check_temporary_folder()
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise UnreachableError(
            f"a local Ray does not start: {reason}; run `nanotok doctor`, and see its logs in "
            f"{_temporary_folder()}/ray/session_latest/logs"
        ) from error
    return Path(context.address_info["session_dir"])


def _check_temporary_folder() -> None:
    """Refuse to start Ray if its folder is full: it would try for half a minute.

    Raises:
        DiskFullError: The folder has less than `MIN_FREE` bytes.
    """
    folder = _temporary_folder()
    try:
        free = shutil.disk_usage(folder).free
    except OSError:  # Ray creates the folder, or reports the reason
        return
    if free < MIN_FREE:
        raise DiskFullError(
            f"{folder}/ray needs at least {format_bytes(MIN_FREE)} for Ray's own files, and its "
            f"disk is full ({format_bytes(free)} free); free some space there, or set RAY_TMPDIR "
            "to another folder"
        )


def _temporary_folder() -> str:
    """Return the folder of Ray's session folders, chosen in the same way as by Ray."""
    return os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - Ray's


@contextmanager
def _joined(address: str, *, origin: str) -> Iterator[None]:
    import ray  # noqa: PLC0415 - as above

    try:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        except Exception as error:  # Ray raises many classes of errors here
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise UnreachableError(
                f"cannot join the Ray cluster of {origin}, {address}: {reason}; {NOT_JOINED}"
            ) from error
        yield
    finally:
        ray.shutdown()


def _remove_session(folder: Path) -> None:
    """Remove the folder of an ended session, and the link to the latest session if it is that."""
    latest = folder.with_name("session_latest")
    with suppress(OSError):
        if latest.readlink().name == folder.name:
            latest.unlink()
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)  # a process that is ending has written to the folder


def _auth(environment: Mapping[str, str]) -> dict[str, str]:
    """Return authentication mode and token of a local Ray; the token is random."""
    if environment.get("RAY_AUTH_MODE", "token") != "token":
        return {}
    if "RAY_AUTH_TOKEN" in environment or "RAY_AUTH_TOKEN_PATH" in environment:
        return {"RAY_AUTH_MODE": "token"}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
