"""Weights of sources: whole numbers that their counts are multiplied by before learning.

Takes the sources of a recipe and how much text of each was counted; gives multipliers and the unit
they are in, so that all sums stay whole and exact. Does not know counts or merges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from nanotok_ray.errors import SourceError
from nanotok_ray.recipe import SourceRecipe

SHARE_UNIT = 1024
"""Weights that come of shares are rounded to a whole number of so many parts of 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """By what the counts of each source are multiplied.

    >>> sources = [SourceRecipe(name="en", kind="text", paths=("-",)),
    ...            SourceRecipe(name="fi", kind="text", paths=("-",), weight="2.5")]
    >>> weights = Weights.of(sources, text_bytes={"en": 900, "fi": 100})
    >>> weights.unit, weights.multipliers
    (2, {'en': 2, 'fi': 5})
    """

    unit: int
    """What a count of weight 1 is multiplied by."""
    multipliers: Mapping[str, int]
    """What each count of a source is multiplied by: its weight in units."""

    @classmethod
    def of(cls, sources: Sequence[SourceRecipe], *, text_bytes: Mapping[str, int]) -> "Weights":
        """Find the multipliers of sources that are counted.

        A decimal is exact. A share is of the bytes of text that were counted: with `share:0.3` the
        weighted text of the source is 0.3 of all, but for rounding. Weights that are all equal
        change nothing and give multipliers of 1.

        Args:
            sources: those that are counted; all of them have shares, or none.
            text_bytes: by name, the bytes of text that were counted.

        Raises:
            SourceError: a source is to be a share of what is learned from, and has no text.
        """
        if sources[0].learned_share is not None:
            unit, weights = SHARE_UNIT, _of_shares(sources, text_bytes)
        else:
            exact = {source.name: Fraction(source.weight) for source in sources}
            unit = lcm(*(weight.denominator for weight in exact.values()))
            weights = {name: int(weight * unit) for name, weight in exact.items()}
        if len(set(weights.values())) == 1:
            unit, weights = 1, dict.fromkeys(weights, 1)
        return cls(unit=unit, multipliers=weights)


def _of_shares(sources: Sequence[SourceRecipe], text_bytes: Mapping[str, int]) -> dict[str, int]:
    total = sum(text_bytes.get(source.name, 0) for source in sources)
    weights = {}
    for source in sources:
        own = text_bytes.get(source.name, 0)
        if not own:
            raise SourceError(
                f"source {source.name!r} has weight = {source.weight!r} and no text at all in its "
                "train split; give it texts, or a weight that is no share"
            )
        assert source.learned_share is not None
        weight = Fraction(source.learned_share) * total / own
        weights[source.name] = max(1, round(weight * SHARE_UNIT))
    return weights
