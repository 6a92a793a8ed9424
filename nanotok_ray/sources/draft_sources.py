"""Drafts the sources of a recipe for unknown files from the first documents of each file.

Each folder, format and shape of documents becomes one source. A source is drafted only if a plan
accepts it.
"""

import glob
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from nanotok_ray.errors import RecipeError, SourceError
from nanotok_ray.formats import RESERVED_NAMES
from nanotok_ray.recipe import LimitsRecipe, SourceRecipe
from nanotok_ray.recipe.text import absolute_path
from nanotok_ray.sources.listing import Listing
from nanotok_ray.sources.named_files import ReadingRules
from nanotok_ray.sources.names import (
    ARRAY,
    PLAIN_FORMATS,
    SUFFIX_FORMATS,
    TABLE,
    convertible,
    drafted_format,
    full_suffix,
    is_table,
    matches,
    recipe_format,
    split_suffix,
)
from nanotok_ray.sources.plan_build import MAX_LAST_SHARE, last_share
from nanotok_ray.sources.resolve import OnLook, ignore_looks, resolve
from nanotok_ray.sources.sample import check_sample
from nanotok_ray.sources.shape import SeenFile, Shape, look_at
from nanotok_ray.sources.start import in_threads
from nanotok_ray.sources.unusable import UnusableFile
from nanotok_ray.storage import InputFile, find_files
from nanotok_ray.units import few, format_bytes, masked_url, quantity

_LINES_BYTES = 16 << 20
"""Text files of at least this mean size have one document per line."""

_ABOUT = re.compile(r"(readme|licen[cs]e|changelog|contributing|citation|notice)\b", re.IGNORECASE)
"""Names of files about the data, which are skipped unless they are named."""

_NO_FORMAT: Final = "no known format"
HOW: Final = {"document": "one document a file", "lines": "one document a line"}


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedPaths:
    """The files that paths name."""

    files: Mapping[str, InputFile]
    roots: Mapping[str, str]
    """The folder of each file that its path names, without wildcards."""
    patterns: Mapping[str, str | None]
    """The path that names each file; None for a file in a named folder."""
    hidden: Mapping[str, InputFile]
    """The files of named folders that are skipped only because of their names."""
    output: str
    """The output folder of the recipe for the files: an absolute path or a URL."""


def find_paths(paths: Sequence[str], *, output: str, on_look: OnLook = ignore_looks) -> NamedPaths:
    """Find the files of paths, globs, folders and URLs.

    Args:
        paths: the paths.
        output: the output folder of the recipe for the files, local or a URL.
        on_look: called before the files of a path are listed.

    Raises:
        RecipeError: A path or the output has a login or a signature, which the recipe would
            contain.
        SourceError: A path matches no file, or includes the output folder.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    for url in (*paths, output):
        if masked_url(url) != url:
            raise RecipeError(
                f"{masked_url(url)} has a login or a signature, which the drafted recipe would "
                "contain: write a recipe that names an environment variable instead, as in "
                'paths = ["${URL}"], and set the variable to it'
            )
    output = absolute_path(output)
    files: dict[str, InputFile] = {}
    roots: dict[str, str] = {}
    patterns: dict[str, str | None] = {}
    hidden: dict[str, InputFile] = {}
    for path in map(absolute_path, paths):
        on_look("", 0, 0)
        listed = find_files(path, written={"output.path": output})
        for file in listed.files:
            files.setdefault(file.path, file)
            roots.setdefault(file.path, listed.folder)
            if listed.is_folder:
                patterns[file.path] = None
            else:
                patterns.setdefault(file.path, path)
        hidden |= {file.path: file for file in listed.hidden}
    return NamedPaths(files=files, roots=roots, patterns=patterns, hidden=hidden, output=output)


RecipeKeys = dict[str, str | bool | list[str]]
"""Keys of a source of a recipe with their values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftedSource:
    """A source for files of one folder and shape."""

    name: str
    shape: Shape
    folder: str
    paths: tuple[str, ...]
    members: tuple[SeenFile, ...]
    others: tuple[SeenFile, ...] = ()
    """Further files that the paths match, which cannot be used or are about the data."""
    extends: SourceRecipe | None = None
    """The source of an existing recipe to which the paths are added."""

    @property
    def keys(self) -> RecipeKeys:
        """The keys of the recipe that differ from the default, and the split of texts."""
        shape, suffixes = self.shape, {split_suffix(item.file.path)[0] for item in self.members}
        keys: RecipeKeys = {"name": self.name, "kind": shape.kind, "paths": [*self.paths]}
        if suffixes - SUFFIX_FORMATS.keys():
            keys["format"] = shape.format
        if shape.column:
            keys["column"] = shape.column
        if shape.kind == "text":
            files = sorted((item.file for item in self.members), key=lambda file: file.path)
            is_last = shape.format != "document" and last_share(files) <= MAX_LAST_SHARE
            keys["split"] = "last-file" if is_last else "share:0.01"
        return keys

    def problem(self) -> str:
        """Return the reason why a plan would refuse the source, or an empty string."""
        exclude = tuple(glob.escape(item.file.path) for item in self.others)
        try:
            recipe = SourceRecipe.model_validate({**self.keys, "exclude": exclude})
            if self.extends is not None:
                changes = {"paths": self.paths, "split": "train", "exclude": exclude}
                recipe = self.extends.model_copy(update=changes)
            check_sample(recipe, resolve(recipe).files, limits=LimitsRecipe())
        except (RecipeError, SourceError) as error:
            return str(error).removeprefix(f"source {self.name!r}: ")
        return ""

    def found_line(self) -> str:
        """Return a line on its files."""
        shape, members = self.shape, self.members
        size = format_bytes(sum(item.file.size for item in members))
        number = quantity(len(members), "file")
        kinds = sorted({kind for item in members if (kind := split_suffix(item.file.path)[1])})
        dialects = {item.shape.dialect for item in members if item.shape} - {""}
        what = f"text in {shape.column!r}" if shape.column else HOW.get(shape.format, "")
        others = {name: None for item in members if item.shape for name in item.shape.others}
        if others:
            what += f"; not read: {few([repr(name) for name in others])}"
        if shape.kind != "text":
            of = f" ({', '.join(sorted(dialects))})" if dialects else ""
            what = f"{'conversations' if shape.kind == 'chat' else 'documents with images'}{of}"
        if bad := [item for item in members if item.problem]:
            what += f"; {len(bad):,} {bad[0].problem}, to be quarantined: {few(_names(bad))}"
        form = "text" if shape.format in HOW else shape.format
        stored = f"{form} ({', '.join(kinds)})" if kinds else form
        return f"{self.name}: {number} of {stored}, {size}, {what}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A drafted or an extended recipe, and the findings about the files."""

    sources: tuple[DraftedSource, ...]
    unusable_files: tuple[SeenFile, ...]
    """Files without a source that cannot be used, with the reason."""
    unused_files: tuple[SeenFile, ...]
    """Files that are no part of a corpus that is read, with the reason."""
    text: str = ""
    """The recipe as TOML with comments; empty if no file can be used."""

    @property
    def found(self) -> tuple[str, ...]:
        """One line for each source that was drafted."""
        return tuple(source.found_line() for source in self.sources)

    @property
    def unread(self) -> tuple[str, ...]:
        """One line for each reason why files have no source."""
        return tuple(_unread_lines((*self.unusable_files, *self.unused_files)))

    @property
    def unused(self) -> tuple[str, ...]:
        """Those of these lines on files that are no part of a corpus that is read."""
        return tuple(_unread_lines(self.unused_files))

    @property
    def unusable(self) -> tuple[UnusableFile, ...]:
        """The other files without a source, which cannot be used."""
        return tuple(
            UnusableFile(path=item.file.path, reason=f"{item.problem}{_conversion(item)}")
            for item in self.unusable_files
        )


def _unread_lines(items: Iterable[SeenFile]) -> list[str]:
    """Return a line for each reason why files are not read."""
    reasons: dict[tuple[bool, str], list[SeenFile]] = defaultdict(list)
    for item in items:
        reasons[item.is_unused, item.problem].append(item)
    return [
        _unread_line(problem, members, with_size=is_unused)
        for (is_unused, problem), members in reasons.items()
    ]


def _names(items: Iterable[SeenFile]) -> list[str]:
    return [item.file.path.rpartition("/")[2] for item in items]


def _unread_line(problem: str, items: Sequence[SeenFile], *, with_size: bool) -> str:
    size = format_bytes(sum(item.file.size for item in items))
    line = f"{few(_names(items))}: {problem}{f', {size}' if with_size else ''}"
    if problem == _NO_FORMAT:
        line += "; --document-per-file reads each file as one document"
    return f"{line}{_conversion(items[0])}"


def _conversion(item: SeenFile) -> str:
    """Return how to convert a file, or an empty string if that is unknown."""
    return f": {convertible(item.file.path)}" if item.problem in {ARRAY, TABLE} else ""


def draft_sources(
    named: NamedPaths,
    *,
    rules: ReadingRules,
    known: Sequence["KnownSource"] = (),
    on_look: OnLook = ignore_looks,
) -> Draft:
    """Open files and draft sources for them.

    Args:
        named: the files.
        rules: the rules by which they are read; a format and a column are otherwise chosen.
        known: the sources that the recipe already has, whose files are not opened.
        on_look: called with a name for all files, the number of opened files, and the number of
            files.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    decided = {path for source in known for path in source.decided}
    files = [named.files[path] for path in sorted(named.files) if path not in decided]
    seen = list(_look_into(files, named, rules, on_look))
    sources: list[DraftedSource] = []
    refused: list[SeenFile] = []
    for source in _sources(seen, named, rules, known):
        if problem := source.problem():
            refused += [replace(item, problem=problem) for item in source.members]
        else:
            sources.append(source)
    unread = [item for item in seen if item.problem and item.shape is None]
    noted = {file.path for other in known for file in other.listing.hidden}
    hidden = [
        SeenFile(file, problem="a hidden or temporary name", is_unused=True)
        for path, file in named.hidden.items()
        if path not in decided | noted
        and drafted_format(path.removesuffix(".tmp"))
        # Planning notes those that the paths of a source match.
        and not any(matches(path, pattern) for source in sources for pattern in source.paths)
    ]
    return Draft(
        sources=tuple(sources),
        unusable_files=(*(item for item in unread if not item.is_unused), *refused),
        unused_files=(*(item for item in unread if item.is_unused), *hidden),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownSource:
    """A source of a recipe, with its files."""

    recipe: SourceRecipe
    listing: Listing

    @property
    def decided(self) -> Iterator[str]:
        """The paths of the files that the source reads or leaves out."""
        yield from (file.path for file in self.listing.files.values())
        yield from self.listing.excluded

    @property
    def format(self) -> str | None:
        """The format of its files, by its key or by the suffix of its paths."""
        return self.recipe.format or next(filter(None, map(recipe_format, self.recipe.paths)), None)

    def takes(self, shape: Shape, folder: str, suffixes: Collection[str]) -> bool:
        """Return whether the source can read more files without a change of its other files."""
        recipe, form = self.recipe, self.format
        is_same = form == shape.format or {form, shape.format} <= {*PLAIN_FORMATS}
        return (
            self.listing.root == folder
            and (recipe.kind, recipe.column) == (shape.kind, shape.column)
            and is_same
            and (recipe.format is not None or SUFFIX_FORMATS.keys() >= {*suffixes})
        )


def _look_into(
    files: Sequence[InputFile], named: NamedPaths, rules: ReadingRules, on_look: OnLook
) -> Iterator[SeenFile]:
    def look(file: InputFile) -> SeenFile:
        return _look(file, is_named=named.patterns[file.path] is not None, rules=rules)

    for number, item in enumerate(in_threads(look, files)):
        on_look("", number + 1, len(files))
        yield item


def _look(file: InputFile, *, is_named: bool, rules: ReadingRules) -> SeenFile:
    if not is_named and _ABOUT.match(file.path.rpartition("/")[2]):
        return SeenFile(file, problem="about the data, not part of it", is_unused=True)
    form = _format_of(file.path, is_named=is_named, rules=rules)
    if form is None:
        problem = TABLE if is_table(file.path) else _NO_FORMAT
        return SeenFile(file, problem=problem, is_unused=not is_named)
    item = look_at(file, form=form, column=rules.column_of(form))
    is_other = not is_named and rules.format is None and split_suffix(file.path)[0] == ".json"
    return replace(item, is_unused=bool(item.problem) and is_other)


def _format_of(path: str, *, is_named: bool, rules: ReadingRules) -> str | None:
    known = drafted_format(path)
    if rules.format is None:
        return known or ("document" if rules.document_per_file else None)
    is_read = is_named or rules.format in PLAIN_FORMATS or known == rules.format
    return rules.format if is_read else None


def _sources(
    seen: Sequence[SeenFile],
    named: NamedPaths,
    rules: ReadingRules,
    known: Sequence[KnownSource],
) -> Iterator[DraftedSource]:
    """Yield a source for each folder and shape of documents, which can extend a known one."""
    groups: dict[tuple[str, Shape], list[SeenFile]] = defaultdict(list)
    for item in seen:
        if item.shape is not None:
            folder = _folder(item.file.path, named.roots[item.file.path])
            same = replace(item.shape, dialect="", ids="", others=())
            groups[folder, same].append(item)
    taken = {*RESERVED_NAMES, *(source.recipe.name for source in known)}
    for (folder, same), members in groups.items():
        shape = members[0].shape or same
        if shape.format == "document" and rules.format_of("") != "document":
            is_large = sum(item.file.size for item in members) > len(members) * _LINES_BYTES
            shape = replace(shape, format="lines" if is_large else "document")
        suffixes = {split_suffix(item.file.path)[0] for item in members}
        extended = next((other for other in known if other.takes(shape, folder, suffixes)), None)
        name = _name(folder, shape, taken) if extended is None else extended.recipe.name
        taken.add(name)
        others = [path for other in known if other is not extended for path in other.decided]
        paths, unusable = _paths(folder, members, seen, named, others)
        yield DraftedSource(
            name=name,
            shape=shape,
            folder=folder,
            paths=tuple(paths),
            members=tuple(members),
            others=tuple(unusable),
            extends=None if extended is None else extended.recipe,
        )


def _folder(path: str, root: str) -> str:
    """Return the folder of a source: the named folder or its child that contains the file.

    >>> _folder("/data/web/2024/a.jsonl", "/data"), _folder("/data/a.jsonl", "/data")
    ('/data/web', '/data')
    """
    first, slash, _ = path[len(root.rstrip("/")) + 1 :].partition("/")
    return f"{root.rstrip('/')}/{first}" if slash else root


def _paths(
    folder: str,
    members: Sequence[SeenFile],
    seen: Sequence[SeenFile],
    named: NamedPaths,
    known: Iterable[str],
) -> tuple[list[str], list[SeenFile]]:
    """Return the paths of a source, and further files that they match and that cannot be used.

    The paths are a glob for each suffix, unless it would match files of another source. Otherwise
    they are those of the files. Files without documents match any source.
    """
    chosen = {item.file.path for item in members}
    other_files = [*known, *(item.file.path for item in seen if item.shape is not None)]
    taken = [path for path in other_files if path not in chosen]
    unusable = [item for item in seen if item.shape is None and item.problem]
    mine: dict[str, list[str]] = defaultdict(list)
    for item in members:
        mine[full_suffix(item.file.path)].append(item.file.path)
    paths: list[str] = []
    others: dict[str, SeenFile] = {}
    for end, files in mine.items():
        matched = _Glob.of(folder, end, files, named)
        if matched is None or any(map(matched.holds, taken)):
            paths += files
            continue
        paths.append(matched.pattern)
        others |= {item.file.path: item for item in unusable if matched.holds(item.file.path)}
    return paths, list(others.values())


@dataclass(frozen=True, slots=True)
class _Glob:
    """A glob that matches files of a folder, and its condition on other files."""

    pattern: str
    holds: Callable[[str], bool]

    @classmethod
    def of(cls, folder: str, end: str, files: Sequence[str], named: NamedPaths) -> "_Glob | None":
        """Return the glob by which the user named all files, or one for files of named folders."""
        given = {named.patterns[path] for path in files}
        pattern = given.pop() if len(given) == 1 else ""
        top = folder.rstrip("/")
        if pattern:
            return cls(pattern, lambda path: named.patterns.get(path) == pattern)
        if pattern is not None or "." not in files[0].rpartition("/")[2]:
            return None
        is_deep = any("/" in path[len(top) + 1 :] for path in files)

        def holds(path: str) -> bool:
            inside = path[len(top) + 1 :] if path.startswith(f"{top}/") else ""
            return inside.endswith(end) and (is_deep or "/" not in inside)

        return cls(f"{glob.escape(top)}/{'**/' if is_deep else ''}*{glob.escape(end)}", holds)


def _name(folder: str, shape: Shape, taken: Collection[str]) -> str:
    """Return a name for a source that no other source has."""
    base = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.rpartition("/")[2]).strip("-.")[:80] or "corpus"
    kind = "" if shape.kind == "text" else f"-{shape.kind}"
    names = [base, f"{base}{kind or '-text'}", f"{base}{kind}-{shape.format}"]
    names += [f"{base}-{number}" for number in range(2, len(taken) + 3)]
    return next(name for name in names if name not in taken)
