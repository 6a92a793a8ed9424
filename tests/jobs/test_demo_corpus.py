"""The demo's corpus from a small tree of sources, and from the real library."""

import ast
import json
import sysconfig
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs import demo_corpus
from tests.support.small_corpus import contents

SHAPES = '''"""Shapes of things."""

def area(side):
    """Area of a square.

    >>> side = 3
    >>> area(side)
    9
    >>> area("x")
    Traceback (most recent call last):
      ...
    TypeError: not a number
    """
'''


@pytest.fixture
def library(tmp_path):
    """A library of two modules, a foreign package, a test, and test data."""
    files = {
        "shapes.py": SHAPES,
        "pack/__init__.py": 'class C:\n    "A class."\n',
        "test/test_pack.py": 'examples = """\n>>> 1 + 1\n2\n"""\n',
        "test/test_plain.py": '"""Nothing to run."""\n',
        "test/bad_syntax.py": ">>> def (\n",
        "site-packages/other.py": '"""Not ours."""\n',
    }
    for name, text in files.items():
        path = tmp_path / "library" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "library" / "latin.py").write_bytes(b"# caf\xe9\n")
    return tmp_path / "library"


def texts_of(folder):
    return [text for path in sorted(folder.iterdir()) for text in pq.read_table(path)["text"]]


def test_modules_docstrings_and_tests_become_documents(library):
    corpus = demo_corpus.collect(library)
    assert corpus.code == ['class C:\n    "A class."\n', SHAPES]
    docs = corpus.docs
    assert docs[:2] == ["pack.C\n\nA class.", "shapes\n\nShapes of things."]
    assert docs[2].startswith("shapes.area\n\nArea of a square.")
    assert len(docs) == 3
    first, second = (messages[0]["content"] for messages in corpus.doctests)
    assert first.startswith("The documentation of shapes.area says: Area of a square.\n\n")
    assert first.endswith("What does this give?\n\nside = 3\narea(side)")
    assert second == "The documentation of test.test_pack has examples. What does 1 + 1 give?"


def test_a_conversation_alternates_and_keeps_the_order_of_the_session(library):
    messages = demo_corpus.collect(library).doctests[0]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    assert messages[1]["content"] == [
        {"type": "text", "text": "Let me run it."},
        {"type": "python", "text": "side = 3\narea(side)"},
        {"type": "python_output", "text": "9"},
        {"type": "text", "text": "It gives 9"},
    ]
    assert messages[3]["content"][3]["text"] == "It raises TypeError: not a number"


@pytest.mark.parametrize("docstring", ["No example", ">>> x = 1", ">>>broken\n"])
def test_a_docstring_without_output_is_no_conversation(docstring):
    assert demo_corpus.conversation("m", docstring) == []


def test_a_lone_surrogate_is_replaced_because_files_cannot_contain_it():
    text = '"\\ud800!"'
    module = demo_corpus.Module(name="m", text=text, tree=ast.parse(text), is_test=False)
    assert demo_corpus.docstrings(module) == [("m", "?!")]


def test_files_contain_the_corpus_and_are_reproducible(library, tmp_path):
    corpus = demo_corpus.collect(library)
    first = tmp_path / "first"
    for name in ("first", "second"):
        demo_corpus.write_corpus(corpus, out_dir=tmp_path / name)
    assert contents(first) == contents(tmp_path / "second")
    files = ["code/shard_00000.parquet", "docs/shard_00000.parquet", "doctests/chats_00000.jsonl"]
    assert list(contents(first)) == files
    assert [text.as_py() for text in texts_of(first / "code")] == corpus.code
    lines = (first / "doctests" / "chats_00000.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == corpus.doctests


def test_a_smaller_corpus_leaves_no_file_of_the_larger_one(tmp_path):
    demo_corpus.write_parquet(["x"] * 3, folder=tmp_path, documents_per_shard=1)
    demo_corpus.write_parquet(["x"], folder=tmp_path, documents_per_shard=1)
    assert [path.name for path in tmp_path.iterdir()] == ["shard_00000.parquet"]


def test_the_command_writes_a_part_of_the_real_library(tmp_path, capsys):
    library = Path(sysconfig.get_path("stdlib")) / "json"
    demo_corpus.main([str(tmp_path), "--library", str(library)])
    assert len(texts_of(tmp_path / "code")) == len(list(library.glob("*.py")))
    assert "doctests: 2 conversations" in capsys.readouterr().out
