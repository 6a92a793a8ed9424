"""The layouts by name, as `NAME` and `NAME:KEY=VALUE,...`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from nanotok_ray.errors import CorruptOutputError, ExportError, RecipeError
from nanotok_ray.exports.datatrove import Datatrove
from nanotok_ray.exports.layout import Layout
from nanotok_ray.exports.litdata import Litdata
from nanotok_ray.exports.llmc import Llmc
from nanotok_ray.exports.mds import Mds
from nanotok_ray.exports.megatron import Megatron
from nanotok_ray.exports.olmo import Olmo
from nanotok_ray.exports.order import ORDER_OPTIONS, parse_order
from nanotok_ray.exports.packed import Packed
from nanotok_ray.exports.parquet import Parquet
from nanotok_ray.exports.raw import Raw
from nanotok_ray.formats import Export
from nanotok_ray.recipe import parse_size
from nanotok_ray.units import did_you_mean

LAYOUTS: Final[dict[str, type[Layout]]] = {
    layout.name: layout
    for layout in (Llmc, Megatron, Datatrove, Olmo, Parquet, Packed, Mds, Litdata, Raw)
}


def parse_layout(text: str) -> Layout:
    """Return the layout of a name with options.

    >>> parse_layout("datatrove").format
    'datatrove 1'

    Raises:
        ExportError: The layout or an option is unknown, or a value is invalid.
    """
    name, colon, options = text.partition(":")
    layout = LAYOUTS.get(name)
    if layout is None:
        near = did_you_mean(name, LAYOUTS)
        hint = f"{near} " if near else ""
        raise ExportError(f"no layout {name!r}; {hint}there are {', '.join(LAYOUTS)}")
    if not colon:
        return layout()
    values = _options(layout, options)
    order = {key: str(values.pop(key)) for key in ORDER_OPTIONS if key in values}
    return replace(layout(), **values, order=parse_order(order))


def format_options(layout: Layout) -> str:
    """Return a layout and its options in the syntax of the command line.

    >>> format_options(parse_layout("raw"))
    'raw'
    """
    return _format(layout.name, layout.options)


def layout_of(export: Export, *, name: str) -> Layout:
    """Return the layout of an export; errors call its export.json `name`.

    Raises:
        CorruptOutputError: The layout or an option is unknown, or a value is invalid.
    """
    try:
        return parse_layout(_format(export.layout, export.options))
    except ExportError as error:
        raise CorruptOutputError(f"{name}: {error}") from error


def _format(name: str, options: Mapping[str, int | str]) -> str:
    values = ",".join(f"{key}={value}" for key, value in options.items())
    return f"{name}:{values}" if values else name


def _options(layout: type[Layout], text: str) -> dict[str, int | str]:
    known = layout.option_types() | dict.fromkeys(ORDER_OPTIONS, str)
    values: dict[str, int | str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if key not in known or not equals:
            options = ", ".join(f"{field}=..." for field in known) or "none"
            raise ExportError(
                f"layout {layout.name!r} has no option {part!r}; there are: {options}"
            )
        if key in values:
            raise ExportError(f"layout {layout.name!r}: {key} is given twice; pass it once")
        values[key] = _value(layout, key, value, kind=known[key])
    return values


def _value(layout: type[Layout], key: str, value: str, *, kind: object) -> int | str:
    """Return a value of the option's type: an int, with an optional unit, or a str."""
    if kind is not int:
        return value
    try:
        return parse_size(value, key=f"layout {layout.name!r}: {key}")
    except RecipeError as error:
        raise ExportError(str(error)) from error
