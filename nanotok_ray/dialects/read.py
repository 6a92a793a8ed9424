"""Documents to segments, in plain Python: what the compiled core is held against.

Takes the bytes of a document and its dialect; gives what it is made of, or raises what says why it
cannot be used (`malformed.MALFORMED`). Only here are errors worded: the core hands over whatever
it does not understand. Knows no tokenizer.
"""

from collections.abc import Callable
from typing import Any, Final

from nanotok_ray import chat
from nanotok_ray.dialects import gsm8k, messages, vision_fields
from nanotok_ray.dialects import messages as customjson
from nanotok_ray.dialects import messages as pairs
from nanotok_ray.dialects import messages as sharegpt
from nanotok_ray.dialects.detect import Dialect
from nanotok_ray.dialects.fields import value_of
from nanotok_ray.segments import Segment

Raw = bytes | bytearray

_MESSAGES_OF: Final[dict[tuple[str, str], Callable[[object], list[dict[str, Any]]]]] = {
    ("chat", "messages"): messages.messages_of,
    ("chat", "customjson"): customjson.customjson_messages_of,
    ("chat", "sharegpt"): sharegpt.sharegpt_messages_of,
    ("chat", "gsm8k"): gsm8k.messages_of,
    ("chat", "prompt-response"): pairs.pairs_messages_of,
    ("vision", "messages"): messages.messages_of,
}


def segments_of(document: Raw, dialect: Dialect) -> list[Segment]:
    """Give the segments of a document.

    >>> line = b'{"question": "1+1?", "answer": "<<1+1=2>>2"}'
    >>> [segment.text for segment in segments_of(line, Dialect(kind="chat", name="gsm8k"))][5:]
    ['', '<|python_start|>', '1+1', '<|python_end|>', '<|output_start|>', '2', '<|output_end|>',
     '2', '<|assistant_end|>']

    Raises:
        SourceError: It is not JSON, or not of its dialect's shape.
        AssertionError, LookupError, TypeError, ValueError, RecursionError: It is malformed, and
            how.
    """
    if dialect.kind == "vision":
        return vision_fields.segments_of(value_of(document), dialect)
    return list(chat.layout(conversation_of(document, dialect)))


def conversation_of(document: Raw, dialect: Dialect) -> chat.Conversation:
    """Give the conversation of a document, whose dialect must be of conversations.

    Raises:
        SourceError: The document is not JSON, or not of its dialect's shape.
        AssertionError: It is no conversation of `customjson`.
        ValueError: The dialect has no conversations.
    """
    return {"messages": _reader_of(dialect)(value_of(document))}


def message_texts(document: Raw, dialect: Dialect) -> list[str]:
    """Give every text that is encoded on its own, in the order of their ids.

    Raises:
        SourceError, AssertionError, LookupError, TypeError, ValueError, RecursionError: As
            `segments_of`.
    """
    return [segment.text for segment in segments_of(document, dialect) if not segment.is_special]


def expected_text(document: Raw, dialect: Dialect) -> str:
    """Give what the ids of a document decode to: its texts, and special tokens by name.

    >>> line = b'[{"role": "user", "content": "hi"}]'
    >>> expected_text(line, Dialect(kind="chat", name="messages"))
    '<|bos|><|user_start|>hi<|user_end|>'

    Raises:
        SourceError, AssertionError, LookupError, TypeError, ValueError, RecursionError: As
            `segments_of`.
    """
    return "".join(segment.text * segment.count for segment in segments_of(document, dialect))


def expected_trained_text(document: Raw, dialect: Dialect) -> str:
    """Give what the ids with mask 1 decode to.

    Raises:
        SourceError, AssertionError, LookupError, TypeError, ValueError, RecursionError: As
            `segments_of`.
    """
    segments = segments_of(document, dialect)
    return "".join(segment.text * segment.count for segment in segments if segment.mask)


def _reader_of(dialect: Dialect) -> Callable[[object], list[dict[str, Any]]]:
    reader = _MESSAGES_OF.get((dialect.kind, dialect.name))
    if reader is None:
        known = ", ".join(f"{name} of kind {kind}" for kind, name in _MESSAGES_OF)
        raise ValueError(
            f"dialect {dialect.name!r} of kind {dialect.kind!r} has no conversations; these do: "
            f"{known}"
        )
    return reader
