"""Text of a document that its dialect does not render, by the keys that hold it."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from nanotok_ray.dialects.detect import Dialect, columns_of, members_of
from nanotok_ray.dialects.fields import JsonObject

METADATA: Final = (
    *("id", "*_id", "ids", "uuid", "key", "index", "idx", "hash", "*_hash", "md5", "sha256"),
    *("url", "*_url", "uri", "link", "path", "file", "file_path", "filename", "file_name"),
    *("source", "sources", "src", "origin", "dataset", "dataset_name", "config", "subset", "split"),
    *("language", "lang", "locale", "license", "licence", "copyright", "author", "authors"),
    *("date", "time", "timestamp", "created", "created_at", "updated_at", "version"),
    *("title", "name", "topic", "topics", "category", "categories", "tag", "tags", "type", "task"),
    *("label", "labels", "score", "scores", "rating", "quality", "difficulty"),
    *("model", "model_name", "generator", "annotator", "metadata", "meta"),
)
"""Names of columns, and of keys beside a conversation, that describe a document. A name that begins
with `*` stands for all names with that end. Their text is not counted as unused, and they are not
taken for the text of a document."""

_IMAGES: Final = ("image", "images", "image_path", "image_paths")
"""In documents with images, the keys of the images that the special tokens stand for."""

_LISTS: Final = {"messages": "messages", "sharegpt": "conversations"}
"""The key of the messages or turns of a document that is an object."""

_USED: Final = {
    "messages": ("role", "content"),
    "customjson": ("role", "content"),
    "sharegpt": ("from", "value"),
}
"""The keys of a message or turn that every one has."""

_PART: Final = ("type", "text")
_CALL: Final = ("id", "type", "function")
_FUNCTION: Final = ("name", "arguments")


def metadata_of(dialect: Dialect) -> tuple[str, ...]:
    """Return the names of metadata in the documents of a dialect, as in `METADATA`."""
    images = _IMAGES if dialect.kind == "vision" else ()
    return (*METADATA, *images, *(() if dialect.id_column is None else (dialect.id_column,)))


def is_metadata(name: str, metadata: Sequence[str] = METADATA) -> bool:
    """Return whether a column or a key describes documents.

    >>> is_metadata("doc_id"), is_metadata("reasoning")
    (True, False)
    """
    return any(
        name.endswith(other[1:]) if other.startswith("*") else name == other for other in metadata
    )


def unused_text(value: object, dialect: Dialect) -> Counter[str]:
    """Return the number of values with text that are not rendered, by key.

    Keys of messages, parts and calls are always counted, and those of the document itself unless
    they are metadata.

    >>> row = {"id": "7", "tools": [{"name": "f"}], "messages": [{"role": "user", "content": "a"}]}
    >>> unused_text(row, Dialect(kind="chat", name="messages"))
    Counter({'tools': 1})

    Args:
        value: a document that the dialect renders.
        dialect: the dialect.
    """
    counts: Counter[str] = Counter()
    if isinstance(value, dict):
        keys = [name for name, field in value.items() if field is not None]
        used = columns_of(dialect.name, kind=dialect.kind, available=keys)
        metadata = metadata_of(dialect)
        counts.update(name for name in _with_text(value, used) if not is_metadata(name, metadata))
        value = value[_LISTS[dialect.name]] if dialect.name in _LISTS else ()
    for message in value if isinstance(value, list) else ():
        counts.update(_of_message(message, dialect.name))
    return counts


def unused_members(value: object, dialect: Dialect) -> Counter[str]:
    """Return the keys of a row, each once, whose text a chat template does not get.

    The template decides what it renders of the messages and the tools.

    >>> row = {"id": "7", "tools": [{"name": "f"}], "messages": [], "prompt": "a"}
    >>> unused_members(row, Dialect(kind="chat", name="messages", tools="tools"))
    Counter({'prompt': 1})

    Args:
        value: a row that the dialect reads.
        dialect: the dialect.
    """
    if not isinstance(value, dict):
        return Counter()
    used, metadata = {*members_of(dialect.name), dialect.tools}, metadata_of(dialect)
    return Counter(name for name in _with_text(value, used) if not is_metadata(name, metadata))


def _of_message(message: JsonObject, dialect: str) -> Iterator[str]:
    """Yield the keys of a message, its parts and its calls."""
    used = _USED[dialect]
    if dialect != "messages":
        yield from _with_text(message, used)
        return
    calls = message.get("tool_calls") if message["role"] == "assistant" else None
    extra = {"assistant": "tool_calls", "tool": "tool_call_id"}.get(message["role"])
    yield from _with_text(message, (*used, extra))
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        yield from _with_text(part, _PART)
    for call in calls or ():
        yield from _with_text(call, _CALL)
        yield from _with_text(call["function"], _FUNCTION)


def _with_text(value: JsonObject, used: Collection[str | None]) -> Iterator[str]:
    return (name for name, field in value.items() if name not in used and holds_text(field))


def holds_text(value: object) -> bool:
    """Return whether a JSON value is a string that is not empty, or contains one, at any depth.

    >>> holds_text([{"a": ["", "b"]}]), holds_text({"b": [1, ""]})
    (True, False)
    """
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str) and item:
            return True
        if isinstance(item, dict | list):
            left.extend(item.values() if isinstance(item, dict) else item)
    return False
