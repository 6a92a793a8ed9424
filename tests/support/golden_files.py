"""The stored files that are made from the code, which `make golden` writes.

    python -m tests.support.golden_files

writes every file format as small files to tests/golden (docs/formats.md describes their bytes), the
help of all commands to tests/cli/golden/help.txt, and docs/api.md from the docstrings of the public
names. Review the changes as a diff.
"""

import importlib
import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nanotok_ray.counts import SpanCounts
from nanotok_ray.exports import LAYOUTS, parse_layout
from nanotok_ray.formats import DocumentBatch, suffixes_of
from nanotok_ray.shards import ShardFiles
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.doc_commands import walk
from tests.support.made_output import BOS, END, MadeSource, export_here, made_output

TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden"
HELP = TESTS / "cli/golden/help.txt"
PAGE = TESTS.parent / "docs/api.md"
OLD_OUTPUTS = GOLDEN / "outputs_b6d410be"
"""Outputs of an earlier commit, which are never rewritten; see `golden_jobs`."""

TEXTS = ["low lower lowest", "new newer newest", "wide widest", "caf\u00e9 \u65e5\u672c"]
WEB = [
    MadeSource(name="web", shards=[[[BOS, 5, 6, 7], [BOS]], [[BOS, 65535, 0]]]),
    MadeSource(name="web", split="val", shards=[[[BOS, 9]]]),
]
CHAT = MadeSource(
    name="chat",
    kind="chat",
    shards=[[[BOS, 1, 2, 3, END], [BOS, 4, END]]],
    with_document_ids=True,
)


def write_golden_files(root: Path) -> None:
    """Write all files to a folder; their bytes depend neither on place nor on time."""
    _write_tokenizer(root / "tokenizer")
    counts = SpanCounts("nanochat", num_threads=1)
    counts.update(TEXTS)
    counts.save(str(root / "counts/counts.arrow"))
    made_output(root / "output", *WEB, CHAT)
    _write_vision(Folder(str(root / "vision")))
    for item_bytes, name in ((2, "export"), (4, "export-uint32")):
        out = made_output(root / "native", *WEB, CHAT, item_bytes=item_bytes)
        for layout in LAYOUTS:
            export_here(out, parse_layout(layout), Folder(str(root / name / layout)))
        shutil.rmtree(root / "native")
        for layout in ("parquet", "packed"):  # whose records have the sha256 of Arrow's bytes
            shutil.rmtree(root / name / layout / "records", ignore_errors=True)


def _write_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer.train_from_iterator(TEXTS, vocab_size=275)
    tokenizer.save(str(folder))


def _write_vision(out: Folder) -> None:
    files = ShardFiles(
        out, "pages", item_bytes=2, suffixes=suffixes_of("vision", with_document_ids=False)
    )
    ids = np.array([BOS, 7, 7, 7, 5, BOS, 6, END], dtype=np.uint16)
    mask = np.array([0, 0, 0, 0, 1, 0, 1, 1], dtype=np.uint8)
    images = np.array([[0, 1, 2], [0, 2, 4]])
    files.write(DocumentBatch(ids=ids, positions=np.array([0, 5, 8]), mask=mask, images=images))
    files.close()


def whole_help() -> str:
    """Return the help of all commands."""
    own = (f"$ {context.command_path} --help\n{context.get_help()}" for context in walk())
    return "\n\n".join(own) + "\n"


INTRODUCTION = """\
# Python API

After this page you can run jobs, use tokenizers and read shards from Python. It is made from the
docstrings: names that are not here are internal and may change.

```python
import nanotok_ray

recipe = nanotok_ray.load_recipe("recipe.toml")
print(nanotok_ray.plan(recipe).text())
summary = nanotok_ray.prepare(recipe, executor="local")
shards = nanotok_ray.open_shards(recipe.output.path, split="train")
```
"""

SECTIONS = {
    "Jobs": {
        "nanotok_ray": (
            *("load_recipe", "Recipe", "plan", "JobPlan", "prepare", "train", "tokenize"),
            *("verify", "export", "Summary", "Progress"),
        )
    },
    "Tokenizers": {
        "nanotok_ray": ("Tokenizer", "open_tokenizer", "learn", "SpanCounts", "RustBPETokenizer")
    },
    "Arrow columns": {"nanotok_ray.arrow": ("encode", "count", "render", "decode")},
    "Data": {
        "nanotok_ray.loader": ("open_shards", "Shards", "Loader", "Batch", "NanochatLoader"),
    },
}
WITHOUT_SIGNATURE = {"JobPlan", "Summary", "Batch", "Shards", "Recipe"}
"""Classes that users receive rather than create, and one whose keys have their own page."""

METHODS = {"__len__", "__getitem__", "__iter__"}
_HEAD = re.compile(r"(Args|Returns|Raises|Yields|Attributes):")


def page() -> str:
    """Return the page; a class is described under its first name only."""
    parts = [INTRODUCTION]
    titles: dict[object, str] = {}
    for title, modules in SECTIONS.items():
        parts.append(f"## {title}\n")
        for module, names in modules.items():
            home = importlib.import_module(module)
            for name in names:
                item, entry = getattr(home, name), f"{module}.{name}"
                if item in titles:
                    parts.append(f"### {entry}\n\nThe same class as {titles[item]}.\n")
                else:
                    parts += _entry(entry, item, level=3)
                titles.setdefault(item, entry)
    return "\n".join(parts)


def _entry(title: str, item: object, *, level: int) -> Iterator[str]:
    own = title.rpartition(".")[2]
    yield f"{'#' * level} {own if level > 3 else title}\n"
    if own not in WITHOUT_SIGNATURE:
        yield f"```text\n{_signature(own, item)}\n```\n"
    yield from _blocks(inspect.getdoc(item) or "")
    if not inspect.isclass(item):
        return
    for name, member in _members(item).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if name == "__init__" and member.__doc__ and own not in WITHOUT_SIGNATURE:
            yield from _blocks(inspect.cleandoc(member.__doc__))
        elif (not name.startswith("_") or name in METHODS) and inspect.isfunction(function):
            yield from _entry(f"{title}.{name}", function, level=level + 1)
        elif isinstance(member, property) and not name.startswith("_"):
            yield f"#### {name}\n"
            yield from _blocks(inspect.getdoc(member) or "")


def _members(item: type) -> dict[str, object]:
    """Return the members that a class and its bases in this project define, the class first.

    Pydantic adds a method to a class with private attributes.
    """
    members: dict[str, object] = {}
    for base in item.__mro__:
        if base.__module__.startswith("nanotok_ray"):
            members = {**members, **{k: v for k, v in vars(base).items() if k not in members}}
    return {name: member for name, member in members.items() if name != "model_post_init"}


def _signature(name: str, item: object) -> str:
    """Return a signature, with one parameter per line if it is long."""
    try:
        signature = inspect.signature(item)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    text = str(signature.replace(return_annotation=inspect.Signature.empty))
    text = re.sub(r"nanotok_ray(\.\w+)+\.(\w+)", r"\2", f"{name}{text}").replace("'", "")
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", text).replace("<factory>", "...")
    text = re.sub(r"(collections\.abc|typing)\.", "", text)
    text = re.sub(
        r"Union\[type\[Any\], numpy\.dtype\[Any\], numpy\.__.*?, str\]", "DTypeLike", text
    )
    text = re.sub(r"Union\[Literal\[all\], Collection\[str\], NoneType\]", "Special | None", text)
    if len(text) <= 100:
        return text
    inner = text[len(name) + 1 : -1]
    pieces = _split(inner)
    return "\n".join([f"{name}(", *(f"    {piece}," for piece in pieces), ")"])


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    pieces, depth = [""], 0
    for part in re.split(r"([\[\](){}]|, )", text):
        depth += (part in {"[", "(", "{"}) - (part in {"]", ")", "}"})
        if part == ", " and not depth:
            pieces.append("")
        else:
            pieces[-1] += part
    return pieces


def _blocks(text: str) -> Iterator[str]:
    """Yield a docstring as Markdown: sections as lists, examples as code."""
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if not lines:
            continue
        if block.lstrip().startswith(">>>"):
            yield "```python\n" + "\n".join(lines) + "\n```\n"
        elif _HEAD.fullmatch(lines[0]):
            yield f"{lines[0][:-1]}:\n\n{_items(lines[1:])}\n"
        else:
            yield block + "\n"


def _items(lines: list[str]) -> str:
    """Return the items of a section; an indented line continues the previous item."""
    items: list[str] = []
    for line in lines:
        if line.startswith("        ") and items:
            items[-1] += f" {line.strip()}"
        else:
            name, colon, rest = line.strip().partition(": ")
            items.append(f"- `{name}`: {rest}" if colon else f"- {line.strip()}")
    return "\n".join(items)


if __name__ == "__main__":
    for path in GOLDEN.iterdir():
        if path != OLD_OUTPUTS:
            shutil.rmtree(path)
    write_golden_files(GOLDEN)
    HELP.write_text(whole_help(), "utf-8")
    PAGE.write_text(page(), "utf-8")
