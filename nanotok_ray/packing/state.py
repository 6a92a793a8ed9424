"""The state of a loader as plain values: what it is of, and where the stream of rows goes on.

Gives and takes JSON-able dicts. A state says nothing of batch size, ranks or epochs, so a loader
with others can go on from it. Does not know how rows are packed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from nanotok_ray.errors import PackingError
from nanotok_ray.formats.schema import number, shown
from nanotok_ray.packing.mixture import Taken
from nanotok_ray.packing.report import PackingReport
from nanotok_ray.packing.row_stream import Position

STATE_FORMAT = "nanotok-loader 1"

_COUNTS = tuple(field.name for field in fields(PackingReport))


@dataclass(frozen=True, kw_only=True, slots=True)
class StateFrame:
    """What all states of a loader have in common."""

    fingerprint: str
    """Of the shards."""
    settings: Mapping[str, Any]
    """What decides the rows."""
    streams: Sequence[str]
    """Their names."""

    def pack(self, position: Position) -> dict[str, Any]:
        """Give the state of a position."""
        return {
            "format": STATE_FORMAT,
            "fingerprint": self.fingerprint,
            "settings": {
                name: dict(value) if isinstance(value, Mapping) else value
                for name, value in self.settings.items()
            },
            "streams": dict(zip(self.streams, position.taken, strict=True)),
            "row": position.row,
            "totals": asdict(position.totals),
        }

    def unpack(self, state: Mapping[str, Any]) -> tuple[Taken, int, PackingReport]:
        """Give documents taken of each stream, rows taken of the group after them, and totals.

        Raises:
            PackingError: the state is none, or of other shards or settings.
        """
        self._check_same(state)
        streams = _counts(state, "streams", self.streams)
        totals = _counts(state, "totals", _COUNTS)
        row = _counts({"state": state}, "state", ["row"], only=False)["row"]
        return tuple(streams[name] for name in self.streams), row, PackingReport(**totals)

    def _check_same(self, state: Any) -> None:  # noqa: ANN401 - whatever was loaded
        found = state.get("format") if isinstance(state, Mapping) else None
        if found != STATE_FORMAT:
            raise PackingError(
                f"the state has format {shown(found)}, this loader reads {STATE_FORMAT!r}; "
                "load it into the kind of loader, and the version, that gave it"
            )
        if state.get("fingerprint") != self.fingerprint:
            raise PackingError(
                "the state is of other shards: other documents, another split or source; "
                "open the shards that it was made with, or start anew without it"
            )
        settings = state.get("settings")
        if not isinstance(settings, Mapping):
            raise PackingError("the state has no settings; it was altered")
        names = dict.fromkeys([*self.settings, *settings])
        other = [name for name in names if settings.get(name) != self.settings.get(name)]
        if other:
            told = "; ".join(
                f"{name} was {_setting(settings.get(name))} and is {self.settings.get(name)!r}"
                for name in other
            )
            raise PackingError(
                f"the state is of rows that were packed otherwise: {told}; "
                "use the settings of the state, or start anew without it"
            )


def _setting(value: object) -> str:
    """Give a setting of a state as an error may show it, whatever was loaded."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {shown(own)}' for name, own in value.items())}}}"
    return shown(value)


def _counts(
    state: Mapping[str, Any], key: str, names: Sequence[str], *, only: bool = True
) -> dict[str, int]:
    """Give whole numbers by name."""
    found = state.get(key)
    if not isinstance(found, Mapping) or (only and set(found) != set(names)):
        raise PackingError(f"{key} of the state is not {', '.join(names)}; it was altered")
    for name in names:
        value = found.get(name)
        if not number(value):
            raise PackingError(f"{name} of the state is {shown(value)}, no count; it was altered")
    return {name: found[name] for name in names}
