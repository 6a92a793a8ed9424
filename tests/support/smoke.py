"""Install a built wheel into new environments and use it, on any platform.

    python -m tests.support.smoke FOLDER [--job]

FOLDER has the wheel. First a trainer's environment, with numpy and the wheel alone, reads a stored
output. With `--job` a second one, with all dependencies, then runs a small job in local processes
and verifies it. The script imports only the standard library, since pip is all it needs.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "tests" / "golden" / "outputs_b6d410be" / "chats.tar.gz"
TRAINER = ROOT / "tests" / "support" / "light_trainer.py"
NUM_LINES = 2000


def environment(folder: Path, wheels: Path, *requirements: str) -> Path:
    """Create an environment with the wheel and the requirements, and return its programs.

    The wheel is never looked for on an index, where another package could have its name.
    """
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = (programs / "python", "-m", "pip", "install", "--quiet")
    local = ("--no-deps", "--no-index", "--find-links", wheels, "nanotok_ray")
    run(*pip, *local, inside=folder)
    run(*pip, *requirements, inside=folder)
    return programs


def run(*command: object, inside: Path) -> None:
    """Run a command outside of the checkout, whose package would hide the installed one."""
    subprocess.run([str(word) for word in command], cwd=inside, check=True)


def check_trainer(folder: Path, wheels: Path) -> None:
    """Read a stored output with numpy and the wheel alone."""
    python = environment(folder / "trainer", wheels, "numpy") / "python"
    with tarfile.open(OUTPUT) as archive:
        archive.extractall(folder / "stored", filter="data")
    run(python, "-W", "error", TRAINER, folder / "stored" / "out", inside=folder)


def check_job(folder: Path, wheels: Path) -> None:
    """Run and verify a small job with the wheel and its dependencies."""
    programs = environment(folder / "job", wheels, "nanotok_ray")  # now its dependencies
    lines = (f"line {number} of a small corpus, {number * number}\n" for number in range(NUM_LINES))
    (folder / "corpus.txt").write_text("".join(lines), encoding="utf-8")
    nanotok, output = programs / "nanotok", folder / "out"
    run(nanotok, "--version", inside=folder)
    options = ("--output", output, "--vocab-size", 300, "--local", "--cpus", 2)
    run(nanotok, "prepare", folder / "corpus.txt", *options, inside=folder)
    run(nanotok, "verify", output, "--deep", inside=folder)


def main() -> None:
    """Run the checks of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheels", type=Path, metavar="FOLDER")
    parser.add_argument("--job", action="store_true", help="run a job too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_trainer(folder, arguments.wheels.absolute())
        if arguments.job:
            check_job(folder, arguments.wheels.absolute())
    sys.stdout.write("the wheel was installed and used\n")


if __name__ == "__main__":
    main()
