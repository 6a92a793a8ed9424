"""The doctor's checks of machine and settings, each with a warning or failure; the command."""

import json
import os
from importlib import metadata, util
from pathlib import Path
from types import SimpleNamespace

import pytest

from nanotok_ray.cli import main
from nanotok_ray.errors import how_to_install
from nanotok_ray.job.doctor import (
    check_auth_mode,
    check_ray_address,
    check_ray_settings,
    check_token,
    clock_finding,
    cpu_limit,
    machine,
    memory_limit,
    memory_used,
    software,
)
from nanotok_ray.job.doctor import machine as disk
from nanotok_ray.recipe.text import tomllib  # tomli on Python 3.10
from nanotok_ray.units import without_secrets
from tests.support.small_corpus import write_corpus

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.fixture
def ray_unset(monkeypatch, tmp_path):
    """Return a separate home folder, without settings of Ray."""
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def token_file(path, *, text="abc123", mode=0o600):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_auth_mode_must_be_set(ray_unset, monkeypatch):
    assert check_auth_mode(is_remote=True).status == "warn"
    assert "401" in check_auth_mode(is_remote=True).found
    assert check_auth_mode(is_remote=False).status == "ok"
    for mode, status in (("token", "ok"), ("disabled", "warn"), ("tokens", "fail")):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        for is_remote in (False, True):
            assert check_auth_mode(is_remote=is_remote).status == status, mode


def test_the_token_is_found_in_the_order_of_ray(ray_unset, monkeypatch):
    assert check_token(is_remote=False).status == "ok"
    assert check_token(is_remote=True).status == "fail"
    home = token_file(ray_unset / ".ray" / "auth_token")
    assert check_token(is_remote=True).found == f"from {home}"
    own = token_file(ray_unset / "own-token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(own))
    assert check_token(is_remote=True).found.startswith(f"from {own} ")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret-value")
    assert check_token(is_remote=True).found == "from RAY_AUTH_TOKEN"
    monkeypatch.setenv("RAY_AUTH_TOKEN", " ")
    assert check_token(is_remote=True).status == "fail"


@pytest.mark.parametrize(
    ("text", "mode", "status", "reported"),
    [
        ("abc123", 0o644, "warn", "mode 0644"),
        ("abc123", 0o660, "warn", "mode 0660"),
        ("abc123", 0o400, "ok", "from"),
        (" \n", 0o600, "fail", "empty"),
    ],
)
def test_a_token_file_contains_a_token_and_is_readable_only_by_its_owner(
    ray_unset, text, mode, status, reported
):
    path = token_file(ray_unset / ".ray" / "auth_token", text=text, mode=mode)
    finding = check_token(is_remote=False)
    assert (finding.status, reported in finding.found) == (status, True)
    if status == "warn":
        assert finding.advice == f"chmod 600 {path}"


def test_a_missing_token_path_fails_despite_a_token_in_the_home_folder(ray_unset, monkeypatch):
    token_file(ray_unset / ".ray" / "auth_token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(ray_unset / "absent"))
    finding = check_token(is_remote=False)
    assert finding.status == "fail"
    assert "absent" in finding.found


def test_no_token_is_required_if_auth_is_disabled(ray_unset, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    names = [each.name for each in check_ray_settings(address="auto")]
    assert names == ["Ray auth mode", "RAY_ADDRESS"]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("", "ok"),
        ("local", "ok"),
        ("auto", "ok"),
        ("10.0.0.1:6379", "ok"),
        ("http://10.0.0.1:8265", "fail"),
        ("ray://10.0.0.1:10001", "fail"),
    ],
)
def test_a_driver_cannot_connect_to_a_job_server(ray_unset, monkeypatch, address, status):
    monkeypatch.setenv("RAY_ADDRESS", address)
    finding = check_ray_address()
    assert finding.status == status
    assert ("nanotok submit" in finding.advice) == (status == "fail")


def test_an_unreachable_ray_address_fails(ray_unset, monkeypatch):
    for address, reported in (
        ("somewhere", "is not the address of a Ray cluster"),
        ("127.0.0.1:9", "127.0.0.1:9 cannot be reached: Connection refused"),
    ):
        monkeypatch.setenv("RAY_ADDRESS", address)
        finding = list(check_ray_settings(address=None))[-1]
        assert (finding.name, finding.status) == ("RAY_ADDRESS", "fail")
        assert reported in finding.found
        assert "HOST:" in finding.advice


def test_the_minimum_versions_are_those_of_the_project():
    own = {text.partition(">=")[0]: text.partition(">=")[2] for text in PROJECT["dependencies"]}
    assert own["ray[default]"] == ".".join(map(str, software.OLDEST_RAY))
    assert PROJECT["requires-python"] == ">=" + ".".join(map(str, software.OLDEST_PYTHON))
    extras = PROJECT["optional-dependencies"]
    for extra, package in software.PACKAGES.items():
        assert [text.partition(">=")[0] for text in extras[extra]] == [package]


@pytest.mark.parametrize(
    ("version", "status"),
    [("2.60.0", "ok"), ("3.0.0.dev0", "ok"), ("2.58.1", "warn"), ("2.9.3", "fail")],
)
def test_an_old_ray_is_reported(monkeypatch, version, status):
    monkeypatch.setattr(software.metadata, "version", lambda _: version)
    finding = software.check_ray()
    assert (finding.status, version in finding.found) == (status, True)
    assert ("2.59" in finding.advice) == (status != "ok")


def test_a_missing_ray_fails(monkeypatch):
    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(software.metadata, "version", version)
    assert software.check_ray().status == "fail"


@pytest.mark.parametrize(
    ("build", "status"),
    [
        ("0.1.0 release x86_64-linux", "ok"),
        ("0.1.0 debug x86_64-linux", "warn"),
        ("0.0.9 release x86_64-linux", "fail"),
        ("of an unknown version", "fail"),
    ],
)
def test_the_core_must_have_this_version(monkeypatch, build, status):
    monkeypatch.setattr(software.nanotok_ray, "__version__", "0.1.0")
    monkeypatch.setattr(software, "core_build", lambda: build)
    assert software.check_core().status == status


def test_a_missing_core_fails(monkeypatch):
    def build():
        raise ImportError("no such file")

    monkeypatch.setattr(software, "core_build", build)
    assert "make build" in software.check_core().advice


def test_the_compiled_core_describes_itself():
    version, profile, target = software.core_build().split(" ")
    assert (version, profile) == (PROJECT["version"], "release")
    assert target.endswith("-linux")


def test_an_old_python_fails(monkeypatch):
    monkeypatch.setattr(software.sys, "version_info", (3, 9, 1))
    assert "3.10" in software.check_python().advice


def test_a_missing_extra_is_named(monkeypatch):
    known = util.find_spec
    monkeypatch.setattr(
        software.util, "find_spec", lambda name: None if name == "s3fs" else known(name)
    )
    findings = list(software.check_packages(["s3://a/b", "s3://c", "/data", "https://host/x"]))
    assert [(each.name, each.status) for each in findings] == [
        ("package s3fs", "fail"),
        ("package aiohttp", "ok"),
    ]
    assert findings[0].advice == how_to_install("s3")


def cgroup(root, version, files):
    line = "0::/job/one\n" if version == 2 else "5:memory:/job/one\n4:cpu,cpuacct:/job/one\n"
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(line)
    (root / "proc/meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable:  9000000 kB\n")
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_limits_of_a_container_and_of_its_parents_are_detected(tmp_path):
    files = {
        "memory.max": "4000000000\n",
        "job/memory.max": "max\n",
        "job/one/memory.current": "3500000000",
        "job/one/memory.stat": "anon 1\ninactive_file 500000000\n",
        "job/cpu.max": "150000 100000\n",
        "job/one/cpu.max": "max 100000\n",
    }
    root = cgroup(tmp_path, 2, files)
    assert memory_limit(root) == 4_000_000_000
    assert memory_used(root) == 3_000_000_000
    assert cpu_limit(root) == 1.5
    finding = machine.check_memory(root)
    assert finding.status == "warn"
    assert finding.found == "1.0 GB available of 4.0 GB, the container's limit"


def test_limits_of_an_old_container_are_detected(tmp_path):
    files = {
        "memory/job/one/memory.limit_in_bytes": "9223372036854771712",
        "memory/job/memory.limit_in_bytes": "5000000000",
        "cpu/job/one/cpu.cfs_quota_us": "50000",
        "cpu/job/one/cpu.cfs_period_us": "100000",
    }
    root = cgroup(tmp_path, 1, files)
    assert memory_limit(root) == 5_000_000_000
    assert machine.check_memory(root).status == "ok"


def test_an_absent_limit_is_no_limit(tmp_path):
    root = cgroup(tmp_path, 2, {"job/one/cpu.max": "max 100000", "memory.max": "max"})
    assert (memory_limit(root), cpu_limit(root), memory_used(root)) == (None, None, None)
    assert machine.check_memory(root).found == "9.2 GB available of 16.4 GB"


def test_a_limit_below_the_number_of_cpus_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    root = cgroup(tmp_path, 2, {"job/one/cpu.max": "150000 100000"})
    assert machine.check_cpus(root).advice.startswith("pass --cpus 1")
    assert machine.check_cpus(tmp_path / "elsewhere").status == "ok"


def test_a_forced_or_unknown_cpu_level_is_reported(monkeypatch):
    import nanotok_ray._core as core  # noqa: PLC0415
    from nanotok_ray.errors import TokenizerError  # noqa: PLC0415

    monkeypatch.setattr(core, "cpu_levels", lambda: ["portable", "avx2"])
    monkeypatch.setattr(core, "cpu_level", lambda: "portable")
    assert machine.check_cpu_level().status == "warn"
    monkeypatch.setattr(core, "cpu_level", lambda: "avx2")
    assert machine.check_cpu_level().status == "ok"

    def refuse():
        raise TokenizerError("NANOTOK_CPU is 'best'")

    monkeypatch.setattr(core, "cpu_level", refuse)
    assert machine.check_cpu_level().status == "fail"


@pytest.mark.parametrize(("soft", "status"), [(1024, "warn"), (65_536, "ok"), (-1, "ok")])
def test_a_low_limit_of_open_files_is_reported(monkeypatch, soft, status):
    monkeypatch.setattr(machine.resource, "getrlimit", lambda _: (soft, -1))
    assert machine.check_open_files().status == status


def disk_of(monkeypatch, module, **values):
    blocks = {"f_frsize": 1000, "f_blocks": 10**9, "f_bavail": 10**9}
    inodes = {"f_files": 1000, "f_favail": 1000}
    status = SimpleNamespace(**(blocks | inodes | values))
    monkeypatch.setattr(module.os, "statvfs", lambda _: status)


def test_little_shared_memory_is_reported(monkeypatch):
    disk_of(monkeypatch, machine, f_blocks=64_000, f_bavail=64_000)
    assert "--shm-size" in machine.check_shared_memory().advice
    disk_of(monkeypatch, machine)
    assert machine.check_shared_memory().status == "ok"
    monkeypatch.setattr(machine, "SHARED_MEMORY", "/nowhere/shm")
    monkeypatch.setattr(machine.os, "statvfs", os.stat)
    assert machine.check_shared_memory().status == "warn"


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({}, "ok"),
        ({"f_bavail": 99_999_999}, "warn"),  # below a tenth
        ({"f_bavail": 9_000_000, "f_blocks": 9_000_000}, "warn"),  # below 10 GB
        ({"f_favail": 99}, "warn"),
        ({"f_favail": 0}, "fail"),
        ({"f_bavail": 0}, "fail"),
        ({"f_favail": 0, "f_files": 0}, "ok"),  # a file system that does not count them
    ],
)
def test_a_nearly_full_disk_is_reported(monkeypatch, values, status):
    disk_of(monkeypatch, disk, **values)
    assert disk.check_disk("/data/not/there/yet").status == status


@pytest.mark.parametrize(
    ("seconds", "status", "reported"),
    [
        (1000.5, "ok", "within 1 s"),
        (1059.0, "ok", "within 58 s"),
        (1062.0, "warn", "61 s behind"),
        (900.0, "warn", "100 s ahead of"),
    ],
)
def test_a_wrong_clock_is_reported(seconds, status, reported):
    finding = clock_finding("s3://a", int(seconds * 1e9), before=1000.0, after=1001.0)
    assert (finding.status, reported in finding.found) == (status, True)
    assert clock_finding("s3://a", None, before=1000.0, after=1001.0).status == "ok"


def test_secrets_are_masked(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "hunter2-hunter2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sec/ret+key")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=zzz")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/home/me/token")
    text = "hunter2-hunter2 sec/ret+key AccountKey=zzz /home/me/token sftp://me:pw@host/x"
    assert without_secrets(text) == "*** *** *** /home/me/token sftp://***@host/x"


def run(capsys, *arguments):
    code = main(["doctor", *arguments])
    out, err = capsys.readouterr()
    return code, json.loads(out.splitlines()[-1]), err


def test_a_recipe_is_checked_and_leaves_no_files(tmp_path, capsys):
    write_corpus(tmp_path)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f"""
        [[source]]
        name = "web"
        kind = "text"
        paths = ["{tmp_path}/text/*.parquet"]
        [output]
        path = "{tmp_path}/new/out"
        """
    )
    before = sorted(tmp_path.rglob("*"))
    code, values, err = run(capsys, str(recipe))
    assert (code, values["status"] != "fail") == (0, True)
    assert sorted(tmp_path.rglob("*")) == before
    reported = {each["name"]: each for each in values["checks"]}
    assert "files can be opened" in reported["source web"]["found"]
    assert "removed in" in reported["storage"]["found"]
    assert sum(values[kind] for kind in ("ok", "warn", "fail")) == len(values["checks"])
    assert len(err.splitlines()) == len(values["checks"])


def test_all_mistakes_of_a_recipe_are_reported(tmp_path, capsys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f"""
        [[source]]
        name = "web"
        kind = "text"
        paths = ["{tmp_path}/absent/*.parquet"]
        [[source]]
        name = "code"
        kind = "text"
        paths = ["{tmp_path}/gone/*.parquet"]
        [tokenizer]
        path = "{tmp_path}/no-tokenizer"
        [output]
        path = "{tmp_path}/out"
        """
    )
    code, values, _ = run(capsys, str(recipe), str(tmp_path / "absent.toml"))
    failed = [each["name"] for each in values["checks"] if each["status"] == "fail"]
    assert (code, failed) == (5, ["recipe", "source web", "source code", "tokenizer"])


@pytest.mark.parametrize(
    ("arguments", "check", "words"),
    [
        (["{root}/file/out"], "storage", "Not a directory"),
        (["s4://bucket/out"], "storage", "s4"),
        (["--address", "http://127.0.0.1:9"], "address", "8265"),
        (["--address", "somewhere"], "address", "is not http://HOST:PORT"),
    ],
    ids=str,
)
def test_an_unusable_folder_or_address_fails(tmp_path, capsys, arguments, check, words):
    (tmp_path / "file").write_text("")
    code, values, _ = run(capsys, *(word.format(root=tmp_path) for word in arguments))
    (failed,) = (each for each in values["checks"] if each["status"] == "fail")
    assert (code, failed["name"]) == (5, check)
    assert words in failed["found"] + failed["advice"]
