"""The cost of importing, measured by imported modules, since seconds differ between machines."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nanotok_ray

HEAVY = {
    *("adlfs", "fsspec", "gcsfs", "matplotlib", "numpy", "pyarrow", "pydantic", "ray", "s3fs"),
    *("tiktoken", "torch"),
}


def imported(code):
    """Return the heavy modules that a fresh process has imported after some code."""
    tail = f"\nimport sys; print(sorted({HEAVY} & sys.modules.keys()), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, text=True, check=True
    )
    return set(eval(done.stderr.splitlines()[-1]))


def command(*words):
    return (
        "from nanotok_ray.cli import main\n"
        f"try:\n    main({list(words)!r})\nexcept SystemExit:\n    pass"
    )


IMPORTS = "import nanotok_ray; assert nanotok_ray.__version__; dir(nanotok_ray)"
COMMANDS = [command("--help"), command("--version"), command("doctor", "--help")]


@pytest.mark.parametrize("code", [IMPORTS, "import nanotok_ray.cli", *COMMANDS])
def test_no_large_package_is_imported(code):
    assert imported(code) - ({"numpy"} if "--version" in code else set()) == set()


def test_reading_shards_imports_only_numpy_and_a_tokenizer_also_fsspec(tmp_path):
    assert imported("from nanotok_ray import open_shards") == {"numpy"}
    learn = "Tokenizer.train_from_iterator(['ab ab'], 267)"
    load = f"Tokenizer.load({str(tmp_path)!r}).encode(['ab']) == [[256]]"
    code = f"from nanotok_ray import Tokenizer; {learn}.save({str(tmp_path)!r}); assert {load}"
    assert imported(code) == {"fsspec", "numpy"}


@pytest.mark.parametrize(
    "name",
    ["prepare", "train", "tokenize", "plan", "verify", "inspect", "pack", "export", "learn", "gc"],
)
def test_the_help_of_no_command_imports_ray(name):
    assert "ray" not in imported(command(name, "--help"))


def test_a_checkout_without_its_core_names_the_remedy(tmp_path):
    core = Path(nanotok_ray.__path__[0]).glob("_core*")
    ignored = shutil.ignore_patterns("__pycache__", *(path.name for path in core))
    shutil.copytree(nanotok_ray.__path__[0], tmp_path / "nanotok_ray", ignore=ignored)
    command = [sys.executable, "-c", "import nanotok_ray; nanotok_ray.Tokenizer"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("run Python in another folder")
    assert "make setup" in done.stderr
