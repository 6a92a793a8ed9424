"""What other systems lack: every module is imported without it, and shards are read."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.golden_files import OLD_OUTPUTS

ROOT = Path(__file__).parents[2]
TRAINER = ROOT / "tests" / "support" / "light_trainer.py"

MACOS = ("os.sched_getaffinity", "errno.EREMOTEIO", "time.CLOCK_BOOTTIME")
WINDOWS = (
    *MACOS,
    *("os.getuid", "os.register_at_fork", "os.fork", "os.killpg", "os.setsid"),
    *("os.readv", "select.poll", "time.clock_gettime"),
    *("os.O_CLOEXEC", "os.O_DIRECTORY", "os.O_NOFOLLOW", "os.O_NONBLOCK"),
    *("fcntl", "resource", "pwd", "grp", "termios"),
)

CRIPPLED = """
import errno, importlib, os, pkgutil, runpy, select, sys, time
import numpy, pydantic, pyarrow.parquet, ray, fsspec.asyn  # these have guards of their own
import multiprocessing.connection, subprocess, tempfile, xml.sax.saxutils

for name in sys.argv[3:]:
    module, _, attribute = name.partition(".")
    if attribute:
        vars(globals()[module]).pop(attribute)
    else:
        sys.modules[module] = None

import nanotok_ray
for module in pkgutil.walk_packages(nanotok_ray.__path__, "nanotok_ray."):
    if module.name not in {"nanotok_ray.torch", "nanotok_ray.nanochat"}:
        importlib.import_module(module.name)

from nanotok_ray import Tokenizer
from nanotok_ray.job.doctor.disk import check_disk
assert check_disk(sys.argv[2]).name == "disk"
Tokenizer.load(sys.argv[2] + "/tokenizer").save(sys.argv[2] + "/again")
sys.argv = sys.argv[1:3]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("lacking", [MACOS, WINDOWS], ids=["macos", "windows"])
def test_modules_are_imported_and_shards_read_without_what_a_system_lacks(tmp_path, lacking):
    with tarfile.open(OLD_OUTPUTS / "chats.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    command = [sys.executable, "-c", CRIPPLED, TRAINER, tmp_path / "out", *lacking]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert " documents, " in done.stdout
