"""Dialects as values, and the detection of a file's dialect from its first document or columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from nanotok_ray.errors import SourceError

_Alternatives = tuple[str, ...]
_Known = dict[str, tuple[_Alternatives, ...]]
"""Dialects in the order in which they are tried, each with the keys that identify it. One key of
each tuple must be present, and the first one that is present is read."""

_CHAT: _Known = {
    "messages": (("messages",),),
    "sharegpt": (("conversations",),),
    "gsm8k": (("question",), ("answer",)),
    "prompt-response": (("prompt",), ("response", "completion")),
    "alpaca": (("instruction",), ("output",)),
}
_VISION: _Known = {
    "messages": (("messages",),),
    "prompt-response": (("prompt", "text"), ("response",)),
    "text": (("text",),),
}
_KNOWN = {"chat": _CHAT, "vision": _VISION}
_OPTIONAL: dict[tuple[str, str], tuple[str, ...]] = {
    ("chat", "sharegpt"): ("system",),
    ("chat", "prompt-response"): ("system",),
    ("chat", "alpaca"): ("input", "system", "history"),
    ("vision", "messages"): ("image_token_counts",),
    ("vision", "prompt-response"): ("image_token_counts",),
    ("vision", "text"): ("image_token_counts",),
}


def detect(value: object, *, kind: str) -> str | None:
    """Return the dialect of the first document of a JSON lines file, or None if it is unknown.

    >>> detect({"question": "1 + 1?", "answer": "2"}, kind="chat")
    'gsm8k'
    """
    if isinstance(value, list):
        return "messages"
    return detect_columns(tuple(value), kind=kind) if isinstance(value, dict) else None


def detect_columns(names: Sequence[str], *, kind: str) -> str | None:
    """Return the dialect of a parquet file with these columns, or None if it is unknown.

    >>> detect_columns(["source", "messages"], kind="chat")
    'messages'
    """
    names_of_dialects = (
        name
        for name, keys in _KNOWN[kind].items()
        if all(any(column in names for column in alternatives) for alternatives in keys)
    )
    return next(names_of_dialects, None)


def columns_of(name: str, *, kind: str, available: Sequence[str]) -> tuple[str, ...]:
    """Return the top-level columns of a parquet file that make up the documents of a dialect.

    Raises:
        SourceError: columns are missing, or documents of the dialect are not objects.

    >>> columns_of("sharegpt", kind="chat", available=["id", "system", "conversations"])
    ('conversations', 'system')
    """
    if name not in _KNOWN[kind]:
        raise SourceError(
            f"documents of the dialect {name!r} are JSON arrays, and rows of parquet are objects; "
            'use dialect = "messages", or JSON lines'
        )
    missing = list(_missing(name, kind=kind, available=available))
    if missing:
        raise SourceError(
            f"documents of the dialect {name!r} need the columns {', '.join(missing)}, which it "
            f"lacks; it has {', '.join(map(repr, available)) or 'none'}; rename columns, or set "
            "another dialect"
        )
    keys = [
        next(column for column in alternatives if column in available)
        for alternatives in _KNOWN[kind][name]
    ]
    optional = [column for column in _OPTIONAL.get((kind, name), ()) if column in available]
    return (*keys, *optional)


def members_of(name: str) -> frozenset[str]:
    """Return all keys that can hold the conversation of a row of a dialect.

    >>> sorted(members_of("prompt-response"))
    ['completion', 'prompt', 'response', 'system']
    """
    known = _CHAT.get(name, _CHAT["messages"])
    return frozenset(chain(*known, _OPTIONAL.get(("chat", name), ())))


def _missing(name: str, *, kind: str, available: Sequence[str]) -> Iterator[str]:
    for alternatives in _KNOWN[kind][name]:
        if not any(column in available for column in alternatives):
            yield " or ".join(map(repr, alternatives))


CHAT_DIALECTS: Final = (
    *("messages", "customjson", "sharegpt"),
    *("gsm8k", "prompt-response", "alpaca"),
)
"""Dialects of conversations. `messages`: an array of messages, or an object with it; OpenAI's tool
calls are supported. `customjson`: nanochat's, only an array. `sharegpt`: `conversations` of from
and value. `gsm8k`: question and answer. `prompt-response`: one string each. `alpaca`: instruction,
input and output."""

VISION_DIALECTS: Final = ("messages", "prompt-response", "text")
"""Dialects of documents with images. `text`: one string in which each placeholder counts."""

DIALECTS: Final[Mapping[str, tuple[str, ...]]] = {"chat": CHAT_DIALECTS, "vision": VISION_DIALECTS}
"""The dialects by kind; documents of other kinds have no dialect."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """The settings by which the documents of a file are read."""

    kind: str
    """chat or vision."""
    name: str
    """One of `CHAT_DIALECTS` or `VISION_DIALECTS`."""
    image_token: str | None = None
    """Vision: the special token of each part of an image."""
    image_tokens: int | None = None
    """Vision: tokens of each image where a document has no `image_token_counts`; None: one."""
    grounding: tuple[str, ...] = ()
    """Vision: special tokens that are recognized by their names in prompts and responses."""
    train_prompt: bool = True
    """Vision: whether the prompt's text is trained on too."""
    id_column: str | None = None
    """The key of the ids of documents, whose text is not counted as unused."""
    tools: str | None = None
    """The key of the tools of conversations that a chat template renders."""
