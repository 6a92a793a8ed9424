"""The key and the names of shards, their dialect and ids, and counts of checked documents."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nanotok_ray.dialects import Dialect
from nanotok_ray.formats import Proof, ShardSettings, key_of, to_values
from nanotok_ray.sources import QUARANTINE, Slice
from nanotok_ray.tokenizer import IdTable

if TYPE_CHECKING:
    from typing_extensions import Self

SHARD_FORMAT = "nanotok-shard 3"


def dialect_of(
    settings: ShardSettings, kind: str, name: str, *, id_column: str | None = None
) -> Dialect:
    """Return the dialect of the given kind and name with the settings of a source."""
    return Dialect(
        kind=kind,
        name=name,
        image_token=settings.image_token,
        image_tokens=settings.image_tokens,
        grounding=settings.grounding,
        train_prompt=settings.train_prompt,
        id_column=id_column,
        tools=None if settings.template is None else settings.template.tools,
    )


def settings_of(slice_: Slice, settings: ShardSettings) -> ShardSettings:
    """Return the settings of a source for one slice: documents of val are not rearranged."""
    return settings if slice_.split == "train" else replace(settings, fim=None)


def shard_key(slice_: Slice, settings: ShardSettings) -> str:
    """Return the key of the shards of a slice, given the settings of its source."""
    ids = {} if slice_.id_column is None else {"id_column": slice_.id_column}
    values = {**to_values(settings_of(slice_, settings)), **ids, "format": SHARD_FORMAT}
    return key_of({"slice": slice_.key, "shards": values})


def shard_name(slice_: Slice, key: str, number: int) -> str:
    """Return the path of shard `number` of a slice in the output folder, without suffix."""
    return (
        f"{slice_.source}/{slice_.split}/{slice_.stem}-{slice_.number:05d}-{number:03d}-{key[:16]}"
    )


def quarantine_name(slice_: Slice, key: str) -> str:
    """Return the path of a slice's quarantine file in the output folder."""
    return f"{QUARANTINE}{slice_.source}/{slice_.split}/{slice_.name_for(key)}.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """The ids that the shards of a source can hold."""

    item_bytes: int
    num_ids: int
    """The number of ids, which every id is below."""
    special_tokens: Mapping[str, int]
    """The special tokens of the tokenizer with their ids."""
    image_token: str | None
    """The one of them that is used only for images."""

    @classmethod
    def of(cls, model: IdTable, settings: ShardSettings) -> "Self":
        """Return the vocabulary of a tokenizer for the shards of a source."""
        return cls(
            item_bytes=model.id_bytes,
            num_ids=model.num_ids,
            special_tokens=model.special_tokens,
            image_token=settings.image_token,
        )


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

    def proof(self) -> Proof:
        """Return the counts as they are stored in a record."""
        return Proof(
            documents=self.documents,
            bytes=self.bytes,
            encoded_again=self.encoded_again,
            not_encoded_again=dict(sorted(self.not_encoded_again.items())),
        )
