"""Checks that all nodes can access the folders of a job, before any work starts.

A node that joins later is checked when one of its workers runs its first batch (`job/calls.py`).
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from nanotok_ray.errors import SharedFolderError
from nanotok_ray.job import SharedFolder
from nanotok_ray.job.probes import Probe, answer, probes_in, problem_with, remove, what_to_do

ANSWER_SECONDS = 60.0
"""Seconds after which a node that has not answered is left to the check of its workers."""

MAX_NODES = 5

Node = dict[str, Any]
A = TypeVar("A")
R = TypeVar("R")


def check_nodes(shared: Collection[SharedFolder]) -> None:
    """Check that all nodes that can run slices see files that are written to folders here.

    Nothing is done if the only node is that of this process.

    Raises:
        SharedFolderError: The message names folder and nodes.
    """
    nodes = nodes_beside_this()
    if not nodes or not shared:
        return
    with probes_in(shared) as probes:
        try:
            answers = _ask(nodes, probes)
            problems = [_problems(probe, number, answers) for number, probe in enumerate(probes)]
        finally:
            for probe in probes:
                for node in nodes:
                    remove(probe, probe.answer_name(node["NodeID"]))
    wrong = [
        _message(probe, problem, len(nodes))
        for probe, problem in zip(probes, problems, strict=True)
    ]
    if any(wrong):
        raise SharedFolderError("\n".join(filter(None, wrong)))


def nodes_beside_this() -> list[Node]:
    """Return the nodes that run slices, or nothing if this is the only node."""
    import ray  # noqa: PLC0415 - the session must have set its environment before

    alive = [node for node in ray.nodes() if node["Alive"]]
    this_node = ray.get_runtime_context().get_node_id()
    if [node["NodeID"] for node in alive] == [this_node]:
        return []
    return [node for node in alive if node["Resources"].get("CPU", 0) >= 1]


def _ask(nodes: Sequence[Node], probes: Sequence[Probe]) -> list[tuple[Node, Sequence[str | None]]]:
    """Return the answers of each node to the probes, without nodes that do not answer in time."""
    answers = ask(nodes, answer, probes, name="check that folders are shared")
    return [(node, said) for node, said in answers if not isinstance(said, Exception)]


def ask(
    nodes: Sequence[Node], work: Callable[[A, str], R], argument: A, *, name: str
) -> list[tuple[Node, R | Exception]]:
    """Call `work(argument, id of the node)` on each node; return the results or Ray's errors.

    Nodes that have not answered after ANSWER_SECONDS are skipped.
    """
    import ray  # noqa: PLC0415 - see above
    from ray.exceptions import RayError  # noqa: PLC0415 - see above
    from ray.util.scheduling_strategies import (  # noqa: PLC0415 - see above
        NodeAffinitySchedulingStrategy,
    )

    remote = ray.remote(num_cpus=0, max_retries=0)(work)
    asked = {}
    for node in nodes:
        node_id = node["NodeID"]
        pin = NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
        asked[remote.options(name=name, scheduling_strategy=pin).remote(argument, node_id)] = node
    answers: list[tuple[Node, R | Exception]] = []
    end = time.monotonic() + ANSWER_SECONDS
    try:
        while asked and (left := end - time.monotonic()) > 0:
            ready, _ = ray.wait(list(asked), timeout=left)
            for reference in ready:
                node = asked.pop(reference)
                try:
                    answers.append((node, ray.get(reference)))
                except RayError as error:  # the node is gone, its workers die, or its code differs
                    answers.append((node, error))
    finally:
        for reference in asked:
            ray.cancel(reference)
    return answers


def _problems(
    probe: Probe, number: int, answers: Sequence[tuple[Node, Sequence[str | None]]]
) -> list[str]:
    """Return the nodes that do not see a probe, or whose answer is not visible here, and why."""
    problems = []
    for node, seen in answers:
        problem = seen[number]
        if problem is None:
            problem = problem_with(probe, probe.answer_name(node["NodeID"]))
        if problem is not None:
            problems.append(
                f"{node['NodeManagerAddress']} ({node['NodeManagerHostname']}): {problem}"
            )
    return problems


def _message(probe: Probe, problems: Sequence[str], nodes: int) -> str:
    if not problems:
        return ""
    more = len(problems) - MAX_NODES
    head = (
        f"{probe.folder} is not one folder for all nodes: {len(problems)} of {nodes} nodes do not "
        f"see files written here, or their files are not seen here; {what_to_do(probe.folder)}"
    )
    lines = [head, *(f"  {problem}" for problem in problems[:MAX_NODES])]
    return "\n".join(lines + ([f"  and {more} more nodes"] if more > 0 else []))
