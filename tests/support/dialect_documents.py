"""Documents of the dialects for tests, and segments in a readable form."""

import json

from nanotok_ray.dialects import Dialect


def chat_dialect(name):
    return Dialect(kind="chat", name=name)


MESSAGES = chat_dialect("messages")
SHAREGPT = chat_dialect("sharegpt")
GSM8K = chat_dialect("gsm8k")
PAIRS = chat_dialect("prompt-response")
CUSTOMJSON = chat_dialect("customjson")


def document_of(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def spelled(segments):
    """One line for each segment: role, mask, and the text; special tokens are in brackets."""
    return [
        f"{each.role} {each.mask} {f'[{each.text}]' if each.is_special else each.text}"
        for each in segments
    ]


def asked(*texts):
    said = [f"user 0 {text}" for text in texts]
    return ["user 0 [<|user_start|>]", *said, "user 0 [<|user_end|>]"]


def answered(*lines):
    return ["assistant 0 [<|assistant_start|>]", *lines, "assistant 1 [<|assistant_end|>]"]


def called(code, output):
    return [
        "python 1 [<|python_start|>]",
        f"python 1 {code}",
        "python 1 [<|python_end|>]",
        "python_output 0 [<|output_start|>]",
        f"python_output 0 {output}",
        "python_output 0 [<|output_end|>]",
    ]


def user(content, **more):
    return {"role": "user", "content": content, **more}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(code, name="a", **more):
    return {
        "id": name,
        "type": "function",
        "function": {"name": "python", "arguments": json.dumps({"code": code})},
        **more,
    }


def call_of(name="python", arguments='{"code": "1"}'):
    return {"id": "a", "function": {"name": name, "arguments": arguments}}


def output(content, name="a"):
    return {"role": "tool", "tool_call_id": name, "content": content}


PAIR = [user("hi"), assistant("yo")]
