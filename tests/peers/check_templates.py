"""Compare `apply_chat_template` with that of transformers, for templates of every style.

    PYTHONPATH=. python tests/peers/check_templates.py

Renders the conversations of `tests/support/own_templates.py` with its templates, and with those of
trl if it is installed, with each argument. Text and ids must be equal, and so must the mask if
the template has generation blocks, or has a twin with blocks. What transformers refuses must be
refused. Runs in the environment of requirements.txt, with this project on the path. The exit code
is 1 if anything differs.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import transformers

from nanotok_ray.chat.jinja import has_generation
from nanotok_ray.errors import NanotokError
from nanotok_ray.tokenizer import open_tokenizer
from tests.support.own_templates import CONVERSATIONS, SEARCH, TEMPLATES, TWINS, write_tokenizer

DOCUMENTS = [{"title": "T", "text": "a <b>"}]
FORMS: tuple[Mapping[str, Any], ...] = (
    {"tokenize": False},
    {"tokenize": False, "add_generation_prompt": True},
    {"tokenize": False, "continue_final_message": True},
    {"tokenize": False, "continue_final_message": "reasoning_content"},
    {"return_dict": False},
    {"continue_final_message": True},
    {"truncation": True, "max_length": 9},
    {"documents": DOCUMENTS, "add_date": True, "bos_token": "<|pad|>"},
    {"enable_thinking": False, "shown": (1, {"b": None, "a": 1.5}), "add_generation_prompt": True},
)
MASKED: tuple[Mapping[str, Any], ...] = ({}, {"truncation": True, "max_length": 12})
PAIR = [CONVERSATIONS["one turn"], CONVERSATIONS["two turns"]]
BROKEN = ([], ["hi"], [{"content": "a"}], [{"role": "user"}])
REFUSED = None


@dataclass(frozen=True)
class Template:
    """A template, and one that renders the same text with generation blocks, if there is one."""

    text: str
    blocks: str | None


def templates() -> Iterator[tuple[str, Template]]:
    """Yield the templates by name."""
    for name, text in TEMPLATES.items():
        yield name, Template(text, text if has_generation(text) else TWINS.get(name))
    with suppress(ModuleNotFoundError):
        for path in sorted(Path(str(files("trl") / "chat_templates")).glob("*.jinja")):
            text = path.read_text(encoding="utf-8")
            yield path.stem, Template(text, text if has_generation(text) else None)


def plain(found: Any) -> Any:
    """Return the result of either side as plain lists."""
    return dict(found) if isinstance(found, Mapping) else found


def of_peer(peer: Any, conversation: Any, **options: Any) -> Any:
    """Return the result of transformers, or REFUSED."""
    try:
        found = plain(peer.apply_chat_template(conversation, **options))
    except Exception:  # a template raises anything
        return REFUSED
    if isinstance(found, dict):
        found.pop("token_type_ids", None)
    return found


def of_ours(own: Any, conversation: Any, **options: Any) -> Any:
    """Return our result, or REFUSED."""
    try:
        return own.apply_chat_template(conversation, **options)
    except NanotokError:
        return REFUSED


def main() -> int:
    """Compare all templates."""
    totals: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        write_tokenizer(Path(folder))
        own = open_tokenizer(folder)
        peer = transformers.AutoTokenizer.from_pretrained(folder)
    if open_tokenizer(peer) != own or of_ours(open_tokenizer(peer), PAIR) != of_peer(peer, PAIR):
        totals["differ: object of transformers"] = 1
    for name, template in templates():
        for outcome, what in outcomes(own, peer, template):
            totals[outcome] += 1
            if "differ" in outcome:
                say(f"{name}: {what}")
    for outcome, number in sorted(totals.items()):
        say(f"{number:>8,}  {outcome}")
    return int(any("differ" in name for name in totals) or not totals["equal renders"])


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def outcomes(own: Any, peer: Any, template: Template) -> Iterator[tuple[str, str]]:
    """Yield the outcome of each comparison with one template, and what was compared."""
    conversations = [*CONVERSATIONS.items(), *((str(one), one) for one in BROKEN)]
    for (name, messages), tools in product([*conversations, ("a batch", PAIR)], (None, [SEARCH])):
        for form in FORMS:
            options = {"chat_template": template.text, "tools": tools, **form}
            ours = of_ours(own, messages, **options)
            theirs = of_peer(peer, messages, **options)
            what = "renders" if theirs is not REFUSED else "refusals"
            word = "equal" if ours == theirs else "differ:"
            yield f"{word} {what}", f"{name}, tools={bool(tools)}, {form}"
        for form in MASKED if template.blocks else ():
            yield masked(own, peer, template, (name, messages, {"tools": tools, **form}))


def masked(
    own: Any, peer: Any, template: Template, case: tuple[str, Any, Mapping[str, Any]]
) -> tuple[str, str]:
    """Return the outcome of a comparison of masks."""
    name, messages, more = case
    options = {"return_assistant_tokens_mask": True, **more}
    ours = of_ours(own, messages, chat_template=template.text, **options)
    theirs = of_peer(peer, messages, chat_template=template.blocks, **options)
    if ours == theirs:
        return "equal masks", ""
    if ours is REFUSED and template.text != template.blocks:
        return "masks that only ours refuses", ""
    return "differ: masks", f"{name}: {more}"


if __name__ == "__main__":
    sys.exit(main())
