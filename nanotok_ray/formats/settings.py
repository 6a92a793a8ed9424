"""The settings of shards: all that a shard depends on besides its slice."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from nanotok_ray.formats.codec import Number, Sha256, omitted

Gaps = Literal["spans", "error"]
"""The rule for text that no match of the pattern covers: spans of its own, or an error."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateSettings:
    """How the conversations of a source are rendered with a chat template."""

    text: str
    """The template, in the language of Jinja."""
    training_text: str | None = None
    """A template with `{% generation %}` blocks that renders the same text; None: none."""
    special_tokens: Mapping[str, str] = field(hash=False)
    """The special tokens that the template names, such as `bos_token`."""
    ordinary: tuple[str, ...] = ()
    """Names of special tokens that messages can spell, such as `<think>`."""
    arguments: str = "{}"
    """The other variables of the template, as a JSON object."""
    date: str | None = None
    """The date of `strftime_now`, as in 2026-01-31; None: a template that asks for it fails."""
    tools: str | None = None
    """The column or key of the tools of a conversation."""
    train_on: str = "assistant"
    """What is trained on: all turns of the `assistant`, the `last` of them, or `all`."""
    untrained: tuple[str, ...] = ()
    """The fields of the assistant's messages that are not trained on."""
    renderer: Number = 1
    """The version of the rules by which templates are rendered and turns are located."""


Rate = Annotated[float, lambda rate: 0 <= rate <= 1]
"""A number from 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FimSettings:
    """How text documents are rearranged for filling in the middle."""

    rate: Rate
    """The share of the documents that are rearranged."""
    spm_rate: Rate
    """The share of these that are written as suffix, prefix, middle."""
    tokens: tuple[str, str, str]
    """The special tokens of the prefix, the middle and the suffix."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardSettings:
    """Everything that a shard depends on besides its slice."""

    tokenizer_sha256: Sha256
    """The sha256 of the tokenizer's readable file."""
    gaps: Gaps
    prepend: tuple[str, ...]
    """Special tokens before each text document."""
    append: tuple[str, ...]
    max_document_bytes: Number
    """A larger document is quarantined."""
    max_shard_tokens: Number
    max_tokens: Number | None = None
    """The limit for conversations and vision documents; None: no limit."""
    too_long: str = "keep"
    """The rule for a document with more tokens: keep, cut or drop."""
    untrainable: str = "keep"
    """The rule for a document without trainable tokens: keep or drop."""
    image_token: str | None = None
    """The special token of each part of an image in vision documents."""
    image_tokens: Number | None = None
    """The number of tokens of an image if the document does not state it; None: one."""
    grounding: tuple[str, ...] = ()
    """Special tokens whose names are recognized in the texts of vision documents."""
    train_prompt: bool = True
    """Whether the text of a vision document's prompt is trained on."""
    special_text: str = omitted("text")
    """The rule for names of special tokens in a text document, or in the messages of a conversation
    that a chat template renders: `text`, `RECOGNIZE` or, for conversations, `REFUSE`.
    """
    fim: FimSettings | None = omitted(None)
    """How the text documents of train are rearranged; None: they are not."""
    template: TemplateSettings | None = omitted(None)
    """The chat template of conversations; None: they are rendered as nanochat does."""
