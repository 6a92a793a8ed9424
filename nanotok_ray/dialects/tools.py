"""Tool calls in OpenAI's form, converted to the parts that `chat.layout` accepts.

Each call of `python` becomes a part, and its answer becomes the next part, within one turn of the
assistant. Messages without calls are unchanged; ambiguous calls are rejected.
"""

from typing import Any

from nanotok_ray.dialects.fields import JsonObject, kind_of, quoted, value_of_text
from nanotok_ray.errors import SourceError

_ONLY = (
    "only python, with the one argument code, maps onto <|python_start|>; other calls need a chat "
    "template: that of tokenizer.path, or source.template"
)


def calls_as_parts(messages: list[JsonObject]) -> list[JsonObject]:
    """Return messages in which tool calls and their answers are parts of the assistant's turns.

    Raises:
        SourceError: A call is not supported, or its answer does not follow directly.
    """
    if not any(_calls_of(message, number) for number, message in enumerate(messages)):
        return messages
    turns: list[JsonObject] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        if _calls_of(message, position):
            parts, position = _turn(messages, position)
            turns.append({"role": "assistant", "content": parts})
            continue
        if message["role"] == "tool":
            raise SourceError(f"tool message answers no call: message {position}")
        turns.append(message)
        position += 1
    return turns


def _calls_of(message: JsonObject, number: int) -> list[Any]:
    """Return the calls of a message, or no calls if the message is not the assistant's."""
    if message["role"] != "assistant":
        return []
    if message.get("function_call") is not None:
        raise SourceError(f"function_call is not understood: use tool_calls, in message {number}")
    calls = message.get("tool_calls")
    if calls is None:
        return []
    if not isinstance(calls, list):
        raise SourceError(f"tool_calls is not an array: {kind_of(calls)} in message {number}")
    return calls


def _turn(messages: list[JsonObject], position: int) -> tuple[list[Any], int]:
    """Return the parts of a turn that begins with a message with calls, and the position after."""
    parts = _parts_of_content(messages[position], position, with_empty=False)
    while calls := _calls_of(messages[position], position):
        for call in calls:
            position += 1
            name, code = _call_of(call)
            answer = _answer_of(messages, position, name)
            parts.append({"type": "python", "text": code})
            parts.append({"type": "python_output", "text": answer})
        position += 1
        if position == len(messages) or messages[position]["role"] != "assistant":
            return parts, position
        parts += _parts_of_content(messages[position], position, with_empty=True)
    return parts, position + 1


def _parts_of_content(message: JsonObject, number: int, *, with_empty: bool) -> list[Any]:
    """Return the content of a message, without its calls, as parts."""
    content = message.get("content")
    if isinstance(content, list):
        return list(content)
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content or with_empty else []
    if content is None:
        return []
    raise SourceError(
        f"content is not understood: {kind_of(content)} in message {number}; "
        "beside tool calls it may be a string, an array of parts or null"
    )


def _call_of(call: object) -> tuple[str, str]:
    """Return (id, code) of a call of python."""
    name = call.get("id") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(name, str):
        raise SourceError(f"tool call not understood: it has no id that is a string; {_ONLY}")
    if call.get("type") not in (None, "function"):
        raise _refused(name, f"is of type {quoted(call['type'])}")
    function = call.get("function")
    if not isinstance(function, dict):
        raise _refused(name, f"has {kind_of(function)} as its function")
    if function.get("name") != "python":
        raise _refused(name, f"is of {quoted(function.get('name'))}")
    return name, _code_of(name, function.get("arguments"))


def _code_of(name: str, arguments: object) -> str:
    """Return the code among the arguments of a call, which can be a JSON string."""
    if isinstance(arguments, str):
        try:
            arguments = value_of_text(arguments)
        except SourceError as error:
            raise _refused(name, f"has arguments that are {error}") from error
    if not isinstance(arguments, dict):
        raise _refused(name, f"has {kind_of(arguments)} as its arguments")
    if list(arguments) != ["code"]:
        raise _refused(name, f"has as its arguments {kind_of(arguments)}")
    if not isinstance(arguments["code"], str):
        raise _refused(name, f"has {kind_of(arguments['code'])} as its code")
    return arguments["code"]


def _refused(name: str, why: str) -> SourceError:
    return SourceError(f"tool call not understood: {quoted(name)} {why}; {_ONLY}")


def _answer_of(messages: list[JsonObject], position: int, name: str) -> str:
    """Return the output of the tool for a call, which the message at this position must hold."""
    if position == len(messages):
        raise SourceError(f"tool call has no answer: {quoted(name)} is followed by no message")
    message = messages[position]
    if message["role"] != "tool":
        raise SourceError(
            f"tool call has no answer: {quoted(name)} is followed by message {position}, which is "
            f"from {quoted(message['role'])}"
        )
    if message.get("tool_call_id") != name:
        raise SourceError(
            f"tool call has no answer: message {position} answers "
            f"{quoted(message.get('tool_call_id'))}, but the next call is {quoted(name)}"
        )
    content = message.get("content")
    if not isinstance(content, str):
        raise SourceError(
            f"tool answer is not a string: {kind_of(content)}, for {quoted(name)} in message "
            f"{position}"
        )
    return content
