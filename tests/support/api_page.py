"""docs/api.md from the docstrings of the public names: `python -m tests.support.api_page`."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"

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
    PAGE.write_text(page())
