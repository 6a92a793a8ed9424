"""Fast reading of lines equals reading them one by one, and the quick parser."""

import json
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanotok_ray.sources.json_lines import Rejected, text_and_id, text_and_id_of_long, text_of
from nanotok_ray.sources.lines import split_plain
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
    document = text_of(line, field="text")
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
