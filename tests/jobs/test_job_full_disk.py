"""A full disk: one line with path and free space, in any stage; then jobs resume."""

import errno
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.cli import main
from tests.support.small_corpus import RECIPE, contents, recipe, write_corpus


@pytest.fixture
def disk(monkeypatch):
    """Return a disk that is full after a number of bytes; small files such as leases still fit."""

    class Disk:
        free = 1 << 60

        def sync(self, descriptor):
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_size > 1000:
                if status.st_size > self.free:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self.free -= status.st_size

    disk = Disk()
    monkeypatch.setattr("os.fsync", disk.sync)
    return disk


@pytest.fixture
def path(corpus, tmp_path):
    """Write the recipe of the small corpus."""
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(root=corpus, out=tmp_path / "out"))
    return path


def test_a_job_with_a_full_disk_reports_one_line_and_resumes(corpus, path, tmp_path, disk, capsys):
    prepare(recipe(corpus, tmp_path / "whole"))
    written, stages = (1 << 60) - disk.free, set()
    for part in range(12):
        disk.free = written * part // 12
        capsys.readouterr()
        code = main(["prepare", str(path)])
        captured = capsys.readouterr()
        if code == 0:
            break
        line = captured.err.splitlines()[-1]
        assert code == 5
        assert line.startswith(f"nanotok: error: {tmp_path}/out")
        assert "its disk is full" in line
        assert "Traceback" not in captured.err
        assert json.loads(captured.out)["status"] == "failed"
        stages.add(Path(line.split()[2]).relative_to(tmp_path).parts[0:2])
    assert code == 0
    assert len(stages) > 2
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def planned(capsys, path, *arguments):
    capsys.readouterr()
    assert main(["plan", str(path), *arguments]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out)["estimate"]["space"], captured.err


def test_plan_and_doctor_compare_the_size_of_the_output_with_the_free_space(
    corpus, path, tmp_path, capsys, monkeypatch
):
    ([space], text) = planned(capsys, path)
    needed = space["needed"]
    assert space["folder"] == str(tmp_path / "out")
    assert space["free"] > needed > 0
    assert f"space       {tmp_path}/out: about " in text
    assert "only" not in text
    prepare(recipe(corpus, tmp_path / "whole"))
    shards = sum(file.stat().st_size for file in (tmp_path / "whole").glob("*/*/*.bin"))
    assert shards / 3 < needed < 5 * shards
    more = planned(capsys, path, "--set", 'output.layouts=["llmc"]')[0][0]
    assert more["needed"] > needed
    usage = shutil.disk_usage(tmp_path)
    for free, status in ((2 * needed, "ok"), (needed // 2, "warn"), (100, "warn")):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: usage._replace(free=free))
        main(["doctor", str(path)])
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "  space " in line]
        assert line.startswith(status)
        assert f"{tmp_path}/out: about " in line
    ([space], text) = planned(capsys, path)
    assert space["free"] == 100
    assert "only 100 bytes free; free some space or choose another folder" in text
    path.write_text(RECIPE.format(root=corpus, out=tmp_path / "whole"))
    assert planned(capsys, path)[0][0]["needed"] == 0


def test_a_full_temporary_folder_prevents_ray_with_one_line(tmp_path, capsys, monkeypatch):
    write_corpus(tmp_path / "in")
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(root=tmp_path / "in", out=tmp_path / "out"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=5000))
    monkeypatch.setenv("RAY_TMPDIR", "/tmp/for-ray")
    assert main(["prepare", str(path)]) == 5
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert "/tmp/for-ray/ray needs at least 1.0 MB" in line
    assert "(5.0 kB free); free some space there, or set RAY_TMPDIR" in line


@pytest.mark.ray
@pytest.mark.usefixtures("shared_ray")
def test_workers_and_driver_handle_a_small_disk(tmp_path, capsys):
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(mount)]
    made = subprocess.run(command, check=False, capture_output=True)
    if made.returncode:
        pytest.skip("a small disk is made by mount, which only root may do")
    try:
        write_corpus(tmp_path / "in")
        path = tmp_path / "recipe.toml"
        path.write_text(RECIPE.format(root=tmp_path / "in", out=mount / "out"))
        assert main(["prepare", str(path)]) == 5
        error = capsys.readouterr().err
        assert "its disk is full" in error.splitlines()[-1]
        assert "Traceback" not in error
        subprocess.run(["mount", "-o", "remount,size=40m", str(mount)], check=True)
        assert main(["prepare", str(path)]) == 0
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)
