"""The nodes of a simulated cluster: which have CPUs free, and how many CPU seconds there were.

Takes the time; knows no calls and no faults.
"""

import random
from dataclasses import dataclass, field

NODE_CPUS = 16
NODE_MEMORY = 64 << 30


@dataclass(eq=False, slots=True)
class Node:
    """A machine. It is `up` until it dies, `open` to calls until it is drained."""

    number: int
    since: float
    slowness: float = 1.0
    free: int = NODE_CPUS
    is_up: bool = True
    is_open: bool = True
    is_seen: bool = True
    """Whether the cluster takes it for alive."""
    is_kept: bool = False
    """Whether it is kept for a call that wants several CPUs."""
    running: set[int] = field(default_factory=set)
    """Numbers of the calls that it runs."""


class Nodes:
    """All nodes that there ever were."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._all: dict[int, Node] = {}
        self._number = 0
        self._free: list[Node] = []
        self._places: dict[Node, int] = {}
        self._cpu_seconds = 0.0

    def __len__(self) -> int:
        """Nodes that are up and open."""
        return sum(node.is_open for node in self._all.values())

    def add(self, now: float, slowness: float) -> Node:
        """Let a node join."""
        node = Node(self._number, now, slowness)
        self._number += 1
        self._all[node.number] = node
        self._offer(node)
        return node

    def drain(self, node: Node) -> None:
        """Return a node no more calls."""
        node.is_open = False
        self._withdraw(node)

    def kill(self, node: Node, now: float) -> None:
        """Let a node go away; it is seen as alive until `forget`."""
        self.drain(node)
        node.is_up = False
        self._cpu_seconds += NODE_CPUS * (now - node.since)

    def forget(self, node: Node) -> None:
        """Let the cluster see that a node is dead."""
        node.is_seen = False
        self._all.pop(node.number, None)

    def take(self, cpus: int, *, spread: bool) -> Node | None:
        """Take CPUs of a node that has them, any, or the one with the most; None: none has."""
        if not self._free:
            return None
        if cpus == 1 and not spread:
            node = self._free[self._rng.randrange(len(self._free))]
        else:
            node = max(self._free, key=lambda each: (each.free, -each.number))
        if node.free < cpus:
            return None
        node.free -= cpus
        if not node.free:
            self._withdraw(node)
        return node

    def give(self, node: Node, cpus: int) -> None:
        """Return CPUs back."""
        node.free += cpus
        if node.is_open and not node.is_kept and node not in self._places:
            self._offer(node)

    def keep_one(self) -> Node | None:
        """Keep a node for a call that wants several CPUs, if there is any."""
        choice = [node for node in self._all.values() if node.is_open]
        if not choice:
            return None
        node = choice[self._rng.randrange(len(choice))]
        node.is_kept = True
        self._withdraw(node)
        return node

    def release(self, node: Node) -> None:
        """Let a node that was kept have any call."""
        node.is_kept = False
        if node.is_open and node.free:
            self._offer(node)

    @property
    def seen_cpus(self) -> int:
        """CPUs of nodes that are taken for alive."""
        return NODE_CPUS * len(self._all)

    @property
    def free_cpus(self) -> int:
        """CPUs that a call could have now."""
        return sum(node.free for node in self._free)

    def cpu_seconds(self, now: float) -> float:
        """CPU seconds that there were so far, used or not."""
        up = sum(now - node.since for node in self._all.values() if node.is_up)
        return self._cpu_seconds + NODE_CPUS * up

    def _offer(self, node: Node) -> None:
        self._places[node] = len(self._free)
        self._free.append(node)

    def _withdraw(self, node: Node) -> None:
        """Take a node out of those with free CPUs: the last takes its place."""
        place = self._places.pop(node, None)
        if place is None:
            return
        last = self._free.pop()
        if last is not node:
            self._free[place] = last
            self._places[last] = place
