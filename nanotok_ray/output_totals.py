"""The totals of a manifest: the numbers of all records, per source and split and over all.

Takes the values of records; gives plain values. Does not know slices or files.
"""

from collections.abc import Iterable, Mapping
from typing import Any

COUNTED = (
    "text_bytes",
    "tokens",
    "special_text",
    "over_max_tokens",
    "truncated",
    "trainable_tokens",
    "without_trainable_token",
    "images",
    "blank_lines",
)
"""Numbers of a record that the manifest sums as they stand."""

_BY_NAME = ("quarantined", "roles", "special_tokens")
"""Numbers by name, of names that no other record need have."""


def totals_of(records: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Sum (source and split, values of a record); the sum of all of them is `all`."""
    totals: dict[str, Any] = {"all": _empty()}
    for name, values in records:
        own = totals.setdefault(name, _empty())
        for total in (totals["all"], own):
            _add(total, values)
    for total in totals.values():
        total |= {group: dict(sorted(total[group].items())) for group in _BY_NAME}
    return totals


def _empty() -> dict[str, Any]:
    flow = {"in": 0, "out": 0, "quarantined": 0}
    proof = {"documents": 0, "bytes": 0, "encoded_again": 0, "not_encoded_again": {}}
    return {
        "documents": dict(flow),
        "bytes": dict(flow),
        "proof": proof,
        **{group: {} for group in _BY_NAME},
        **dict.fromkeys(COUNTED, 0),
    }


def _add(total: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name in COUNTED:
        total[name] += values[name]
    for group in ("documents", "bytes", "proof", *_BY_NAME):
        _add_numbers(total[group], values[group])


def _add_numbers(total: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, number in values.items():
        if isinstance(number, Mapping):
            _add_numbers(total[name], number)
        else:
            total[name] = total.get(name, 0) + number
