"""Finding input files by file, folder and glob, on disks and remote stores."""

import errno
import os
import uuid

import fsspec
import pytest

from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.storage import (
    Folder,
    InputFile,
    StoreRetryPolicy,
    find_files,
)
from tests.support.retry_policy import use_retry_policy

NAMES = [
    "a.parquet",
    "b.parquet",
    "b.txt",
    "web/0/c.parquet",
    "web/1/c.parquet",
    "web/1/d[1].parquet",
    "web/1/deep/e.parquet",
    "web/_delta_log/f.parquet",
    "web/.cache/g.parquet",
    "web/.h.parquet",
    "web/_i.parquet",
    "web/j.parquet.tmp",
    "web/é.parquet",
]


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path) -> Folder:
    """A folder with the files above."""
    url = str(tmp_path) if request.param == "local" else f"memory:///{uuid.uuid4().hex}"
    folder = Folder(url)
    for number, name in enumerate(NAMES):
        folder.write_bytes(name, b"x" * number)
    return folder


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("a.parquet", "", ["a.parquet"]),
        ("*.parquet", "", ["a.parquet", "b.parquet"]),
        ("?.*", "", ["a.parquet", "b.parquet", "b.txt"]),
        ("[!a].parquet", "", ["b.parquet"]),
        ("web/*/*.parquet", "web", NAMES[3:6]),
        ("web/1", "web/1", NAMES[4:7]),
        ("web/1/", "web/1", NAMES[4:7]),
        ("web", "web", [*NAMES[3:7], "web/é.parquet"]),
        ("web/**/*.parquet", "web", [*NAMES[3:7], "web/é.parquet"]),
        ("web/**", "web", [*NAMES[3:7], "web/é.parquet"]),
        ("**/1/**/*.parquet", "", NAMES[4:7]),
        ("web/1/d[1].parquet", "web/1", ["web/1/d[1].parquet"]),
        ("web/1/d[[]1].parquet", "web/1", ["web/1/d[1].parquet"]),
        ("web/_i.parquet", "web", ["web/_i.parquet"]),
        ("web/j.parquet.tmp", "web", ["web/j.parquet.tmp"]),
        ("web/_*/*", "web", ["web/_delta_log/f.parquet"]),
        ("web/.*/*", "web", ["web/.cache/g.parquet"]),
        ("web/_delta_log", "web/_delta_log", ["web/_delta_log/f.parquet"]),
    ],
)
def test_a_path_expands_to_its_files_below_its_fixed_folder(folder, path, root, expected):
    found = find_files(f"{folder.url}/{path}")
    assert [file.path for file in found.files] == [folder.join(name) for name in expected]
    assert [file.size for file in found.files] == [NAMES.index(name) for name in expected]
    assert found.folder == f"{folder.url}/{root}".rstrip("/")
    assert found.is_folder == (path.rstrip("/") in {"web", "web/1", "web/_delta_log"})


@pytest.mark.parametrize(
    "path", ["c.parquet", "*.json", "nothing/", "nothing/*", "a.parquet/*", "web/*", "web/*.tmp"]
)
def test_a_path_without_matches_is_named(folder, path):
    folder.remove("web/é.parquet")
    with pytest.raises(SourceError) as caught:
        find_files(f"{folder.url}/{path}")
    assert f"{path} matches no file" in str(caught.value)


def test_a_file_has_one_time_for_any_way_of_finding_it_with_nanoseconds_on_a_disk(tmp_path):
    path, moment = tmp_path / "a", 1_700_000_000_123_456_789
    path.write_bytes(b"12")
    os.utime(path, ns=(1, moment))
    expected = InputFile(path=str(path), size=2, mtime_ns=moment)
    assert find_files(str(path)).files == (expected,)
    url = f"memory:///{uuid.uuid4().hex}"
    Folder(url).write_bytes("a", b"1")
    named, listed = find_files(f"{url}/a").files, find_files(url).files
    assert named == listed
    assert named[0].mtime_ns is not None


def test_links_are_followed_but_not_in_cycles(tmp_path):
    data = tmp_path / "data"
    (data / "real").mkdir(parents=True)
    (data / "real/a").write_bytes(b"1")
    (data / "linked").symlink_to(data / "real")
    (data / "real/up").symlink_to(data)
    (data / "b").symlink_to(data / "real/a")
    found = [file.path for file in find_files(str(data)).files]
    assert found == [f"{data}/{name}" for name in ("b", "linked/a", "real/a")]


def test_broken_links_and_names_that_are_not_utf8_are_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "gone")
    with pytest.raises(SourceError, match=r"/a is a broken link"):
        find_files(str(tmp_path))
    (tmp_path / "a").unlink()
    (tmp_path / os.fsdecode(b"a\xff")).write_bytes(b"1")
    with pytest.raises(SourceError, match="not UTF-8"):
        find_files(str(tmp_path))


@pytest.mark.parametrize("path", ["", "/a.parquet", "/*.parquet", "/**/*.parquet", "/web/*/*"])
@pytest.mark.parametrize("operation", ["info", "ls"])
def test_a_temporary_storage_failure_is_not_an_empty_store(path, operation, monkeypatch):
    url = f"memory:///{uuid.uuid4().hex}"
    Folder(url).write_bytes("a.parquet", b"1")
    Folder(url).write_bytes("web/1/a.parquet", b"1")
    file_system = fsspec.filesystem("memory", use_listings_cache=False)
    original = getattr(file_system, operation)
    calls = []

    def fail_at_last(name, **options):
        calls.append(name)
        if len(calls) == failing[0]:
            raise OSError(errno.EBUSY, "SlowDown")
        return original(name, **options)

    failing = [0]
    monkeypatch.setattr(file_system, operation, fail_at_last)
    found = find_files(url + path)
    with use_retry_policy(StoreRetryPolicy(tries=1)):
        for failing[0] in range(1, len(calls) + 1):
            calls.clear()
            with pytest.raises(TransientIOError):
                find_files(url + path)
    with use_retry_policy(StoreRetryPolicy(first_wait=0)):
        for number in range(1, failing[0] + 1):
            failing[0] = number
            calls.clear()
            assert find_files(url + path) == found


def test_an_unknown_store_is_named():
    with pytest.raises(SourceError, match="cannot open nostore://a/b"):
        find_files("nostore://a/b")
