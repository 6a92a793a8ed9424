"""What the name of a file says: its format and compression, and how to convert what is not read."""

import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Final

from nanotok_ray.storage import InputFile
from nanotok_ray.units import few, format_bytes, quantity

COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
SUFFIX_FORMATS: Final = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""The formats that need no `format` in a recipe, by suffix."""

NAMED_FORMATS: Final = {**SUFFIX_FORMATS, ".txt": "lines"}
"""The formats of files that are named on a command line, by suffix."""

DRAFTED_FORMATS: Final = {
    **SUFFIX_FORMATS,
    ".json": "jsonl",
    **dict.fromkeys((".txt", ".text", ".md", ".rst"), "document"),
}
"""The formats of files for which a recipe is drafted, by suffix in any case."""

PLAIN_FORMATS: Final = ("document", "lines")
"""The formats without columns."""

TABLE: Final = "CSV, which is not read"
ARRAY: Final = "one JSON array, which is not read"
"""Reasons why a file is not read that `convertible` converts."""

_TABLES: Final = {".csv": ",", ".tsv": "\\t"}
"""The suffixes of tables of text, with the delimiter of their columns."""


def split_suffix(path: str) -> tuple[str, str | None]:
    """Return the suffix of the format and the compression.

    >>> split_suffix("/a.b/c.jsonl.gz"), split_suffix("/a.b/c")
    (('.jsonl', 'gzip'), ('', None))
    """
    name = path.rpartition("/")[2]
    compression = next((kind for end, kind in COMPRESSIONS.items() if name.endswith(end)), None)
    if compression is not None:
        name = name.rpartition(".")[0]
    return os.path.splitext(name)[1], compression  # noqa: PTH122 - may be of a URL


def recipe_format(path: str) -> str | None:
    """Return the format of a file that needs no `format` in a recipe, whether compressed or not.

    >>> recipe_format("a/b.jsonl.gz"), recipe_format("a/b.txt")
    ('jsonl', None)
    """
    return SUFFIX_FORMATS.get(split_suffix(path)[0])


def suffix_format(path: str) -> str | None:
    """Return the format of a file that is named on a command line, or None if it is unknown.

    >>> suffix_format("a/b.txt.gz"), suffix_format("recipe.toml")
    ('lines', None)
    """
    return NAMED_FORMATS.get(split_suffix(path)[0])


def drafted_format(path: str) -> str | None:
    """Return the format of a file for which a recipe is drafted, or None if it is unknown.

    >>> drafted_format("a.md"), drafted_format("a.JSON.gz"), drafted_format("a.py")
    ('document', 'jsonl', None)
    """
    return DRAFTED_FORMATS.get(split_suffix(path)[0].lower())


def likely_format(path: str) -> str | None:
    """Return the format of the suffix of a name in any case, as in `.JSONL`.

    >>> likely_format("a/B.JSONL"), likely_format("a/b.jsonl"), likely_format("a/b.py")
    ('jsonl', 'jsonl', None)
    """
    return SUFFIX_FORMATS.get(split_suffix(path)[0].lower())


def by_likely_format(files: Iterable[InputFile]) -> dict[str | None, list[InputFile]]:
    """Return files by their likely format, first those with an unknown suffix."""
    groups: dict[str | None, list[InputFile]] = {None: []}
    for file in files:
        groups.setdefault(likely_format(file.path), []).append(file)
    return {form: members for form, members in groups.items() if members}


def full_suffix(path: str) -> str:
    """Return the suffixes of the format and of the compression.

    >>> full_suffix("/a.b/c.d.jsonl.gz"), full_suffix("/a.b/c")
    ('.jsonl.gz', '.c')
    """
    parts = path.rpartition("/")[2].split(".")
    return "." + ".".join(parts[-2 if split_suffix(path)[1] else -1 :])


def matches(path: str, pattern: str) -> bool:
    """Return whether a path equals a pattern or matches it as a glob; `**` matches any folders.

    >>> matches("held/a.jsonl", "held/*.jsonl"), matches("held/b/a.jsonl", "*.jsonl")
    (True, False)
    >>> matches("held/b/a.jsonl", "**/a.*")
    True
    """
    return path == pattern or _match_parts(path.split("/"), pattern.split("/"))


def _match_parts(path: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_match_parts(path[start:], pattern[1:]) for start in range(len(path) + 1))
    if not path or not fnmatchcase(path[0], pattern[0]):
        return False
    return _match_parts(path[1:], pattern[1:])


def is_table(path: str) -> bool:
    """Return whether a file is CSV or TSV according to its suffix."""
    return split_suffix(path)[0].lower() in _TABLES


def convertible(path: str) -> str:
    """Return the way to convert a file of CSV, TSV or a JSON array, which are not read.

    The command runs in a shell as it is, with the Python of this process. It writes a file of a
    format that is read beside the file, or into the working directory for a URL.
    """
    suffix, _ = split_suffix(path)
    source, step = path, "convert it with"
    if "://" in path:
        source, step = path.rpartition("/")[2], "copy it here, and convert it with"
    stem = source[: source.lower().rindex(suffix.lower())] if suffix else source
    if is_table(path):
        delimiter = f'"{_TABLES[suffix.lower()]}"'
        code = (
            f"import pyarrow.csv as c, pyarrow.parquet as p; p.write_table(c.read_csv("
            f"{_quoted(source)}, read_options=c.ReadOptions(block_size=1 << 28), parse_options="
            f"c.ParseOptions(delimiter={delimiter}, newlines_in_values=True)), "
            f"{_quoted(f'{stem}.parquet')})"
        )
        return f"{step} {_python(code)}"
    target = f"{stem}-lines.jsonl" if suffix == ".jsonl" else f"{stem}.jsonl"
    code = (
        "import json, pyarrow as p; print(*map(json.dumps, json.load(p.input_stream("
        f'{_quoted(source)}))), sep="\\n")'
    )
    return f"{step} {_python(code)} > {shlex.quote(target)}"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _python(code: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def suffixes_text(files: Collection[InputFile]) -> str:
    """Return the number and the bytes of files, and their suffixes, the most frequent first.

    >>> suffixes_text([InputFile(path="/a.py", size=3), InputFile(path="/b.csv", size=2000)])
    '2 files (.py: 1, .csv: 1), 2.0 kB'
    """
    counts = Counter(split_suffix(file.path)[0] or "no suffix" for file in files)
    listed = [f"{suffix}: {number:,}" for suffix, number in counts.most_common()]
    size = format_bytes(sum(file.size for file in files))
    return f"{quantity(len(files), 'file')} ({few(listed)}), {size}"
