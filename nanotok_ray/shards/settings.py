"""What a shard depends on besides its slice, and so the key of a shard."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from nanotok_ray.manifest import key_of
from nanotok_ray.plan import Slice
from nanotok_ray.recipe import Gaps

SHARD_FORMAT = "nanotok-shard 2"


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
    max_tokens: int | None
    """Ids after which a conversation is cut; None: never."""

    def to_dict(self) -> dict[str, Any]:
        """Give the settings as JSON values; `from_dict` takes them back."""
        return asdict(self) | {"prepend": list(self.prepend), "append": list(self.append)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Take what `to_dict` gave."""
        names = {name: tuple(values[name]) for name in ("prepend", "append")}
        return cls(**{**values, **names})

    def key(self, each: Slice) -> str:
        """Give the key of the shards of a slice."""
        ids = {} if each.id_column is None else {"id_column": each.id_column}
        own = {**self.to_dict(), **ids, "format": SHARD_FORMAT}
        return key_of({"slice": each.key, "shards": own})
