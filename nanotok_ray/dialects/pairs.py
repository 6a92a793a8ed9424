"""Dialect `prompt-response` of conversations: an object with one string for each speaker.

Takes a JSON value; gives the messages it stands for.
"""

from typing import Any

from nanotok_ray.dialects.fields import object_of, optional_string_of, string_of


def messages_of(value: object) -> list[dict[str, Any]]:
    """Give the messages of a document; `completion` is read where there is no `response`.

    >>> messages_of({"prompt": "hi", "completion": "hello"})
    [{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': 'hello'}]

    Raises:
        SourceError: It is not of that shape.
    """
    document = object_of(value)
    messages = [
        {"role": "user", "content": string_of(document, "prompt")},
        {"role": "assistant", "content": string_of(document, "response", "completion")},
    ]
    system = optional_string_of(document, "system")
    return [{"role": "system", "content": system}, *messages] if system else messages
