r"""Arrow arrays to JSON, one text for each value, without a loop over values.

Takes arrays of any nesting of lists, structs, strings, numbers and booleans; gives arrays of
strings. What is no UTF-8 stays as it is. Does not know files, rows or what the JSON is for.
"""

import json
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nanotok_ray.documents.batch import offsets_of

_TEXT = pa.large_string()
_EMPTY = pa.scalar("", _TEXT)
_QUOTE, _BACKSLASH = b'"\\'
_LOWEST_PRINTABLE = 32
_ESCAPES = {_BACKSLASH: rb"\\", _QUOTE: rb"\""} | {
    byte: json.dumps(chr(byte))[1:-1].encode() for byte in range(_LOWEST_PRINTABLE)
}
"""What stands for a byte that a JSON string may not hold; the backslash comes first, since what
stands for others holds one."""
_EXTRA = np.zeros(256, dtype=np.int64)
_EXTRA[list(_ESCAPES)] = [len(escape) - 1 for escape in _ESCAPES.values()]

_Checks = Sequence[Callable[[pa.DataType], bool]]
_t = pa.types
_STRINGS: _Checks = (_t.is_string, _t.is_large_string, _t.is_string_view)
_LISTS: _Checks = (
    _t.is_list,
    _t.is_large_list,
    _t.is_fixed_size_list,
    _t.is_list_view,
    _t.is_large_list_view,
)
_PLAIN: _Checks = (_t.is_integer, _t.is_boolean, _t.is_null)
_AS_STRINGS: _Checks = (_t.is_timestamp, _t.is_date, _t.is_time, _t.is_decimal)


def json_of(array: pa.Array) -> pa.Array:
    r"""Give the JSON of each value as a large_string, null where the value is null.

    Floats that are no numbers are null; dates, times and decimals are strings.

    >>> json_of(pa.array([{"a": [1, None], "b": 'x"\n'}, None])).to_pylist()
    ['{"a":[1,null],"b":"x\\"\\n"}', None]

    Raises:
        TypeError: JSON has nothing for the type; `unfit` tells it before.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        return json_of(array.storage)
    for checks, write in _WRITERS:
        if _is(array.type, checks):
            return write(array)
    raise TypeError(f"{array.type} has no JSON")


def objects_of(names: Sequence[str], arrays: Sequence[pa.Array], *, count: int) -> pa.Array:
    """Give one JSON object for each of `count` rows, nulls written as null.

    >>> objects_of(["a", "b"], [pa.array([1, None]), pa.array(["x", "y"])], count=2).to_pylist()
    ['{"a":1,"b":"x"}', '{"a":null,"b":"y"}']
    """
    if not names:
        return pa.repeat(pa.scalar("{}", _TEXT), count)
    parts: list[pa.Array | pa.Scalar] = []
    for name, array in zip(names, arrays, strict=True):
        key = json.dumps(name, ensure_ascii=False)
        parts += [pa.scalar(f"{',' if parts else '{'}{key}:", _TEXT), json_of(array)]
    return _joined(*parts, pa.scalar("}", _TEXT))


def unfit(kind: pa.DataType) -> pa.DataType | None:
    """Give the first type in a type that has no JSON, None if all of it has.

    >>> unfit(pa.list_(pa.struct({"image": pa.binary()})))
    DataType(binary)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return unfit(kind.storage_type)
    if _t.is_dictionary(kind) or _is(kind, _LISTS):
        return unfit(kind.value_type)
    if _t.is_struct(kind):
        found = (unfit(field.type) for field in kind)
        return next((each for each in found if each is not None), None)
    fits = _is(kind, (*_STRINGS, *_PLAIN, *_AS_STRINGS, _t.is_floating))
    return None if fits else kind


def is_list(kind: pa.DataType) -> bool:
    """Tell whether values are lists of any kind."""
    return _is(kind, _LISTS)


def _is(kind: pa.DataType, checks: _Checks) -> bool:
    return any(check(kind) for check in checks)


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(
        *parts, _EMPTY, null_handling="replace", null_replacement="null"
    )


def _where_valid(texts: pa.Array, array: pa.Array) -> pa.Array:
    return _only_where(array.is_valid(), texts) if array.null_count else texts


def _only_where(chosen: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(chosen, texts, pa.scalar(None, _TEXT))


def _structs(array: pa.Array) -> pa.Array:
    names = [field.name for field in array.type]
    return _where_valid(objects_of(names, array.flatten(), count=len(array)), array)


def _floats(array: pa.Array) -> pa.Array:
    numbers = array.cast(pa.float64())
    return _only_where(pc.is_finite(numbers), numbers.cast(_TEXT))


def _lists(array: pa.Array) -> pa.Array:
    """Put commas behind all elements but the last of each list, and take lists of them as one."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    ends = offsets_of(lengths.astype(np.int64))
    elements = json_of(array.flatten())
    commas = np.ones(len(elements), dtype=bool)
    commas[ends[1:][lengths > 0] - 1] = False
    comma = pc.if_else(pa.array(commas), pa.scalar(",", _TEXT), _EMPTY)
    data, offsets = _bytes_of(_joined(elements, comma))
    inside = _texts(data, offsets[ends])
    return _where_valid(_joined(pa.scalar("[", _TEXT), inside, pa.scalar("]", _TEXT)), array)


def _strings(array: pa.Array) -> pa.Array:
    array = array.cast(_TEXT)
    escaped = _texts(*_escaped(*_bytes_of(array)))
    quote = pa.scalar('"', _TEXT)
    return _where_valid(_joined(quote, escaped, quote), array)


def _escaped(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Give texts, back to back, with what JSON does not allow in a string escaped."""
    places = np.flatnonzero((data < _LOWEST_PRINTABLE) | (data == _QUOTE) | (data == _BACKSLASH))
    if not len(places):
        return data, offsets
    special = data[places]
    there, raw = set(np.unique(special).tolist()), data.tobytes()
    for byte, escape in _ESCAPES.items():
        if byte in there:
            raw = raw.replace(bytes([byte]), escape)
    longer = offsets_of(_EXTRA[special])
    return np.frombuffer(raw, dtype=np.uint8), offsets + longer[np.searchsorted(places, offsets)]


def _bytes_of(array: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Give the bytes of a large_string array, and where each text begins in them; no copy."""
    _, starts, data = array.buffers()
    if starts is None or data is None or not len(array):
        return np.empty(0, dtype=np.uint8), np.zeros(len(array) + 1, dtype=np.int64)
    offsets = np.frombuffer(starts, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    own = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    return own, offsets - offsets[0]


def _texts(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(_TEXT, len(offsets) - 1, buffers, null_count=0)


_WRITERS: tuple[tuple[_Checks, Callable[[pa.Array], pa.Array]], ...] = (
    (_STRINGS, _strings),
    (_LISTS, _lists),
    ((_t.is_struct,), _structs),
    ((_t.is_dictionary,), lambda array: json_of(array.dictionary_decode())),
    ((_t.is_floating,), _floats),
    (_PLAIN, lambda array: array.cast(_TEXT)),
    (_AS_STRINGS, lambda array: _strings(array.cast(_TEXT))),
)
