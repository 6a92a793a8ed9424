"""An image of a trainer: numpy and the package, installed without its dependencies."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from nanotok_ray.recipe.text import tomllib  # tomli on Python 3.10
from tests.support.golden_files import OLD_OUTPUTS

ROOT = Path(__file__).parents[2]
TRAINER = ROOT / "tests" / "support" / "light_trainer.py"

BLOCKING = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"nanotok_ray", "numpy", *sys.stdlib_module_names}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    root = tmp_path_factory.mktemp("finished")
    with tarfile.open(OLD_OUTPUTS / "chats.tar.gz") as archive:
        archive.extractall(root, filter="data")
    return root / "out"


def run(command, **environment):
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )


def test_with_all_other_packages_blocked(output, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BLOCKING)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = run([sys.executable, "-W", "error", TRAINER, output], PYTHONPATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f" ids, numpy {np.__version__}\n")
    other = run([sys.executable, "-c", "import fsspec"], PYTHONPATH=path)
    assert "No module named 'fsspec'" in other.stderr


def test_in_an_environment_with_numpy_only(output, tmp_path):
    """The installed numpy is linked, since the test uses no network."""
    run([sys.executable, "-m", "venv", "--without-pip", tmp_path]).check_returncode()
    (packages,) = tmp_path.glob("lib/python*/site-packages")
    installed = Path(np.__file__).parents[1]
    for path in installed.glob("numpy*"):
        (packages / path.name).symlink_to(path)
    (packages / "nanotok_ray").symlink_to(ROOT / "nanotok_ray")
    python = tmp_path / "bin" / "python"
    done = run([python, "-W", "error", TRAINER, output], PYTHONPATH="")
    assert (done.returncode, done.stderr) == (0, "")
    code = "from nanotok_ray import open_shards; open_shards('s3://bucket/out')"
    remote = run([python, "-c", code], PYTHONPATH="")
    assert "SourceError: cannot open s3://bucket/out: No module named 'fsspec'" in remote.stderr


def test_the_page_for_trainers_has_the_line_that_installs_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (numpy,) = (text for text in project["dependencies"] if text.startswith("numpy"))
    page = (ROOT / "docs" / "training.md").read_text("utf-8")
    assert f"pip install '{numpy}'\n" in page
    assert "pip install --no-deps " in page
