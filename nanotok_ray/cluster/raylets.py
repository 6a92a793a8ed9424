"""Ray's nodes that run on this machine, from its table of processes. Asks Ray nothing.

To ask Ray for the node of this machine means to join it as a driver, which takes seconds, and fails
where a drained node of the same address came before.
"""

from dataclasses import dataclass
from pathlib import Path

PROCESSES = Path("/proc")


@dataclass(frozen=True, kw_only=True, slots=True)
class Raylet:
    """The process that is a node of Ray.

    Attributes:
        node_id: in hexadecimal digits.
        address: host:port of its cluster.
    """

    node_id: str
    address: str


def local_raylets(processes: Path = PROCESSES) -> list[Raylet]:
    """Give the nodes that run here, of whichever cluster, by node id; Linux only."""
    found = []
    for path in processes.glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has ended meanwhile
            continue
        if words[0].rpartition("/")[2] == "raylet":
            found.append(_raylet(words))
    return sorted(filter(None, found), key=lambda raylet: raylet.node_id)


def _raylet(words: list[str]) -> Raylet | None:
    given = dict(word[2:].split("=", 1) for word in words if word[:2] == "--" and "=" in word)
    node_id, address = given.get("node_id"), given.get("gcs-address")
    return Raylet(node_id=node_id, address=address) if node_id and address else None
