"""Compare the ids and loss masks of chat templates with renderers in Python and Rust.

Needs an environment with `transformers`, `trl`, `openai-harmony`, `mistral-common`, `renderers` and
`bpe-openai`, whose package has the vocabulary of gpt-oss:

    PYTHONPATH=. PYTHON benchmarks/chat_peers.py

openai-harmony renders gpt-oss, mistral-common the versions of Mistral for which it generates a
template, and renderers, of Prime Intellect, the families for which TRL has the template. The first
two encode with the model's own vocabulary, where mistral-common has it in its package; renderers
encodes with a vocabulary learned from the template and the conversations. All render the
conversations of `chat_templates.py`, with and without tools; the first two have tools without what
they or the template do not support. The table has the number of conversations with equal ids and
mask, with equal ids and no mask to compare with, with equal ids and a mask that differs only in
line breaks and tokens of roles at the edges of turns, with equal ids and another mask, with equal
text and other ids, with another text, and those that one or both refuse.
"""

import argparse
import gzip
import inspect
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import openai_harmony as harmony
import renderers
import tokenizers
from mistral_common.integrations.chat_templates.chat_templates import generate_chat_template
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode
from mistral_common.tokens.tokenizers.base import TokenizerVersion
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from chat_masks import DATE, NAMES, ROLES
from chat_templates import CONVERSATIONS, SEARCH, WEATHER, Turn
from nanotok_ray.counts import PATTERNS
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import Documents
from nanotok_ray.errors import NanotokError
from nanotok_ray.tokenizer import Tokenizer, template_settings
from nanotok_ray.tokenizer.foreign import Given, TokenizerFile

OUTCOMES = (
    "equal",
    "equal ids",
    "mask of edges",
    "other mask",
    "other ids",
    "other text",
    "both refuse",
    "ours refuses",
    "they refuse",
)
EDGE = re.compile(r"[+-]'(?:\\n|<[|\uff5c]\w+[|\uff5c]>)'")
"""A line break or a token of a role, which one of two masks has at the edge of a turn."""
Tools = list[dict[str, Any]] | None
Theirs = Callable[[list[Turn], Tools], tuple[list[int], list[int] | None]]
"""Renders a conversation to ids, and a mask if the peer has one, or raises an exception."""

OWN = {
    "bos_token": ("<bos>", "<|begin_of_text|>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>"),
    "eos_token": ("<\uff5cend\u2581of\u2581sentence\uff5c>",),
}
PLAIN_WEATHER = json.loads(json.dumps(WEATHER))
"""The tool without what the template of gpt-oss and mistral-common do not support."""
del PLAIN_WEATHER["function"]["return"]
for one in PLAIN_WEATHER["function"]["parameters"]["properties"].values():
    one.pop("enum", None), one.pop("default", None)
NEED_BLOCKS = ("deepseek",)
"""Templates whose turns are located only by blocks: those of TRL's templates for training."""
TEMPLATES = Path(str(files("trl") / "chat_templates"))
FAMILIES = {
    "deepseek_r1_distill": "deepseek-ai/DeepSeek-R1",
    "deepseekv3": "deepseek-ai/DeepSeek-V3",
    "gemma4": "google/gemma-4-E4B-it",
    "gemma4_v2": "google/gemma-4-E4B-it",
    "gemma4_v3": "google/gemma-4-E4B-it",
    "gemma4_v4": "google/gemma-4-E4B-it",
    "gemma4_v5": "google/gemma-4-E4B-it",
    "glm4moe": "zai-org/GLM-4.5-Air",
    "llama3_1": "meta-llama/Llama-3.2-1B-Instruct",
    "llama3_2": "meta-llama/Llama-3.2-1B-Instruct",
    "nemotron_3_5_lightning": "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16",
    "nemotron_3_nano": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "nemotron_3_super": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
    "nemotron_3_ultra": "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
    "qwen3": "Qwen/Qwen3-8B",
    "qwen3_5_nothink": "Qwen/Qwen3.5-0.8B",
    "qwen3_5_think": "Qwen/Qwen3.5-4B",
    "qwen3_6": "Qwen/Qwen3.6-35B-A3B",
    "qwen3_8": "Qwen/Qwen3.8-27B",
    "qwen3_instruct_2507": "Qwen/Qwen3-4B-Instruct-2507",
    "qwen3_vl": "Qwen/Qwen3-VL-4B-Instruct",
}
"""The model whose renderer is compared with a template of TRL."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A template as this package renders it, and a peer."""

    name: str
    tokenizer: Tokenizer
    template: Path
    theirs: Theirs
    special_text: str = "text"
    training: Path | None = None
    tools: tuple[dict[str, Any], ...] = (WEATHER, SEARCH)

    def outcomes(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, outcome and what to show of every conversation."""
        settings = template_settings(
            self.tokenizer.model,
            str(self.template),
            training_template=None if self.training is None else str(self.training),
            date=DATE,
            tools="tools",
        )
        assert settings is not None
        dialect = Dialect(kind="chat", name="messages", tools="tools")
        renderer = self.tokenizer.template_renderer(
            settings, dialect, special_text=self.special_text
        )
        for name, messages in CONVERSATIONS.items():
            for tools in (None, [*self.tools]):
                document = json.dumps({"messages": messages, "tools": tools}).encode()
                mine = renderer.render(Documents.from_bytes([document]))
                problem = mine.problems.get(0, "")
                outcome, more = self._compared(
                    problem, mine.ids.tolist(), mine.mask.tolist(), messages, tools
                )
                yield f"{name}{' with tools' if tools else ''}", outcome, more

    def _compared(
        self, problem: str, ids: list[int], mask: list[int], messages: list[Turn], tools: Tools
    ) -> tuple[str, str]:
        try:
            their_ids, their_mask = self.theirs(messages, tools)
        except Exception as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            return ("both refuse" if problem else "they refuse"), f"{problem} | {why}"
        if problem:
            return "ours refuses", problem
        if ids != their_ids:
            texts = self.tokenizer.decode(ids), self.tokenizer.decode(their_ids)
            return ("other ids" if texts[0] == texts[1] else "other text"), first_difference(*texts)
        if their_mask is None:
            return "equal ids", ""
        runs = [*self._runs(ids, mask, their_mask)]
        if not runs:
            return "equal", ""
        outcome = "mask of edges" if all(map(EDGE.fullmatch, runs)) else "other mask"
        return outcome, " ".join(runs)

    def _runs(self, ids: list[int], mask: list[int], other: list[int]) -> Iterator[str]:
        """Yield the texts that only one mask has: + ours, - theirs."""
        differences = [one - two for one, two in zip(mask, other, strict=True)]
        edges = [n for n in range(len(ids)) if not n or differences[n] != differences[n - 1]]
        for start, end in zip(edges, [*edges[1:], len(ids)], strict=True):
            if differences[start]:
                sign = "+" if differences[start] > 0 else "-"
                yield f"{sign}{self.tokenizer.decode(ids[start:end])!r}"


def first_difference(one: str, other: str) -> str:
    """Return where two texts differ."""
    equal = (a == b for a, b in zip(one, other, strict=False))
    start = next((n for n, same in enumerate(equal) if not same), min(len(one), len(other)))
    parts = [text[max(0, start - 20) : start + 60] for text in (one, other)]
    return f"{parts[0]!r} and {parts[1]!r}"


@dataclass(frozen=True, kw_only=True)
class HarmonyConversation:
    """Converts conversations to the classes of openai-harmony.

    `as_documented` passes arguments and results as they are, and marks arguments as constrained to
    JSON. Otherwise they are passed as the template writes them.
    """

    as_documented: bool

    def messages(self, messages: list[Turn], tools: Tools) -> Iterator[harmony.Message]:
        """Yield the messages of a conversation."""
        make, roles = harmony.Message.from_role_and_content, harmony.Role
        yield make(roles.SYSTEM, harmony.SystemContent.new().with_conversation_start_date(DATE))
        first = messages[0]["role"] in {"system", "developer"}
        instructions = messages[0]["content"] if first else ""
        if instructions or tools:
            yield make(roles.DEVELOPER, developer(instructions, tools))
        called = ""
        for message in messages[first:]:
            if message["role"] == "assistant":
                for part in self._said(message):
                    called = part.recipient or called
                    yield part
            elif message["role"] == "tool":
                author = harmony.Author.new(roles.TOOL, called)
                result = harmony.Message.from_author_and_content(
                    author, self._json(message["content"])
                )
                yield result.with_channel("commentary").with_recipient("assistant")
            else:
                yield make(roles(message["role"]), message["content"])

    def _said(self, message: Turn) -> Iterator[harmony.Message]:
        """Yield what the assistant says: its reasoning, and its calls or its answer."""
        calls, content = message.get("tool_calls"), message.get("content")
        thoughts = [message.get(key) for key in ("thinking", "reasoning_content", "reasoning")]
        for thought in {*thoughts, content if calls else None} - {None, ""}:
            yield said(thought, "analysis")
        for call in calls or []:
            recipient = f"functions.{call['function']['name']}"
            part = said(self._json(call["function"]["arguments"]), "commentary")
            kind = "<|constrain|>json" if self.as_documented else "json"
            yield part.with_recipient(recipient).with_content_type(kind)
        if not calls:
            yield said(content, "final")

    def _json(self, value: object) -> str:
        if self.as_documented and isinstance(value, str):
            return value
        return json.dumps(value, ensure_ascii=False)


def said(text: Any, channel: str) -> harmony.Message:
    """Return a message of the assistant."""
    message = harmony.Message.from_role_and_content(harmony.Role.ASSISTANT, text)
    return message.with_channel(channel)


def developer(instructions: str, tools: Tools) -> harmony.DeveloperContent:
    """Return instructions and tools."""
    content = harmony.DeveloperContent.new()
    if instructions:
        content = content.with_instructions(instructions)
    functions = [
        harmony.ToolDescription.new(one["name"], one["description"], one["parameters"])
        for one in (tool["function"] for tool in tools or [])
    ]
    return content.with_function_tools(functions) if functions else content


def gpt_oss(folder: Path) -> Iterator[Comparison]:
    """Yield the comparisons with openai-harmony, whose mask is that of the assistant's messages."""
    packed = files("bpe_openai") / "data" / "o200k_base.tiktoken.gz"
    data = gzip.decompress(packed.read_bytes())
    (folder / "o200k_base.tiktoken").write_bytes(data)
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(folder)
    encoding = harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)
    names = encoding.special_tokens_set
    numbers = {name: encoding.encode(name, allowed_special="all")[0] for name in names}
    model = TokenizerFile(name="o200k_base.tiktoken", data=data).model(
        Given(pattern=PATTERNS["o200k"], special_tokens=numbers)
    )
    header = [numbers["<|start|>"], *encoding.encode("assistant")]

    for as_documented in (False, True):
        convert = HarmonyConversation(as_documented=as_documented)

        def rendered(
            messages: list[Turn],
            tools: Tools,
            convert: HarmonyConversation = convert,
        ) -> tuple[list[int], list[int]]:
            conversation = [*convert.messages(messages, tools)]
            ids = encoding.render_conversation_for_training(
                harmony.Conversation.from_messages(conversation)
            )
            return ids, mask_of(ids, header)

        yield Comparison(
            name="harmony gptoss" + " as documented" * as_documented,
            tokenizer=Tokenizer(model),
            template=TEMPLATES / "gptoss.jinja",
            theirs=rendered,
            tools=(PLAIN_WEATHER,),
        )


def mask_of(ids: list[int], header: list[int]) -> list[int]:
    """Return 1 for the assistant's messages, of which the known template has the headers too."""
    mask = [0] * len(ids)
    starts = [n for n, number in enumerate(ids) if number == header[0]]
    for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
        if ids[start : start + len(header)] == header:
            mask[start:end] = [1] * (end - start)
    return mask


def mistral(folder: Path) -> Iterator[Comparison]:
    """Yield the comparisons with mistral-common, whose package has a vocabulary of version 3."""
    packed = files("mistral_common") / "data" / "tekken_240911.json"
    contents = json.loads(packed.read_bytes())
    for version in (TokenizerVersion.v3, TokenizerVersion.v7):
        contents["config"]["version"] = version.value
        path = folder / version.value / "tekken.json"
        path.parent.mkdir()
        path.write_text(json.dumps(contents))
        template = path.with_name("template.jinja")
        template.write_text(mistral_template(version))
        model = TokenizerFile(name="tekken.json", data=path.read_bytes()).model()
        yield Comparison(
            name=f"mistral {version.value}",
            tokenizer=Tokenizer(model),
            template=template,
            theirs=MistralPeer(path),
            tools=(PLAIN_WEATHER, SEARCH),
        )


def mistral_template(version: TokenizerVersion) -> str:
    """Return the template that mistral-common generates for texts."""
    source: str = generate_chat_template(
        spm=False,
        tokenizer_version=version,
        image_support=False,
        audio_support=False,
        thinking_support=False,
        default_system_prompt=None,
        plain_thinking_support=False,
        use_special_token_variables=False,
        model_settings_fields=None,
        reasoning_effort_values=None,
        reasoning_effort_default=None,
    )
    return source


class MistralPeer:
    """mistral-common, which checks conversations that end with the assistant in another way."""

    def __init__(self, path: Path) -> None:
        self._asked, self._answered = (
            MistralTokenizer.from_file(str(path), mode=mode)
            for mode in (ValidationMode.test, ValidationMode.finetuning)
        )

    def __call__(self, messages: list[Turn], tools: Tools) -> tuple[list[int], None]:
        request: Any = ChatCompletionRequest.from_openai(messages=messages, tools=tools)
        answered = messages[-1]["role"] == "assistant"
        tokenizer = self._answered if answered else self._asked
        return tokenizer.encode_chat_completion(request).tokens, None


def families() -> Iterator[Comparison]:
    """Yield the comparisons with renderers."""
    for name, model_name in FAMILIES.items():
        template = TEMPLATES / f"{name}.jinja"
        twin = TEMPLATES / f"{name}_training.jinja"
        config = renderers.config_from_name(renderers.base.MODEL_RENDERER_MAP[model_name])
        source = template.read_text(encoding="utf-8")
        names = named_tokens(source, config)
        roles = {**ROLES, **{key: one for key, some in OWN.items() for one in some if one in names}}
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=learned(source, names), **roles)
        tokenizer.name_or_path, tokenizer.chat_template = model_name, source
        beside = {"tokenizer_config.json": json.dumps(roles).encode()}
        data = tokenizer.backend_tokenizer.to_str().encode()
        yield Comparison(
            name=f"renderers {name}",
            tokenizer=Tokenizer(TokenizerFile(name="x", data=data, beside=beside).model()),
            template=template,
            training=twin if name.startswith(NEED_BLOCKS) else None,
            theirs=RenderersPeer(renderers.create_renderer(tokenizer, dated(config, source))),
            special_text="recognise",
        )


def dated(config: Any, source: str) -> Any:
    """Return the settings of a renderer with the date of the benchmark, if the template has one."""
    if "date_string" not in type(config).model_fields or "strftime_now" not in source:
        return config
    date = datetime.fromisoformat(DATE).strftime("%d %b %Y")
    return config.model_copy(update={"date_string": date})


def named_tokens(source: str, config: Any) -> set[str]:
    """Return the special tokens that a template or the code of its renderer names."""
    renderers.base._populate_registry()  # noqa: SLF001 - create_renderer does so
    classes = renderers.base.RENDERER_REGISTRY[config.name].__mro__[:-1]
    code = [inspect.getsource(sys.modules[each.__module__]) for each in classes]
    called = re.findall(r'token(?:_id|_to_id)?\(\s*f?"([^"\s]+)"', "".join(code))
    called += re.findall(r'"(<[^"\s]+>)"', "".join(code))
    return {*map(in_full, called), *NAMES.findall(source), *ROLES.values()}


def in_full(name: str) -> str:
    """Return the name of a special token that the code of DeepSeek's renderer abbreviates."""
    return name if name[0] in "<[" else f"<\uff5c{name}\uff5c>".replace("{_US}", "\u2581")


def learned(source: str, names: set[str]) -> tokenizers.Tokenizer:
    """Return a byte-level tokenizer with merges of the template and of the conversations."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    texts = [source, *(json.dumps(each, indent=1) for each in CONVERSATIONS.values())]
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator(texts, trainer)
    made.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in sorted(names)]
    )
    return made


class RenderersPeer:
    """A renderer of renderers; the mask is what the model samples in messages of the assistant."""

    def __init__(self, renderer: Any) -> None:
        self._renderer = renderer

    def __call__(self, messages: list[Turn], tools: Tools) -> tuple[list[int], list[int]]:
        sample = renderers.build_training_sample(self._renderer, messages, tools=tools)
        return sample.token_ids, [int(each) for each in sample.loss_mask]


def main() -> None:
    """Compare with all peers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", help="print what is not equal for these comparisons")
    args = parser.parse_args()
    print("comparison".ljust(34), *(name.rjust(12) for name in OUTCOMES))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for comparison in (*gpt_oss(folder), *mistral(folder), *families()):
            counts: Counter[str] = Counter()
            if args.show and args.show not in comparison.name:
                continue
            try:
                for label, outcome, more in comparison.outcomes():
                    counts[outcome] += 1
                    if args.show and outcome not in {"equal", "equal ids"}:
                        print(f"  {outcome}: {label}: {more}")
            except NanotokError as error:
                print(comparison.name, error)
            print(comparison.name.ljust(34), *(str(counts[each]).rjust(12) for each in OUTCOMES))


if __name__ == "__main__":
    main()
