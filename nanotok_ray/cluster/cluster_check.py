"""Checks of a cluster or of a job server for the doctor, without starting a job or changes.

A cluster is joined like by a driver, and each node is asked for its core and for the libraries that
encode. A job server is asked for its version and its jobs, which requires a valid token.
"""

import hashlib
import logging
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

from nanotok_ray.cluster.node_check import MAX_NODES, ask
from nanotok_ray.cluster.nodes import RayNode, alive_nodes
from nanotok_ray.cluster.session import NOT_JOINED, first_line, joining_problem
from nanotok_ray.errors import UnreachableError
from nanotok_ray.job.doctor.ray_settings import (
    NO_CLUSTER,
    NO_SERVER,
    check_reachable,
    check_transport,
)
from nanotok_ray.job.doctor.result import CheckResult, failure, passed, warning
from nanotok_ray.job.doctor.software import core_build, ray_version
from nanotok_ray.job.task import installed_version
from nanotok_ray.units import quantity


def check_address(address: str, *, libraries: Sequence[str] = ()) -> Iterator[CheckResult]:
    """Check a job server (http://HOST:PORT) or a cluster (HOST:PORT, or "auto" on a node).

    The nodes of a cluster must have the versions of `libraries`, such as "tokenizers 0.23.3".
    """
    is_server = address.startswith(("http://", "https://"))
    if address != "auto":
        finding = check_reachable(address, advice=NO_SERVER if is_server else NO_CLUSTER)
        if finding is not None:
            yield finding
            return
    yield from _check_job_server(address) if is_server else _check_cluster(address, libraries)


def _check_job_server(address: str) -> Iterator[CheckResult]:
    from nanotok_ray.cluster.submit.job_server import JobServer  # noqa: PLC0415 - imports Ray

    name = "job server"
    finding = check_transport(address)
    if finding is not None:
        yield finding
    server = JobServer(address=address, first_patience=0.0, patience=0.0, on_message=lambda _: None)
    try:
        jobs = server.ask_once(lambda client: client.list_jobs())
        theirs = server.ask_once(_version_of)
    except UnreachableError as error:
        yield failure(name, str(error))
        return
    text = f"{address} answers, with {quantity(len(jobs), 'job')}"
    nodes = "its nodes are not checked: run `nanotok doctor --address auto` on one of them"
    yield passed(name, f"{text}; {nodes}")
    yield versions_finding("job server's Ray", theirs)


def _version_of(client: object) -> str | None:
    """Return Ray's version on the head, or None if the server does not report it."""
    try:
        answer = client._do_request("GET", "/api/version")  # type: ignore[attr-defined]  # noqa: SLF001 - Ray has no public call that tells Ray's version
        version = answer.json().get("ray_version")
    except (AttributeError, ValueError):
        return None
    return None if version is None else str(version)


def versions_finding(name: str, theirs: str | None) -> CheckResult:
    """Compare Ray's version on the cluster with the one here."""
    ours = ray_version()
    if theirs is None:
        return passed(name, "unknown")
    if theirs != ours:
        return warning(
            name,
            f"{theirs} there, {ours} here",
            "install one version everywhere: a driver can only join a cluster of its own version",
        )
    return passed(name, f"{theirs}, as here")


def _check_cluster(address: str, libraries: Sequence[str]) -> Iterator[CheckResult]:
    problem = joining_problem(address)
    if problem is not None:
        yield problem[1]
        return
    import ray  # noqa: PLC0415 - slow to import

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises many classes of errors here
        text = f"cannot join {address}: {type(error).__name__}: {first_line(error)}"
        yield failure("cluster", text, NOT_JOINED)
        return
    try:
        nodes = alive_nodes()
        yield nodes_finding(nodes)
        working = [node for node in nodes if node.cpus]
        answers = ask(working, core_identity, (), name="doctor")
        yield same_finding("cores of nodes", core_identity(), answers, asked=len(working))
        for version in libraries:
            name = version.partition(" ")[0]
            answers = ask(working, installed_version, name, name="doctor")
            yield same_finding(f"{name} of nodes", version, answers, asked=len(working))
    finally:
        ray.shutdown()


def nodes_finding(nodes: Sequence[RayNode]) -> CheckResult:
    """Report the number of nodes and CPUs; without a CPU no task can start."""
    cpus = sum(node.cpus for node in nodes)
    text = f"{quantity(len(nodes), 'node')}, {quantity(cpus, 'CPU')}"
    if not cpus:
        return warning(
            "cluster",
            text,
            "tasks wait until the autoscaler starts workers: check its max_workers",
        )
    return passed("cluster", text)


def core_identity(*_: object) -> str:
    """Return the versions of core and Python of this process, which must be equal on all nodes."""
    from nanotok_ray import _core  # noqa: PLC0415 - a missing one is the answer, not an end

    digest = hashlib.sha256(Path(_core.__file__ or os.devnull).read_bytes()).hexdigest()
    python = ".".join(platform.python_version_tuple()[:2])
    return f"core {core_build()} {digest[:12]}, Python {python}"


def same_finding(
    name: str, values: str, answers: Sequence[tuple[RayNode, str | Exception]], *, asked: int
) -> CheckResult:
    """Compare versions on the nodes with those of this process."""
    wrong = [f"{node.address}: {_message(answer)}" for node, answer in answers if answer != values]
    silent = asked - len(answers)
    if silent:
        wrong.append(f"{silent} of the nodes did not answer in time")
    if wrong:
        more = f" and {len(wrong) - MAX_NODES} more" if len(wrong) > MAX_NODES else ""
        return failure(
            name,
            f"here {values}; {len(wrong)} differ: {'; '.join(wrong[:MAX_NODES])}{more}",
            "use one image on all nodes, or install the same on each",
        )
    return passed(name, f"{values}, on all {asked} that run tasks")


def _message(answer: str | Exception) -> str:
    if isinstance(answer, str):
        return answer
    lines = [line.strip() for line in str(answer).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(answer).__name__
