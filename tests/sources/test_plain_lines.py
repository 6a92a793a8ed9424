"""Plain lines split at once: what splitting them one by one gives."""

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.sources.lines import split_plain
from nanotok_ray.sources.stored import invalid_at

PARTS = [
    b"",
    b"a",
    b"\r",
    b" ",
    b"\n",
    b"\r\n",
    "é".encode(),
    b"\xc3",
    b"\xa9",
    b"bcdef",
    b"\0",
    b"\t",
]


@given(
    st.lists(st.sampled_from(PARTS), max_size=30).map(b"".join),
    st.integers(1, 12),
    st.booleans(),
)
def test_lines_split_at_once_are_those_split_one_by_one(content, most, is_json):
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
