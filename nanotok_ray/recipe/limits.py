"""Limits of slices, shards and documents, where the learner runs, and the checks of both."""

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from nanotok_ray.errors import RecipeError

DERIVED: Any = None
"""Stands where the default depends on the other fields; `__post_init__` puts the value there."""


def check_choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise RecipeError(f"{key} = {value!r} is none of {', '.join(map(repr, choices))}")


def check_range(key: str, value: int, *, minimum: int, maximum: int) -> None:
    """Refuse a number below `minimum` or above `maximum`."""
    if not minimum <= value <= maximum:
        raise RecipeError(f"{key} = {value} is outside {minimum} to {maximum}")


def check_distinct(key: str, names: tuple[str, ...]) -> None:
    """Refuse an empty name and a name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise RecipeError(f"{key} holds an empty name; remove it")
        if name in seen:
            raise RecipeError(f"{key} holds {name!r} twice; each name may be used once")
        seen.add(name)


TooLong = Literal["keep", "cut", "drop"]
Untrainable = Literal["keep", "drop"]

_SHARD_BYTES = 2**31  # from there on some trainers' readers count in numbers too small
_MAX_SHARD_TOKENS = 2**31 - 1  # lengths in the document index are int32
_MAX_DOCUMENT_BYTES = _MAX_SHARD_TOKENS  # a byte may be a token

MAX_DOCUMENT_BYTES: Final = 2**30
"""Default of `limits.max_document_bytes`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitsRecipe:
    """Sizes and limits."""

    slice_bytes: int = 256 * 2**20
    """Target of decoded bytes in one slice."""
    max_shard_tokens: int | None = None
    """Most tokens in one shard; a longer document gets a shard of its own. None: as many as keep a
    shard under 2 GiB."""
    max_tokens: int | None = None
    """A conversation or vision document of more tokens is too long; None: none is."""
    too_long: TooLong = "keep"
    """What becomes of one that is: `keep` it whole and count it, `cut` it as nanochat does, or
    `drop` it, which quarantine lists as `dropped`."""
    untrainable: Untrainable = "keep"
    """What becomes of conversations and vision documents without a token to train on: `keep` them,
    or `drop` them in the same way."""
    doc_cap: int | None = None
    """Counting reads this many code points of each document; None: all."""
    max_chars: int | None = None
    """Counting stops after this many code points of the corpus; None: never."""
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    """A document of more bytes is quarantined; of JSON lines, one whose line has more. A worker
    needs 1 GB and four times its largest document."""
    max_quarantined_share: float = 0.001
    """The job fails when a larger share of the documents is quarantined."""
    max_quarantined: int | None = None
    """The job fails when more documents than this are quarantined; None: only the share counts."""
    max_tails: int = 0
    """The job fails when the rest of more files than this could not be read."""
    slice_deadline: int = 3600
    """Seconds that an attempt at slices may run for each started GiB of them, before it is given
    up as one that hangs."""
    max_skipped_slices: int = 0
    """The job fails when more slices than this cannot be done at all; up to so many are left out,
    said so, and tried again by the next run."""

    def __post_init__(self) -> None:
        check_range("limits.slice_bytes", self.slice_bytes, minimum=1, maximum=2**50)
        if self.max_shard_tokens is not None:
            check_range(
                "limits.max_shard_tokens",
                self.max_shard_tokens,
                minimum=1,
                maximum=_MAX_SHARD_TOKENS,
            )
        maximum = _MAX_DOCUMENT_BYTES
        check_range(
            "limits.max_document_bytes", self.max_document_bytes, minimum=1, maximum=maximum
        )
        check_range("limits.slice_deadline", self.slice_deadline, minimum=1, maximum=2**31 - 1)
        for name in ("max_tails", "max_skipped_slices"):
            check_range(f"limits.{name}", getattr(self, name), minimum=0, maximum=2**63 - 1)
        self._check_rendered()
        optional = {"max_tokens": 1, "doc_cap": 1, "max_chars": 1, "max_quarantined": 0}
        for name, minimum in optional.items():
            value = getattr(self, name)
            if value is not None:
                check_range(f"limits.{name}", value, minimum=minimum, maximum=2**63 - 1)
        if not 0 <= self.max_quarantined_share <= 1:
            raise RecipeError(
                f"limits.max_quarantined_share = {self.max_quarantined_share} is no share; "
                "use a number from 0 to 1, as 0.001"
            )

    def _check_rendered(self) -> None:
        check_choice("limits.too_long", self.too_long, get_args(TooLong))
        check_choice("limits.untrainable", self.untrainable, get_args(Untrainable))
        if self.too_long != "keep" and self.max_tokens is None:
            raise RecipeError(
                f"limits.too_long = {self.too_long!r}, but limits.max_tokens does not say what is "
                "too long; set it, as max_tokens = 2048, or leave too_long out"
            )

    def shard_tokens(self, id_bytes: int) -> int:
        """Return the most tokens in one shard for ids of so many bytes.

        >>> LimitsRecipe().shard_tokens(2), LimitsRecipe(max_shard_tokens=9).shard_tokens(4)
        (1073741823, 9)
        """
        return self.max_shard_tokens or (_SHARD_BYTES - 1) // id_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnerRecipe:
    """Where the learner runs; nothing that is written depends on it."""

    memory: int | None = None
    """Bytes that one Ray task reserves, in which the learner runs; None: it runs in the driver."""
    cpus: int = 1
    """CPUs of that task."""
    label: str | None = None
    """`KEY=VALUE`: a label of the node on which that task runs; None: any node."""

    def __post_init__(self) -> None:
        check_range("learner.cpus", self.cpus, minimum=1, maximum=2**16)
        if self.memory is None:
            for name, default in (("cpus", 1), ("label", None)):
                if getattr(self, name) != default:
                    raise RecipeError(
                        f"learner.{name} = {getattr(self, name)!r} is for a learner that runs as a "
                        'task; say how much memory it needs too, as learner.memory = "32GiB"'
                    )
            return
        check_range("learner.memory", self.memory, minimum=2**20, maximum=2**50)
        if self.label is not None and not all(self.label.partition("=")[::2]):
            raise RecipeError(
                f"learner.label = {self.label!r} is not KEY=VALUE, as "
                "'ray.io/market-type=on-demand'"
            )
