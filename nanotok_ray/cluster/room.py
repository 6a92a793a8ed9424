"""What the cluster has now: CPUs, and how much memory a slice may ask for."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Room:
    """CPUs of all nodes; CPUs and memory (bytes) of the node with the most memory."""

    cpus: int
    node_cpus: int
    node_memory: int

    def request(self, level: int) -> dict[str, Any]:
        """Give what a call asks Ray for, at a memory level (`Call.memory_level`).

        CPUs too: calls of level 0 ask for no memory, and only CPUs keep them off a node.

        >>> Room(cpus=64, node_cpus=8, node_memory=16_000).request(1)
        {'num_cpus': 2, 'memory': 4000}
        >>> Room(cpus=64, node_cpus=8, node_memory=16_000).request(9)
        {'num_cpus': 8, 'memory': 16000}
        """
        cpus = self.cpus_at(level)
        if level == 0:
            return {"num_cpus": cpus}
        return {"num_cpus": cpus, "memory": self.node_memory * cpus // self.node_cpus}

    def cpus_at(self, level: int) -> int:
        """Give how many CPUs a call of a memory level asks for."""
        return min(1 << level, self.node_cpus)


def look() -> Room:
    """Give the room of the cluster as it is now, at least one CPU."""
    import ray  # noqa: PLC0415 - the session must have set its environment before

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    sizes = [(int(own.get("memory", 0)), int(own.get("CPU", 0))) for own in nodes]
    memory, cpus = max((size for size in sizes if size[1] >= 1), default=(0, 1))
    total = sum(cpus for _, cpus in sizes)
    return Room(cpus=max(1, total), node_cpus=cpus, node_memory=memory)


def free_cpus() -> int:
    """Give the CPUs that nothing runs on, as Ray knew a moment ago; none of a node that is dead."""
    import ray  # noqa: PLC0415 - see above

    return int(ray.available_resources().get("CPU", 0))
