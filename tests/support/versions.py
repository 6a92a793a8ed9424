"""Run the fast tests on other Pythons, with the oldest and newest ray, pyarrow and numpy.

    python -m tests.support.versions [--folder .venv-versions] [--row ROW] [PYTEST ARGUMENT...]

The oldest versions are the bounds of pyproject.toml; the newest are those that pip selects. A
missing Python is named and skipped, but fails a row that `--row` names, such as 3.10-oldest. The
core must be built; the same build serves all Pythons.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from nanotok_ray.recipe.text import tomllib  # tomli on Python 3.10

ROOT = Path(__file__).parents[2]
ROWS = (
    ("3.10", "oldest"),
    ("3.11", "oldest"),
    ("3.11", "newest"),
    ("3.12", "newest"),
    ("3.13", "newest"),
    ("3.14", "newest"),
)
"""Versions of Python, and the packages that are installed for each."""
MISSING = "this machine has no such Python"
BOUNDED = ("ray", "pyarrow", "numpy")
TESTS = ("-m", "not ray and not slow", "-n", "2", "--dist", "loadfile", "-q")
RAY_TESTS = ("tests/cluster/test_session_ray.py", "-q")
"""Tests that a version of Ray starts, runs tasks and stops."""
LEFT_OUT = (
    "tests/core/test_packaging.py",  # the lock, and maturin
    "tests/docs/test_quickstart_ray.py",  # notebooks
    "tests/peers",
)


def python_of(version: str) -> str | None:
    """Return the interpreter of a version, on the path or of pyenv, or None."""
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in (shutil.which(f"python{version}"), *map(str, reversed(of_pyenv))):
        if candidate is not None:
            code = "import sys; print('%d.%d' % sys.version_info[:2])"
            command = [candidate, "-c", code]
            found = subprocess.run(command, check=False, capture_output=True, text=True)
            if found.stdout.strip() == version:  # a shim of pyenv can refuse the version
                return candidate
    return None


def requirements(which: str) -> list[str]:
    """Return the requirements: dependencies and test extras, with exact versions of bounded ones.

    >>> [text for text in requirements("oldest") if text.startswith("pyarrow")]
    ['pyarrow==21']
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    stores = [text for name in ("azure", "gcs", "http", "s3") for text in extras[name]]
    found = [*project["dependencies"], *extras["test"], *stores]
    own = [text for text in found if not text.startswith("nanotok_ray")]
    if which == "newest":
        return own
    bounded = re.compile(rf"({'|'.join(BOUNDED)})(\[.*\])?>=.*")
    return [text.replace(">=", "==") if bounded.fullmatch(text) else text for text in own]


def made_environment(folder: Path, version: str, which: str) -> Path | None:
    """Return the interpreter of an environment with the packages, or None without that Python."""
    python = python_of(version)
    if python is None:
        return None
    environment = folder / f"{version}-{which}"
    if not (environment / "installed").exists():
        subprocess.run([python, "-m", "venv", environment], check=True)
        pip = [environment / "bin/pip", "install", "--quiet", "--upgrade", *requirements(which)]
        subprocess.run(pip, check=True)
        (environment / "installed").touch()
    return environment / "bin/python"


def main() -> int:
    """Run all rows and print their results; the exit code is 1 if tests failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-versions")
    rows_by_name = {"-".join(row): row for row in ROWS}
    parser.add_argument("--row", action="append", choices=rows_by_name, help="default: all rows")
    arguments, others = parser.parse_known_args()
    left_out = [f"--ignore={path}" for path in LEFT_OUT]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    rows = {}
    for version, which in map(rows_by_name.get, arguments.row or rows_by_name):
        python = made_environment(arguments.folder, version, which)
        if python is None:
            rows[version, which] = MISSING
            continue
        runs = [[*TESTS, *left_out, *others], *([] if others else [RAY_TESTS])]
        codes = [
            subprocess.run(
                [python, "-m", "pytest", *run], check=False, cwd=ROOT, env=environment
            ).returncode
            for run in runs
        ]
        rows[version, which] = "failed" if any(codes) else "passed"
    for (version, which), outcome in rows.items():
        sys.stdout.write(f"Python {version}, {which} packages: {outcome}\n")
    return int("failed" in rows.values() or (bool(arguments.row) and MISSING in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
