"""The validated settings of a loader, and rows as arrays."""

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex, get_args

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.errors import CorruptOutputError, PackingError
from nanotok_ray.loader.batch import Segments
from nanotok_ray.loader.order import Shuffle
from nanotok_ray.loader.shards import Shards

BOS = "<|bos|>"
DTYPES = (np.dtype(np.int32), np.dtype(np.int64))
Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def padding_id(shards: Shards) -> int:
    """Return the id that fills inputs without a token: the id of `<|bos|>`, or 0."""
    return shards.manifest.special_tokens.get(BOS, 0)


def check_shards(shards: object) -> None:
    """Raise an error if `shards` is not a `Shards` object but, for example, a path."""
    if not isinstance(shards, Shards):
        raise PackingError(f"shards is {shards!r:.100}; pass the result of nanotok_ray.open_shards")


def fill(shards: Shards, segments: Segments, arrays: Arrays, *, masked: bool = False) -> None:
    """Write the rows of `segments` to inputs and targets, each (rows, length).

    Args:
        shards: the shards that hold the documents.
        segments: rows of length + 1 tokens at most.
        arrays: inputs and targets, both int32 or both int64, C-contiguous. -1 is written to targets
            where a row has no next token.
        masked: write -1 for targets whose mask is 0; all tokens of documents without masks are
            trained on.

    Raises:
        CorruptOutputError: an id does not belong to the tokenizer, so that a model has no row for
            it.
    """
    pieces = shards.pieces(segments.documents, segments.starts, segments.lengths, masks=masked)
    try:
        _core.fill_rows(
            pieces.ids,
            pieces.masks,
            pieces.which,
            pieces.offsets,
            segments.lengths,
            segments.rows,
            *arrays,
            pad=padding_id(shards),
            num_ids=shards.num_ids,
        )
    except PackingError:
        _refuse_unknown(shards, segments)
        raise


def _refuse_unknown(shards: Shards, segments: Segments) -> None:
    """Raise an error that names the first document with an id that the tokenizer does not have."""
    for document in segments.documents.tolist():
        highest = int(shards[document].max(initial=0))
        if highest >= shards.num_ids:
            name, number = shards.shard_of(document)
            raise CorruptOutputError(
                f"document {number} of {name} has the id {highest}, the tokenizer has ids below "
                f"{shards.num_ids}: the shard was changed, `nanotok verify` lists all problems"
            ) from None


def arrays_for(rows: int, length: int, dtype: npt.DTypeLike) -> Arrays:
    """Return new arrays for the inputs and the targets of `rows` rows.

    >>> [array.shape for array in arrays_for(2, 3, np.int32)]
    [(2, 3), (2, 3)]
    """
    return np.empty((rows, length), dtype=dtype), np.empty((rows, length), dtype=dtype)


def check_arrays(into: Arrays, *, rows: int, length: int) -> None:
    """Raise an error if the arrays cannot hold a batch.

    Raises:
        PackingError: the shape differs, or an array is not int32 or int64, not C-contiguous or not
            writeable.
    """
    for name, array in zip(("inputs", "targets"), into, strict=True):
        if array.shape != (rows, length):
            raise PackingError(
                f"into: {name} has shape {array.shape}, a batch has ({rows}, {length})"
            )
        if array.dtype not in DTYPES or array.dtype != into[0].dtype:
            raise PackingError(
                f"into: {name} is {array.dtype}; pass two arrays of int32, or two of int64"
            )
        if not (array.flags.c_contiguous and array.flags.writeable):
            raise PackingError(f"into: {name} must be C-contiguous and writeable")


Packing = Literal["best-fit", "windows", "conversations"]
TooLong = Literal["crop", "drop"]

MAX_LENGTH = 2**31 - 2
"""Maximum length of a row: length + 1 tokens must fit in int32."""
MAX_GROUP_DOCUMENTS = 1 << 24
MAX_SEED = 2**64 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSettings:
    """The settings on which the tokens of each row depend. A state requires equal settings.

    >>> RowSettings(packing="windows", length=0)
    Traceback (most recent call last):
    ...
    nanotok_ray.errors.PackingError: length is 0; it is a whole number from 1 to 2147483646
    """

    packing: Packing
    length: int
    shuffle: Shuffle | None = None
    seed: int = 0
    block_documents: int = 1024
    weights: Mapping[str, float] | None = None
    group_documents: int = 4096
    too_long: TooLong = "crop"

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            PackingError: A value is out of its range.
        """
        _check_choice("packing", self.packing, get_args(Packing))
        _check_choice("shuffle", self.shuffle, (None, *get_args(Shuffle)))
        check_too_long(self.too_long)
        limits = {
            "length": (1, MAX_LENGTH),
            "seed": (0, MAX_SEED),
            "block_documents": (1, None),
            "group_documents": (1, MAX_GROUP_DOCUMENTS),
        }
        for name, (minimum, maximum) in limits.items():
            value = integer(name, getattr(self, name), minimum=minimum, maximum=maximum)
            object.__setattr__(self, name, value)
        if self.weights is not None:
            object.__setattr__(self, "weights", _checked_weights(self.weights))

    @property
    def capacity(self) -> int:
        """Number of tokens of a row: its inputs, and the target of the last one."""
        return self.length + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchSettings:
    """The distribution of rows to ranks. A loader can resume with different batch settings."""

    batch_size: int
    rank: int = 0
    world_size: int = 1
    epochs: int | None = None
    drop_last: bool = False
    dtype: npt.DTypeLike = np.int32

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            PackingError: A value is out of its range.
        """
        for name in ("batch_size", "world_size"):
            object.__setattr__(self, name, integer(name, getattr(self, name), minimum=1))
        rank = integer("rank", self.rank, minimum=0, maximum=self.world_size - 1)
        object.__setattr__(self, "rank", rank)
        if self.epochs is not None:
            object.__setattr__(self, "epochs", integer("epochs", self.epochs, minimum=1))
        check_dtype(self.dtype)

    @property
    def global_rows(self) -> int:
        """The number of rows of the batches of all ranks together."""
        return self.batch_size * self.world_size


def check_too_long(value: object) -> None:
    """Raise an error if `value` is not a rule for conversations that are too long.

    Raises:
        PackingError: the value is not such a rule.
    """
    _check_choice("too_long", value, get_args(TooLong))


def _check_choice(name: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        choices = ", ".join(map(repr, known))
        raise PackingError(f"{name} is {value!r}; it is one of {choices}")


def check_dtype(dtype: npt.DTypeLike) -> None:
    """Raise an error if ids of a batch cannot have this data type.

    Raises:
        PackingError: the type is neither int32 nor int64.
    """
    wrong = PackingError(f"dtype is {dtype!r}; it is int32 or int64")
    try:
        if np.dtype(dtype) in DTYPES:
            return
    except TypeError:
        raise wrong from None
    raise wrong


def integer(name: str, value: SupportsIndex, *, minimum: int, maximum: int | None = None) -> int:
    """Return `value` as an int, or raise an error if it is not an integer within the limits."""
    limits = f"of {minimum} or more" if maximum is None else f"from {minimum} to {maximum}"
    wrong = PackingError(f"{name} is {value!r}; it is a whole number {limits}")
    if isinstance(value, bool):
        raise wrong
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong from None
    if number < minimum or (maximum is not None and number > maximum):
        raise wrong
    return number


def _checked_weights(weights: Mapping[str, float]) -> dict[str, float]:
    if not weights:
        raise PackingError("weights name no source; omit them to read all sources in their order")
    return {str(name): _weight(name, value) for name, value in weights.items()}


def _weight(name: str, value: float) -> float:
    wrong = PackingError(f"the weight of source {name!r} is {value!r}; it is a number above 0")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if isinstance(value, bool) or not math.isfinite(number) or number <= 0:
        raise wrong
    return number
