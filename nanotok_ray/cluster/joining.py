"""Whether a driver can join a Ray cluster, found out in seconds: `ray.init` tries for minutes.

The form of the address, then a connection, then one call to the head with the token. Starts and
changes nothing.
"""

from contextlib import closing

from nanotok_ray.errors import NanotokError, RecipeError, RefusedError, UnreachableError
from nanotok_ray.job.doctor.ray_settings import NO_CLUSTER, check_form, check_reachable, check_token
from nanotok_ray.job.doctor.result import Finding

CALL_SECONDS = 15.0
"""For which the head may take to answer one call: it may be busy."""

_METHODS = (
    "/ray.rpc.NodeInfoGcsService/CheckAlive",
    "/ray.rpc.InternalKVGcsService/InternalKVGet",
)
"""What a head answers; the second in case another version of Ray does not have the first."""

_NO_HEAD = (
    "give the head's own port (6379), and not that of its dashboard (8265) or of Ray Client (10001)"
)
_NO_RAY = "start one with `ray start --head`, or give HOST:6379 of a cluster's head"
NOT_JOINED = (
    "see that Ray and Python have the same versions there, and that a node of the cluster runs on "
    "this machine: elsewhere submit the job with `nanotok submit`"
)
ACCESS = (
    "export RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN=... or RAY_AUTH_TOKEN_PATH=FILE with the "
    "cluster's token"
)

Problem = tuple[type[NanotokError], Finding]
"""The error that it is for a job, and what the doctor tells."""


def require_cluster(address: str, *, origin: str) -> None:
    """Raise what keeps a driver from joining the cluster at an address.

    Args:
        address: HOST:PORT of the head, or "auto".
        origin: where the address was given, for people.

    Raises:
        RecipeError: the address is of another form.
        UnreachableError: nothing listens there, or something that is no head.
        RefusedError: the head wants another token.
    """
    problem = joining_problem(address)
    if problem is not None:
        kind, finding = problem
        raise kind(f"cannot join the Ray cluster of {origin}: {finding.found}; {finding.advice}")


def joining_problem(address: str) -> Problem | None:
    """Return what keeps a driver from joining the cluster at an address; None if nothing does."""
    finding = check_form(address, name="address")
    if finding is not None:
        return RecipeError, finding
    try:
        head = _head_of_auto() if address == "auto" else address
    except ConnectionError:
        return UnreachableError, _failed("it is auto, and no Ray runs on this machine", _NO_RAY)
    except ImportError:  # this version of Ray has it elsewhere, and finds out by itself
        return None
    finding = check_reachable(head, advice=NO_CLUSTER)
    if finding is not None:
        return UnreachableError, finding
    return _refusal(head)


def first_line(error: BaseException) -> str:
    r"""Return the first sentence of an error of Ray's, whose advice of paragraphs follows it.

    >>> first_line(RuntimeError("Forbidden: Invalid authentication token\n\nToken authentication"))
    'Forbidden: Invalid authentication token'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].partition(". ")[0].rstrip(".") if lines else type(error).__name__


def _head_of_auto() -> str:
    """Return HOST:PORT of the head that "auto" means here.

    Raises:
        ConnectionError: there is none.
    """
    from ray._private.authentication import (  # noqa: PLC0415 - Ray is slow to import
        authentication_token_setup,
    )
    from ray._private.services import canonicalize_bootstrap_address  # noqa: PLC0415 - as above

    head = str(canonicalize_bootstrap_address("auto"))
    # As `ray.init` does for this address alone.
    authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    return head


def _refusal(head: str) -> Problem | None:
    """Return why the head does not answer a call with this process' token; None if it does."""
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import
    from ray.exceptions import AuthenticationError  # noqa: PLC0415 - as above

    code = grpc.StatusCode.UNIMPLEMENTED
    for method in _METHODS:
        try:
            _call(head, method)
        except ImportError:  # as above
            return None
        except AuthenticationError as error:  # none was found
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
    found = f"{head} does not answer as the head of a Ray cluster ({code.name})"
    return UnreachableError, _failed(found, _NO_HEAD)


def _call(head: str, method: str) -> None:
    """Make one call as Ray makes its own: with its token, its certificates and its proxies."""
    from ray._private.grpc_utils import init_grpc_channel  # noqa: PLC0415 - slow to import
    from ray._private.ray_constants import GLOBAL_GRPC_OPTIONS  # noqa: PLC0415 - as above

    with closing(init_grpc_channel(head, options=GLOBAL_GRPC_OPTIONS)) as channel:
        call = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        call(b"", timeout=CALL_SECONDS)


def _failed(found: str, advice: str) -> Finding:
    return Finding(name="cluster", status="fail", found=found, advice=advice)
