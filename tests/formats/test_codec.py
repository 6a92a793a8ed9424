"""Frozen dataclasses as JSON: every value comes back, and a wrong one is named by its position."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import dump, from_values, load, to_values
from nanotok_ray.formats.codec import Natural, Number, Numbers, Sha256, omitted


class Range(NamedTuple):
    """A list of two numbers in JSON."""

    start: Number
    stop: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """A value with a key that is a keyword, and a rule for two fields."""

    in_: Number
    out: Number

    def __post_init__(self):
        if self.out > self.in_:
            raise ValueError(f"has {self.out} out of {self.in_}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A value with a field of every type."""

    FORMAT: ClassVar[str] = "stored 1"

    name: str
    flow: Flow
    spans: Natural
    share: float
    sha256: Sha256 | None
    split: Literal["train", "val"]
    ranges: tuple[Range, ...]
    pair: tuple[str, bool]
    counts: Mapping[str, Mapping[str, Number]]
    unused: Numbers = omitted(factory=dict)
    dialect: str | None = omitted()


numbers = st.integers(0, (1 << 63) - 1)
flows = st.tuples(numbers, numbers).map(lambda pair: Flow(in_=max(pair), out=min(pair)))
values = st.builds(
    Stored,
    name=st.text(),
    flow=flows,
    spans=st.integers(0, 1 << 80),
    share=st.floats(allow_nan=False),
    sha256=st.none() | st.text("0123456789abcdef", min_size=64, max_size=64),
    split=st.sampled_from(["train", "val"]),
    ranges=st.lists(st.builds(Range, numbers, numbers)).map(tuple),
    pair=st.tuples(st.text(), st.booleans()),
    counts=st.dictionaries(st.text(), st.dictionaries(st.text(), numbers)),
    unused=st.dictionaries(st.text(), numbers),
    dialect=st.none() | st.text(min_size=1),
)


@given(values)
def test_a_value_comes_back_from_its_bytes(value):
    data = dump(value)
    assert load(Stored, data, name="a.json") == value
    assert load(Stored, data, name="a.json").ranges == value.ranges
    stored = json.loads(data)
    assert stored["format"] == "stored 1"
    assert stored["flow"] == {"in": value.flow.in_, "out": value.flow.out}
    assert ("unused" in stored, "dialect" in stored) == (
        bool(value.unused),
        value.dialect is not None,
    )


EXAMPLE = Stored(
    name="a",
    flow=Flow(in_=3, out=2),
    spans=1 << 70,
    share=0.5,
    sha256="0" * 64,
    split="val",
    ranges=(Range(0, 1), Range(1, 5)),
    pair=("b", True),
    counts={"c": {"d": 1}},
)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["name"], 1, "name is 1, which is invalid"),
        (["flow", "in"], -1, "flow.in is -1, which is invalid"),
        (["flow", "in"], 1, "flow has 2 out of 1"),
        (["flow", "out"], True, "flow.out is True, which is invalid"),
        (["flow"], [], "flow is list, which is invalid"),
        (["spans"], 2.0, "spans is 2.0, which is invalid"),
        (["share"], "x", "share is 'x', which is invalid"),
        (
            ["sha256"],
            "0" * 63,
            "sha256 is '000000000000000000000000000000000000000, which is invalid",
        ),
        (["split"], "test", "split is 'test', which is invalid"),
        (["ranges", 1], [1], "ranges[1] is list, which is invalid"),
        (["ranges", 1, 0], 1 << 63, "ranges[1][0] is int, which is invalid"),
        (["pair"], ["b", True, 0], "pair is list, which is invalid"),
        (["counts"], None, "counts is None, which is invalid"),
        (["counts", "c", "d"], "1", "counts.c.d is '1', which is invalid"),
    ],
)
def test_a_wrong_value_is_named_by_its_position(path, value, message):
    stored = to_values(EXAMPLE)
    *above, last = path
    inner = stored
    for key in above:
        inner = inner[key]
    inner[last] = value
    with pytest.raises(CorruptOutputError) as error:
        from_values(Stored, stored, name="a.json")
    assert str(error.value) == f"a.json: {message}"


def test_a_missing_field_is_named_and_an_unknown_one_ignored():
    stored = to_values(EXAMPLE) | {"later": [1]}
    assert from_values(Stored, stored, name="a.json") == EXAMPLE
    del stored["flow"]["out"]
    with pytest.raises(CorruptOutputError, match=r"^a.json lacks the field flow.out$"):
        from_values(Stored, stored, name="a.json")
    with pytest.raises(CorruptOutputError, match=r"^a.json: the whole is list, which is invalid$"):
        from_values(Stored, [], name="a.json")
    with pytest.raises(CorruptOutputError, match="format"):
        load(Stored, b'{"format": "stored 2"}', name="a.json")
