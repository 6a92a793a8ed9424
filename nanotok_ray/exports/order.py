"""The order of the train documents of an export, as options that all layouts have.

Without an order, an export has the documents as the output has them: source after source. With one,
the documents of all train shards, or of the weighted sources, become one source `mixture`: in the
order and up to the document that `Loader` has with the same settings.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nanotok_ray.errors import ExportError, PackingError
from nanotok_ray.loader.settings import RowSettings
from nanotok_ray.units import parse_count, parse_weights

MIXTURE = "mixture"
"""The name of the source of ordered documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """Which documents are written, how often, and in which order.

    >>> Order(weights={"web": 0.7, "code": 0.3}, tokens=10**10, shuffle=42).options
    {'weights': 'web=0.7+code=0.3', 'tokens': 10000000000, 'shuffle': 42}
    """

    weights: Mapping[str, float] | None = None
    """The share of each source of the tokens; None: every document, one source after the other or
    shuffled together."""
    tokens: int | None = None
    """The document that reaches this number of tokens is the last; None: every document once."""
    shuffle: int | None = None
    """The seed of the order; None: the documents of a source are in the order of its shards."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ExportError: A value is out of its range, or weights are given without tokens.
        """
        if self.tokens is not None and self.tokens < 1:
            raise ExportError(f"tokens is {self.tokens}; it is a whole number of 1 or more")
        if self.weights is not None and self.tokens is None:
            raise ExportError(
                "weights need a number of tokens, because a mixture repeats its sources and has no "
                "end: add --tokens 10B, or tokens=10B to the options of the layout"
            )
        _ = self.settings

    @property
    def options(self) -> dict[str, int | str]:
        """The values that are set, as options of a layout."""
        weights = None if self.weights is None else _format_weights(self.weights)
        values = {"weights": weights, "tokens": self.tokens, "shuffle": self.shuffle}
        return {key: value for key, value in values.items() if value is not None}

    @property
    def settings(self) -> RowSettings:
        """The settings of a loader that has the same documents in the same order.

        Raises:
            ExportError: A weight or the seed is out of its range.
        """
        try:
            return RowSettings(
                packing="windows",
                length=1,
                shuffle=None if self.shuffle is None else "document",
                seed=self.shuffle or 0,
                weights=self.weights,
            )
        except PackingError as error:
            raise ExportError(str(error).replace("seed is", "shuffle is")) from error


ORDER_OPTIONS = ("weights", "tokens", "shuffle")


def parse_order(options: Mapping[str, str]) -> Order | None:
    """Return the order that options of a layout describe, or None without such options.

    >>> parse_order({"tokens": "1.5M", "shuffle": "7"})
    Order(weights=None, tokens=1500000, shuffle=7)

    Raises:
        ExportError: A value is invalid.
    """
    if not options:
        return None
    weights, tokens, seed = (options.get(key) for key in ORDER_OPTIONS)
    try:
        return Order(
            weights=None if weights is None else parse_weights(weights, "+"),
            tokens=None if tokens is None else parse_count(tokens),
            shuffle=None if seed is None else _parse_seed(seed),
        )
    except ValueError as error:
        raise ExportError(f"order of an export: {error}") from error


def _parse_seed(text: str) -> int:
    if not re.fullmatch("[0-9]+", text):
        raise ValueError(f"shuffle is {text!r}; it is the seed of the order, as in shuffle=42")
    return int(text)


def _format_weights(weights: Mapping[str, float]) -> str:
    return "+".join(f"{name}={float(value)!r}" for name, value in weights.items())
