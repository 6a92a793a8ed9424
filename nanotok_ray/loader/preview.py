"""Previews of packing: the number of rows, of padding, and of cut or lost tokens.

Only the lengths of documents are read.
"""

import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from nanotok_ray.errors import PackingError
from nanotok_ray.loader.batch import PackingReport
from nanotok_ray.loader.loader import IgnoredMasksWarning, Loader
from nanotok_ray.loader.nanochat import NanochatLoader
from nanotok_ray.loader.order import Shuffle
from nanotok_ray.loader.settings import Packing, TooLong
from nanotok_ray.loader.shards import Shards

ROWS_AT_ONCE = 4096
"""Number of rows that are planned at a time."""

BUFFER = 1000
"""Number of documents that nanochat's loader chooses from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewSettings:
    """The lengths, packings and orders to preview; for the fields see `Loader`."""

    lengths: Sequence[int] = (2048,)
    packings: Sequence[Packing | Literal["nanochat"]] = ()
    shuffle: Shuffle | None = None
    seed: int = 0
    group_documents: int = 4096
    weights: Mapping[str, float] | None = None
    tokens: int | None = None
    """Number of tokens of a mixture; None: the number of tokens of the shards."""
    too_long: TooLong = "crop"


@dataclass(frozen=True, kw_only=True, slots=True)
class MixedSource:
    """The use of a source by a mixture."""

    weight: float
    documents: int
    tokens: int
    share: float
    """Share of the tokens of the mixture."""
    epochs: float


@dataclass(frozen=True, slots=True)
class Packed:
    """The result of packing an epoch or a mixture."""

    report: PackingReport
    num_tokens: int
    """The number of tokens to pack."""
    sources: Mapping[str, MixedSource] | None = None
    """The sources of a mixture by name."""

    @property
    def kept_share(self) -> float:
        """The share of the tokens that are in rows."""
        return self.report.tokens / self.num_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class PackingPlan:
    """The plan of an epoch for a length and a packing."""

    length: int
    packing: str
    seconds: float
    packed: Packed | str
    """The result; for an impossible combination, the reason."""


def preview_packing(shards: Shards, settings: PreviewSettings) -> Iterator[PackingPlan]:
    """Yield the plan of an epoch for each length and packing.

    Raises:
        PackingError: There is no token to pack.
    """
    for length, packing in product(settings.lengths, settings.packings):
        start = time.perf_counter()
        packed: Packed | str
        try:
            if packing == "nanochat":
                packed = _packed_as_nanochat(shards, length, settings)
            else:
                packed = _packed(shards, packing, length, settings)
        except PackingError as error:
            packed = str(error)
        seconds = round(time.perf_counter() - start, 3)
        yield PackingPlan(length=length, packing=packing, seconds=seconds, packed=packed)


def _packed(shards: Shards, packing: Packing, length: int, settings: PreviewSettings) -> Packed:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IgnoredMasksWarning)  # nothing is trained
        loader = Loader(
            shards,
            batch_size=min(ROWS_AT_ONCE, -(-shards.num_tokens // length)),
            length=length,
            packing=packing,
            shuffle=settings.shuffle,
            seed=settings.seed,
            weights=settings.weights,
            group_documents=settings.group_documents,
            epochs=None if settings.weights else 1,
            too_long=settings.too_long,
        )
    if settings.weights is None:
        loader.skip_batches(sys.maxsize)
        return Packed(loader.report(), shards.num_tokens)
    report, uses = loader.plan(settings.tokens or shards.num_tokens)
    total = sum(value.tokens for value in uses)
    sources = {
        value.name: MixedSource(
            weight=settings.weights[value.name],
            documents=value.documents,
            tokens=value.tokens,
            share=value.tokens / total,
            epochs=value.epochs,
        )
        for value in uses
    }
    return Packed(report, total, sources)


def _packed_as_nanochat(shards: Shards, length: int, settings: PreviewSettings) -> Packed:
    """Return the result of nanochat's packing, planned until the second epoch begins."""
    if settings.weights or settings.shuffle:
        raise PackingError("nanochat has its own order; omit the weights and the shuffling")
    kinds = shards.manifest.kinds
    texts = [name for name in shards.ranges() if kinds[name] == "text"]
    if len(texts) < len(shards.ranges()):
        advice = (
            f"choose them with --source {' --source '.join(texts)}" if texts else "there is none"
        )
        raise PackingError(f"nanochat's loader reads only text; {advice}")
    if len(shards) <= BUFFER:
        raise PackingError(
            f"nanochat's loader fills a buffer of {BUFFER:,} documents, and there are only "
            f"{len(shards):,}: the first row would repeat documents; choose a larger source"
        )
    rows = min(ROWS_AT_ONCE, 1 + len(shards) // 10_000)
    loader = NanochatLoader(shards, batch_size=rows, length=length, buffer_size=BUFFER)
    while loader.state_dict()["epoch"] == 1:
        loader.skip_batches(1)
    return Packed(loader.report(), shards.num_tokens)
