"""docs/tokenization.md: its commands run in order on its files, and print the shown output.

Jobs run without Ray. The lines of JSON for programs are not compared.
"""

import doctest
import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from nanotok_ray.cli import main
from nanotok_ray.job import use_executor
from tests.support.executors import InProcess

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/tokenization.md"
NAMED = re.compile(
    r"`([\w.]+\.(?:txt|jsonl|toml))`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL
)
"""A file of the reader, whose name ends the sentence before the block."""
SHOWN = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)


def commands(block):
    """Return each command of a block with its shown output."""
    _, *parts = COMMAND.split(block)
    return [*zip(parts[::2], parts[1::2], strict=True)]


def output_of(command, capsys):
    """Run a command in this process; return its lines for people, with stderr last."""
    program, *arguments = shlex.split(command)
    if program == "nanotok":
        assert main(arguments) == 0, command
    else:
        assert program == "python"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", arguments)
            runpy.run_path(arguments[0], run_name="__main__")
    captured = capsys.readouterr()
    reported = captured.out.splitlines() + captured.err.splitlines()
    return "".join(f"{line}\n" for line in reported if not is_json(line))


def is_json(line):
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def check_output(shown, reported, command):
    """Compare; a line `...` matches any lines, and `...` within a line any text."""
    wanted = re.sub(r"^\.\.\.\n", "\0", shown, flags=re.MULTILINE)
    wanted = re.escape(wanted).replace(r"\.\.\.", ".+").replace("\0", r"(?:.*\n)*")
    assert re.fullmatch(wanted, reported), f"{command}\n{reported}"


def check_python(block, names):
    """Run the lines of a block and compare their output."""
    test = doctest.DocTestParser().get_doctest(block, names, PAGE.name, str(PAGE), 0)
    reported = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=reported.append, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, "".join(reported)
    assert runner.tries > 0


@pytest.fixture
def walk(tmp_path, monkeypatch):
    """The folder of the page, with its files."""
    folder = tmp_path / "build/walk"
    folder.mkdir(parents=True)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name, text in NAMED.findall(PAGE.read_text("utf-8")):
        (folder / name).write_text(text, "utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr("os.fsync", lambda _: None)
    with use_executor(InProcess()):
        yield folder


def test_every_command_prints_the_output_on_the_page(walk, capsys):
    names, run = {}, 0
    for kind, block in SHOWN.findall(PAGE.read_text("utf-8")):
        if kind == "python":
            check_python(block, names)
            continue
        for command, shown in commands(block):
            check_output(shown, output_of(command, capsys), command)
            run += 1
    assert run >= 10
    assert sorted(path.name for path in walk.iterdir() if path.is_file()) == [
        "chats.jsonl",
        "corpus.txt",
        "recipe.toml",
        "unseen.txt",
    ]
