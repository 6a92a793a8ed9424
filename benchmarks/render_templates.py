"""Measure rendering conversations with chat templates, ours and with transformers.

Needs an environment that has `transformers`, `jinja2` and `trl`, whose package has the templates:

    PYTHONPATH=. PYTHON benchmarks/render_templates.py --tokenizer FOLDER --chats 'chat/*.jsonl'

The conversations are JSON lines of messages. Both make ids and masks in one thread: ours from the
lines, in batches like those of a job; transformers by `apply_chat_template` with the template for
training, which has generation blocks, from parsed messages. Ids must be equal where both templates
give the same text. Printed are conversations and megabytes of lines per CPU second, the medians of
the rounds, for conversations as they are and for 400 turns.
"""

import json
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer
from transformers import PreTrainedTokenizerFast

from frame import Figures, files_of, finish, parser, run, show
from nanotok_ray import open_tokenizer
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import template_settings

TURNS = 400
BATCH = 1024
ROLES = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}


def main() -> None:
    """Measure what the command line names."""
    command = parser(__doc__, limit=4000, repeats=5)
    command.add_argument("--tokenizer", required=True, help="a folder with a tokenizer.json")
    command.add_argument("--chats", type=files_of, required=True, help="glob of JSON lines")
    command.add_argument("--templates", nargs="+", default=["qwen3", "llama3", "llama3_1"])
    options = command.parse_args()
    lines = [line for path in options.chats for line in path.read_bytes().splitlines()]
    lines = lines[: options.limit]
    data = {"as they are": lines, f"{TURNS} turns": [*joined(lines)]}
    folder = Path(str(files("trl") / "chat_templates"))
    rows = []
    for name in options.templates:
        for kind, chats in data.items():
            row = {"template": name, "conversations": kind}
            own = measured(options.tokenizer, folder / f"{name}.jinja", chats, options.repeats)
            rows.append(show("render", row | own))
    names = [f"{path.parent.name}/{path.stem}" for path in options.chats]
    row = {"repeats": options.repeats, "rows": rows}
    peers = ("transformers", "trl", "tokenizers")
    finish("render_templates", names, row, peers=peers, save=options.save)


def joined(lines: list[bytes]) -> list[bytes]:
    """Return conversations of many turns, with the messages of some conversations each."""
    turns: list[Any] = []
    made = []
    for line in lines:
        turns += [one for one in messages_of(line) if one["role"] in {"user", "assistant"}]
        if len(turns) >= TURNS:
            made.append(json.dumps({"messages": turns[:TURNS]}).encode())
            turns = []
    return made


def messages_of(line: bytes) -> list[Any]:
    """Return the messages of a line."""
    value = json.loads(line)
    messages: list[Any] = value["messages"] if isinstance(value, dict) else value
    return messages


def measured(tokenizer: str, path: Path, lines: list[bytes], repeats: int) -> Figures:
    """Return the speed of both with one template."""
    own = open_tokenizer(tokenizer)
    settings = template_settings(own.model, str(path), arguments=ROLES, date="2026-01-31")
    assert settings is not None
    renderer = own.template_renderer(settings, Dialect(kind="chat", name="messages"))
    batches = [
        Documents.from_bytes(lines[start : start + BATCH]) for start in range(0, len(lines), BATCH)
    ]
    seconds = [timed(lambda: [renderer.render(batch) for batch in batches]) for _ in range(repeats)]
    rendered = [renderer.render(batch) for batch in batches]
    size = sum(map(len, lines))
    row = {
        "ours": round(len(lines) / median(seconds)),
        "megabytes": round(size / median(seconds) / 1e6, 1),
        "bytes": round(size / len(lines)),
        "refused": sum(len(batch.problems) for batch in rendered),
    }
    training = path.with_name(f"{path.stem}_training.jinja")
    template = (training if training.exists() else path).read_text(encoding="utf-8")
    file = Path(tokenizer) / "tokenizer.json"
    other = PreTrainedTokenizerFast(tokenizer_object=LibraryTokenizer.from_file(str(file)), **ROLES)
    some = [messages_of(line) for line in lines[: max(1, len(lines) // 8)]]
    ask = {"return_dict": True, "return_assistant_tokens_mask": training.exists()}
    theirs = median(
        timed(lambda: other.apply_chat_template(some, chat_template=template, **ask))
        for _ in range(3)
    )
    text = path.read_text(encoding="utf-8")
    ids = other.apply_chat_template(some[0], chat_template=text, return_dict=False)
    assert ids == rendered[0].ids[: rendered[0].offsets[1]].tolist()
    return row | {"transformers": round(len(some) / theirs)}


def timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    run(main)
