"""The text of a drafted recipe: TOML with comments."""

import json
from collections.abc import Collection, Sequence
from fractions import Fraction
from glob import escape
from math import ceil
from typing import Final

from nanotok_ray.recipe.problems import lines_of
from nanotok_ray.sources.draft_sources import HOW, DraftedSource, RecipeKeys
from nanotok_ray.sources.shape import SeenFile
from nanotok_ray.storage import static_parts
from nanotok_ray.units import few, quantity

_HEAD: Final = """\
# Drafted from the first documents of the files: check the sources before you run it.
# `nanotok plan` shows what the job would do, `nanotok prepare` runs it, and
# docs/recipes.md explains every key. Relative paths begin at the working directory.
"""

IMAGES: Final = 'extend = ["preset:seed"]  # special tokens that stand for images\n'

NOT_COUNTED: Final = (
    "count = false  # added after the tokenizer was learned; --relearn also learns from it\n"
)
"""The line of a source that is added to a recipe whose tokenizer exists and is kept."""

OF_A_MODEL: Final = (
    '# tools = "tools"  # the field with tools, which the chat template of a model renders: set\n'
    '#                    tokenizer.path, or template = "FILE.jinja" (docs/chats.md)\n'
)
"""The lines of a source of conversations, for users who fine-tune a model."""


def recipe_text(
    sources: Sequence[DraftedSource],
    *,
    output: str,
    vocab_size: int,
    excludes_unusable: bool = False,
) -> str:
    """Return a recipe, which stays valid when files of the same kind are added.

    Args:
        sources: the sources.
        output: the output folder.
        vocab_size: the vocabulary size.
        excludes_unusable: whether to name the files that cannot be used in `exclude`, and not only
            those about the data, and to allow for the bad documents of others in the limits.
    """
    has_text = any(source.shape.kind == "text" for source in sources)
    has_images = any(source.shape.kind == "vision" for source in sources)
    tables = [
        source_text(source, is_counted=not has_text, excludes_unusable=excludes_unusable)
        for source in sources
    ]
    size = f"[tokenizer]\nvocab_size = {vocab_size}  # bytes and special tokens included\n"
    limits = [text for text in [_limits(sources)] if text and excludes_unusable]
    tokenizer = size + IMAGES * has_images
    return "\n".join([_HEAD, *tables, tokenizer, *limits, f"[output]\npath = {toml(output)}\n"])


def _limits(sources: Sequence[DraftedSource]) -> str:
    """Return the table of limits with which a job quarantines the bad files, or an empty string.

    The limit is at least twice the largest share of such files in a source, as whole percents.
    """
    bad = [[item for item in source.members if item.problem] for source in sources]
    files = [item for items in bad for item in items]
    if not files:
        return ""
    pairs = zip(bad, sources, strict=True)
    share = max(Fraction(len(items), len(source.members)) for items, source in pairs)
    limit = min(100, ceil(200 * share)) / 100
    comment = f"{quantity(len(files), 'file')}: {files[0].problem}, whose documents are quarantined"
    return f"[limits]\nmax_quarantined_share = {limit}  # {comment}\n"


def source_text(
    source: DraftedSource,
    *,
    is_counted: bool = False,
    is_late: bool = False,
    excludes_unusable: bool = False,
) -> str:
    """Return the table of a source.

    Args:
        source: the source.
        is_counted: whether a tokenizer is learned from a source of conversations or images.
        is_late: whether the tokenizer exists, and is kept.
        excludes_unusable: as for `recipe_text`.
    """
    keys = source.keys
    if is_counted:
        keys["count"] = True
    others = [item for item in source.others if excludes_unusable or item.is_unused]
    lines = ["[[source]]\n"]
    for key, value in keys.items():
        lines.append(_line(key, value, _comment(source, key, keys)))
        if key == "paths" and others:
            lines.append(_exclude(source, others))
    if is_late and source.shape.kind == "text":
        lines.append(NOT_COUNTED)
    if source.shape.kind == "chat":
        lines.append(OF_A_MODEL)
    if source.shape.ids:
        ids = toml(source.shape.ids)
        lines.append(f"# id_column = {ids}  # carried along beside each document\n")
    return "".join(lines)


def _comment(source: DraftedSource, key: str, keys: RecipeKeys) -> str:
    shape = source.shape
    is_share = str(keys.get("split")).startswith("share")
    comments = {
        "name": "also the name of its folder in the output",
        "kind": {
            "text": "",
            "chat": "conversations: their shards have a loss mask",
            "vision": "documents with images",
        }[shape.kind],
        "format": HOW.get(shape.format, ""),
        "column": f"not read: {few(shape.others)}" if shape.others else "",
        "split": "1% of the documents are for validation, chosen by hash"
        if is_share
        else "the last file is for validation, as in nanochat",
        "count": "learn the tokenizer from it, as there is no plain text",
    }
    return comments.get(key, "")


def _line(key: str, value: object, comment: str) -> str:
    return f"{key} = {toml(value)}{f'  # {comment}' if comment else ''}\n"


def _exclude(source: DraftedSource, others: Collection[SeenFile]) -> str:
    """Return the key that leaves out files, each with the reason."""
    is_below = all(static_parts(path)[0] == source.folder for path in source.paths)
    start = len(source.folder.rstrip("/")) + 1 if is_below else 0
    lines = [
        f"  {toml(escape(item.file.path[start:]))},  # {' '.join(item.problem.split())}\n"
        for item in others
    ]
    return "".join(["exclude = [\n", *lines, "]\n"])


def toml(value: object) -> str:
    r"""Return a value as TOML; the syntax of a variable in a text is escaped.

    >>> print(toml('a${B} "\x7f'), toml(["c"]), toml(True))
    "a$${B} \"\u007f" ["c"] true
    """
    if isinstance(value, list) and len(value) > 1:
        return "\n".join(["[", *(f"  {toml(item)}," for item in value), "]"])
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return text.replace("${", "$${")


def extended_text(
    text: str, names: Sequence[str], sources: Sequence[DraftedSource], *, is_late: bool
) -> str:
    """Return a drafted recipe with further sources, and further paths of its sources.

    Args:
        text: the recipe, as it was drafted.
        names: the names of its sources.
        sources: the sources that were drafted for further files.
        is_late: as for `source_text`.
    """
    for source in sources:
        if source.extends is not None:
            text = _with_paths(text, names.index(source.name), source)
    tables = [source_text(source, is_late=is_late) for source in sources if not source.extends]
    lines = text.splitlines(keepends=True)
    end = lines_of(text)["tokenizer",] - 1
    return "".join([*lines[:end], *(f"{table}\n" for table in tables), *lines[end:]])


def _with_paths(text: str, index: int, source: DraftedSource) -> str:
    """Return a recipe in which a source has further paths, and leaves out further files."""
    assert source.extends is not None
    lines, numbers = text.splitlines(keepends=True), lines_of(text)
    start = numbers["source", index, "paths"] - 1
    paths = list(dict.fromkeys([*source.extends.paths, *source.paths]))
    stop = _stop(lines, start)
    lines[start:stop] = [_line("paths", paths, "")]
    if others := [item for item in source.others if item.is_unused]:
        exclude = _exclude(source, others)
        at = numbers.get(("source", index, "exclude"), 0) - (stop - start)
        if at < 0:
            lines.insert(start + 1, exclude)
        else:
            end = _stop(lines, at)
            lines[end - 1 : end] = exclude.splitlines(keepends=True)[1:]
    return "".join(lines)


def _stop(lines: Sequence[str], start: int) -> int:
    """Return the end of a value that begins at a line: one line, or a list up to `]`."""
    if not lines[start].endswith("[\n"):
        return start + 1
    return lines.index("]\n", start) + 1
