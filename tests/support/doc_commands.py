"""The commands of `nanotok`, commands of the documentation, and the folder where they run."""

import gzip
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.cli import Console, nanotok
from nanotok_ray.counts import PATTERNS
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import conversations, texts, write_conversations

COLUMNS = 80
"""The width of the terminal whose help is checked."""

PROGRAMS = ("nanotok", "make", "ray", "kubectl", "pip", "docker", "python", "cargo", "rustup")
"""A block without a language contains commands if a line of it begins with one of these."""
SHELL = ("sh", "bash")
PLAIN = ("text", "json", "toml", "console", "yaml")
"""Languages of blocks without such commands; `console` blocks have their own test."""

JOBS = {
    "jobs.prepare": "prepare",
    "jobs.train_tokenizer": "train",
    "jobs.tokenize_corpus": "tokenize",
}
"""Modules that `python -m` runs, and their commands."""

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CRON = re.compile(r"^(?:[\d*/,-]+ ){5} *")
_BEGINS = re.compile(rf"(?:/\S*/)?(?:{'|'.join(PROGRAMS)}) ")
_SUBSTITUTED = re.compile(r"\$\([^)]*\)")
_HEAD = re.compile(r"^(?:#)? {4,}((?:python|nanotok|make|ray|docker) .*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """A block of a page: `sh` with its commands, `python`, or `toml`."""

    language: str
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command, variables before it included; none for other languages."""
        lines = _lines(self.text) if self.language == "sh" else ()
        return [words for line in lines if (words := words_of(line))]


def _lines(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


def words_of(line: str) -> list[str]:
    """Return the words of a command without its comment, its place in a schedule, pipes and files.

    >>> words_of("30 2 * * *  /opt/bin/nanotok prepare a.toml 2>> b.log   # nightly")
    ['/opt/bin/nanotok', 'prepare', 'a.toml']
    >>> words_of("nanotok submit a.toml --submission-id web-$(date +\\\\%F)")
    ['nanotok', 'submit', 'a.toml', '--submission-id', 'web-X']
    """
    words = shlex.split(_SUBSTITUTED.sub("X", _CRON.sub("", line.strip())), comments=True)
    for number, word in enumerate(words):
        if word.startswith(("2>", ">", "|")):
            return words[:number]
    return words


def steps_of(page: str) -> list[Step]:
    """Return blocks of a page in order; without a language they are skipped unless commands."""
    found = []
    for language, text in _BLOCK.findall(page):
        if language in SHELL or (not language and has_command(text)):
            found.append(Step("sh", text))
        elif language in {"python", "toml"}:
            found.append(Step(language, text))
        elif language and language not in PLAIN:
            raise AssertionError(f"a block in {language}: say here what becomes of it")
    return found


def code_of(page: str, language: str) -> list[str]:
    """Return the texts of a page's blocks in a language."""
    return [text for own, text in _BLOCK.findall(page) if own == language]


def has_command(text: str) -> bool:
    """Return whether a line begins with a program, possibly after a cron schedule.

    >>> has_command("30 2 * * *  nanotok prepare a.toml"), has_command("jobs/   what ray job runs")
    (True, False)
    """
    return any(_BEGINS.match(_CRON.sub("", line)) for line in _lines(text))


def head_commands(text: str) -> list[list[str]]:
    """Return the indented commands in the head of a program or a recipe."""
    return [words_of(line) for line in _HEAD.findall(text)]


def parse(words, *, default_recipe=None):
    """Parse a command like `main`, and return the context of the innermost command.

    Raises:
        click.UsageError: The command is wrong.
    """
    command, rest = nanotok, list(words)
    console = Console(default_recipe=default_recipe)
    context = click.Context(nanotok, info_name="nanotok", obj=console, **nanotok.context_settings)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name, command, rest = command.resolve_command(context, rest)
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=name, parent=context)
    return command.make_context(command.name, rest, parent=context)


def walk(command=nanotok, parent=None):
    """Yield the context of every command, groups before their commands."""
    context = click.Context(
        command, parent=parent, info_name=command.name, terminal_width=COLUMNS,
        **(command.context_settings if parent is None else {}),
    )  # fmt: skip
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), context)


ROOT = Path(__file__).parents[2]

RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["/data/web/*.parquet"]
id_column = "url"

[[source]]
name = "code"
kind = "text"
paths = ["/data/code/*.jsonl.gz"]

[[source]]
name = "chats"
kind = "chat"
paths = ["/data/chats/*.jsonl"]

[tokenizer]
vocab_size = 400

[output]
path = "/data/out"
"""
"""The recipe of pages that do not have one."""


def make_folder(root: Path) -> None:
    """Create `root`/data and the folder `root`/here, the working directory of commands."""
    data, here = root / "data", root / "here"
    for number in range(3):
        documents = [text for text in texts(30, seed=number) if text.strip()]
        _write_parquet(data / f"web/{number}.parquet", documents)
        _write_parquet(data / f"nanochat/base_data_climbmix/{number}.parquet", documents)
        _write_lines(data / f"code/{number}.jsonl.gz", documents)
        _write_lines(data / f"web/{number}.jsonl.gz", documents)
        write_conversations(data / f"chats/{number}.jsonl", conversations(8, seed=number))
    (data / "web.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in documents))
    _write_pages(data / "ocr/0.parquet")
    _write_counts(data / "spark-out/0.parquet")
    write_tokenizer(data / "gpt")
    _write_model(data / "model")
    _write_sharegpt(data / "sharegpt/0.jsonl")
    _write_tools(data / "tools/0.jsonl")
    here.mkdir()
    for folder in ("jobs", "deploy", "examples"):
        (here / folder).symlink_to(ROOT / folder)
    (data / "nanotok_ray").symlink_to(ROOT)  # the checkout
    for folder in (data, here):
        (folder / "corpus.txt").write_text("\n".join(texts(30, seed=9)))


CHATML = (
    "{% if tools %}<|im_start|>system\nTools: {{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A chat template with tools, without generation blocks."""


def _write_model(folder: Path) -> None:
    """Write the tokenizer of a model with a chat template."""
    write_tokenizer(folder, special_tokens=("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    config = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "chat_template": CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")


_ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def _write_sharegpt(path: Path) -> None:
    path.parent.mkdir(parents=True)
    call = json.dumps({"name": "add", "arguments": {"a": 1, "b": 2}})
    turns = [("human", "1 + 2?"), ("function_call", call), ("observation", "3"), ("gpt", "3.")]
    conversation = [{"from": speaker, "value": said} for speaker, said in turns]
    row = {"conversations": conversation, "system": "Add.", "tools": json.dumps([_ADD])}
    path.write_text(f"{json.dumps(row)}\n" * 12, "utf-8")


def _write_tools(path: Path) -> None:
    path.parent.mkdir(parents=True)
    function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    call = {"id": "1", "type": "function", "function": function}
    messages = [
        {"role": "developer", "content": "Add."},
        {"role": "user", "content": "1 + 2?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call],
            "reasoning_content": "A sum.",
        },
        {"role": "tool", "content": "3", "tool_call_id": "1"},
        {"role": "assistant", "content": "3."},
    ]
    path.write_text(f"{json.dumps({'messages': messages, 'tools': [_ADD]})}\n" * 12, "utf-8")


def write_tokenizer(folder: Path, *, special_tokens: tuple[str, ...] = ("<|endoftext|>",)) -> None:
    """Write a foreign tokenizer: a tokenizer.json with special tokens last."""
    tokenizer = Tokenizer.train_from_iterator(
        texts(50, seed=8), 320, pattern=PATTERNS["r50k"], special_tokens=special_tokens
    )
    tokenizer.save(folder)
    for path in folder.iterdir():
        if path.name != "tokenizer.json":
            path.unlink()


def _write_parquet(path: Path, documents: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    urls = [f"https://example.com/{path.stem}/{number}" for number in range(len(documents))]
    pq.write_table(pa.table({"text": documents, "url": urls}), path, row_group_size=16)


def _write_lines(path: Path, documents: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"text": one, "content": one}) + "\n" for one in documents)
    path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def _write_pages(path: Path) -> None:
    path.parent.mkdir(parents=True)
    rows = [
        {"prompt": "<image> What is it?", "response": f"page {number}", "image_token_counts": [4]}
        for number in range(8)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)


def _write_counts(path: Path) -> None:
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"span": ["hello", " world"], "count": [5, 4]}), path)
