"""Dialect `gsm8k`: a question, and an answer in which `<<48/2=24>>` is a use of the calculator.

Takes a JSON value, or an answer; gives the messages or parts that nanochat makes of them.
"""

import re
from typing import Any

from nanotok_ray.dialects.fields import object_of, string_of

_CALL = re.compile(r"(<<[^>]+>>)")
_ANSWER = re.compile(r"#### (\-?[0-9\.\,]+)")


def messages_of(value: object) -> list[dict[str, Any]]:
    """Give the two messages of a document.

    Raises:
        SourceError: It is not of that shape.
    """
    document = object_of(value)
    return [
        {"role": "user", "content": string_of(document, "question")},
        {"role": "assistant", "content": parts_of(string_of(document, "answer"))},
    ]


def parts_of(answer: str) -> list[dict[str, str]]:
    """Cut an answer into its parts; texts between calls may be empty.

    >>> [(part["type"], part["text"]) for part in parts_of("5 pens: <<2+3=5>>5.")]
    [('text', '5 pens: '), ('python', '2+3'), ('python_output', '5'), ('text', '5.')]
    """
    parts: list[dict[str, str]] = []
    for piece in _CALL.split(answer):
        if piece.startswith("<<") and piece.endswith(">>"):  # `<<>>` alone too, as in nanochat
            expression, result = _call_of(piece[2:-2])
            parts.append({"type": "python", "text": expression})
            parts.append({"type": "python_output", "text": result})
        else:
            parts.append({"type": "text", "text": piece})
    return parts


def extract_answer(text: str) -> str | None:
    """Give the number after the first `#### ` that has one, without commas; None: there is none.

    >>> extract_answer("so 1,234 in all. #### 1,234")
    '1234'
    """
    found = _ANSWER.search(text)
    return found and found[1].replace(",", "")


def _call_of(inner: str) -> tuple[str, str]:
    """Give (expression, result); the last `=` is between them.

    >>> _call_of("a=b=c"), _call_of("3")
    (('a=b', 'c'), ('3', ''))
    """
    expression, equals, result = inner.rpartition("=")
    return (expression, result) if equals else (inner, "")
