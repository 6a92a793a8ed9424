"""What a shard depends on besides its slice, and how much of a slice was checked."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from nanotok_ray.dialects import Dialect
from nanotok_ray.formats import key_of
from nanotok_ray.recipe import Gaps
from nanotok_ray.sources import Slice

if TYPE_CHECKING:
    from typing_extensions import Self

SHARD_FORMAT = "nanotok-shard 3"

_LISTS = ("prepend", "append", "grounding")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardSettings:
    """What a shard depends on besides its slice."""

    tokenizer_sha256: str
    """Of the tokenizer's readable file."""
    gaps: Gaps
    prepend: tuple[str, ...]
    """Special tokens before each text document."""
    append: tuple[str, ...]
    max_document_bytes: int
    """A larger document is quarantined."""
    max_shard_tokens: int
    max_tokens: int | None = None
    """Of conversations and vision documents; None: any number."""
    too_long: str = "keep"
    """What becomes of one with more tokens: keep, cut or drop."""
    untrainable: str = "keep"
    """What becomes of one without a token to train on: keep or drop."""
    image_token: str | None = None
    """Of vision documents: the special token that an image's tokens are."""
    image_tokens: int | None = None
    """Tokens of each image where a document does not say so; None: one."""
    grounding: tuple[str, ...] = ()
    """Special tokens that are recognised where a vision document spells them out."""
    train_prompt: bool = True
    """Whether the text of a vision document's prompt is trained on."""

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values; `from_dict` takes them back."""
        return asdict(self) | {name: list(getattr(self, name)) for name in _LISTS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Self":
        """Build the settings that `to_dict` returned."""
        return cls(**{**values, **{name: tuple(values[name]) for name in _LISTS}})

    def dialect(self, kind: str, name: str) -> Dialect:
        """Return how documents of a kind and the dialect of that name are read."""
        return Dialect(
            kind=kind,
            name=name,
            image_token=self.image_token,
            image_tokens=self.image_tokens,
            grounding=self.grounding,
            train_prompt=self.train_prompt,
        )

    def key(self, slice_: Slice) -> str:
        """Return the key of the shards of a slice."""
        ids = {} if slice_.id_column is None else {"id_column": slice_.id_column}
        values = {**self.to_dict(), **ids, "format": SHARD_FORMAT}
        return key_of({"slice": slice_.key, "shards": values})


@dataclass(slots=True)
class CheckedCount:
    """What was checked, as the record says it."""

    documents: int = 0
    bytes: int = 0
    """Of these documents, 64 KiB of a longer text."""
    encoded_again: int = 0
    """Documents for which tiktoken returned the same ids."""
    not_encoded_again: Counter[str] = field(default_factory=Counter)
    """Documents for which it could not be asked, by reason."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a record."""
        return {
            "documents": self.documents,
            "bytes": self.bytes,
            "encoded_again": self.encoded_again,
            "not_encoded_again": dict(sorted(self.not_encoded_again.items())),
        }
