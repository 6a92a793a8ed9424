"""The settings that shards depend on, and the counts of checked documents."""

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
    """Everything that a shard depends on besides its slice."""

    tokenizer_sha256: str
    """The sha256 of the tokenizer's readable file."""
    gaps: Gaps
    prepend: tuple[str, ...]
    """Special tokens before each text document."""
    append: tuple[str, ...]
    max_document_bytes: int
    """A larger document is quarantined."""
    max_shard_tokens: int
    max_tokens: int | None = None
    """The limit for conversations and vision documents; None: no limit."""
    too_long: str = "keep"
    """The rule for a document with more tokens: keep, cut or drop."""
    untrainable: str = "keep"
    """The rule for a document without trainable tokens: keep or drop."""
    image_token: str | None = None
    """The special token of each part of an image in vision documents."""
    image_tokens: int | None = None
    """The number of tokens of an image if the document does not state it; None: one."""
    grounding: tuple[str, ...] = ()
    """Special tokens whose names are recognized in the texts of vision documents."""
    train_prompt: bool = True
    """Whether the text of a vision document's prompt is trained on."""

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values, which `from_dict` accepts."""
        return asdict(self) | {name: list(getattr(self, name)) for name in _LISTS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Self":
        """Create settings from the result of `to_dict`."""
        return cls(**{**values, **{name: tuple(values[name]) for name in _LISTS}})

    def dialect(self, kind: str, name: str, *, id_column: str | None = None) -> Dialect:
        """Return the dialect of the given kind and name with these settings."""
        return Dialect(
            kind=kind,
            name=name,
            image_token=self.image_token,
            image_tokens=self.image_tokens,
            grounding=self.grounding,
            train_prompt=self.train_prompt,
            id_column=id_column,
        )

    def key(self, slice_: Slice) -> str:
        """Return the key of the shards of a slice."""
        ids = {} if slice_.id_column is None else {"id_column": slice_.id_column}
        values = {**self.to_dict(), **ids, "format": SHARD_FORMAT}
        return key_of({"slice": slice_.key, "shards": values})


@dataclass(slots=True)
class CheckedCount:
    """The counts of checked documents in a record."""

    documents: int = 0
    bytes: int = 0
    """Checked bytes of these documents, at most 64 KiB per text."""
    encoded_again: int = 0
    """Documents for which tiktoken returned the same ids."""
    not_encoded_again: Counter[str] = field(default_factory=Counter)
    """Documents that could not be compared with tiktoken, by reason."""

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON values, for a record."""
        return {
            "documents": self.documents,
            "bytes": self.bytes,
            "encoded_again": self.encoded_again,
            "not_encoded_again": dict(sorted(self.not_encoded_again.items())),
        }
