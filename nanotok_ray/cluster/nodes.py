"""The nodes of the cluster according to Ray."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class RayNode:
    """A node that is alive."""

    node_id: str = ""
    address: str
    hostname: str = ""
    cpus: int = 0
    memory: int = 0
    """In bytes."""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name for people."""
        return f"{self.address} ({self.hostname})"


def alive_nodes() -> list[RayNode]:
    """Return the nodes that are alive; those without a CPU run no slices."""
    import ray  # noqa: PLC0415 - the session must have set its environment before

    return [
        RayNode(
            node_id=node["NodeID"],
            address=node["NodeManagerAddress"],
            hostname=node["NodeManagerHostname"],
            cpus=int(node["Resources"].get("CPU", 0)),
            memory=int(node["Resources"].get("memory", 0)),
            labels=node.get("Labels") or {},
        )
        for node in ray.nodes()
        if node["Alive"]
    ]
