"""JSON lines by the core and by Arrow equal Python's."""

import json
import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanotok_ray.documents import Documents
from nanotok_ray.sources import json_lines
from nanotok_ray.sources.json_lines import BOM, Rejected, by_python, read_json
from nanotok_ray.sources.lines import split_lines
from nanotok_ray.sources.parquet_rows import json_of, objects_of, unfit

PARTS = [
    *("a", "é", "🙂", "\\n", '\\"', "\\\\", "\\/", "\\u00e9", "\\uD83D", "\\ude42", "\\u0000"),
    *("x" * 30, " ", '"', "\\", "\\u12", "\\x", "\t", '", "', '": "', '"text": "', "}", "{"),
]
strings = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
NUMBERS = [
    *("0", "-0", "7", "-12", "9" * 5000, "1.5", "-1e5", "1E+400", "1e-999", "NaN", "Infinity"),
    *("-Infinity", "01", "1.", ".5", "-", "+1", "1e", "--1", "-NaN", "Nan", "Infinit", "1NaN", "٣"),
]
numbers = st.sampled_from(NUMBERS)
TEMPLATES = [
    '{{"text": "{one}", "more": ["{two}", {{"text": "{three}", "n": {number}}}]}}',
    '{{"{one}": {number}, "text": "{two}", "id": {other}}}',
    '{{"text": {number}, "id": "{one}"}}',
    '{{"text": "{one}", "id": "{two}", "text": "{three}", "id": {number}}}',
    '{{"te\\u0078t": "{one}", "\\u0069d": "{two}", "\\ud83d": "{three}"}}',
    ' {{"text"\t: "{one}" , "id":\r"{two}"}} {three}',
    '["{one}", {number}]',
    "{number}{other}",
    '"{one}"',
    "\ufeff{{}}",
]
made_lines = st.builds(
    lambda template, **parts: template.format(**parts),
    st.sampled_from(TEMPLATES),
    one=strings,
    two=strings,
    three=strings,
    number=numbers,
    other=numbers,
)
members = st.sampled_from(["text", "id", "messages", "te", ""]) | st.text(max_size=3)
values_of_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(members, inner, max_size=4),
    max_leaves=12,
)
dumped_lines = st.builds(json.dumps, values_of_json, ensure_ascii=st.just(True))


@st.composite
def lines_of_json(draw) -> bytes:
    """Lines of JSON, some of them damaged or not even text."""
    line = bytearray(draw(made_lines | dumped_lines).encode())
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        place = draw(st.integers(0, len(line)))
        line[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(line).replace(b"\n", b"")


def by_core(lines, *, field, id_field):
    """Return document and id of each line, as `by_python` does for one."""
    found = read_json(lines, field=field, id_field=id_field)
    for index in range(len(lines)):
        id_text = b"" if found.ids is None else found.ids[index]
        yield found.others.get(index, (found.documents[index], id_text))


FIELDS = [
    {"field": "text", "id_field": "id"},
    {"field": "text", "id_field": None},
    {"field": "id", "id_field": "id"},
    {"field": None, "id_field": "id"},
    {"field": "\ud83d", "id_field": "id"},
]


@given(lines=st.lists(lines_of_json(), max_size=6), fields=st.sampled_from(FIELDS))
@example(lines=[b'{"text": "\\ud83d\\ud83d\\ude42\\u0041\\ude42"}'], fields=FIELDS[0])
@example(lines=[b'{"text": ' + b"[" * 200 + b"]" * 200 + b', "id": "a"}'], fields=FIELDS[0])
@example(lines=[b'{"text": "a", "id": ' + b"[" * 200 + b"]" * 200 + b"}"], fields=FIELDS[0])
@example(lines=[b"[" * 99_999, b"[" * 150 + b"]" * 150, b"[" * 150], fields=FIELDS[3])
def test_lines_read_by_the_core_equal_lines_read_by_python(lines, fields):
    expected = [by_python(line, **fields) for line in lines]
    assert [*by_core(Documents.from_bytes(lines), **fields)] == expected


@given(
    lines=st.lists(lines_of_json(), max_size=6), ending=st.sampled_from([b"\n", b"\r\n", b"\n\t\n"])
)
def test_a_line_break_after_a_line_changes_nothing(lines, ending):
    with_breaks = [line + ending for line in lines]
    alone = [line.partition(b"\n")[0].removesuffix(b"\r") for line in with_breaks]
    expected = [by_python(line, **FIELDS[0]) for line in alone]
    assert [*by_core(Documents.from_bytes(with_breaks), **FIELDS[0])] == expected


@given(line=lines_of_json(), fields=st.sampled_from(FIELDS))
def test_a_long_line_is_read_like_a_short_one(line, fields):
    expected, expected_id = by_python(line, **fields)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "LONG_LINE_BYTES", 0)
        ((document, id_text),) = by_core(Documents.from_bytes([line]), **fields)
    assert id_text == expected_id
    if isinstance(expected, Rejected) and expected.reason.startswith("invalid JSON"):
        assert document.reason.startswith("invalid JSON: ")
    else:
        assert document == expected


def test_the_reason_for_a_long_line_has_the_place_of_the_error(monkeypatch):
    monkeypatch.setattr(json_lines, "LONG_LINE_BYTES", 10)
    lines = [b'{"text": "\xc3\xa9", oops}', b'{"text": "a', b"oops"]
    reasons = [each.reason for each, _ in by_core(Documents.from_bytes(lines), **FIELDS[0])]
    assert reasons == [
        "invalid JSON: at byte 15",
        "invalid JSON: at byte 11",
        "invalid JSON: Expecting value (char 0)",
    ]


PEAK = """
import resource, sys
import numpy as np
from nanotok_ray.documents import Documents
from nanotok_ray.sources.json_lines import read_json
lines = Documents(data=np.fromfile(sys.argv[1], np.uint8), offsets=np.array([0, int(sys.argv[2])]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read = read_json(lines, field="text", id_field="id")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reasons = [rejected.reason for rejected, _ in read.others.values()]
print(1024 * (peak - before), read.documents.num_bytes, reasons)
"""
LONG_TEXT = ("ab🙂é" + "\\n\\u00e9\\ud83d\\ude42" * 2).encode().ljust(99) * 600_000
OTHER_LINES = {
    "cut": (b'{"text": "' + LONG_TEXT, "invalid JSON: at byte 59400010"),
    "bad": (b'{"text": "' + LONG_TEXT + b"\\x", "invalid JSON: at byte 59400011"),
    "elsewhere": (b'{"other": "' + LONG_TEXT + b'"}', "field is missing: 'text'"),
    "nested": (b'{"text": ["' + LONG_TEXT + b'"]}', "field is not a string: 'text' is an array"),
    "bytes": (b'{"text": "' + LONG_TEXT + b'\xff"}', "invalid UTF-8: at byte 59400010"),
}


def peak_of(folder, line):
    """Return the memory that reading a line takes, the bytes of its text, and the reasons."""
    (folder / "line").write_bytes(line)
    arguments = [sys.executable, "-c", PEAK, str(folder / "line"), str(len(line))]
    printed = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    peak, num_bytes, reasons = printed.split(maxsplit=2)
    return int(peak), int(num_bytes), reasons.strip()


def test_a_long_line_takes_memory_for_its_text(tmp_path):
    peak, num_bytes, reasons = peak_of(tmp_path, b'{"id": 7, "text": "' + LONG_TEXT + b'"}')
    text = json.loads(b'"' + LONG_TEXT + b'"').encode()
    assert (num_bytes, reasons) == (len(text), "[]")
    assert peak < 1.1 * len(text) + (4 << 20)


@pytest.mark.parametrize("name", OTHER_LINES)
def test_a_long_line_without_a_text_takes_no_memory(tmp_path, name):
    line, reason = OTHER_LINES[name]
    peak, num_bytes, reasons = peak_of(tmp_path, line)
    assert (num_bytes, reasons) == (0, repr([reason]))
    assert peak < 4 << 20


PLAIN_PARTS = [
    *(b"", b"a", b"\r", b" ", b"\n", b"\r\n", "é".encode(), b"\xc3", b"\xa9", b"bcdef", b"\0"),
    b"\t",
    BOM,
]


@given(
    st.lists(st.sampled_from(PLAIN_PARTS), max_size=30).map(b"".join),
    st.sampled_from([0, 7]),
    st.booleans(),
)
def test_lines_split_in_blocks_equal_lines_split_one_by_one(content, position, is_json):
    block = content + b"\n"
    stored = block.split(b"\n")[:-1]
    places = [sum(len(line) + 1 for line in stored[:number]) for number in range(len(stored))]
    expected = [line.removesuffix(b"\r") for line in stored]
    if position == 0:
        expected[0] = expected[0].removeprefix(BOM)
    lines = split_lines(block, position=position, is_json=is_json)
    is_blank = [not line or (is_json and line.isspace()) for line in expected]
    kept = [at for at, blank in enumerate(is_blank) if not blank]
    assert list(lines.alone()) == [bytes(lines.line(at)) for at in range(len(lines))]
    assert list(lines.alone()) == [expected[at] for at in kept]
    assert lines.positions.tolist() == [position + places[at] for at in kept]
    assert lines.blank == sum(is_blank)
    for with_break, at in zip(lines.with_breaks(), kept, strict=True):
        assert with_break.startswith(expected[at])
        assert not with_break.removeprefix(expected[at]).strip()


@pytest.mark.parametrize("position", [0, 7])
@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_one_line_is_not_copied(position, ending):
    block = bytearray(BOM + b" {} " + ending)
    lines = split_lines(block, position=position, is_json=True)
    (line,) = lines.alone()
    assert line == (b" {} " if position == 0 else BOM + b" {} ")
    assert np.shares_memory(lines.alone().data, np.frombuffer(block, dtype=np.uint8))
    assert lines.positions.tolist() == [position]


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
