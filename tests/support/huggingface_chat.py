"""`apply_chat_template` like transformers, with only jinja2 and `tokenizers`.

Jinja's environment, the `generation` blocks and the mask made of them are those of transformers
4.57 and 5.23, which tests/peers runs.
"""

import json

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class RefusedError(Exception):
    """The message of the template's `raise_exception`."""


class Generation(Extension):
    """Records start and end of each `generation` block in the rendered text."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 wants it

    def __init__(self, environment):
        super().__init__(environment)
        environment.rendered, environment.blocks = [], []

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("note"), [], [], body).set_lineno(line)

    def note(self, caller):
        text = caller()
        start = sum(map(len, self.environment.rendered))
        self.environment.blocks.append((start, start + len(text)))
        return text


def refuse(reason):
    raise RefusedError(reason)


def to_json(value, **options):
    return json.dumps(value, **{"ensure_ascii": False, **options})


def apply_template(template, messages, *, trimmed=True, **settings):
    """Return the text and its blocks."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=trimmed, lstrip_blocks=trimmed, extensions=[Generation, loopcontrols]
    )
    environment.globals["raise_exception"] = refuse
    environment.filters["tojson"] = to_json
    for piece in environment.from_string(template).generate(messages=messages, **settings):
        environment.rendered.append(piece)
    return "".join(environment.rendered), environment.blocks


def encode_chat(peer, template, messages, **settings):
    """Return ids and mask, with a `tokenizers` tokenizer that has its special tokens."""
    text, blocks = apply_template(template, messages, **settings)
    encoding = peer.encode(text, add_special_tokens=False)
    mask = [0] * len(encoding.ids)
    for start, end in blocks:
        first, last = encoding.char_to_token(start), encoding.char_to_token(end - 1)
        mask[first : last + 1] = [1] * (last + 1 - first)
    return encoding.ids, mask
