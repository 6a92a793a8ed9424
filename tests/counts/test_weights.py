"""Weights of sources: exact factors, and shares in multiples of 1/1024."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.counts import SHARE_UNIT, Weights
from nanotok_ray.errors import SourceError
from nanotok_ray.recipe import SourceRecipe


def multipliers(*weights, text_bytes=None):
    sizes = {f"s{number}": size for number, size in enumerate(text_bytes or [1] * len(weights))}
    sources = [
        SourceRecipe(name=name, kind="text", paths=("-",), weight=weight)
        for name, weight in zip(sizes, weights, strict=True)
    ]
    found = Weights.of(sources, text_bytes=sizes)
    return found.unit, [found.multipliers[f"s{number}"] for number in range(len(weights))]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (["1", "3"], (1, [1, 3])),
        (["2.5", "1"], (2, [5, 2])),
        (["0.1", "0.25", "1"], (20, [2, 5, 20])),
        (["0.000001", "1000000"], (10**6, [1, 10**12])),
        (["7"], (1, [1])),
        (["0.3", "0.30"], (1, [1, 1])),
    ],
)
def test_decimals_are_exact_in_the_smallest_unit(weights, expected):
    assert multipliers(*weights) == expected


decimals = st.integers(1, 10**9).map(lambda millionths: f"{millionths / 10**6:.6f}")


@given(st.lists(decimals, min_size=1, max_size=5))
def test_multipliers_have_the_ratios_of_the_weights(weights):
    unit, found = multipliers(*weights)
    exact = [Fraction(weight) for weight in weights]
    assert [Fraction(own, found[0]) for own in found] == [own / exact[0] for own in exact]
    assert unit >= 1


@given(st.lists(st.integers(1, 10**15), min_size=1, max_size=4), st.data())
def test_shares_equal_those_of_the_weighted_text_up_to_rounding(sizes, data):
    parts = data.draw(st.lists(st.integers(1, 50), min_size=len(sizes), max_size=len(sizes)))
    parts[-1] += 1000 - sum(parts)
    weights = [f"share:{part / 1000}" for part in parts]
    unit, found = multipliers(*weights, text_bytes=sizes)
    if len(set(found)) == 1:
        return
    assert unit == SHARE_UNIT
    for part, size, own in zip(parts, sizes, found, strict=True):
        wanted = Fraction(part, 1000) * sum(sizes) / size * SHARE_UNIT
        assert own == 1 if wanted < 1 else abs(own - wanted) <= Fraction(1, 2)


def test_a_source_without_text_cannot_have_a_share():
    with pytest.raises(SourceError, match=r"'s1' has weight = 'share:0\.5' and no text"):
        multipliers("share:0.5", "share:0.5", text_bytes=[10, 0])
