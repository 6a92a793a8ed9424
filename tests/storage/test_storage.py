"""Folders of atomically written files on disks and remote stores."""

import errno
import hashlib
import os
import pickle
import stat
import uuid
from pathlib import Path

import numpy as np
import pytest
from botocore.exceptions import FlexibleChecksumError

from nanotok_ray.errors import CorruptOutputError, DiskFullError, SourceError, TransientIOError
from nanotok_ray.formats import is_local, local_path
from nanotok_ray.storage import (
    Checksums,
    Folder,
    StoreRetryPolicy,
    find_files,
    open_input,
    read_start,
    transient_errors,
    write_checked,
)
from tests.support.retry_policy import use_retry_policy
from tests.support.s3_server import BUCKET, s3_behind_a_proxy


@pytest.fixture(scope="module")
def server():
    """Return the proxy of one server."""
    with s3_behind_a_proxy() as proxy:
        yield proxy


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request, tmp_path) -> Folder:
    """A folder on each kind of storage: a disk, a remote file system, an object store."""
    if request.param == "local":
        return Folder(str(tmp_path / "folder"))
    if request.param == "s3":
        request.getfixturevalue("server")
    root = f"s3://{BUCKET}" if request.param == "s3" else "memory:/"
    return Folder(f"{root}/{uuid.uuid4().hex}/folder")


def write_and_fail(folder: Folder, name: str, error: BaseException) -> None:
    with folder.create(name) as file:
        file.write(b"x" * 5000)
        raise error


def test_a_file_exists_with_its_size_and_hash_after_a_clean_exit(folder):
    with folder.create("a/b.bin") as file:
        file.write(b"abc")
        file.write(b"")
        file.write(memoryview(b"d"))
        file.write(np.arange(3000, dtype=np.uint16))
        file.write(np.empty(0, dtype=np.uint16))
    data = b"abcd" + np.arange(3000, dtype="<u2").tobytes()
    assert folder.read_bytes("a/b.bin") == data
    assert folder.read_start("a/b.bin", 2) == b"ab"
    assert file.size == folder.size("a/b.bin") == len(data)
    assert file.sha256 == folder.sha256("a/b.bin") == hashlib.sha256(data).hexdigest()
    with folder.create("empty"):
        pass
    assert folder.size("empty") == 0
    assert folder.read_bytes("empty") == b""


def test_after_an_error_no_file_exists(folder):
    with pytest.raises(KeyboardInterrupt):
        write_and_fail(folder, "a.bin", KeyboardInterrupt())
    assert folder.list() == folder.list_temporaries() == []
    assert not folder.exists("a.bin")


@pytest.mark.parametrize("folder", ["local", "s3"], indirect=True)
def test_a_file_keeps_its_content_until_the_new_one_is_complete(folder):
    folder.write_bytes("a", b"old")
    with pytest.raises(ZeroDivisionError):
        write_and_fail(folder, "a", ZeroDivisionError())
    assert folder.read_bytes("a") == b"old"
    with folder.create("a") as file:
        file.write(b"new")
        assert folder.read_bytes("a") == b"old"
    assert folder.read_bytes("a") == b"new"


def test_two_writers_of_one_name_are_independent_and_not_listed(tmp_path):
    folder = Folder(str(tmp_path))
    with folder.create("web/a.bin") as first, folder.create("web/a.bin") as second:
        first.write(b"same")
        second.write(b"same")
        assert folder.list() == []
        assert len(folder.list_temporaries()) == 2
        assert all(name.startswith("web/.a.bin.") for name in folder.list_temporaries())
    assert folder.list() == ["web/a.bin"]
    assert folder.list_temporaries() == []
    assert folder.read_bytes("web/a.bin") == b"same"


def test_a_long_name_leaves_room_for_the_temporary_one(tmp_path):
    name = "x" * 251 + ".bin"
    Folder(str(tmp_path)).write_bytes(name, b"1")
    assert Folder(str(tmp_path)).list() == [name]


def test_a_failed_rename_leaves_nothing(tmp_path):
    folder = Folder(str(tmp_path))
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError):
        folder.write_bytes("a", b"1")
    assert folder.list_temporaries() == []


def test_file_and_folder_are_synced_before_and_after_the_rename(tmp_path, monkeypatch):
    events = []
    sync, replace = os.fsync, Path.replace

    def record_sync(descriptor):
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def record_replace(path, target):
        events.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Path, "replace", record_replace)
    Folder(str(tmp_path)).write_bytes("a", b"1")
    assert events == ["file", "rename", "folder"]


def test_the_mode_of_a_file_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        Folder(str(tmp_path)).write_bytes("a", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_full_disk_is_not_temporary_and_leaves_nothing(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    folder = Folder(str(tmp_path))
    with pytest.raises(DiskFullError) as caught:
        folder.write_bytes("a", b"1" * 2000)
    assert not isinstance(caught.value, TransientIOError)
    for words in (str(tmp_path / "a"), "2.0 kB", "full", " free)", "resumes"):
        assert words in str(caught.value)
    assert type(pickle.loads(pickle.dumps(caught.value))) is DiskFullError
    assert list(tmp_path.iterdir()) == []


def test_names_are_listed_sorted_at_any_depth_by_prefix(folder):
    for name in ["b", "a/c", "a/b/d", "a.x", "A", "é/1"]:
        folder.write_bytes(name, name.encode())
    assert folder.list() == ["A", "a.x", "a/b/d", "a/c", "b", "é/1"]
    assert folder.list("a/") == ["a/b/d", "a/c"]
    assert folder.list("a/b") == ["a/b/d"]
    assert folder.list("a") == ["a.x", "a/b/d", "a/c"]
    assert folder.list("nothing/") == []
    assert folder.sizes("a/") == {"a/b/d": 5, "a/c": 3}


def test_a_missing_folder_is_empty(folder):
    assert folder.list() == []
    assert folder.size("a") is None
    assert not folder.exists("a/b")
    with pytest.raises(FileNotFoundError):
        folder.read_bytes("a")
    with pytest.raises(FileNotFoundError):
        folder.sha256("a")


def test_a_new_file_is_written_once_until_it_is_removed(folder):
    assert folder.write_new("lease/a", b"first")
    assert not folder.write_new("lease/a", b"second")
    assert folder.read_bytes("lease/a") == b"first"
    assert folder.list_temporaries() == []
    folder.remove("lease/a")
    folder.remove("lease/a")
    assert not folder.exists("lease/a")


def test_a_folder_can_be_pickled(folder):
    folder.write_bytes("a", b"1")
    copy = pickle.loads(pickle.dumps(folder))
    assert copy.url == folder.url
    assert copy.read_bytes("a") == b"1"


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../b", "a//b", "./a", "a/"])
def test_a_name_cannot_leave_its_folder(folder, name):
    for use in (folder.read_bytes, folder.join, folder.size, folder.remove, folder.local_path):
        with pytest.raises(CorruptOutputError, match="inside a folder"):
            use(name)


def test_urls_and_paths_are_joined():
    assert Folder("memory://bucket/x/").join("a/b") == "memory://bucket/x/a/b"
    assert Folder("memory://bucket").local_path("a") is None
    assert Folder("file:///data/x").join("a") == Folder("/data/x/").join("a") == "/data/x/a"
    assert Folder("/").join("a") == "/a"
    assert Folder("x").url == f"{Path.cwd()}/x"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/a/b", "/a/b"),
        ("/a/../b/", "/b"),
        ("file:///a%20b", "/a b"),
        ("local:///a", "/a"),
        ("s3://a/b", None),
        ("zip://a::s3://b", None),
        ("filecache::s3://b", None),
        ("/a:b", "/a:b"),
    ],
)
def test_a_path_is_local_unless_it_has_another_scheme(url, expected):
    assert local_path(url) == expected
    assert is_local(url) == (expected is not None)


def test_an_input_is_read_with_any_sequence_of_reads_and_seeks(folder):
    data = bytes(range(256)) * 20_000
    folder.write_bytes("a", data)
    with open_input(folder.join("a")) as file, open_input(folder.join("a")) as other:
        assert other.seek(-3, os.SEEK_END) == len(data) - 3
        assert file.read(10) == data[:10]
        assert other.read() == data[-3:]
        assert file.read(3_000_000) == data[10:3_000_010]
        assert file.seek(5) == file.tell() == 5
        assert file.read() == data[5:]
        assert file.read() == b""


def error_with(**fields: object) -> Exception:
    error = Exception(str(fields))
    error.__dict__.update(fields)
    return error


def caused_by(cause: Exception, error: Exception) -> Exception:
    error.__cause__ = cause
    return error


def of_s3(code: str) -> Exception:
    """An error of s3fs with a code that its status does not show."""
    response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return caused_by(error_with(response=response), OSError(errno.EINVAL, "what s3fs makes of it"))


SubclassError = type("SubclassError", (type("ClientPayloadError", (Exception,), {}),), {})

CYCLE = RuntimeError("wrapped")
CYCLE.__cause__ = caused_by(CYCLE, RuntimeError("again"))

PASSING = [
    TimeoutError(),
    ConnectionResetError(),
    OSError(errno.EBUSY, "SlowDown"),
    OSError(errno.EIO, "InternalError"),
    error_with(status=503),
    error_with(code="429"),
    error_with(status_code=408),
    error_with(response={"ResponseMetadata": {"HTTPStatusCode": 500}}),
    SubclassError(),
    *(
        pytest.param(of_s3(code), id=code)
        for code in ("IncompleteBody", "NoSuchUpload", "SlowDown", "BadDigest")
    ),
    caused_by(caused_by(error_with(status=500), RuntimeError("again")), RuntimeError("wrapped")),
    FlexibleChecksumError(error_msg="other bytes"),
]
LASTING = [
    FileNotFoundError(errno.ENOENT, "no such key"),
    PermissionError(errno.EACCES, "forbidden"),
    OSError(errno.ENOSPC, "no space"),
    OSError("magic bytes"),
    error_with(status=404),
    error_with(code="NoSuchBucket"),
    error_with(response={"ResponseMetadata": {"HTTPStatusCode": 403}}),
    ValueError(),
    of_s3("InvalidArgument"),
    caused_by(TimeoutError(), SourceError("changed")),
    CYCLE,
]


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_a_temporary_failure_becomes_a_transient_error_that_names_url_and_action(error):
    with (
        pytest.raises(TransientIOError, match=r"cannot read s3://a/b for now .*; try again") as e,
        transient_errors("read", "s3://a/b"),
    ):
        raise error
    assert e.value.__cause__ is error
    assert type(pickle.loads(pickle.dumps(e.value))) is TransientIOError


@pytest.mark.parametrize("error", LASTING, ids=repr)
def test_a_permanent_failure_is_raised_unchanged(error):
    with pytest.raises(type(error)) as caught, transient_errors("read", "s3://a/b"):
        raise error
    assert caught.value is error


def test_everything_below_a_prefix_is_removed(folder):
    for name in ("run/checksums/a.1", "run/checksums/web/b.2", "run/other", "a"):
        folder.create_empty(name)
    folder.remove_below("run/checksums/")
    folder.remove_below("run/checksums/")
    assert folder.list() == ["a", "run/other"]
    assert folder.size("a") == 0


def test_a_file_has_the_bytes_of_its_checksum(folder):
    write_checked(folder, "records/a.json", b"1")
    write_checked(folder, "records/b.json", b"2")
    folder.write_bytes("records/c.json", b"3")
    checksums = Checksums.of(folder, ["records/"])
    assert sorted(checksums.names) == ["records/a.json", "records/b.json"]
    digest = hashlib.sha256(b"1").hexdigest()
    assert checksums.are_of("records/a.json", digest)
    assert not checksums.are_of("records/b.json", digest)
    assert checksums.are_of("records/c.json", digest)  # it has none
    write_checked(folder, "records/b.json", b"1")
    assert Checksums.of(folder, ["records/b"]).are_of("records/b.json", digest)
    assert Checksums.of(folder, ["plan.json"]).names == {}


def test_a_verified_file_is_compared_when_it_was_read(folder):
    folder.write_bytes("a", bytes(100))
    right, wrong = folder.sha256("a"), "0" * 64
    with folder.open_verified("a", sha256=right) as file:
        assert file.read(3) == bytes(3)
    with (
        pytest.raises(CorruptOutputError, match="a has another sha256"),
        folder.open_verified("a", sha256=wrong) as file,
    ):
        assert file.read() == bytes(100)


def test_a_failed_check_keeps_what_was_published(folder):
    def fail():
        raise CorruptOutputError("not now")

    folder.write_bytes("a", b"1")
    with pytest.raises(CorruptOutputError, match="not now"):
        folder.write_bytes("a", b"2", check=fail)
    assert folder.read_bytes("a") == b"1"
    assert folder.list() == ["a"]
    assert folder.list_temporaries() == []


@pytest.fixture
def failing(monkeypatch):
    """Return a function after which some calls of a function of `os` fail first."""

    def fail(name, number, *, times):
        original, left = getattr(os, name), [times]

        def failing(*args, **options):
            if left[0]:
                left[0] -= 1
                raise OSError(number, os.strerror(number))
            return original(*args, **options)

        monkeypatch.setattr(os, name, failing)

    with use_retry_policy(StoreRetryPolicy(first_wait=0)):
        yield fail


def content(file):
    with file:
        return file.read()


def write_new(folder):
    folder.remove("b")
    return folder.write_new("b", b"1"), folder.list()


LOCAL_OPERATIONS = {
    "read": ("readv", lambda folder: content(folder.open("a"))),
    "read input": ("readv", lambda folder: content(open_input(folder.join("a")))),
    "read start": ("readv", lambda folder: read_start(folder.join("a"), 1)),
    "open": ("open", lambda folder: folder.read_bytes("a")),
    "write": ("fsync", lambda folder: folder.write_bytes("a", b"1")),
    "write new": ("fsync", write_new),
    "write new, link": ("link", write_new),
    "size": ("lstat", lambda folder: folder.size("a")),
    "list": ("listdir", lambda folder: find_files(folder.url)),
}


@pytest.mark.parametrize(("name", "operation"), LOCAL_OPERATIONS.values(), ids=LOCAL_OPERATIONS)
@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_errors_of_a_disk_or_nfs_are_retried(tmp_path, failing, name, operation, number):
    folder = Folder(str(tmp_path))
    folder.write_bytes("a", b"1")
    expected = operation(folder)
    failing(name, number, times=2)
    assert operation(folder) == expected
    failing(name, number, times=100)
    with pytest.raises(TransientIOError, match=rf"{tmp_path}.* tried 5 times"):
        operation(folder)


@pytest.mark.parametrize("write", [Folder.create, Folder.create_once])
def test_a_file_whose_disk_failed_can_be_written_again(tmp_path, failing, write):
    failing("fsync", errno.EIO, times=1)
    folder = Folder(str(tmp_path))
    with pytest.raises(TransientIOError, match=f"{tmp_path}/a"), write(folder, "a") as file:
        file.write(b"1")
    assert folder.list_temporaries() == folder.list() == []
    with write(folder, "a") as file:
        file.write(b"1")


def test_a_new_file_whose_folder_failed_to_sync_was_published(tmp_path, monkeypatch):
    sync, failed = os.fsync, []

    def fail_once(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) and not failed:
            failed.append(True)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)
    with use_retry_policy(StoreRetryPolicy(first_wait=0)):
        assert Folder(str(tmp_path)).write_new("a", b"1")
        assert failed
        assert not Folder(str(tmp_path)).write_new("a", b"1")


def test_a_read_only_disk_is_not_temporary_and_the_file_is_named(tmp_path, failing):
    failing("fsync", errno.EROFS, times=1)
    with pytest.raises(OSError, match=f"{tmp_path}/a") as caught:
        Folder(str(tmp_path)).write_bytes("a", b"1")
    assert caught.value.errno == errno.EROFS
    assert caught.value.filename == f"{tmp_path}/a"


@pytest.mark.usefixtures("failing")
def test_a_bad_sector_is_named():
    expected = pytest.raises(TransientIOError, match="cannot read /proc/self/mem for now, tried 5 ")
    with open_input("/proc/self/mem") as file, expected:  # nothing is mapped at its start
        file.read(1)
