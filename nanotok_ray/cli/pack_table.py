"""Plans of packings as tables for people.

Takes the plain values that the command prints as JSON; gives lines. Does not know how rows are
packed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nanotok_ray.cli.text_table import table_lines

_HEAD = (
    *("length", "packing", "rows", "tokens", "kept", "used", "cropped", "cut", "dropped"),
    "seconds",
)
_SOURCES_HEAD = ("source", "weight", "documents", "tokens", "share", "epochs")


def plan_lines(plans: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each plan, then, if there are weights, one for each source."""
    yield from table_lines([_HEAD, *map(_cells, plans)], left=(1,))
    sources = next((plan["sources"] for plan in plans if "sources" in plan), None)
    if sources is not None:
        yield ""
        rows = [_source_cells(name, own) for name, own in sources.items()]
        yield from table_lines([_SOURCES_HEAD, *rows])


def _cells(plan: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = ("cropped_tokens", "cut_documents", "dropped_documents")
    return (
        f"{plan['length']:,}",
        str(plan["packing"]),
        f"{plan['rows']:,}",
        f"{plan['tokens']:,}",
        f"{plan['kept']:.1%}",
        f"{plan['utilisation']:.1%}",
        *(f"{plan[name]:,}" for name in numbers),
        f"{plan['seconds']:.2f}",
    )


def _source_cells(name: str, own: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        f"{own['weight']:g}",
        f"{own['documents']:,}",
        f"{own['tokens']:,}",
        f"{own['share']:.1%}",
        f"{own['epochs']:.2f}",
    )
