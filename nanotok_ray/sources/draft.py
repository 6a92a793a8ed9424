"""Drafts a recipe for unknown files from the first documents of each file.

Each folder, format and shape of documents becomes one source. The recipe contains a source only if
a plan accepts it.
"""

import glob
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from nanotok_ray.errors import RecipeError, SourceError
from nanotok_ray.formats import RESERVED_NAMES
from nanotok_ray.recipe import LimitsRecipe, SourceRecipe
from nanotok_ray.recipe.text import absolute_path
from nanotok_ray.sources.names import ARRAY, TABLE, convertible, split_suffix
from nanotok_ray.sources.resolve import OnLook, ignore_looks, resolve
from nanotok_ray.sources.sample import check_sample
from nanotok_ray.sources.shape import SeenFile, Shape, look_at
from nanotok_ray.storage import InputFile, find_files
from nanotok_ray.units import few, format_bytes, quantity

_KNOWN_SUFFIXES = {".parquet", ".jsonl", ".ndjson"}
"""Suffixes from which a recipe infers the format."""

_MAX_LAST_SHARE = 0.05
"""The last file becomes the validation split unless it has a larger share of the bytes of its
source.
"""

_LINES_BYTES = 16 << 20
"""Text files of at least this mean size have one document per line."""

_ABOUT = re.compile(r"(readme|licen[cs]e|changelog|contributing|citation|notice)\b", re.IGNORECASE)
"""Names of files about the data, which are skipped unless they are named."""

_THREADS = 16
_HOW = {"document": "one document a file", "lines": "one document a line"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A drafted recipe and the findings about the files."""

    text: str
    """The recipe as TOML with comments; empty if no file can be used."""
    found: tuple[str, ...]
    """One line for each source."""
    unread: tuple[str, ...]
    """One line for each file or folder without a source, with the reason."""


def draft_recipe(
    paths: Sequence[str],
    *,
    output: str,
    vocab_size: int,
    on_look: OnLook = ignore_looks,
) -> Draft:
    """Open files and draft a recipe for them.

    Args:
        paths: files, folders, globs and URLs.
        output: the output folder of the recipe, local or a URL.
        vocab_size: the vocabulary size of the recipe.
        on_look: called with a name for all files, the number of opened files, and the number of
            files.

    Raises:
        SourceError: A path matches no file, or includes the output folder.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    output = absolute_path(output)
    files: dict[str, InputFile] = {}
    roots: dict[str, str] = {}
    named: dict[str, str | None] = {}
    for path in map(absolute_path, paths):
        on_look("", 0, 0)
        found = find_files(path, written={"output.path": output})
        for file in found.files:
            files.setdefault(file.path, file)
            roots.setdefault(file.path, found.folder)
            if found.is_folder:
                named[file.path] = None
            else:
                named.setdefault(file.path, path)
    seen = list(_look_into([files[path] for path in sorted(files)], named, on_look))
    unread: dict[str, list[str]] = defaultdict(list)
    for item in seen:
        if item.problem:
            unread[item.problem].append(item.file.path)
    sources = []
    for source in _sources(seen, roots, named):
        if problem := source.problem():
            unread[problem] += [item.file.path for item in source.members]
        else:
            sources.append(source)
    return Draft(
        text=_recipe_text(sources, output=output, vocab_size=vocab_size) if sources else "",
        found=tuple(map(_found_line, sources)),
        unread=tuple(_unread_line(problem, paths) for problem, paths in unread.items()),
    )


def _unread_line(problem: str, paths: Sequence[str]) -> str:
    names = few([path.rpartition("/")[2] for path in paths])
    advice = f": {convertible(paths[0])}" if problem in {ARRAY, TABLE} else ""
    return f"{names}: {problem}{advice}"


def _look_into(
    files: Sequence[InputFile], named: Mapping[str, str | None], on_look: OnLook
) -> Iterator[SeenFile]:
    def look(file: InputFile) -> SeenFile:
        is_about = _ABOUT.match(file.path.rpartition("/")[2]) and not named[file.path]
        return (
            SeenFile(file, problem="about the data, not part of it") if is_about else look_at(file)
        )

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        for number, item in enumerate(pool.map(look, files)):
            on_look("", number + 1, len(files))
            yield item


@dataclass(frozen=True, kw_only=True, slots=True)
class _Source:
    """A source of the recipe."""

    name: str
    shape: Shape
    paths: tuple[str, ...]
    members: tuple[SeenFile, ...]

    @property
    def last_share(self) -> float:
        """The share of the last file in the bytes of the source."""
        sizes = [item.file.size for item in self.members]
        last = max(self.members, key=lambda item: item.file.path)
        return last.file.size / max(1, sum(sizes))

    def keys(self, *, is_counted: bool = False) -> dict[str, Any]:
        """Return the keys of the recipe that differ from the default, and the splits of text."""
        shape, suffixes = self.shape, {split_suffix(item.file.path)[0] for item in self.members}
        keys: dict[str, Any] = {"name": self.name, "kind": shape.kind, "paths": list(self.paths)}
        if suffixes - _KNOWN_SUFFIXES:
            keys["format"] = shape.format
        if shape.column:
            keys["column"] = shape.column
        if shape.kind == "text":
            is_last = shape.format != "document" and self.last_share <= _MAX_LAST_SHARE
            keys["split"] = "last-file" if is_last else "share:0.01"
        elif is_counted:
            keys["count"] = True
        return keys

    def problem(self) -> str:
        """Return the reason why a plan would refuse the source, or an empty string."""
        try:
            recipe = SourceRecipe.model_validate(self.keys())
            check_sample(recipe, resolve(recipe).files, limits=LimitsRecipe())
        except (RecipeError, SourceError) as error:
            return str(error).removeprefix(f"source {self.name!r}: ")
        return ""


def _sources(
    seen: Sequence[SeenFile], roots: Mapping[str, str], named: Mapping[str, str | None]
) -> Iterator[_Source]:
    """Yield a source for each folder and shape of documents."""
    groups: dict[tuple[str, Shape], list[SeenFile]] = defaultdict(list)
    for item in seen:
        if item.shape is not None:
            folder = _folder(item.file.path, roots[item.file.path])
            same = replace(item.shape, dialect="", ids="", others=())
            groups[folder, same].append(item)
    taken = set(RESERVED_NAMES)
    for (folder, same), members in groups.items():
        shape = members[0].shape or same
        if shape.format == "document":
            is_large = sum(item.file.size for item in members) > len(members) * _LINES_BYTES
            shape = replace(shape, format="lines" if is_large else "document")
        name = _name(folder, shape, taken)
        taken.add(name)
        paths = tuple(_paths(folder, members, seen, named))
        yield _Source(name=name, shape=shape, paths=paths, members=tuple(members))


def _folder(path: str, root: str) -> str:
    """Return the folder of a source: the named folder or its child that contains the file.

    >>> _folder("/data/web/2024/a.jsonl", "/data"), _folder("/data/a.jsonl", "/data")
    ('/data/web', '/data')
    """
    first, slash, _ = path[len(root.rstrip("/")) + 1 :].partition("/")
    return f"{root.rstrip('/')}/{first}" if slash else root


def _paths(
    folder: str,
    members: Iterable[SeenFile],
    seen: Iterable[SeenFile],
    named: Mapping[str, str | None],
) -> Iterator[str]:
    """Yield a glob for each suffix if the source has all such files of a folder, else the files.

    Files without documents match any source. `named` has the path by which the user named each
    file, None for a file in a named folder: the paths match only named files.
    """
    mine, others = defaultdict(list), defaultdict(list)
    chosen = {item.file.path for item in members}
    for item in seen:
        path = item.file.path
        end = "." + ".".join(
            path.rpartition("/")[2].split(".")[-2 if split_suffix(path)[1] else -1 :]
        )
        if path in chosen:
            mine[end].append(path)
        elif path.startswith(f"{folder.rstrip('/')}/") and (item.shape or item.problem):
            others[end].append(path)
    for end, paths in mine.items():
        is_deep = any("/" in path[len(folder.rstrip("/")) + 1 :] for path in paths)
        nearby = [path for path in others[end] if is_deep or "/" not in path[len(folder) + 1 :]]
        given = {named[path] for path in paths}
        pattern = given.pop() if len(given) == 1 else ""
        if pattern is None and not nearby and len(paths) > 1:
            yield f"{glob.escape(folder.rstrip('/'))}/{'**/' if is_deep else ''}*{glob.escape(end)}"
        elif pattern and all(path in paths for path, other in named.items() if other == pattern):
            yield pattern
        else:
            yield from paths


def _name(folder: str, shape: Shape, taken: set[str]) -> str:
    """Return a name for a source that no other source has."""
    base = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.rpartition("/")[2]).strip("-.")[:80] or "corpus"
    kind = "" if shape.kind == "text" else f"-{shape.kind}"
    names = [base, f"{base}{kind or '-text'}", f"{base}{kind}-{shape.format}"]
    names += [f"{base}-{number}" for number in range(2, len(taken) + 3)]
    return next(name for name in names if name not in taken)


def _found_line(source: _Source) -> str:
    shape, members = source.shape, source.members
    size = format_bytes(sum(item.file.size for item in members))
    number = quantity(len(members), "file")
    kinds = sorted({kind for item in members if (kind := split_suffix(item.file.path)[1])})
    dialects = {item.shape.dialect for item in members if item.shape} - {""}
    what = f"text in {shape.column!r}" if shape.column else _HOW.get(shape.format, "")
    others = {name: None for item in members if item.shape for name in item.shape.others}
    if others:
        what += f"; not read: {few([repr(name) for name in others])}"
    if shape.kind != "text":
        of = f" ({', '.join(sorted(dialects))})" if dialects else ""
        what = f"{'conversations' if shape.kind == 'chat' else 'documents with images'}{of}"
    form = "text" if shape.format in _HOW else shape.format
    stored = f"{form} ({', '.join(kinds)})" if kinds else form
    return f"{source.name}: {number} of {stored}, {size}, {what}"


def _recipe_text(sources: Sequence[_Source], *, output: str, vocab_size: int) -> str:
    """Return the recipe, which stays valid when files of the same kind are added."""
    has_text = any(source.shape.kind == "text" for source in sources)
    has_images = any(source.shape.kind == "vision" for source in sources)
    lines = [
        "# Drafted from the first documents of the files: check the sources before you run it.",
        "# `nanotok plan` shows what the job would do, `nanotok prepare` runs it, and",
        "# docs/recipes.md explains every key. Relative paths begin at the working directory.",
    ]
    for source in sources:
        lines += ["", "[[source]]", *_source_lines(source, is_counted=not has_text)]
    lines += ["", "[tokenizer]", f"vocab_size = {vocab_size}  # bytes and special tokens included"]
    if has_images:
        lines.append('extend = ["preset:seed"]  # special tokens that stand for images')
    return "\n".join([*lines, "", "[output]", f"path = {_toml(output)}", ""])


def _source_lines(source: _Source, *, is_counted: bool) -> Iterator[str]:
    shape, keys = source.shape, source.keys(is_counted=is_counted)
    is_share = keys.get("split", "").startswith("share")
    comments = {
        "name": "also the name of its folder in the output",
        "kind": {
            "text": "",
            "chat": "conversations: their shards have a loss mask",
            "vision": "documents with images",
        }[shape.kind],
        "format": _HOW.get(shape.format, ""),
        "column": f"not read: {few(shape.others)}" if shape.others else "",
        "split": "1% of the documents are for validation, chosen by hash"
        if is_share
        else "the last file is for validation, as in nanochat",
        "count": "learn the tokenizer from it, as there is no plain text",
    }
    for key, value in keys.items():
        comment = comments.get(key, "")
        yield f"{key} = {_toml(value)}{f'  # {comment}' if comment else ''}"
    if shape.ids:
        yield f"# id_column = {_toml(shape.ids)}  # carried along beside each document"


def _toml(value: object) -> str:
    r"""Return a value as TOML; the syntax of a variable in a text is escaped.

    >>> print(_toml('a${B} "\x7f'), _toml(["c"]), _toml(True))
    "a$${B} \"\u007f" ["c"] true
    """
    if isinstance(value, list) and len(value) > 1:
        return "\n".join(["[", *(f"  {_toml(item)}," for item in value), "]"])
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return text.replace("${", "$${")
