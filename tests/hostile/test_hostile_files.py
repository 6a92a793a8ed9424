"""Links, pipes and devices in an output are not followed, waited for, or written through."""

import os
import shutil
from pathlib import Path

import pytest

from nanotok_ray.api import export
from nanotok_ray.cli import main
from nanotok_ray.errors import NanotokError
from nanotok_ray.loader import open_shards
from nanotok_ray.report.page import write_report
from nanotok_ray.shards import find_garbage, verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess
from tests.support.finished_output import read_all

RECORD = "records/tokenize/web/train/*.json"
FILES = {
    "plan": "plan.json",
    "manifest": "manifest.json",
    "index": "shards.idx",
    "tokenizer": "tokenizer/tokenizer.txt",
    "report": "tokenizer/report.json",
    "summary": "run/summary.json",
    "learning": "records/learn.json",
    "record": RECORD,
    "journal": "run/journal/*",
    "lease": "run/lease/*.json",
}
FOLDERS = ("run", "export", "tokenizer", "records", "web", "run/journal", "records/tokenize/web")

USES = {
    "status": lambda out: main(["status", str(out)]),
    "verify": lambda out: verify_output(Folder(str(out))),
    "report": lambda out: write_report(Folder(str(out))),
    "export": lambda out: export(out, "llmc", executor=InProcess()),
    "inspect": lambda out: main(["inspect", str(out), "--doc", "0"]),
    "gc": lambda out: find_garbage(Folder(str(out))),
    "shards": read_all,
}


@pytest.fixture
def outside(tmp_path):
    """Return a folder outside of the output with a file that must not change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.json").write_text("{}")
    return folder


def used(out, use):
    """Use an output; only an error of this package or an exit code may end it."""
    try:
        USES[use](out)
    except NanotokError as error:
        return str(error)
    except SystemExit as ended:
        return str(ended.code)
    return ""


def is_untouched(outside):
    return [path.name for path in outside.rglob("*")] == ["secret.json"]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", FILES.values(), ids=FILES)
@pytest.mark.parametrize("kind", ["endless", "pipe", "link"])
def test_a_special_file_is_not_read(out, outside, name, kind, use):
    path = min(out.glob(name))
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "endless" else outside / "secret.json")
    used(out, use)
    assert is_untouched(outside)
    assert (outside / "secret.json").read_text() == "{}"


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", FOLDERS)
def test_nothing_is_written_through_a_linked_folder(out, outside, name, use):
    path = out / name
    if path.exists():
        shutil.rmtree(path)
    path.symlink_to(outside)
    used(out, use)
    assert is_untouched(outside)


@pytest.mark.parametrize("name", ["plan.json", "manifest.json", "tokenizer/tokenizer.txt"])
@pytest.mark.parametrize("kind", ["/dev/zero", "pipe"])
def test_the_error_names_the_file(out, name, kind):
    (out / name).unlink()
    if kind == "pipe":
        os.mkfifo(out / name)
    else:
        (out / name).symlink_to(kind)
    expected = "is not a regular file" if kind == "pipe" else "is a link out of"
    with pytest.raises(NanotokError, match=f"{out / name} {expected}"):
        verify_output(Folder(str(out)))


def test_a_tokenizer_is_read_through_links_that_its_user_names(out, tmp_path):
    blob = (out / "tokenizer/tokenizer.json").rename(tmp_path / "blob")
    snapshot = tmp_path / "snapshots/1"
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.json").symlink_to(os.path.relpath(blob, snapshot))
    expected = Tokenizer.load(out / "tokenizer").encode("a link")
    assert Tokenizer.load(snapshot).encode("a link") == expected


def test_an_output_whose_own_path_is_a_link_is_read(out, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(out)
    assert len(open_shards(link)) == len(open_shards(out))
    assert Path(link).is_symlink()
