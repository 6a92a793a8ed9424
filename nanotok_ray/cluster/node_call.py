"""The call of a function on a node, which answers even if the node lacks this package."""

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import nanotok_ray
from nanotok_ray.errors import NodeError
from nanotok_ray.job.doctor.software import core_build
from nanotok_ray.job.task import Node

WHAT_TO_DO = (
    "install the same nanotok_ray on every node, for example by one image, or end Ray on the node"
)

Answer = tuple[str, str, str | None, bytes]
"""Id and name of a node, the reason why it cannot call the function, and the pickled result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Called:
    """The result of a call on a node."""

    node: Node
    value: Any
    """What the function returned; a NodeError with the reason if the node cannot run it."""
    lacks_package: bool = False
    """Whether the reason is that the node lacks this package, or has another version."""


def node_function() -> Callable[[str, bytes], Answer]:
    """Return a function for `ray.remote` that calls the function in `packed`.

    Ray sends the code of a nested function; it would send only the name of a function of a module,
    and a node without this module would fail in ways that do not tell the node.
    """

    def call_on_node(expected: str, packed: bytes) -> Answer:
        import socket  # noqa: PLC0415 - the function must carry all that it needs

        import ray  # noqa: PLC0415 - as above

        node = ray.get_runtime_context().get_node_id()
        name = f"{ray.util.get_node_ip_address()} ({socket.gethostname()})"
        try:
            from nanotok_ray.cluster.node_call import (  # noqa: PLC0415 - as above
                installed,
                run_packed,
            )

            actual = installed()
        except Exception as error:  # the import runs code of any package
            why = f"it cannot import nanotok_ray ({type(error).__name__}: {error})"
            return node, name, why, b""
        if actual != expected:
            return node, name, f"it has {actual}, the driver has {expected}", b""
        return node, name, None, run_packed(packed)

    return call_on_node


def pack(work: Callable[..., Any], *arguments: object) -> bytes:
    """Pack a function and its arguments for a node."""
    from ray import cloudpickle  # noqa: PLC0415 - the session must have set its environment before

    return bytes(cloudpickle.dumps((work, arguments)))


def run_packed(packed: bytes) -> bytes:
    """Call a function on a node, and pack its result, or the NodeError that it raised."""
    work, arguments = pickle.loads(packed)  # noqa: S301 - from the driver of the job
    try:
        value = work(*arguments)
    except NodeError as error:
        value = error
    return pickle.dumps(value)


def called(answer: Answer) -> Called:
    """Unpack the answer of a node."""
    node_id, name, problem, result = answer
    node = Node(node_id, name)
    if problem is not None:
        return Called(node=node, value=NodeError(problem), lacks_package=True)
    return Called(node=node, value=pickle.loads(result))  # noqa: S301 - from a worker of the job


@lru_cache(maxsize=1)
def installed() -> str:
    """Return the version of this installation with a hash of its Python files.

    The hash tells checkouts of one version apart, whose results may differ. It does not depend on
    the machine, unlike the compiled core.
    """
    digest = hashlib.sha256()
    root = Path(nanotok_ray.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    version = nanotok_ray.__version__
    core = core_build().partition(" ")[0]
    return f"nanotok_ray {version} (files {digest.hexdigest()[:8]}, core {core})"
