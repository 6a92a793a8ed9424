"""Which dialect a file's documents are of, seen from its first document or its columns.

Takes a parsed JSON value or names of columns; gives the name of a dialect, or None. `customjson`
looks as `messages` does and is never detected. Does not know files, nor whether a document is well
formed.
"""

from collections.abc import Iterator, Sequence

from nanotok_ray.errors import SourceError

_Alternatives = tuple[str, ...]
_Known = dict[str, tuple[_Alternatives, ...]]
"""Dialects in the order in which they are tried, each with the keys by which it is known: of each
tuple one must be there, and the first that is there is read."""

_CHAT: _Known = {
    "messages": (("messages",),),
    "sharegpt": (("conversations",),),
    "gsm8k": (("question",), ("answer",)),
    "prompt-response": (("prompt",), ("response", "completion")),
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
    ("vision", "messages"): ("image_token_counts",),
    ("vision", "prompt-response"): ("image_token_counts",),
    ("vision", "text"): ("image_token_counts",),
}


def detect(value: object, *, kind: str) -> str | None:
    """Give the dialect of the first document of a JSON lines file, None if none is known for it.

    >>> detect({"question": "1 + 1?", "answer": "2"}, kind="chat")
    'gsm8k'
    """
    if isinstance(value, list):
        return "messages"
    return detect_columns(tuple(value), kind=kind) if isinstance(value, dict) else None


def detect_columns(names: Sequence[str], *, kind: str) -> str | None:
    """Give the dialect of a parquet file with these columns, None if none is known for them.

    >>> detect_columns(["source", "messages"], kind="chat")
    'messages'
    """
    found = (
        name
        for name, keys in _KNOWN[kind].items()
        if all(any(each in names for each in alternatives) for alternatives in keys)
    )
    return next(found, None)


def columns_of(name: str, *, kind: str, available: Sequence[str]) -> tuple[str, ...]:
    """Give the top-level columns of a parquet file that documents of a dialect are made of.

    Raises:
        SourceError: columns are missing; or the dialect's documents are no objects.

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
    keys = [next(each for each in own if each in available) for own in _KNOWN[kind][name]]
    optional = [each for each in _OPTIONAL.get((kind, name), ()) if each in available]
    return (*keys, *optional)


def _missing(name: str, *, kind: str, available: Sequence[str]) -> Iterator[str]:
    for alternatives in _KNOWN[kind][name]:
        if not any(each in available for each in alternatives):
            yield " or ".join(map(repr, alternatives))
