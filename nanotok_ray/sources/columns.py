"""Chooses the column or field of the text of a file, from its first documents."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from nanotok_ray.dialects import JsonObject, is_metadata
from nanotok_ray.errors import SourceError
from nanotok_ray.units import few

TEXT_NAMES: Final = ("text", "content", "body", "document", "raw_content", "code", "markdown")
"""Columns that are the text of a document, whatever is beside them. The first is chosen."""

MIN_TEXT_BYTES: Final = 20
"""Minimum mean number of bytes of the values of a column that holds text."""

PREFERENCES: Final = (
    "preference data (a chosen and a rejected answer), of which a job writes no pairs: to train on "
    "the chosen answers, write them as messages; to read one column as text, set column in the "
    "recipe to it"
)
"""The reason why files with the columns `chosen` and `rejected` are not read."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """The column of the text, and the others that hold text and are not read."""

    name: str
    others: tuple[str, ...] = ()


def text_column(documents: Sequence[JsonObject], *, strings: Collection[str]) -> TextColumn:
    """Return the column or field of the text.

    A name of `TEXT_NAMES` is chosen first, otherwise the only column that holds text. If none does,
    it is the only column of strings whose name is not that of metadata. A column holds text if its
    name is not that of metadata, its values have a mean of at least `MIN_TEXT_BYTES` bytes, and
    most of them are several words. The longest string of a list or an object counts as its value,
    but lists and objects are never chosen.

    Args:
        documents: the first documents of a file.
        strings: its columns or fields of strings.

    Raises:
        SourceError: There is no such column, or there are several.

    >>> rows = [{"id": "a-7", "story": "Once upon a time, a story.", "label": "short story"}]
    >>> text_column(rows, strings=["id", "story", "label"]).name
    'story'
    """
    names = list(dict.fromkeys([*(name for row in documents for name in row), *strings]))
    holding = [name for name in names if _holds_text(name, documents)]
    known = next((name for name in TEXT_NAMES if name in strings), None)
    if known is not None:
        return TextColumn(known, tuple(name for name in holding if name != known))
    plain = [name for name in strings if not is_metadata(name)] or list(strings)
    choices = holding or plain
    if not choices:
        listed = few([repr(name) for name in names]) or "none"
        raise SourceError(f"no text and no conversation in the columns or fields {listed}")
    if len(choices) > 1:
        listed = " or ".join([", ".join(map(repr, choices[:-1])), repr(choices[-1])])
        raise SourceError(
            f"the text can be in {listed}: set column in the recipe to the one to read, or write "
            "the documents as conversations"
        )
    if choices[0] not in strings:
        raise SourceError(
            f"the text is in {choices[0]!r}, in lists or objects: write it into a column of "
            "strings, or as conversations"
        )
    return TextColumn(choices[0])


def text_field(documents: Sequence[JsonObject]) -> TextColumn:
    """Return the field of the text of JSON objects, as `text_column` does.

    Raises:
        SourceError: There is no such field, or there are several.
    """
    fields = ((name, field) for row in documents for name, field in row.items())
    strings = dict.fromkeys(name for name, field in fields if isinstance(field, str))
    return text_column(documents, strings=list(strings))


def _holds_text(name: str, documents: Sequence[JsonObject]) -> bool:
    if is_metadata(name):
        return False
    texts = [text for row in documents if (text := _main_string(row.get(name)))]
    size = sum(len(text.encode(errors="surrogatepass")) for text in texts)
    words = sum(map(_is_word, texts))
    return size >= MIN_TEXT_BYTES * max(len(texts), 1) and words * 2 < len(texts)


def _main_string(value: object) -> str:
    """Return a string, or the longest of those in a list or an object, or an empty string."""
    string, left = "", [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            string = max(string, item, key=len)
        elif isinstance(item, dict | list):
            left.extend(item.values() if isinstance(item, dict) else item)
    return string


def _is_word(text: str) -> bool:
    """Return whether a text is like an identifier, a URL, a number or a time.

    >>> [_is_word(text) for text in ("http://a/b", "2026-01-02 03:04", "two words", "\u6587\u5b57")]
    [True, True, False, False]
    """
    is_one = text.isascii() and len(text.split(maxsplit=1)) <= 1
    return is_one or not any(map(str.isalpha, text))


def is_preference(names: Collection[str]) -> bool:
    """Return whether columns are those of preference data without complete conversations."""
    return {"chosen", "rejected"} <= {*names} and "messages" not in names
