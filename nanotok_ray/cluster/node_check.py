"""Checks that all nodes can run a job before any work starts.

They must see its folders and sources, and have the library that encodes.

A node that joins later is checked by its first calls (`node_call.py`, `job/worker_pool.py`).
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from nanotok_ray.cluster.node_call import WHAT_TO_DO, called, installed, node_function, pack
from nanotok_ray.cluster.nodes import RayNode, alive_nodes
from nanotok_ray.errors import NodeError, SharedFolderError
from nanotok_ray.job.probes import (
    Probe,
    Required,
    Shared,
    SharedSource,
    answer,
    probes_in,
    problem_with,
    remove,
    what_to_do,
)
from nanotok_ray.job.task import SharedFolder, SharedLibrary

ANSWER_SECONDS = 60.0
"""Seconds after which a node that has not answered is left to the check of its workers."""

MAX_NODES = 5

A = TypeVar("A")
R = TypeVar("R")
Answers = Sequence[tuple[RayNode, Sequence[str | None]]]
"""The problems of each node with the probes and the sources, in this order; None: no problem."""


def check_nodes(shared: Collection[Shared]) -> None:
    """Check that all nodes that can run slices have the packages, and see folders and sources.

    Nothing is done if the only node is that of this process.

    Raises:
        NodeError: Nodes lack this package or the library that encodes, or have another version;
            the message names them.
        SharedFolderError: The message names folder or source and nodes.
    """
    nodes = nodes_beside_this()
    if not nodes or not shared:
        return
    others = [item for item in shared if not isinstance(item, SharedFolder)]
    with probes_in(item for item in shared if isinstance(item, SharedFolder)) as probes:
        try:
            asked: list[Required | SharedSource] = [*probes, *others]
            said = ask(nodes, answer, asked, name="check the folders and sources")
            _require_package(said, len(nodes))
            answers = [(node, seen) for node, seen in said if not isinstance(seen, Exception)]
            wrong = [
                _folder_message(probe, _of_probe(probe, number, answers), len(nodes))
                for number, probe in enumerate(probes)
            ]
        finally:
            for probe in probes:
                for node in nodes:
                    remove(probe, probe.answer_name(node.node_id))
    found = [(item, _of_other(number, answers)) for number, item in enumerate(others, len(probes))]
    _require_libraries(found, len(nodes))
    wrong += [
        _source_message(item, problems, len(nodes))
        for item, problems in found
        if isinstance(item, SharedSource)
    ]
    if any(wrong):
        raise SharedFolderError("\n".join(filter(None, wrong)))


def nodes_beside_this() -> list[RayNode]:
    """Return the nodes that run slices, or nothing if this is the only node."""
    import ray  # noqa: PLC0415 - the session must have set its environment before

    alive, this_node = alive_nodes(), ray.get_runtime_context().get_node_id()
    if [node.node_id for node in alive] == [this_node]:
        return []
    return [node for node in alive if node.cpus]


def ask(
    nodes: Sequence[RayNode], work: Callable[[A, str], R], argument: A, *, name: str
) -> list[tuple[RayNode, R | Exception]]:
    """Call `work(argument, id of the node)` on each node; return the results or the errors.

    A node that cannot import this package, or has another version, answers with a NodeError.
    Nodes that have not answered after ANSWER_SECONDS are skipped.
    """
    import ray  # noqa: PLC0415 - see above
    from ray.exceptions import RayError  # noqa: PLC0415 - see above
    from ray.util.scheduling_strategies import (  # noqa: PLC0415 - see above
        NodeAffinitySchedulingStrategy,
    )

    remote = ray.remote(num_cpus=0, max_retries=0)(node_function())
    asked = {}
    for node in nodes:
        pin = NodeAffinitySchedulingStrategy(node_id=node.node_id, soft=False)
        call = remote.options(name=name, scheduling_strategy=pin)
        asked[call.remote(installed(), pack(work, argument, node.node_id))] = node
    answers: list[tuple[RayNode, R | Exception]] = []
    end = time.monotonic() + ANSWER_SECONDS
    try:
        while asked and (left := end - time.monotonic()) > 0:
            ready, _ = ray.wait(list(asked), timeout=left)
            for reference in ready:
                node = asked.pop(reference)
                try:
                    answers.append((node, called(ray.get(reference)).value))
                except RayError as error:  # the node is gone, or its workers die
                    answers.append((node, error))
    finally:
        for reference in asked:
            ray.cancel(reference)
    return answers


def _require_package(answers: Sequence[tuple[RayNode, object]], nodes: int) -> None:
    """Raise an error that names the nodes which cannot call a function of this package."""
    unfit = [f"{node.name}: {error}" for node, error in answers if isinstance(error, NodeError)]
    if unfit:
        raise NodeError(_unfit_message(unfit, nodes, advice=WHAT_TO_DO))


def _require_libraries(
    found: Sequence[tuple[SharedSource | SharedLibrary, Sequence[str]]], nodes: int
) -> None:
    """Raise an error that names the nodes which lack a library, or have another version."""
    wrong = [
        _unfit_message(problems, nodes, advice=item.what_to_do)
        for item, problems in found
        if problems and isinstance(item, SharedLibrary)
    ]
    if wrong:
        raise NodeError("\n".join(wrong))


def _unfit_message(problems: Sequence[str], nodes: int, *, advice: str) -> str:
    return _message(f"{len(problems)} of {nodes} nodes cannot run this job; {advice}", problems)


def _of_probe(probe: Probe, number: int, answers: Answers) -> list[str]:
    """Return the nodes that do not see a probe, or whose answer is not visible here, and why."""
    problems = []
    for node, seen in answers:
        problem = seen[number]
        if problem is None:
            problem = problem_with(probe, probe.answer_name(node.node_id))
        if problem is not None:
            problems.append(f"{node.name}: {problem}")
    return problems


def _of_other(number: int, answers: Answers) -> list[str]:
    """Return the nodes that cannot open the files of a source or lack a library, and why."""
    return [f"{node.name}: {seen[number]}" for node, seen in answers if seen[number] is not None]


def _folder_message(probe: Probe, problems: Sequence[str], nodes: int) -> str:
    return _message(
        f"{probe.folder} is not one folder for all nodes: {len(problems)} of {nodes} nodes do not "
        f"see files written here, or their files are not seen here; {what_to_do(probe.folder)}",
        problems,
    )


def _source_message(source: SharedSource, problems: Sequence[str], nodes: int) -> str:
    return _message(
        f"source {source.name!r} cannot be read on {len(problems)} of {nodes} nodes; "
        f"{what_to_do(source.files[0].url)}",
        problems,
    )


def _message(head: str, problems: Sequence[str]) -> str:
    """Return a message with a line for each problem, up to a limit; none without a problem."""
    if not problems:
        return ""
    more = len(problems) - MAX_NODES
    lines = [head, *(f"  {problem}" for problem in problems[:MAX_NODES])]
    return "\n".join(lines + ([f"  and {more} more nodes"] if more > 0 else []))
