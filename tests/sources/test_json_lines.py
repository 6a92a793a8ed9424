"""JSON lines by the core and by Arrow equal Python's."""

import json
import math
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanotok_ray.sources.json_lines import Rejected, text_and_id, text_and_id_of_long
from nanotok_ray.sources.lines import split_plain
from nanotok_ray.sources.parquet_rows import json_of, objects_of, unfit
from nanotok_ray.sources.stored import invalid_at

PARTS = [
    *("a", "é", "🙂", "\\n", '\\"', "\\\\", "\\/", "\\u00e9", "\\ud83d", "\\ude42", "\\u0000"),
    *("x" * 30, " ", '"', "\\", "\\u12", "\\x", "\t", '", "', '": "', '"text": "', "}", "{"),
]
strings = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


def same(line: bytes, shortest: int) -> None:
    fields = {"field": "text", "id_field": "id"}
    quick, quick_id = text_and_id(line, **fields)
    long, long_id = text_and_id_of_long(line, **fields, shortest=shortest)
    assert quick_id == long_id
    if isinstance(quick, Rejected):
        assert isinstance(long, Rejected)
        assert long.reason.partition(":")[0] == quick.reason.partition(":")[0]
    else:
        assert long == quick


@given(one=strings, two=strings, three=strings, shortest=st.integers(5, 40))
@example(one="", two="\\ud83d\\ude42" * 9000, three="\\", shortest=5)
@example(one="", two="\\n" + "\\ud83d\\ude42" * 4096, three="", shortest=5)  # between surrogates
@example(one="x" * 50, two="x" * 51, three="x" * 50, shortest=6)
@example(one="", two="\\ud83d" * 4097, three="\\ude42", shortest=6)
def test_a_long_line_is_read_like_a_short_one(one, two, three, shortest):
    for line in (
        f'{{"text": "{one}", "more": ["{two}", {{"text": "{three}"}}]}}',
        f'{{"{one}": "{two}", "text": "{three}"}}',
        f'{{"text": "{one}{two}{three}", "id": "{two}"}}',
        f'{{"text": "{one}", "id": 12345678901234567890}}',
        f'{{"text": "{one}", "text": "{two}"}} {three}',
        f'["{one}", "{two}"]',
    ):
        same(line.encode(), shortest)


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b'"', b"{", b'{"text": "' + b"a" * 100, b'{"text": null}', b'{"text": 1}'),
        *(b'{"text": "aaaaaaaaaa\xff"}', b'{"b": "aaaaaaaaaaaa"}', b'"aaaaaaaaaaaaaaaa"'),
        *(b'{"text": "aaaaaaaaaa\\x"}', b'{"text": "aaaaaaaaaa\tb"}'),
    ],
    ids=range(11),
)
def test_a_bad_line_is_bad_at_any_length(line):
    same(line, 8)


def test_memory_is_that_of_the_text():
    text = "ab🙂\n".ljust(99) * 200_000
    line = bytearray(json.dumps({"text": text}, ensure_ascii=False).encode())
    del text
    tracemalloc.start()
    document, _ = text_and_id(line, field="text", id_field=None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not isinstance(document, Rejected)
    assert len(document) == 102 * 200_000
    assert peak < 1.3 * len(line)


PLAIN_PARTS = [
    *(b"", b"a", b"\r", b" ", b"\n", b"\r\n", "é".encode(), b"\xc3", b"\xa9", b"bcdef", b"\0"),
    b"\t",
]


@given(
    st.lists(st.sampled_from(PLAIN_PARTS), max_size=30).map(b"".join),
    st.integers(1, 12),
    st.booleans(),
)
def test_lines_split_in_blocks_equal_lines_split_one_by_one(content, most, is_json):
    block = content + b"\n"
    stored = block.split(b"\n")[:-1]
    places = [sum(len(line) + 1 for line in stored[:number]) for number in range(len(stored))]
    expected = [line.removesuffix(b"\r") for line in stored]
    lines = split_plain(block, max_line_bytes=most, is_json=is_json)
    is_odd = any(len(line) > most or invalid_at(line) is not None for line in expected)
    assert (lines is None) == is_odd
    if lines is not None:
        is_blank = [not line or (is_json and line.isspace()) for line in expected]
        kept = [at for at, blank in enumerate(is_blank) if not blank]
        assert list(lines.documents) == [expected[at] for at in kept]
        assert lines.positions.tolist() == [places[at] for at in kept]
        assert lines.blank == sum(is_blank)


TEXTS = st.text(
    st.sampled_from('ab"\\\n\r\t\b\f\x00\x1f\x7fé🙂,:[]{}') | st.characters(codec="utf-8")
)


def kinds(depth: int) -> st.SearchStrategy:
    """Types of nested strings, numbers, lists and structs."""
    leaves = st.sampled_from(
        [
            pa.string(),
            pa.large_string(),
            pa.string_view(),
            pa.int64(),
            pa.uint8(),
            pa.bool_(),
            pa.float64(),
            pa.null(),
        ]
    )
    if not depth:
        return leaves
    inner = kinds(depth - 1)
    structs = st.dictionaries(TEXTS, inner, max_size=3).map(pa.struct)
    lists = [inner.map(make) for make in (pa.list_, pa.large_list, pa.list_view)]
    return st.one_of(leaves, *lists, inner.map(lambda kind: pa.list_(kind, 2)), structs)


def values(kind: pa.DataType) -> st.SearchStrategy:
    if pa.types.is_struct(kind):
        own = st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    elif pa.types.is_fixed_size_list(kind):
        own = st.lists(values(kind.value_type), min_size=2, max_size=2)
    elif hasattr(kind, "value_type"):
        own = st.lists(values(kind.value_type), max_size=4)
    elif pa.types.is_integer(kind):
        own = st.integers(0, 255)
    elif pa.types.is_floating(kind):
        own = st.floats(allow_nan=False, allow_infinity=False)
    elif pa.types.is_boolean(kind):
        own = st.booleans()
    else:
        own = st.none() if pa.types.is_null(kind) else TEXTS
    return st.none() | own


def parsed(array: pa.Array) -> list:
    texts = json_of(array)
    texts.validate(full=True)
    assert texts.type == pa.large_string()
    return [None if text is None else json.loads(text) for text in texts.to_pylist()]


@given(data=st.data(), kind=kinds(3))
def test_the_json_of_any_array_and_any_slice_of_it_equals_its_values(data, kind):
    expected = data.draw(st.lists(values(kind), max_size=8))
    array = pa.array(expected, kind)
    assert parsed(array) == expected
    assert json_of(array).null_count == array.null_count
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    assert parsed(array[start:stop]) == expected[start:stop]


@given(st.lists(st.none() | TEXTS, max_size=20))
@example(["".join(map(chr, range(128)))])
def test_strings_are_written_as_in_python(texts):
    expected = [None if text is None else json.dumps(text, ensure_ascii=False) for text in texts]
    assert json_of(pa.array(texts, pa.string())).to_pylist() == expected
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    assert json_of(encoded).to_pylist() == expected


def test_values_below_a_null_are_ignored():
    values = pa.array([1, 2, 3, 4])
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 4], pa.int32()), values, mask=pa.array([False, True, False])
    )
    assert json_of(lists).to_pylist() == ["[1]", None, "[4]"]
    struct = pa.StructArray.from_arrays([values[:3], lists], ["n", "l"], mask=lists.is_null())
    assert json_of(struct).to_pylist() == ['{"n":1,"l":[1]}', None, '{"n":3,"l":[4]}']
    assert json_of(struct[1:]).to_pylist() == [None, '{"n":3,"l":[4]}']


def test_nan_and_infinity_are_null_and_other_numbers_are_exact():
    floats = [1.5, math.nan, math.inf, -math.inf, 1e300, 5e-324, 0.1, None]
    expected = [1.5, None, None, None, 1e300, 5e-324, 0.1, None]
    assert parsed(pa.array(floats)) == expected
    assert parsed(pa.array(np.array([0.1], np.float32))) == [float(np.float32(0.1))]
    assert parsed(pa.array([2**64 - 1], pa.uint64())) == [2**64 - 1]


def test_bytes_that_are_not_text_are_unchanged():
    raw = pa.array([b"a\xff\n", b"\xed\xa0\x80"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    written = json_of(texts).cast(pa.large_binary()).to_pylist()
    assert written == [b'"a\xff\\n"', b'"\xed\xa0\x80"']


def test_an_object_has_the_given_columns_and_number_of_rows():
    columns = [pa.array([None, [1]]), pa.array(["x", None])]
    assert objects_of(['k"', "é"], columns, count=2).to_pylist() == [
        '{"k\\"":null,"é":"x"}',
        '{"k\\"":[1],"é":null}',
    ]
    assert objects_of([], [], count=2).to_pylist() == ["{}", "{}"]


@pytest.mark.parametrize(
    ("kind", "reported"),
    [
        (pa.list_(pa.struct({"a": pa.int8(), "b": pa.binary()})), pa.binary()),
        (pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.string())),
        (pa.duration("s"), pa.duration("s")),
        (pa.list_(pa.dictionary(pa.int8(), pa.string())), None),
        (pa.struct({"t": pa.timestamp("us"), "d": pa.decimal128(5, 2)}), None),
    ],
)
def test_a_type_without_json_is_refused_first(kind, reported):
    assert unfit(kind) == reported
    empty = pa.array([], kind) if reported is None else pa.nulls(1, kind)
    if reported is None:
        assert json_of(empty).to_pylist() == []
    else:
        with pytest.raises(TypeError, match="has no JSON"):
            json_of(empty)


def test_dates_and_decimals_are_strings():
    days = pa.array([0, None], pa.date32())
    assert json_of(days).to_pylist() == ['"1970-01-01"', None]
    assert json_of(pa.array([1], pa.decimal128(5, 2))).to_pylist() == ['"1.00"']
