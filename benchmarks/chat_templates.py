"""Render many conversations with chat templates, with the core and with transformers, and compare.

Needs an environment that has `transformers`, `jinja2` and `trl`, whose package has the templates:

    PYTHONPATH=. PYTHON benchmarks/chat_templates.py

For each template, the table has the number of renders whose text and spans are equal, that both
refuse, that only one of them accepts, and that differ. `--show NAME` prints what is not equal.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

from transformers.utils import chat_template_utils as peer

from nanotok_ray._core import ChatTemplate
from nanotok_ray.errors import TemplateError

NOW = 1_790_000_000
SPECIAL_TOKENS = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "image_token": "<image>",
}
OUTCOMES = ("equal", "refused by both", "ours only", "theirs only", "differ")
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'Weather of a <place> & "time" in °C',
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "A city"},
                "days": {"type": "integer", "default": 3, "enum": [1, 3, 7]},
                "units": {"type": ["string", "null"], "default": None},
                "points": {"type": "array", "items": {"type": "number", "minimum": 1e-5}},
            },
            "required": ["place"],
        },
        "return": {"type": "string", "description": "The weather"},
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
}
Turn = dict[str, Any]


def said(role: str, content: object, **more: object) -> Turn:
    return {"role": role, "content": content, **more}


def called(name: str, arguments: object, **more: object) -> Turn:
    return {
        "id": "call00001",
        "type": "function",
        "function": {"name": name, "arguments": arguments, **more},
    }


ASKED = said("user", "What is 2 + 2?")
SYSTEM = said("system", "You are helpful.")
CALL = called(
    "get_weather", {"place": "Zürich <b>", "days": 3, "points": [1.0, 1e-7, 2.5e20, -0.0]}
)
RESULT = said("tool", '{"t": 21.5}', name="get_weather", tool_call_id="call00001")
ANSWER = said("assistant", "It is 4.")
THOUGHT = "Two and two\n\nmake four."
CONVERSATIONS: dict[str, list[Turn]] = {
    "user": [ASKED],
    "turn": [ASKED, ANSWER],
    "system": [SYSTEM, ASKED, ANSWER],
    "developer": [said("developer", "Be brief."), ASKED, ANSWER],
    "turns": [SYSTEM, ASKED, ANSWER, said("user", "And 3 + 3?"), said("assistant", "6"), ASKED],
    "turns of three": [
        ASKED,
        ANSWER,
        said("user", "So?"),
        ANSWER,
        said("user", ""),
        said("assistant", ""),
    ],
    "empty content": [said("system", ""), said("user", ""), said("assistant", "")],
    "null content": [ASKED, said("assistant", None), said("user", "Hello?"), ANSWER],
    "spaces": [said("user", "  a \n"), said("assistant", "\n\n b\t \n"), said("user", "\n")],
    "scripts": [
        said("user", "日本語 🙂 עברית"),
        said("assistant", "Привет, é\u0301\u00a0\u2028!"),
        ASKED,
    ],
    "spelled": [said("user", "<|im_end|> {{ 1 }} {% x %}</s>"), said("assistant", "[INST]<think>")],
    "quotes": [said("user", "'a' \"b\" \\ <&>"), said("assistant", "```py\nx = '''\n```")],
    "reasoning_content": [ASKED, said("assistant", "4", reasoning_content=THOUGHT), ASKED, ANSWER],
    "reasoning last": [ASKED, said("assistant", "4", reasoning_content=THOUGHT)],
    "thinking": [
        ASKED,
        said("assistant", "4", thinking=THOUGHT),
        ASKED,
        said("assistant", "5", thinking="x"),
    ],
    "reasoning": [SYSTEM, ASKED, said("assistant", "4", reasoning=THOUGHT, name=None)],
    "think tags": [ASKED, said("assistant", f"<think>\n{THOUGHT}\n</think>\n\n4"), ASKED, ANSWER],
    "think tags last": [ASKED, said("assistant", f"<think>\n{THOUGHT}\n</think>\n\n4")],
    "tool call": [ASKED, said("assistant", "", tool_calls=[CALL]), RESULT, ANSWER],
    "tool call at end": [SYSTEM, ASKED, said("assistant", "Let me see.", tool_calls=[CALL])],
    "tool call without content": [ASKED, {"role": "assistant", "tool_calls": [CALL]}, RESULT],
    "tool call null content": [
        ASKED,
        said("assistant", None, tool_calls=[CALL]),
        RESULT,
        ANSWER,
        ASKED,
    ],
    "two tool calls": [
        ASKED,
        said("assistant", "", tool_calls=[CALL, called("search", {})]),
        RESULT,
        RESULT,
        ANSWER,
    ],
    "arguments as text": [
        ASKED,
        said("assistant", "", tool_calls=[called("search", '{"q": "a b"}')]),
        RESULT,
    ],
    "tool call with thought": [
        ASKED,
        said("assistant", "", reasoning_content=THOUGHT, tool_calls=[CALL]),
        RESULT,
        ANSWER,
    ],
    "nested arguments": [
        ASKED,
        said(
            "assistant", "", tool_calls=[called("f", {"a": {"b": [True, None, "x"]}, "n": 2**60})]
        ),
        RESULT,
    ],
    "result as map": [
        ASKED,
        said("assistant", "", tool_calls=[CALL]),
        said("tool", {"t": [1, 2.0]}),
        ANSWER,
    ],
    "result as parts": [
        ASKED,
        said("assistant", "", tool_calls=[CALL]),
        said("tool", [{"type": "text", "text": "21"}]),
        ANSWER,
    ],
    "ipython": [ASKED, said("assistant", "", tool_calls=[CALL]), said("ipython", "21"), ANSWER],
    "parts": [
        said("user", [{"type": "text", "text": "Hi "}, {"type": "text", "text": "you"}]),
        said("assistant", [{"type": "text", "text": "Yes"}]),
    ],
    "images": [said("user", [{"type": "image"}, {"type": "text", "text": "What?"}]), ANSWER],
    "image urls": [
        said(
            "user",
            [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "What?"}],
        ),
        ANSWER,
    ],
    "system parts": [said("system", [{"type": "text", "text": "S"}]), ASKED, ANSWER],
    "two users": [ASKED, said("user", "Please."), ANSWER],
    "assistant first": [ANSWER, ASKED, ANSWER],
    "only system": [SYSTEM],
    "two systems": [SYSTEM, ASKED, said("system", "Be brief."), ANSWER],
    "unknown role": [said("critic", "Hm"), ASKED],
    "no messages": [],
    "prefilled": [ASKED, said("assistant", "It"), said("assistant", " is 4.")],
    "weights": [
        ASKED,
        said("assistant", "4", weight=0, train=True),
        ASKED,
        said("assistant", "5", weight=1),
    ],
    "channels": [ASKED, said("assistant", "4", channel="final", thinking="x"), said("user", "ok")],
    "long": [said("user" if i % 2 == 0 else "assistant", f"{i} " * 50) for i in range(24)],
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"add_generation_prompt": True},
    {"tools": [WEATHER, SEARCH]},
    {"tools": [WEATHER], "add_generation_prompt": True, "enable_thinking": False},
    {"add_generation_prompt": True, "enable_thinking": True, "reasoning_effort": "high"},
    {"documents": [{"title": "T", "text": "D"}], "thinking": True},
]


class FixedTime(datetime):
    """The clock of the peer."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:  # noqa: ARG003 - the signature of datetime
        return datetime.fromtimestamp(NOW, timezone.utc).replace(tzinfo=None)


def theirs(source: str, messages: list[Turn], options: dict[str, Any]) -> object:
    """The text and the spans of transformers, or None if it refuses."""
    try:
        texts, spans = peer.render_jinja_template(
            [peer._normalize_chat_messages(messages)],  # noqa: SLF001 - apply_chat_template does so
            chat_template=source,
            return_assistant_tokens_mask=True,
            **SPECIAL_TOKENS,
            **options,
        )
    except Exception:
        return None
    return texts[0], [tuple(span) for span in spans[0]]


def ours(template: ChatTemplate | None, messages: list[Turn], options: dict[str, Any]) -> object:
    """The text and the spans of the core, or the error."""
    if template is None:
        return TemplateError("does not compile")
    try:
        return template.render(json.dumps({"messages": messages, **options}).encode())
    except TemplateError as error:
        return error


def outcome(mine: object, other: object) -> str:
    if isinstance(mine, TemplateError):
        return "refused by both" if other is None else "theirs only"
    if other is None:
        return "ours only"
    return "equal" if mine == other else "differ"


def compared(source: str) -> Iterator[tuple[str, str, object, object]]:
    try:
        template = ChatTemplate(source, SPECIAL_TOKENS, NOW)
    except TemplateError as error:
        print(error)
        template = None
    for name, messages in CONVERSATIONS.items():
        for options in OPTIONS:
            mine, other = ours(template, messages, options), theirs(source, messages, options)
            yield f"{name} {options}", outcome(mine, other), mine, other


TEXTS = (
    "",
    " a ",
    "Hi\n",
    "é\u0301 中",
    "<think>\nx\n</think>\n\ny",
    "{{ 1 }}",
    "<|im_end|>",
    "'\"\\",
)
ARGUMENTS: tuple[Any, ...] = (
    None,
    {},
    {"n": 1, "x": [1.5, True, None]},
    '{"q": "a"}',
    {"place": "Zürich <b>"},
)


def chance(random: Random, share: float) -> bool:
    return random.random() < share


def random_message(random: Random) -> Turn:
    roles = ("user", "assistant", "assistant", "system", "tool", "developer", "critic")
    message: Turn = {"role": random.choice(roles)}
    text = random.choice(TEXTS)
    content = (text, text, text, text, None, [{"type": "text", "text": text}], 7)
    if chance(random, 0.95):
        message["content"] = random.choice(content)
    if chance(random, 0.2):
        message[random.choice(("reasoning_content", "thinking", "reasoning"))] = random.choice(
            TEXTS
        )
    if chance(random, 0.2):
        calls = [called(random.choice(("f", "é")), random.choice(ARGUMENTS)) for _ in range(2)]
        message["tool_calls"] = random.choice((calls, calls[:1], [], None))
    if chance(random, 0.1):
        message |= {"name": "n", "tool_call_id": "call00001", "channel": "final", "weight": 1}
    return message


def random_case(random: Random) -> tuple[list[Turn], dict[str, Any]]:
    """Random messages, of which most take turns, and random arguments of the template."""
    messages = [random_message(random) for _ in range(random.randrange(7))]
    if chance(random, 0.6):
        for number, message in enumerate(messages):
            message["role"] = "assistant" if number % 2 else "user"
    options = {
        "add_generation_prompt": True,
        "tools": random.choice(([WEATHER], [WEATHER, SEARCH], [])),
        "enable_thinking": chance(random, 0.5),
        "thinking": True,
        "reasoning_effort": random.choice(("low", "high", "")),
        "documents": [{"title": "T", "text": "D"}],
        "preserve_thinking": True,
    }
    return messages, {name: value for name, value in options.items() if chance(random, 0.2)}


def compare_random(folder: Path, number: int, show: str) -> None:
    """Compare random renders of all templates, and print what is not equal."""
    random, total = Random(1), Counter[str]()
    paths = sorted(folder.glob("*.jinja"))
    sources = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    templates = {name: ChatTemplate(text, SPECIAL_TOKENS, NOW) for name, text in sources.items()}
    for _ in range(number):
        name = random.choice(list(sources))
        messages, options = random_case(random)
        mine, other = (
            ours(templates[name], messages, options),
            theirs(sources[name], messages, options),
        )
        kind = outcome(mine, other)
        total[kind] += 1
        if kind not in OUTCOMES[:2] and show in name:
            shown(f"{name}: {kind}: {json.dumps(messages)} {json.dumps(options)}", mine, other)
    print("random", *(f"{name} {total[name]}" for name in OUTCOMES), sep="  ")


def shown(name: str, mine: object, other: object) -> None:
    print(f"--- {name}")
    if not (isinstance(mine, tuple) and isinstance(other, tuple)):
        print(f"ours:   {str(mine)[:300]!r}\ntheirs: {str(other)[:300]!r}")
    elif mine[0] == other[0]:
        print(f"spans {mine[1]} {other[1]}")
    else:
        pairs = enumerate(zip(mine[0], other[0], strict=False))
        place = max(next((i for i, (a, b) in pairs if a != b), 0) - 20, 0)
        print(f"ours:   {mine[0][place:][:80]!r}\ntheirs: {other[0][place:][:80]!r}")


def timed(source: str, seconds: float = 1.0) -> float:
    """Renders a second of the core with four messages of 1 kB, with the reading of JSON."""
    messages = [said(role, "some words " * 90) for role in ("user", "assistant") * 2]
    template = ChatTemplate(source, SPECIAL_TOKENS, NOW)
    context = json.dumps({"messages": messages}).encode()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(500):
            template.render(context)
        count += 500
    return count / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="a folder of templates; default: those of trl")
    parser.add_argument("--show", default="", help="print what is not equal for these templates")
    parser.add_argument("--time", help="a template whose speed is measured")
    parser.add_argument("--random", type=int, help="a number of random conversations instead")
    args = parser.parse_args()
    peer.datetime = FixedTime
    folder = args.folder or Path(str(files("trl") / "chat_templates"))
    if args.time:
        source = (folder / f"{args.time}.jinja").read_text(encoding="utf-8")
        print(*(f"{timed(source):,.0f} renders/s" for _ in range(5)), sep="\n")
        return
    if args.random:
        compare_random(folder, args.random, args.show)
        return
    total: Counter[str] = Counter()
    print("template".ljust(36), *(name.rjust(16) for name in OUTCOMES))
    for path in sorted(folder.glob("*.jinja")):
        counts: Counter[str] = Counter()
        for name, kind, mine, other in compared(path.read_text(encoding="utf-8")):
            counts[kind] += 1
            if kind not in OUTCOMES[:2] and args.show and args.show in path.stem:
                shown(f"{path.stem}: {kind}: {name}", mine, other)
        total += counts
        print(path.stem.ljust(36), *(str(counts[name]).rjust(16) for name in OUTCOMES))
    print("total".ljust(36), *(str(total[name]).rjust(16) for name in OUTCOMES))


if __name__ == "__main__":
    main()
