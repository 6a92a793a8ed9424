"""The scenarios of `simulate.py`: how many slices on how many CPUs, in which weather."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulated_faults import ALL, CALM, STORM, STRAGGLERS, Faults
from simulated_nodes import NODE_CPUS

WEATHERS: Mapping[str, Faults] = {
    "calm": CALM,
    "stragglers": STRAGGLERS,
    "spot storm": STORM,
    "all": ALL,
}
SIZES = ((10_000, 96), (50_000, 1_600), (200_000, 6_400))
QUICK_SIZES = ((1_000, 96), (3_000, 320))


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """One run of the engine."""

    weather: str
    slices: int
    cpus: int
    first_cpus: int | None = None
    """CPUs at the start, where others come as the autoscaler sees calls wait; None: all of them."""
    seed: int = 0

    @property
    def faults(self) -> Faults:
        """What goes wrong."""
        return WEATHERS[self.weather]

    @property
    def nodes(self) -> int:
        """Nodes at most."""
        return self.cpus // NODE_CPUS

    @property
    def first_nodes(self) -> int:
        """Nodes at the start."""
        return (self.cpus if self.first_cpus is None else self.first_cpus) // NODE_CPUS

    @property
    def name(self) -> str:
        """What a person reads."""
        return (
            self.weather
            if self.first_cpus is None
            else f"{self.weather}, from {self.first_cpus} CPUs"
        )


def scenarios(*, quick: bool, seed: int) -> list[Scenario]:
    """Return all of them, small ones alone if it is to be quick."""
    sizes = QUICK_SIZES if quick else SIZES
    own = [
        Scenario(weather=weather, slices=slices, cpus=cpus, seed=seed)
        for slices, cpus in sizes
        for weather in WEATHERS
    ]
    slices, cpus = sizes[-1]
    own += [
        Scenario(weather=weather, slices=slices, cpus=cpus, first_cpus=NODE_CPUS, seed=seed)
        for weather in ("calm", "all")
    ]
    if not quick:
        own.append(Scenario(weather="all", slices=200_000, cpus=96, seed=seed))
        own.append(Scenario(weather="all", slices=10_000, cpus=6_400, seed=seed))
    return own
