"""The doctor: every check passes and fails."""

import json
import os
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import tokenizers

from nanotok_ray import system
from nanotok_ray.cli import main
from nanotok_ray.errors import how_to_install
from nanotok_ray.job.doctor import disk, software
from nanotok_ray.job.doctor.checks import libraries_of
from nanotok_ray.job.doctor.folder import check_folder, clock_finding
from nanotok_ray.job.doctor.ray_settings import (
    check_auth_mode,
    check_ray_address,
    check_ray_settings,
    check_token,
)
from nanotok_ray.job.doctor.result import worst
from nanotok_ray.recipe.text import tomllib  # tomli on Python 3.10
from nanotok_ray.storage import LocalStore, RemoteStore
from nanotok_ray.units import without_secrets
from tests.support.faulty_proxy import Fault
from tests.support.library_tokenizers import word_piece
from tests.support.missing_packages import uninstall_stores
from tests.support.small_corpus import write_corpus

pytestmark = [pytest.mark.timeout(60)]

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
    for mode, status in (("token", "ok"), ("tokens", "fail"), ("disabled", "warn")):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        for is_remote in (False, True):
            assert check_auth_mode(is_remote=is_remote).status == status, mode
    names = [each.name for each in check_ray_settings(address="auto")]  # no token is required
    assert names == ["Ray auth mode", "RAY_ADDRESS"]


def test_the_token_is_found_in_the_order_of_ray(ray_unset, monkeypatch):
    assert check_token(is_remote=False).status == "ok"
    assert check_token(is_remote=True).status == "fail"
    home, own = (token_file(ray_unset / name) for name in (".ray/auth_token", "own-token"))
    assert check_token(is_remote=True).found == f"from {home}"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(own))
    assert check_token(is_remote=True).found.startswith(f"from {own} ")
    own.unlink()
    missing = check_token(is_remote=False)
    assert (missing.status, str(own) in missing.found) == ("fail", True)
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


def test_the_minimum_version_of_ray_is_that_of_the_project():
    own = {text.partition(">=")[0]: text.partition(">=")[2] for text in PROJECT["dependencies"]}
    assert own["ray[default]"] == ".".join(map(str, software.OLDEST_RAY))


@pytest.mark.parametrize(
    ("version", "status"),
    [("2.60.0", "ok"), ("3.0.0.dev0", "ok"), ("2.58.1", "warn"), ("2.9.3", "fail"), (None, "fail")],
)
def test_an_old_or_missing_ray_is_reported(monkeypatch, version, status):
    def installed(name):
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(software.metadata, "version", installed)
    finding = software.check_ray()
    assert (finding.status, str(version) in finding.found) == (status, version is not None)
    assert ("2.59" in finding.advice) == (status != "ok")


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


def test_a_missing_core_is_reported(monkeypatch):
    version, profile, target = software.core_build().split(" ")
    assert (version, profile) == (software.nanotok_ray.__version__, "release")
    assert target.endswith("-linux")

    def missing():
        raise ImportError("no such file")

    monkeypatch.setattr(software, "core_build", missing)
    assert "make build" in software.check_core().advice


def disk_of(monkeypatch, **values):
    inodes = {"f_files": 1000, "f_favail": 1000}
    blocks = {"f_frsize": 1000, "f_blocks": 10**9, "f_bavail": 10**9}
    status = SimpleNamespace(**(blocks | inodes | values))
    monkeypatch.setattr(system.os, "statvfs", lambda _: status)


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
    disk_of(monkeypatch, **values)
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
    for name, value in (
        ("RAY_AUTH_TOKEN", "hunter2-hunter2"),
        ("AWS_SECRET_ACCESS_KEY", "sec/ret+key"),
        ("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=zzz"),
        ("RAY_AUTH_TOKEN_PATH", "/home/me/token"),
    ):
        monkeypatch.setenv(name, value)
    text = "hunter2-hunter2 sec/ret+key AccountKey=zzz /home/me/token sftp://me:pw@host/x"
    assert without_secrets(text) == "*** *** *** /home/me/token sftp://***@host/x"


def run(capsys, *arguments):
    code = main(["doctor", *arguments])
    out, err = capsys.readouterr()
    return code, json.loads(out.splitlines()[-1]), err


WEB = '[[source]]\nname = "web"\nkind = "text"\npaths = ["{root}/text/*.parquet"]\n'


def test_overrides_apply_to_the_recipe_that_is_checked(tmp_path, capsys):
    write_corpus(tmp_path)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'{WEB.format(root=tmp_path)}[output]\npath = "/proc/none/out"\n')
    assert run(capsys, str(recipe))[0] == 5
    code, values, err = run(capsys, str(recipe), "--set", f"output.path={tmp_path}/new")
    assert (code, f"storage           {tmp_path}/new: " in err) == (0, True), values
    code, _, err = run(capsys, str(recipe), "--set", "limits.slice_byte=1")
    assert (code, "slice_bytes" in err) == (5, True)


def test_a_recipe_is_checked_and_leaves_no_files(tmp_path, capsys):
    write_corpus(tmp_path)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'{WEB.format(root=tmp_path)}[output]\npath = "{tmp_path}/new/out"\n')
    before = sorted(tmp_path.rglob("*"))
    code, values, err = run(capsys, str(recipe))
    assert (code, values["status"] != "fail") == (0, True)
    assert sorted(tmp_path.rglob("*")) == before
    reported = {each["name"]: each for each in values["checks"]}
    assert "files can be opened" in reported["source web"]["found"]
    assert "removed in" in reported["storage"]["found"]
    assert sum(values[kind] for kind in ("ok", "warn", "fail")) == len(values["checks"])
    assert len(err.splitlines()) == len(values["checks"])


def test_the_memory_of_learning_tokens_of_several_words_is_estimated(tmp_path, capsys):
    write_corpus(tmp_path)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'{WEB.format(root=tmp_path)}[output]\npath = "{tmp_path}/new/out"\n')
    checks = [
        {each["name"] for each in run(capsys, str(recipe), *own)[1]["checks"]}
        for own in ((), ("--set", "tokenizer.superword={from = 400}"))
    ]
    assert checks[1] - checks[0] == {"learner"}


def test_a_library_that_encodes_is_named_with_the_limit_of_its_time(tmp_path, capsys):
    write_corpus(tmp_path)
    (tmp_path / "tokenizer.json").write_text(word_piece())
    recipe = tmp_path / "recipe.toml"
    tokenizer = f'[tokenizer]\npath = "{tmp_path}/tokenizer.json"\n'
    recipe.write_text(f'{WEB.format(root=tmp_path)}{tokenizer}[output]\npath = "{tmp_path}/out"\n')
    _, values, err = run(capsys, str(recipe))
    [check] = [each for each in values["checks"] if each["name"] == "tokenizer"]
    assert check["status"] == "warn"
    assert "limits.slice_deadline" in err
    [library] = libraries_of([str(recipe), str(tmp_path / "absent.toml")], [])
    assert library == f"tokenizers {tokenizers.__version__}"
    assert libraries_of([str(recipe)], [f"tokenizer.path='{tmp_path}/none'"]) == []


def test_all_mistakes_of_a_recipe_are_reported(tmp_path, capsys):
    recipe, web = tmp_path / "recipe.toml", WEB.format(root=tmp_path)
    others = f'[tokenizer]\npath = "{tmp_path}/none"\n[output]\npath = "{tmp_path}/out"\n'
    recipe.write_text(f"{web}{web.replace('web', 'code')}{others}")
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


def reported(url, *, slow_seconds=60.0, **options):
    """Return status and results by name, the last of each name; this machine may be busy."""
    findings = list(check_folder(url, slow_seconds=slow_seconds, **options))
    return worst(findings), {each.name: each for each in findings}


def test_a_correct_bucket_passes_and_stays_empty(remote, proxy):
    status, findings = reported(remote.url)
    assert (status, list(findings)) == ("ok", ["storage", "clock", "conditions"])
    assert remote.list_temporaries() == []
    assert {"PUT", "GET", "DELETE"} <= {method for method, _, _ in proxy.requests}
    status, findings = reported(remote.url, clock=lambda: 1e9)
    assert (status, findings["clock"].status) == ("warn", "warn")
    assert "behind" in findings["clock"].found
    assert reported(remote.url, slow_seconds=-1.0)[1]["storage"].status == "warn"


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("PUT", "", "written"),
        ("GET", "", "read"),
        ("GET", "list-type", "cannot be listed"),
        ("DELETE", "", "removed"),
    ],
)
def test_credentials_without_a_permission_fail_and_name_the_step(
    remote, proxy, method, path, found
):
    proxy.fail_always(Fault.FORBIDDEN, method=method, path=path)
    status, findings = reported(remote.url)
    assert (status, found in findings["storage"].found) == ("fail", True)
    proxy.clear()
    assert len(remote.list_temporaries()) == (found == "removed")


def test_a_missing_bucket_package_or_server_fails(remote, proxy, monkeypatch):
    status, findings = reported("s3://no-such-bucket-at-all/out")
    assert (status, list(findings)) == ("fail", ["storage"])
    proxy.fail_always(Fault.SLOW_DOWN)
    status, findings = reported(remote.url)
    assert (status, "for now" in findings["storage"].found) == ("fail", True)
    uninstall_stores(monkeypatch, "Install s3fs to access S3")
    status, findings = reported("s3://bucket/out")
    assert (status, how_to_install("s3") in findings["storage"].found) == ("fail", True)


@pytest.mark.parametrize(
    ("name", "result", "found"),
    [("read_bytes", b"other", "read back"), ("sizes", {}, "listing")],
)
def test_a_store_that_returns_something_else_fails(tmp_path, monkeypatch, name, result, found):
    monkeypatch.setattr(LocalStore, name, lambda *_, **__: result)
    status, findings = reported(str(tmp_path / "out"))
    assert (status, found in findings["storage"].found) == ("fail", True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_overwrites_an_existing_name_fails(tmp_path, monkeypatch):
    def write_new(self, name, data):
        self.write_bytes(name, data)
        return True

    for store in (LocalStore, RemoteStore):
        monkeypatch.setattr(store, "write_new", write_new)
    status, findings = reported(str(tmp_path))
    assert (status, findings["conditions"].status) == ("fail", "fail")
    assert reported("memory://doctor", unsafe_store=True)[1]["conditions"].status == "warn"


def test_a_store_whose_uploads_overwrite_an_existing_name_fails(remote, monkeypatch):
    monkeypatch.setattr(RemoteStore, "create_once", RemoteStore.create)
    status, findings = reported(remote.url)
    assert (status, "upload" in findings["conditions"].found) == ("fail", True)


def test_an_interrupt_leaves_no_files(tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalStore, "read_bytes", interrupt)
    with pytest.raises(KeyboardInterrupt):
        reported(str(tmp_path / "new" / "out"))
    assert list(tmp_path.iterdir()) == []
