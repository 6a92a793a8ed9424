"""The files of leases in an output folder: their names, and what the one in force says.

The highest number is the lease in force. Changes nothing.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nanotok_ray.cluster.lease_holder import Holder
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats.manifest import from_json
from nanotok_ray.storage import Folder

LEASE_FOLDER = "run/lease"
LEASE_FORMAT = "nanotok-lease 1"
RELEASED = "released"
"""The state of a lease that was let go."""

_NAME = re.compile(rf"{LEASE_FOLDER}/(\d{{6,18}})\.json")


def lease_name(number: int) -> str:
    """Give the path in the output folder of a lease.

    >>> lease_name(17)
    'run/lease/000017.json'
    """
    return f"{LEASE_FOLDER}/{number:06d}.json"


def lease_numbers(out: Folder) -> list[int]:
    """Give the numbers of all leases that are there."""
    found = map(_NAME.fullmatch, out.list(f"{LEASE_FOLDER}/"))
    return [int(match[1]) for match in found if match is not None]


@dataclass(frozen=True)
class Seen:
    """The lease in force, as it was found."""

    number: int
    data: bytes

    @cached_property
    def values(self) -> dict[str, Any]:
        """What it says; empty if that cannot be read."""
        name = lease_name(self.number)
        try:
            return from_json(self.data, name=name, expected_format=LEASE_FORMAT)
        except CorruptOutputError:
            return {}

    @property
    def holder(self) -> Holder:
        """Who holds it, or held it."""
        holder = self.values.get("holder")
        return Holder.from_values(holder if isinstance(holder, dict) else {})

    @property
    def is_released(self) -> bool:
        """Whether its holder has let it go."""
        return bool(self.values.get("state") == RELEASED)

    def is_free(self, me: Holder) -> bool:
        """Tell whether nobody holds it for sure: it was released, or its holder is dead."""
        return self.is_released or self.holder.is_dead(me)

    def told(self) -> str:
        """Say who holds it, since when."""
        holder, command = self.holder, self.values.get("command", "a run")
        place = f"host {holder.host or '?'}, process {holder.pid or '?'}"
        job = f", Ray job {holder.ray_job}" if holder.ray_job else ""
        return f"{command} on {place}{job}, since {self.values.get('taken', '?')}"


def lease_in_force(out: Folder) -> Seen | None:
    """Give the lease in force, None if the output never had one."""
    numbers = lease_numbers(out)
    if not numbers:
        return None
    try:
        data = out.read_bytes(lease_name(max(numbers)))
    except FileNotFoundError:  # a higher one was taken meanwhile
        data = b""
    return Seen(max(numbers), data)


def free_number(out: Folder) -> int | None:
    """Give the number of the lease in force (0: none) if nobody holds it; None if somebody may."""
    seen = lease_in_force(out)
    if seen is None:
        return 0
    return seen.number if seen.is_free(Holder.this_process()) else None
