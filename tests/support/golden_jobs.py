"""The stored outputs of an earlier commit: how they are made, and how a test restores them.

    PYTHONPATH=CHECKOUT .venv/bin/python -P -m tests.support.golden_jobs FOLDER

writes one archive per case of `golden_cases` to FOLDER: recipe, inputs, output and work folder of a
small job that the code of CHECKOUT ran. CHECKOUT has a compiled core (`make build`). `-P` keeps the
code of the current folder from being imported, and the command prints which commit ran. A second
run writes the same bytes.

The archives in tests/golden/outputs_b6d410be were made in this way by the unmodified commit
b6d410be, with Python 3.11.7 and its locked packages. They are never written again, because every
later version must recognize these outputs as finished, resume them, and write the same bytes; see
tests/jobs/test_old_output.py. This module and `golden_cases` use only what commit b6d410be has.

The jobs run in `ROOT`, because plan.json contains the paths of local inputs. Keys contain their
modification times (`MODIFIED_NS`). No input is on S3, because plan.json contains its modification
time there too. The files below `run/` differ from run to run and are not stored.
"""

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import nanotok_ray
from nanotok_ray.api import prepare
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.storage import Folder
from tests.support.executors import InProcess
from tests.support.golden_cases import CASES, Case
from tests.support.s3_server import BUCKET, s3_behind_a_proxy

ROOT = Path("/tmp/nanotok-golden")
"""The folder in which the jobs run."""

STORE = f"s3://{BUCKET}/golden"
"""The folder on S3, whose files are below `store/` in an archive."""

MODIFIED_NS = 1_700_000_000_000_000_000
"""The modification time of every local input."""

PYARROW = "26.0.1"
"""The version of pyarrow that wrote the archives of b6d410be. A file of the layout `parquet` names
the version that wrote it."""

RECIPE_NAME = "recipe.toml"


def make(case: Case, root: Path) -> None:
    """Write the inputs of a case to a new folder, and run its job there."""
    root.mkdir()
    case.write(root)
    _set_times(root)
    text = case.recipe.format(root=root, store=STORE)
    (root / RECIPE_NAME).write_text(text, encoding="utf-8")
    if STORE not in text:
        prepare(parse_recipe(text), executor=InProcess())
        return
    with s3_behind_a_proxy():
        prepare(parse_recipe(text), executor=InProcess())
        for name in Folder(STORE).list():
            _write(root / "store" / name, Folder(STORE).read_bytes(name))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _set_times(root: Path) -> None:
    for path in filter(Path.is_file, (root / "in").rglob("*")):
        os.utime(path, ns=(MODIFIED_NS, MODIFIED_NS))


def pack(root: Path, archive: Path) -> None:
    """Write all files below a folder, except those of runs, to an archive."""
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as members,
    ):
        for path in sorted(filter(Path.is_file, root.rglob("*"))):
            name = path.relative_to(root)
            if "run" not in name.parts:
                data, member = path.read_bytes(), tarfile.TarInfo(name.as_posix())
                member.size = len(data)
                members.addfile(member, io.BytesIO(data))


def restore(archive: Path, root: Path) -> str:
    """Restore an output as if its job had run in another folder, and return the recipe.

    Files of S3 are below `store/`, for `upload`.
    """
    with tarfile.open(archive) as members:
        for member in members:
            file = members.extractfile(member)
            assert file is not None
            _write(root / member.name, file.read())
    _set_times(root)
    for out in filter(Path.exists, (root / "out", root / "store/out")):
        _move(out, root)
    text = (root / RECIPE_NAME).read_text(encoding="utf-8").replace(str(ROOT), str(root))
    (root / RECIPE_NAME).write_text(text, encoding="utf-8")
    return text


def _move(out: Path, root: Path) -> None:
    """Replace the paths in plan.json, and the hashes of the files that change."""
    plan, manifest = out / "plan.json", out / "manifest.json"
    own = _replace(plan, str(ROOT), str(root))
    own = _replace(manifest, *own)
    for export in out.glob("export/*/export.json"):
        _replace(export, *own)


def _replace(path: Path, old: str, new: str) -> tuple[str, str]:
    """Replace a text in a file; return the sha256 of the file before and after."""
    before = path.read_bytes()
    after = before.replace(old.encode(), new.encode())
    assert after != before or old == new
    path.write_bytes(after)
    return hashlib.sha256(before).hexdigest(), hashlib.sha256(after).hexdigest()


def _commit() -> str:
    """Return the commit of the code that is imported, and its changes."""
    checkout = Path(nanotok_ray.__file__).parents[1]
    describe = ["describe", "--always", "--exclude=*", "--abbrev=40", "--dirty"]
    command = ["git", "-C", str(checkout), *describe]
    described = subprocess.run(command, check=True, capture_output=True, text=True)
    return f"{described.stdout.strip()} in {checkout}"


def main() -> None:
    """Make the archives of all cases."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"commit {_commit()}\n")
    for name, case in CASES.items():
        make(case, ROOT)
        pack(ROOT, folder / f"{name}.tar.gz")
        shutil.rmtree(ROOT)
        sys.stdout.write(f"{folder / name}.tar.gz\n")


if __name__ == "__main__":
    main()
