"""Compare the ids and loss masks of chat templates with those of transformers.

Needs an environment that has `transformers`, `jinja2` and `trl`, whose package has the templates
and, for many of them, templates for training with generation blocks:

    PYTHONPATH=. PYTHON benchmarks/chat_masks.py

Every template renders the conversations of `chat_templates.py`, which are encoded by a byte-level
tokenizer with its special tokens. The table has for each template how turns are located, and the
number of conversations with equal ids and mask, with equal ids and no mask to compare with, that
both refuse, that only ours refuses, and that differ. The mask of transformers is that of the
template itself if it has blocks, or else of the one for training, where that renders the same text.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils as peer

from chat_templates import CONVERSATIONS, SEARCH, WEATHER, FixedTime, Turn
from nanotok_ray.chat.jinja import has_generation
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import Documents
from nanotok_ray.errors import NanotokError
from nanotok_ray.tokenizer import Tokenizer, template_settings
from nanotok_ray.tokenizer.foreign import TokenizerFile

OUTCOMES = ("equal", "equal ids", "refused by both", "ours refuses", "ours only", "differ")
DATE = "2026-09-21"
ROLES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
NAMES = re.compile(
    r"<\|[\w.: ]{1,40}\|>|<\uff5c[^<>\uff5c]{1,40}\uff5c>|</?(?:start_of|end_of)?_?turn\|?>"
    r"|\[/?[A-Z_]{3,}\]"
)


def stand_in(source: str, tokenizer: Path | None) -> tuple[str, dict[str, str]]:
    """Return a tokenizer.json, by default of bytes with a template's special tokens, and roles."""
    if tokenizer is not None:
        config = json.loads(tokenizer.with_name("tokenizer_config.json").read_text("utf-8"))
        roles = {name: config.get(name) for name in ROLES}
        named = {n: r["content"] if isinstance(r, dict) else r for n, r in roles.items() if r}
        return tokenizer.read_text(encoding="utf-8"), named
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(models.BPE(vocab={c: n for n, c in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    names = sorted({*NAMES.findall(source), *ROLES.values()})
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return made.to_str(), ROLES


class Peer:
    """transformers with the tokenizer."""

    def __init__(self, data: str, roles: dict[str, str]) -> None:
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=tokenizers.Tokenizer.from_str(data), **roles
        )

    def rendered(
        self, source: str, messages: list[Turn], tools: list[Any] | None
    ) -> tuple[str, list[int], list[int]] | None:
        """The text, the ids and the mask, or None if the template refuses."""
        options: dict[str, Any] = {"chat_template": source, "tools": tools}
        try:
            text = self.tokenizer.apply_chat_template(messages, tokenize=False, **options)
            encoding = self.tokenizer.apply_chat_template(
                messages, return_dict=True, return_assistant_tokens_mask=True, **options
            )
        except Exception:
            return None
        return text, encoding["input_ids"], encoding["assistant_masks"]


def compared(path: Path, tokenizer: Path | None) -> Iterator[tuple[str, str, str]]:
    """Yield name, outcome and what to show of every conversation."""
    source = path.read_text(encoding="utf-8")
    training = path.with_name(f"{path.stem}_training.jinja")
    twin = training.read_text(encoding="utf-8") if training.exists() else None
    data, roles = stand_in(source, tokenizer)
    config = json.dumps(roles).encode()
    model = TokenizerFile(
        name="x", data=data.encode(), beside={"tokenizer_config.json": config}
    ).model()
    settings = template_settings(model, str(path), date=DATE, tools="tools")
    assert settings is not None
    renderer = Tokenizer(model).template_renderer(
        settings, Dialect(kind="chat", name="messages", tools="tools"), special_text="recognise"
    )
    has_blocks = has_generation(source)
    other = Peer(data, roles)
    for name, messages in CONVERSATIONS.items():
        for tools in (None, [WEATHER, SEARCH]):
            document = json.dumps({"messages": messages, "tools": tools}).encode()
            mine = renderer.render(Documents.from_bytes([document]))
            theirs = other.rendered(source, messages, tools)
            label = f"{name}{' with tools' if tools else ''}"
            if mine.problems:
                outcome = "refused by both" if theirs is None else "ours refuses"
                yield label, outcome, mine.problems[0]
                continue
            if theirs is None:
                yield label, "ours only", ""
                continue
            text, ids, mask = theirs
            if ids != mine.ids.tolist():
                yield label, "differ", "ids"
                continue
            if not has_blocks:
                trained = None if twin is None else other.rendered(twin, messages, tools)
                if trained is None or trained[0] != text:
                    yield label, "equal ids", ""
                    continue
                mask = trained[2]
            own = mine.mask.tolist()
            difference = "" if mask == own else f"{shown(ids, mask)}\n      {shown(ids, own)}"
            yield label, "differ" if difference else "equal", difference


def shown(ids: list[int], mask: list[int]) -> str:
    """The positions of the spans of a mask."""
    edges = [n for n in range(len(ids)) if mask[n] != (mask[n - 1] if n else 0)]
    return f"{edges} of {len(ids)}"


def main() -> None:
    """Compare all templates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="a folder of templates; default: those of trl")
    parser.add_argument("--show", default="", help="print what is not equal for these templates")
    parser.add_argument("--only", default="", help="templates whose names have this text")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json in place of bytes")
    args = parser.parse_args()
    peer.datetime = FixedTime
    folder = args.folder or Path(str(files("trl") / "chat_templates"))
    total: Counter[str] = Counter()
    print("template".ljust(36), *(name.rjust(16) for name in OUTCOMES))
    for path in sorted(path for path in folder.glob("*.jinja") if args.only in path.stem):
        counts: Counter[str] = Counter()
        try:
            for name, outcome, more in compared(path, args.tokenizer):
                counts[outcome] += 1
                if args.show and args.show in path.stem and outcome not in OUTCOMES[:3]:
                    print(f"  {outcome}: {name}: {more}")
        except NanotokError as error:
            print(path.stem, error)
        total += counts
        print(path.stem.ljust(36), *(str(counts[name]).rjust(16) for name in OUTCOMES))
    print("total".ljust(36), *(str(total[name]).rjust(16) for name in OUTCOMES))


if __name__ == "__main__":
    main()
