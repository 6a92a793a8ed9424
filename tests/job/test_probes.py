"""Probe files: their visibility in other processes, the answers, and their removal."""

import pickle
from functools import partial

import pytest

from nanotok_ray.cli import exit_code
from nanotok_ray.errors import SharedFolderError, TransientIOError
from nanotok_ray.job import SharedFolder
from nanotok_ray.job.probes import answer, probes_in, problem_with, see, shared_folders
from nanotok_ray.storage import Folder

at_once = partial(probes_in, waits=(0.0, 0.0))


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_a_probe_is_seen_answered_and_removed(tmp_path, kind):
    url = str(tmp_path) if kind == "local" else f"memory://{tmp_path.name}"
    shared = shared_folders(f"{url}/out", f"{url}/work")
    with at_once([*shared, *shared]) as probes:
        assert [probe.name.rpartition("/")[0] for probe in probes] == ["run/probe", "probe"]
        for probe in probes:
            see(probe)
            assert problem_with(probe) is None
        assert answer(probes, "node") == [None, None]
        for probe in probes:
            assert problem_with(probe, probe.answer_name("node")) is None
            Folder(probe.folder).remove(probe.answer_name("node"))
    assert Folder(f"{url}/out").list() == Folder(f"{url}/work").list() == []


def test_a_missing_or_different_probe_is_a_problem_that_names_the_file(tmp_path):
    with at_once([SharedFolder(url=str(tmp_path), probes="probe")]) as [probe]:
        file = tmp_path / probe.name
        file.write_bytes(b"another job's")
        assert problem_with(probe) == f"{file} holds something else"
        file.unlink()
        assert problem_with(probe) == f"{file}: FileNotFoundError"
        assert answer([probe], "node") == [f"{file}: FileNotFoundError"]
        with pytest.raises(
            SharedFolderError, match=f"{tmp_path} is not one folder.*mounted"
        ) as own:
            see(probe)
    again = pickle.loads(pickle.dumps(own.value))
    assert (type(again), str(again), exit_code(again)) == (SharedFolderError, str(own.value), 5)
    assert files(tmp_path) == []


def test_a_late_probe_is_seen(tmp_path):
    looks = []

    def appear(_):
        looks.append(1)
        if len(looks) == 2:
            Folder(probe.folder).write_whole(probe.name, probe.token.encode())

    with at_once([SharedFolder(url=str(tmp_path), probes="probe")]) as [probe]:
        (tmp_path / probe.name).unlink()
        assert problem_with(probe, sleep=appear) is None


def test_probes_are_removed_after_an_error_and_a_failed_write_stops_the_job(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    shared = [SharedFolder(url=str(tmp_path / name), probes="probe") for name in ("a", "file")]
    with pytest.raises(OSError, match="file"), at_once(shared):
        raise AssertionError("never reached")
    with pytest.raises(RuntimeError, match="mine"), at_once(shared[:1]):
        raise RuntimeError("mine")
    assert files(tmp_path) == [tmp_path / "file"]


def test_a_temporary_storage_failure_does_not_decide_about_sharing(tmp_path, monkeypatch):
    def fail(*_):
        raise TransientIOError("for now")

    with at_once([SharedFolder(url=str(tmp_path), probes="probe")]) as [probe]:
        monkeypatch.setattr(Folder, "read_bytes", fail)
        with pytest.raises(TransientIOError):
            see(probe)
        with pytest.raises(TransientIOError):
            answer([probe], "node")
