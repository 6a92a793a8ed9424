"""Dialect `gsm8k`: a question, and an answer in which `<<48/2=24>>` is a use of the calculator.

A JSON value or an answer is converted to the messages or parts that nanochat makes of it.
"""

import re
from collections.abc import Iterator

from nanotok_ray.dialects.fields import JsonObject, object_of, string_of

_RUN = re.compile(r"([^>]+)(>>)?")
_ANSWER = re.compile(r"#### (\-?[0-9\.\,]+)")


def messages_of(value: object) -> list[JsonObject]:
    """Return the two messages of a document.

    Raises:
        SourceError: The document does not have this shape.
    """
    document = object_of(value)
    return [
        {"role": "user", "content": string_of(document, "question")},
        {"role": "assistant", "content": parts_of(string_of(document, "answer"))},
    ]


def parts_of(answer: str) -> list[dict[str, str]]:
    """Return the parts of an answer; texts between calls can be empty.

    >>> [(part["type"], part["text"]) for part in parts_of("5 pens: <<2+3=5>>5.")]
    [('text', '5 pens: '), ('python', '2+3'), ('python_output', '5'), ('text', '5.')]
    """
    parts: list[dict[str, str]] = []
    for piece in _pieces_of(answer):
        if piece.startswith("<<") and piece.endswith(">>"):  # `<<>>` alone too, as in nanochat
            expression, result = _call_of(piece[2:-2])
            parts.append({"type": "python", "text": expression})
            parts.append({"type": "python_output", "text": result})
        else:
            parts.append({"type": "text", "text": piece})
    return parts


def extract_answer(text: str) -> str | None:
    """Return the number, without commas, after the first `#### ` followed by one, or None.

    >>> extract_answer("so 1,234 in all. #### 1,234")
    '1234'
    """
    answer = _ANSWER.search(text)
    return answer and answer[1].replace(",", "")


def _pieces_of(answer: str) -> Iterator[str]:
    """Yield what `re.split("(<<[^>]+>>)", answer)` returns, in time linear in the answer.

    >>> list(_pieces_of("<<<1>><<2>>>"))
    ['', '<<<1>>', '', '<<2>>', '>']
    """
    end = 0
    for run in _RUN.finditer(answer):
        start = answer.find("<<", run.start(), run.end(1)) if run[2] else -1
        if start >= 0 and start + len("<<") < run.end(1):
            yield answer[end:start]
            yield answer[start : run.end()]
            end = run.end()
    yield answer[end:]


def _call_of(inner: str) -> tuple[str, str]:
    """Return (expression, result), which the last `=` separates.

    >>> _call_of("a=b=c"), _call_of("3")
    (('a=b', 'c'), ('3', ''))
    """
    expression, equals, result = inner.rpartition("=")
    return (expression, result) if equals else (inner, "")
