"""A dialect, as a value: what must be known to turn the bytes of a document into segments.

Knows names and settings; reads nothing.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

CHAT_DIALECTS: Final = ("messages", "customjson", "sharegpt", "gsm8k", "prompt-response")
"""Of conversations. `messages`: an array of messages, or an object with it; OpenAI's tool calls are
understood. `customjson`: nanochat's, an array and nothing else. `sharegpt`: `conversations` of
from and value. `gsm8k`: question and answer. `prompt-response`: one string each."""

VISION_DIALECTS: Final = ("messages", "prompt-response", "text")
"""Of documents with images. `text`: one string in which each placeholder counts."""

DIALECTS: Final[Mapping[str, tuple[str, ...]]] = {"chat": CHAT_DIALECTS, "vision": VISION_DIALECTS}
"""By kind; documents of other kinds have none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How the documents of one file are read."""

    kind: str
    """chat or vision."""
    name: str
    """One of `CHAT_DIALECTS` or `VISION_DIALECTS`."""
    image_token: str | None = None
    """Vision: the special token that stands for a part of an image."""
    image_tokens: int | None = None
    """Vision: tokens of each image where a document has no `image_token_counts`; None: one."""
    grounding: tuple[str, ...] = ()
    """Vision: special tokens that are recognised where prompt and response spell them out."""
    train_prompt: bool = True
    """Vision: whether the prompt's text is trained on too."""

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON values; `from_dict` takes them back."""
        return asdict(self) | {"grounding": list(self.grounding)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Take what `to_dict` gave."""
        return cls(**{**values, "grounding": tuple(values["grounding"])})
