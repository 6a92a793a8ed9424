"""Write the demo's corpus, made from the Python standard library, which every machine has.

    python -m jobs.demo_corpus build/demo/corpus

The script reads a folder of Python sources and writes three sources under OUT_DIR: `code` (one
document per module) and `docs` (one document per docstring) as parquet shards with a column
`text`, and `doctests` (one conversation per docstring with examples) as JSON lines. The modules
are parsed, never imported, and the same sources make the same bytes. The script is independent of
`nanotok_ray`.
"""

import argparse
import ast
import doctest
import json
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Message = dict[str, str | list[dict[str, str]]]
"""A message in nanochat's format: a role, and a text or a list of typed parts."""

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of other packages inside the folder of the standard library."""

TESTS = frozenset({"test", "tests", "idle_test"})
"""Folders used only for conversations: as text they would be half of the corpus."""

CODE_PER_SHARD = 192
DOCS_PER_SHARD = 2048
ROWS_PER_GROUP = 64
CHATS_PER_FILE = 100

MAX_TURNS = 16
"""Longer sessions are truncated to this number of turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """A parsed file."""

    name: str
    """The dotted name, as for an import."""
    text: str
    tree: ast.Module
    is_test: bool


@dataclass(kw_only=True, slots=True)
class Corpus:
    """The documents of the three sources, in the order of the modules' paths."""

    code: list[str] = field(default_factory=list)
    docs: list[str] = field(default_factory=list)
    doctests: list[list[Message]] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the corpus and print its sizes."""
    parser = argparse.ArgumentParser(description="Make the demo corpus from Python's own sources.")
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--library", type=Path, default=Path(sysconfig.get_path("stdlib")))
    options = parser.parse_args(arguments)
    corpus = collect(options.library)
    write_corpus(corpus, out_dir=options.out_dir)
    for name, documents in (("code", corpus.code), ("docs", corpus.docs)):
        num_bytes = sum(len(document.encode()) for document in documents)
        print(f"{name}: {len(documents):,} documents, {num_bytes / 1e6:.1f} MB")
    print(f"doctests: {len(corpus.doctests):,} conversations")


def collect(library: Path) -> Corpus:
    """Read every module under `library` once, in the order of their paths."""
    corpus = Corpus()
    for module in read_modules(library):
        texts = docstrings(module)
        if not module.is_test:
            corpus.code.append(module.text)
            corpus.docs.extend(f"{name}\n\n{text}" for name, text in texts)
        texts.extend((module.name, text) for text in example_strings(module))
        conversations = (conversation(name, text) for name, text in texts)
        corpus.doctests.extend(messages for messages in conversations if messages)
    return corpus


def write_corpus(corpus: Corpus, *, out_dir: Path) -> None:
    """Write the three sources under `out_dir`, replacing those of an earlier run."""
    write_parquet(corpus.code, folder=out_dir / "code", documents_per_shard=CODE_PER_SHARD)
    write_parquet(corpus.docs, folder=out_dir / "docs", documents_per_shard=DOCS_PER_SHARD)
    write_jsonl(corpus.doctests, folder=out_dir / "doctests")


def read_modules(library: Path) -> Iterator[Module]:
    """Parse every `.py` file that is UTF-8 and valid Python; the others are CPython's test data.

    A test without examples is not parsed, since nothing of it would be used.
    """
    for relative in sorted(path.relative_to(library).as_posix() for path in library.rglob("*.py")):
        folders = set(relative.split("/")[:-1])
        is_test = bool(folders & TESTS)
        text = "" if folders & INSTALLED else _read_utf8(library / relative)
        tree = _parse(text) if text and (not is_test or ">>> " in text) else None
        if tree:
            name = relative.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            yield Module(name=name, text=text, tree=tree, is_test=is_test)


def docstrings(module: Module) -> list[tuple[str, str]]:
    r"""Return (dotted name, docstring) of the module and of its classes and functions.

    >>> source = "'About m.'\nclass C:\n    def f(self):\n        'Does f.'"
    >>> docstrings(Module(name="m", text=source, tree=ast.parse(source), is_test=False))
    [('m', 'About m.'), ('m.C.f', 'Does f.')]
    """
    owners = _definitions(module.tree, name=module.name)
    texts = ((name, ast.get_docstring(node)) for name, node in owners)
    return [(name, _encodable(text)) for name, text in texts if text]


def example_strings(module: Module) -> list[str]:
    """Return the string constants with examples, other than docstrings."""
    if ">>> " not in module.text:
        return []
    openings = [node.body[0] for _, node in _definitions(module.tree, name="") if node.body]
    known = {id(opening.value) for opening in openings if isinstance(opening, ast.Expr)}
    constants = (node for node in ast.walk(module.tree) if isinstance(node, ast.Constant))
    texts = (node.value for node in constants if id(node) not in known)
    return [_encodable(text) for text in texts if isinstance(text, str) and ">>> " in text]


def conversation(name: str, docstring: str) -> list[Message]:
    r"""Return the examples of a docstring as questions of a user and Python calls of an assistant.

    Statements without output are combined with the next example with output, so that the session
    equals that of the docstring. A docstring without examples returns no messages.

    >>> messages = conversation("m.add", "Adds.\n\n>>> x = 1\n>>> add(x, 2)\n3\n")
    >>> messages[0]["content"]
    'The documentation of m.add says: Adds.\n\nWhat does this give?\n\nx = 1\nadd(x, 2)'
    >>> [part["text"] for part in messages[1]["content"]]
    ['Let me run it.', 'x = 1\nadd(x, 2)', '3', 'It gives 3']
    """
    messages: list[Message] = []
    setup = ""
    for example in _examples(docstring):
        code = setup + example.source
        setup = "" if example.want else code
        if example.want and len(messages) < 2 * MAX_TURNS:
            question = _question(code.rstrip("\n"))
            opening = "" if messages else _opening(name, docstring)
            messages.append({"role": "user", "content": opening + question})
            messages.append({"role": "assistant", "content": _answer(code, example)})
    return messages


def write_parquet(documents: Sequence[str], *, folder: Path, documents_per_shard: int) -> None:
    """Write shard_00000.parquet and so on, with a column `text` and small row groups."""
    _empty(folder, "shard_*.parquet")
    for number, start in enumerate(range(0, len(documents), documents_per_shard)):
        table = pa.table({"text": pa.array(documents[start : start + documents_per_shard])})
        path = folder / f"shard_{number:05d}.parquet"
        pq.write_table(table, path, compression="zstd", row_group_size=ROWS_PER_GROUP)


def write_jsonl(conversations: Sequence[list[Message]], *, folder: Path) -> None:
    """Write chats_00000.jsonl and so on, one JSON array of messages per line."""
    _empty(folder, "chats_*.jsonl")
    for number, start in enumerate(range(0, len(conversations), CHATS_PER_FILE)):
        lines = [json.dumps(chat) + "\n" for chat in conversations[start : start + CHATS_PER_FILE]]
        (folder / f"chats_{number:05d}.jsonl").write_text("".join(lines))


def _read_utf8(path: Path) -> str:
    """Return the content of a file with its line ends; empty if it is not UTF-8."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        return ""


def _parse(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in strings of other packages
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError):
            return None


Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(node: ast.AST, *, name: str) -> Iterator[tuple[str, Definition]]:
    """Yield the definitions that can have a docstring with their names, in order."""
    if isinstance(node, Definition):
        yield name, node
    for child in ast.iter_child_nodes(node):
        own_name = getattr(child, "name", None) if isinstance(child, Definition) else None
        yield from _definitions(child, name=f"{name}.{own_name}" if own_name else name)


def _encodable(text: str) -> str:
    """Replace lone surrogates, which some test strings contain and UTF-8 cannot represent."""
    return text.encode(errors="replace").decode()


def _examples(docstring: str) -> list[doctest.Example]:
    try:
        return doctest.DocTestParser().get_examples(docstring)
    except ValueError:  # such as a prompt without a following space
        return []


def _opening(name: str, docstring: str) -> str:
    """Return the first paragraph of a docstring as a quotation if it is prose."""
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    prose = "" if not paragraph or ">>>" in paragraph else f" says: {paragraph}\n\n"
    return f"The documentation of {name}{prose or ' has examples. '}"


def _question(code: str) -> str:
    return f"What does this give?\n\n{code}" if "\n" in code else f"What does {code} give?"


def _answer(code: str, example: doctest.Example) -> list[dict[str, str]]:
    output = example.want.rstrip("\n")
    return [
        {"type": "text", "text": "Let me run it."},
        {"type": "python", "text": code.rstrip("\n")},
        {"type": "python_output", "text": output},
        {"type": "text", "text": _conclusion(example, output=output)},
    ]


def _conclusion(example: doctest.Example, *, output: str) -> str:
    if example.exc_msg:
        return f"It raises {example.exc_msg.rstrip()}"
    num_lines = output.count("\n") + 1
    return f"It gives {output}" if num_lines == 1 else f"It prints these {num_lines} lines."


def _empty(folder: Path, pattern: str) -> None:
    """Create the folder, and remove the files of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(pattern):
        path.unlink()


if __name__ == "__main__":
    main()
