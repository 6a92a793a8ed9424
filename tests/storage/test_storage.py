"""Folders of atomically written files on disks and remote stores."""

import errno
import gc
import hashlib
import os
import pickle
import stat
import uuid
from pathlib import Path

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from nanotok_ray.errors import CorruptOutputError, DiskFullError, TransientIOError
from nanotok_ray.formats import is_local, local_path
from nanotok_ray.storage import (
    Folder,
    StoreRetryPolicy,
    is_transient,
    open_input,
    transient_errors,
    use_retry_policy,
)


@pytest.fixture(params=["local", "memory", "store"])
def folder(request, tmp_path) -> Folder:
    """A folder on each kind of storage: a disk, a remote file system, an object store."""
    if request.param == "local":
        return Folder(str(tmp_path / "folder"))
    return Folder(f"{request.param}://{uuid.uuid4().hex}/folder")


@pytest.fixture(autouse=True)
def _object_store():
    fsspec.register_implementation("store", ObjectStore, clobber=True)
    ObjectStore.objects.clear()
    ObjectStore.failures.clear()
    with use_retry_policy(StoreRetryPolicy(tries=2, first_wait=0)):
        yield


class ObjectStore(AbstractFileSystem):
    """A store that shows an object after its upload is complete, and can fail on demand."""

    protocol = "store"
    objects: dict[str, bytes] = {}  # noqa: RUF012 - shared by all instances, as a bucket is
    failures: dict[str, Exception] = {}  # noqa: RUF012 - what to raise, by operation

    def fail(self, operation: str) -> None:
        if operation in self.failures:
            raise self.failures[operation]

    def info(self, path, **_):
        self.fail("info")
        path = self._strip_protocol(path)
        if path in self.objects:
            return {"name": path, "size": len(self.objects[path]), "type": "file", "ETag": '"e1"'}
        if any(name.startswith(f"{path}/") for name in self.objects):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def ls(self, path, detail=True, **_):
        self.fail("ls")
        path = self._strip_protocol(path)
        below = [name[len(path) + 1 :] for name in self.objects if name.startswith(f"{path}/")]
        names = sorted({f"{path}/{name.split('/')[0]}" for name in below})
        if not names:
            raise FileNotFoundError(path)
        return [self.info(name) for name in names] if detail else names

    def _open(self, path, mode="rb", **_):
        self.fail("open")
        return ObjectFile(self, path, mode, block_size=1000)

    def rm_file(self, path):
        self.fail("rm")
        if self.objects.pop(self._strip_protocol(path), None) is None:
            raise FileNotFoundError(path)

    def cat_file(self, path, **_):
        self.fail("cat")
        try:
            return self.objects[self._strip_protocol(path)]
        except KeyError:
            raise FileNotFoundError(path) from None

    def pipe_file(self, path, value, mode="overwrite", **_):
        if mode == "create" and self._strip_protocol(path) in self.objects:
            raise FileExistsError(path)
        self.objects[self._strip_protocol(path)] = value


class ObjectFile(AbstractBufferedFile):
    def _fetch_range(self, start, end):
        self.fs.fail("read")
        return self.fs.objects[self.path][start:end]

    def _initiate_upload(self):
        self.uploaded = b""

    def _upload_chunk(self, final=False):
        self.fs.fail("upload")
        self.uploaded += self.buffer.getvalue()
        if final:
            self.fs.objects[self.path] = self.uploaded
        return True


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
    assert file.size == folder.size("a/b.bin") == len(data)
    assert file.sha256 == folder.sha256("a/b.bin") == hashlib.sha256(data).hexdigest()


def test_an_empty_file_is_a_file(folder):
    with folder.create("empty"):
        pass
    assert folder.size("empty") == 0
    assert folder.read_bytes("empty") == b""


def test_after_an_error_no_file_exists(folder):
    with pytest.raises(KeyboardInterrupt):
        write_and_fail(folder, "a.bin", KeyboardInterrupt())
    assert folder.list() == folder.list_temporaries() == []
    assert not folder.exists("a.bin")


@pytest.mark.parametrize("kind", ["local", "store"])
def test_a_file_keeps_its_content_until_the_new_one_is_complete(kind, tmp_path):
    folder = Folder(str(tmp_path) if kind == "local" else "store://bucket/x")
    folder.write_whole("a", b"old")
    with pytest.raises(ZeroDivisionError):
        write_and_fail(folder, "a", ZeroDivisionError())
    assert folder.read_bytes("a") == b"old"
    with folder.create("a") as file:
        file.write(b"new")
        assert folder.read_bytes("a") == b"old"
    assert folder.read_bytes("a") == b"new"


def test_a_file_being_written_is_not_listed(tmp_path):
    folder = Folder(str(tmp_path))
    with folder.create("web/a.bin") as file:
        file.write(b"1")
        assert folder.list() == []
        (temporary,) = folder.list_temporaries()
        assert temporary.startswith("web/.a.bin.")
    assert folder.list() == ["web/a.bin"]
    assert folder.list_temporaries() == []


def test_two_writers_of_one_name_are_independent(tmp_path):
    folder = Folder(str(tmp_path))
    with folder.create("a") as first, folder.create("a") as second:
        first.write(b"same")
        second.write(b"same")
        assert len(folder.list_temporaries()) == 2
    assert folder.list() == ["a"]
    assert folder.read_bytes("a") == b"same"


def test_a_long_name_leaves_room_for_the_temporary_one(tmp_path):
    name = "x" * 251 + ".bin"
    Folder(str(tmp_path)).write_whole(name, b"1")
    assert Folder(str(tmp_path)).list() == [name]


def test_a_failed_rename_leaves_nothing(tmp_path):
    folder = Folder(str(tmp_path))
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError):
        folder.write_whole("a", b"1")
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
    Folder(str(tmp_path)).write_whole("a", b"1")
    assert events == ["file", "rename", "folder"]


def test_the_mode_of_a_file_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        Folder(str(tmp_path)).write_whole("a", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_full_disk_is_not_temporary_and_leaves_nothing(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    folder = Folder(str(tmp_path))
    with pytest.raises(DiskFullError) as caught:
        folder.write_whole("a", b"1" * 2000)
    assert not isinstance(caught.value, TransientIOError)
    for words in (str(tmp_path / "a"), "2.0 kB", "full", " free)", "resumes"):
        assert words in str(caught.value)
    assert type(pickle.loads(pickle.dumps(caught.value))) is DiskFullError
    assert list(tmp_path.iterdir()) == []


def test_names_are_listed_sorted_at_any_depth_by_prefix(folder):
    for name in ["b", "a/c", "a/b/d", "a.x", "A", "é/1"]:
        folder.write_whole(name, name.encode())
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


def test_removing_is_final_and_may_be_repeated(folder):
    folder.write_whole("a", b"1")
    folder.remove("a")
    folder.remove("a")
    assert not folder.exists("a")


def test_a_new_file_is_written_once(folder):
    assert folder.write_new("lease/a", b"first")
    assert not folder.write_new("lease/a", b"second")
    assert folder.read_bytes("lease/a") == b"first"
    assert folder.list_temporaries() == []


def test_a_folder_can_be_pickled(folder):
    folder.write_whole("a", b"1")
    copy = pickle.loads(pickle.dumps(folder))
    assert copy.url == folder.url
    assert copy.read_bytes("a") == b"1"


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../b", "a//b", "./a", "a/"])
def test_a_name_cannot_leave_its_folder(folder, name):
    for use in (folder.read_bytes, folder.join, folder.size, folder.remove, folder.local_path):
        with pytest.raises(CorruptOutputError, match="inside a folder"):
            use(name)


def test_urls_and_paths_are_joined():
    assert Folder("store://bucket/x/").join("a/b") == "store://bucket/x/a/b"
    assert Folder("store://bucket").local_path("a") is None
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
    folder.write_whole("a", data)
    with open_input(folder.join("a")) as file, open_input(folder.join("a")) as other:
        assert other.seek(-3, os.SEEK_END) == len(data) - 3
        assert file.read(10) == data[:10]
        assert other.read() == data[-3:]
        assert file.read(3_000_000) == data[10:3_000_010]
        assert file.seek(5) == file.tell() == 5
        assert file.read() == data[5:]
        assert file.read() == b""


class StatusError(Exception):
    def __init__(self, **fields: object) -> None:
        super().__init__(str(fields))
        self.__dict__.update(fields)


ClientPayloadError = type("ClientPayloadError", (Exception,), {})
SubclassError = type("SubclassError", (ClientPayloadError,), {})

PASSING = [
    TimeoutError(),
    ConnectionResetError(),
    OSError(errno.EBUSY, "SlowDown"),
    OSError(errno.EIO, "InternalError"),
    StatusError(status=503),
    StatusError(code="429"),
    StatusError(status_code=408),
    StatusError(response={"ResponseMetadata": {"HTTPStatusCode": 500}}),
    SubclassError(),
]
LASTING = [
    FileNotFoundError(errno.ENOENT, "no such key"),
    PermissionError(errno.EACCES, "forbidden"),
    OSError(errno.ENOSPC, "no space"),
    OSError("magic bytes"),
    StatusError(status=404),
    StatusError(code="NoSuchBucket"),
    StatusError(response={"ResponseMetadata": {"HTTPStatusCode": 403}}),
    ValueError(),
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


def test_a_temporary_cause_makes_a_failure_temporary_and_cycles_end():
    error = RuntimeError("wrapped")
    error.__cause__ = RuntimeError("again")
    error.__cause__.__cause__ = StatusError(status=500)
    assert is_transient(error)
    error.__cause__.__cause__ = error
    assert not is_transient(error)


USES = {
    "cat": lambda folder: folder.read_bytes("a"),
    "info": lambda folder: folder.size("a"),
    "ls": lambda folder: folder.list(),
    "rm": lambda folder: folder.remove("a"),
    "open": lambda folder: folder.write_whole("a", b"1"),
    "upload": lambda folder: folder.write_whole("a", b"1"),
    "upload a block": lambda folder: folder.write_whole("a", b"1" * 5000),
    "open again": lambda folder: folder.sha256("a"),
    "read": lambda folder: folder.sha256("a"),
}


@pytest.mark.parametrize("use", USES)
def test_every_operation_on_a_store_distinguishes_temporary_and_permanent_failures(use):
    operation = use.split()[0]
    folder = Folder("store://bucket/x")
    folder.write_whole("a", b"old")
    ObjectStore.failures[operation] = OSError(errno.EBUSY, "SlowDown")
    with pytest.raises(TransientIOError, match="store://bucket/x"):
        USES[use](folder)
    ObjectStore.failures[operation] = PermissionError(errno.EACCES, "forbidden")
    with pytest.raises(PermissionError):
        USES[use](folder)
    ObjectStore.failures.clear()
    assert folder.read_bytes("a") == b"old"


def test_a_discarded_upload_is_not_published_by_the_garbage_collector():
    folder = Folder("store://bucket/x")
    with pytest.raises(ZeroDivisionError):
        write_and_fail(folder, "a", ZeroDivisionError())
    gc.collect()
    assert ObjectStore.objects == {}


def test_the_start_of_a_file_is_read_from_a_server_without_ranges(tmp_path, monkeypatch):
    folder = Folder(f"memory:/{tmp_path}/folder")
    folder.write_whole("data", bytes(range(200)))
    cat_file = MemoryFileSystem.cat_file

    def whole(system, path, start=None, end=None):
        return cat_file(system, path)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", whole)
    assert folder.read_start("data", 128) == bytes(range(128))
