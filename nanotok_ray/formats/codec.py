"""Stored values as frozen dataclasses: JSON bytes of a value, and a checked value of JSON bytes.

A dataclass is a JSON object with a key per field, `in` for a field `in_`. Its fields are of these
types:

- `int`, `float`, `str`, `bool`, `None`, `Any`, `Literal`, and unions: of a type with `None`, or of
  some of `int`, `str` and `bool`
- `tuple[X, ...]`, `tuple[X, Y]` and classes of `NamedTuple`: JSON lists
- `Mapping[str, X]`: JSON objects
- `Annotated[X, check]`, where `check` returns whether the value is possible
- other dataclasses

A field made by `omitted` is absent from the JSON if it has its default. `__post_init__` of a
dataclass checks what several fields have to do with each other, and raises `ValueError`. Unknown
keys of an object are ignored. The module requires only the standard library.
"""

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from itertools import repeat
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from nanotok_ray.errors import CorruptOutputError, other_format

_T = TypeVar("_T")
_Reader = Callable[[Any], Any]
"""Returns the value of parsed JSON, or raises `_WrongError`."""

_MAX_VALUE_CHARS = 40


def number(value: object) -> TypeGuard[int]:
    """Return whether a value is an int from 0 to 2**63 - 1.

    >>> number(3), number(True), number(-1), number(1 << 63), number(2.0)
    (True, False, False, False, False)
    """
    return type(value) is int and 0 <= value < 1 << 63


def natural(value: object) -> bool:
    """Return whether a value is an int of at least 0."""
    return type(value) is int and value >= 0


def finite(value: float) -> bool:
    """Return whether a number lies within 64 bits, which excludes NaN and infinities."""
    return -(1 << 63) < value < 1 << 63


def hexadecimal(value: object) -> bool:
    """Return whether a value is a sha256 in hex."""
    return type(value) is str and len(value) == 64 and set(value) <= set("0123456789abcdef")  # noqa: PLR2004 - 4 bits each


Number = Annotated[int, number]
"""An int from 0 to 2**63 - 1."""

Natural = Annotated[int, natural]
"""An int of at least 0, of any size."""

Finite = Annotated[float, finite]
"""A number within 64 bits."""

Sha256 = Annotated[str, hexadecimal]
"""A sha256 as 64 hexadecimal digits."""

Numbers = Mapping[str, Number]
"""Numbers by name."""


def format_value(value: object) -> str:
    """Return a value for an error message; only the type of a long number or a list.

    >>> format_value("nanotok"), format_value(-1), format_value(10**5000), format_value([[]])
    ("'nanotok'", '-1', 'int', 'list')
    """
    short = type(value) is int and abs(value) < 1 << 63
    known = isinstance(value, str | bool | float) or value is None or short
    return repr(value)[:_MAX_VALUE_CHARS] if known else type(value).__name__


def to_json(values: object) -> bytes:
    """Return the canonical JSON of this project: sorted keys, indentation by one space, UTF-8."""
    text = json.dumps(values, sort_keys=True, indent=1, ensure_ascii=False, default=_fields_of)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def from_json(data: bytes, *, name: str, expected_format: str) -> dict[str, Any]:
    """Parse a JSON file of this project and check its `format`.

    Raises:
        CorruptOutputError: The data is not JSON, or has another `format`.
    """
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:  # from deeply nested lists
        raise CorruptOutputError(f"{name} is not JSON: {error}") from error
    actual = values.get("format") if isinstance(values, dict) else None
    if actual != expected_format:
        raise CorruptOutputError(other_format(name, actual, expected_format))
    return dict(values)


def dump(value: Any) -> bytes:  # noqa: ANN401 - a dataclass of a file
    """Return the bytes of a JSON file: a dataclass with the name of its format, `FORMAT`."""
    return to_json({"format": value.FORMAT, **_fields_of(value)})


def file_values(value: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Return the content of a JSON file of a dataclass with a `FORMAT` as JSON values."""
    return {"format": value.FORMAT, **to_values(value)}


def load(kind: type[_T], data: bytes, *, name: str) -> _T:
    """Return the value of a JSON file of a dataclass with a `FORMAT`; errors call it `name`.

    Raises:
        CorruptOutputError: The data is not such a file. The message names the file, the field and
            its value.
    """
    expected: str = kind.FORMAT  # type: ignore[attr-defined] # of the dataclasses of files
    return from_values(kind, from_json(data, name=name, expected_format=expected), name=name)


def from_values(kind: type[_T], values: object, *, name: str) -> _T:
    """Return the value of parsed JSON; errors call its file `name`.

    >>> from_values(tuple[Number, ...], [1, 2], name="a.json")
    (1, 2)

    Raises:
        CorruptOutputError: The message names the file, the field and its value.
    """
    read: Callable[[object], _T] = _reader(kind)  # type: ignore[arg-type] # types are hashable
    try:
        return read(values)
    except _WrongError as error:
        raise CorruptOutputError(error.message(name)) from None


def to_values(value: Any) -> Any:  # noqa: ANN401 - any value of the module's types
    """Return a value as `json` accepts it.

    >>> to_values((1, {"a": (2, 3)}))
    [1, {'a': [2, 3]}]
    """
    if value is None or isinstance(value, str | int | float):  # most values
        return value
    if isinstance(value, tuple | list):
        return [to_values(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_values(item) for key, item in value.items()}
    return to_values(_fields_of(value)) if is_dataclass(value) else value


def joined_values(*parts: Any) -> dict[str, Any]:  # noqa: ANN401 - dataclasses and mappings
    """Return the keys of several dataclasses or mappings as one JSON object.

    >>> joined_values({"a": (1,)}, {"b": None})
    {'a': [1], 'b': None}
    """
    return {name: value for part in parts for name, value in to_values(part).items()}


def converted(value: object, kind: Callable[..., _T], **others: object) -> _T:
    """Return a dataclass of type `kind` with `others`, and else with the fields of a dataclass."""
    names = (item.name for item in fields(kind) if item.name not in others)  # type: ignore[arg-type]
    shared = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return kind(**shared, **others)


def _fields_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    """Return the values of the fields of a dataclass by key."""
    kind: Any = type(value)
    keys, attributes, others = _writer(kind)
    values = dict(zip(keys, attributes(value), strict=True))
    for key, name, default in others:
        if (item := getattr(value, name)) != default:
            values[key] = item
    return values


class _WrongError(Exception):
    """A value that is not of its type; readers of the values around it extend the position."""

    def __init__(self, problem: str | None, at: str = "") -> None:
        super().__init__(problem, at)
        self.problem = problem
        """What is wrong with the value; None: it is missing."""
        self.at = at

    def below(self, position: str) -> "_WrongError":
        """Return the error for a value at `position` that contains the wrong one."""
        between = "" if not self.at or self.at.startswith("[") else "."
        return _WrongError(self.problem, f"{position}{between}{self.at}")

    def message(self, name: str) -> str:
        """Return the text for a file."""
        if self.problem is None:
            return f"{name} lacks the field {self.at}"
        return f"{name}: {self.at or 'the whole'} {self.problem}"


def _wrong(value: object) -> _WrongError:
    return _WrongError(f"is {format_value(value)}, which is invalid")


_OMITTED: Final = "omitted"
_REQUIRED: Final = object()


def omitted(default: object = None, *, factory: Callable[[], object] | None = None) -> Any:  # noqa: ANN401 - as `field`
    """Return a field of a dataclass that is absent from the JSON if it has its default."""
    metadata = {_OMITTED: True}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@functools.cache
def _layout(kind: Any) -> tuple[tuple[str, str, object], ...]:  # noqa: ANN401 - a dataclass
    """Return the key and the name of each field, and the value that stands for an absent key."""
    return tuple((item.name.removesuffix("_"), item.name, _default(item)) for item in fields(kind))


@functools.cache
def _writer(kind: Any) -> tuple[list[str], Any, list[tuple[str, str, object]]]:  # noqa: ANN401
    """Return the keys and a getter of the required fields, and the layout of the others."""
    required = [(key, name) for key, name, default in _layout(kind) if default is _REQUIRED]
    keys, names = [key for key, _ in required], [name for _, name in required]
    few = len(names) < 2  # noqa: PLR2004 - of one, attrgetter returns no tuple
    getter = (lambda value: [getattr(value, name) for name in names]) if few else attrgetter(*names)
    others = [item for item in _layout(kind) if item[2] is not _REQUIRED]
    return keys, getter, others


def _default(item: "Field[Any]") -> object:
    if not item.metadata.get(_OMITTED):
        return _REQUIRED
    return item.default if item.default_factory is MISSING else item.default_factory()


@functools.cache
def _reader(kind: Any) -> _Reader:  # noqa: ANN401 - a type or a form of `typing`
    """Return the function that reads values of a type, made once for each type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _dataclass_reader(kind)
    if origin is None:
        return _named_tuple_reader(kind) if hasattr(kind, "_make") else _plain_reader(kind)
    if origin is Annotated:
        return _checked_reader(_reader(arguments[0]), arguments[1])
    readers = {
        Literal: _literal_reader,
        tuple: _tuple_reader,
        Union: _union_reader,
        UnionType: _union_reader,
    }
    return readers.get(origin, _mapping_reader)(arguments)


def _plain_reader(kind: Any) -> _Reader:  # noqa: ANN401
    kinds = (int, float) if kind is float else (kind,)

    def read(value: Any) -> Any:  # noqa: ANN401
        if kind is not Any and type(value) not in kinds:
            raise _wrong(value)
        return value

    return read


def _checked_reader(inner: _Reader, check: Callable[[Any], bool]) -> _Reader:
    def read(value: Any) -> Any:  # noqa: ANN401
        result = inner(value)
        if not check(result):
            raise _wrong(value)
        return result

    return read


def _union_reader(arguments: tuple[Any, ...]) -> _Reader:
    if NoneType not in arguments:
        return _checked_reader(_reader(Any), lambda value: type(value) in arguments)
    (kind,) = (argument for argument in arguments if argument is not NoneType)
    inner = _reader(kind)
    return lambda value: None if value is None else inner(value)


def _literal_reader(allowed: tuple[Any, ...]) -> _Reader:
    def read(value: Any) -> Any:  # noqa: ANN401
        if not any(type(value) is type(item) and value == item for item in allowed):
            raise _wrong(value)
        return value

    return read


def _tuple_reader(arguments: tuple[Any, ...]) -> _Reader:
    if arguments[-1] is Ellipsis:
        return _list_reader(repeat(_reader(arguments[0])), None, tuple)
    return _list_reader([_reader(kind) for kind in arguments], len(arguments), tuple)


def _named_tuple_reader(kind: Any) -> _Reader:  # noqa: ANN401 - a class of `NamedTuple`
    hints = get_type_hints(kind, include_extras=True)
    readers = [_reader(hints[name]) for name in kind._fields]
    return _list_reader(readers, len(readers), kind._make)


def _list_reader(
    readers: Iterable[_Reader], length: int | None, make: Callable[[list[Any]], Any]
) -> _Reader:
    def read(value: Any) -> Any:  # noqa: ANN401
        if type(value) is not list or length not in (None, len(value)):
            raise _wrong(value)
        items: list[Any] = []
        try:
            for read_item, item in zip(readers, value):  # noqa: B905 - readers can be endless
                items.append(read_item(item))
        except _WrongError as error:
            raise error.below(f"[{len(items)}]") from error
        return make(items)

    return read


def _mapping_reader(arguments: tuple[Any, ...]) -> _Reader:
    inner = _reader(arguments[1])

    def read(value: Any) -> Mapping[str, Any]:  # noqa: ANN401
        if type(value) is not dict:
            raise _wrong(value)
        items = {}
        for key, item in value.items():
            try:
                items[key] = inner(item)
            except _WrongError as error:
                raise error.below(key) from error
        return items

    return read


def _dataclass_reader(kind: Any) -> _Reader:  # noqa: ANN401 - a dataclass
    hints = get_type_hints(kind, include_extras=True)
    layout = [
        (key, name, _reader(hints[name]), default is _REQUIRED)
        for key, name, default in _layout(kind)
    ]

    def read(value: Any) -> Any:  # noqa: ANN401
        if type(value) is not dict:
            raise _wrong(value)
        arguments = {}
        for key, name, inner, is_required in layout:
            if key in value:
                try:
                    arguments[name] = inner(value[key])
                except _WrongError as error:
                    raise error.below(key) from error
            elif is_required:
                raise _WrongError(None, key)
        try:
            return kind(**arguments)
        except ValueError as error:
            raise _WrongError(str(error)) from error

    return read
