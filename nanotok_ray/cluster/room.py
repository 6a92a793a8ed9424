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
