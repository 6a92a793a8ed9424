"""The faults of a simulated cluster as numbers: their rates and their severity.

Rates of slices are shares of attempts.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Faults:
    """The conditions of one scenario. Times are in virtual seconds."""

    slow_nodes: float = 0.0
    """Share of slow nodes, at least one node if it is not 0."""
    slowness: float = 10.0
    """The factor of all times on slow nodes."""
    hangs: float = 0.0
    """Attempts that never end; an interrupt does not end half of them."""
    worker_deaths: float = 0.0
    """Attempts in which the worker dies, with all slices of its call."""
    storage_failures: float = 0.0
    """Attempts that fail in a way that a retry can solve."""
    node_life: float | None = None
    """Mean life of a node; None: unlimited."""
    noticed: float = 0.5
    """Share of the disappearing nodes that are drained before; the others die at once."""
    notice: float = 120.0
    """How long before."""
    detection: float = 15.0
    """How long the driver does not know that a node died without notice."""
    node_wait: tuple[float, float] = (120.0, 300.0)
    """How long a node takes to come after the autoscaler asked for it: between these."""
    hungry_bytes: int | None = None
    """Slices of more run out of memory unless it is doubled for them."""
    starved: bool = False
    """Whether calls that want several CPUs get them only when no other call waits."""
    poison: int = 0
    """Slices that always kill their worker."""


CALM = Faults()
STRAGGLERS = Faults(slow_nodes=0.01, hangs=0.0002)
STORM = Faults(node_life=1800.0)
ALL = replace(
    STRAGGLERS,
    node_life=1800.0,
    worker_deaths=0.001,
    storage_failures=0.005,
    hungry_bytes=2 << 30,
    poison=5,
)
