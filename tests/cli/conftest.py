"""Fixtures of tests of commands."""

import json
from pathlib import Path

import pytest

from nanotok_ray.cli import main
from tests.support.finished_output import finished_output
from tests.support.small_corpus import RECIPE, write_corpus


@pytest.fixture
def job(tmp_path: Path, in_process: None) -> tuple[str, Path]:
    """Return the path of a recipe and its output folder."""
    write_corpus(tmp_path / "in")
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(root=tmp_path / "in", out=tmp_path / "out"))
    return str(path), tmp_path / "out"


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished output for tests that only read it."""
    return finished_output(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def run(capsys):
    """Return a function that runs a command and returns exit code, JSON line and text."""

    def run_command(*words):
        capsys.readouterr()
        code = main([*map(str, words)])
        captured = capsys.readouterr()
        (line,) = captured.out.splitlines()
        return code, json.loads(line), captured.err

    return run_command


@pytest.fixture
def succeed(run):
    """Return a function that runs a command to exit code 0 and returns its JSON line and text."""

    def run_command(*words):
        code, values, text = run(*words)
        assert code == 0, values
        return values, text

    return run_command
