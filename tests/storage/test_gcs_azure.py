"""GCS and Azure through gcsfs and adlfs, with servers that answer as the stores document it."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.job.probes import refuses_taken_names
from nanotok_ray.storage import (
    Folder,
    StoreRetryPolicy,
    find_files,
    open_input,
    read_start,
    version_of,
)
from tests.support.faulty_proxy import Fault
from tests.support.machine_speed import scaled
from tests.support.object_servers import BUCKET, PAGE_ENTRIES, served
from tests.support.retry_policy import Hasty, use_retry_policy
from tests.support.small_corpus import joined_shards, recipe, write_corpus

pytestmark = [pytest.mark.timeout(60)]

SCHEMES = {"gcs": "gs", "azure": "abfs"}
LARGE = bytes(range(256)) * (5 << 9) + b"end"
"""Several times `BLOCK_BYTES`."""


@pytest.fixture(scope="module", params=SCHEMES)
def store(request):
    with served(request.param) as (server, proxy), pytest.MonkeyPatch.context() as patch:
        if request.param == "gcs":
            patch.setattr("gcsfs.retry.asyncio", Hasty())
        else:
            waits = "azure.storage.blob._shared.policies_async.ExponentialRetry.get_backoff_time"
            patch.setattr(waits, lambda *_: 0.0)
        yield SCHEMES[request.param], server, proxy


@pytest.fixture
def proxy(store):
    _, server, proxy = store
    proxy.clear()
    with use_retry_policy(StoreRetryPolicy(first_wait=0.001, tries=3)):
        yield proxy
    proxy.clear()
    server.ignores_conditions = False


@pytest.fixture
def folder(store, proxy):
    return Folder(f"{store[0]}://{BUCKET}/{uuid.uuid4().hex}")


def write(folder, name, data, *, how="create"):
    with getattr(folder, how)(name) as file:
        for start in range(0, len(data), 1 << 18):
            file.write(data[start : start + (1 << 18)])
    return file


@pytest.mark.parametrize("data", [b"", b"abc", LARGE], ids=["empty", "small", "large"])
def test_a_file_is_written_read_listed_and_removed(folder, data):
    for name in ("a/b.bin", "c"):
        write(folder, name, data)
        assert folder.read_bytes(name) == data
    folder.write_bytes("c", b"other")
    assert folder.sizes() == {"a/b.bin": len(data), "c": 5}
    assert (folder.size("a/b.bin"), folder.size("a"), folder.size("d")) == (len(data), None, None)
    (found,) = find_files(f"{folder.url}/*/b.*").files
    assert (found.path, found.size) == (folder.join("a/b.bin"), len(data))
    assert found.etag
    folder.remove("a/b.bin")
    folder.remove("a/b.bin")
    assert folder.list() == ["c"]
    with pytest.raises(FileNotFoundError, match=f"{folder.url}/a/b.bin"):
        folder.read_bytes("a/b.bin")


def test_ranges_are_those_of_the_file(folder):
    write(folder, "a", LARGE)
    folder.write_bytes("b", b"")
    assert folder.read_start("a", 7) == read_start(folder.join("a"), 7) == LARGE[:7]
    assert folder.read_start("b", 7) == read_start(folder.join("b"), 7) == b""
    with open_input(folder.join("a"), block_bytes=100_000) as file:
        assert version_of(file).size == len(LARGE)
        for start in (500_000, 3, len(LARGE) - 5):
            file.seek(start)
            assert file.read(70_000) == LARGE[start : start + 70_000]
        assert file.read() == b""


def test_a_listing_of_several_pages_is_complete(folder, proxy):
    names = [f"a/{number:02}/b" for number in range(2 * PAGE_ENTRIES + 1)]
    for name in [*names, "c"]:
        folder.create_empty(name)
    assert folder.list() == [*names, "c"]
    assert folder.list("a/1") == [name for name in names if name.startswith("a/1")]
    folder.remove_below("a/")
    assert folder.list() == ["c"]


def test_only_one_of_several_writers_creates_a_file(folder, proxy):
    assert folder.write_new("lease", b"first")
    assert not folder.write_new("lease", b"second")
    assert folder.write_new("lease", b"first")  # as after a lost answer
    proxy.fail(Fault.RESET_AFTER, path="")
    assert folder.write_new("mine", b"first")
    with ThreadPoolExecutor(8) as pool:
        wins = list(pool.map(lambda number: folder.write_new("race", b"%d" % number), range(8)))
    assert wins.count(True) == 1
    assert folder.read_bytes("race") == b"%d" % wins.index(True)


@pytest.mark.parametrize("ignores", [False, True])
def test_a_probe_finds_out_whether_the_store_checks_conditions(store, folder, ignores):
    store[1].ignores_conditions = ignores
    assert refuses_taken_names(folder, "run/probe") != ignores
    assert folder.list() == []


@pytest.mark.parametrize("data", [b"abc", LARGE], ids=["small", "large"])
def test_a_late_upload_never_replaces_a_file(store, folder, data):
    for _ in range(2):
        assert write(folder, "a", data, how="create_once").size == len(data)
    folder.write_bytes("b", b"left by another attempt")
    with pytest.raises(TransientIOError, match=f"{folder.url}/b for now: other bytes"):
        write(folder, "b", data, how="create_once")
    write(folder, "b", data, how="create_once")
    assert folder.read_bytes("a") == folder.read_bytes("b") == data
    assert [stored.data for name, stored in store[1].objects.items() if name.endswith("/a")]


def test_an_upload_that_stops_leaves_nothing(folder):
    for create in (folder.create, folder.create_once):
        for data in (b"a", LARGE):
            with suppress(ZeroDivisionError), create("a") as file:
                file.write(data)
                raise ZeroDivisionError
    assert folder.list() == []


USES = {
    "read": lambda folder: folder.read_bytes("a"),
    "read the start": lambda folder: folder.read_start("a", 3),
    "sha256": lambda folder: folder.sha256("a"),
    "list": lambda folder: folder.list(),
    "size": lambda folder: folder.size("a"),
    "remove": lambda folder: folder.remove("a"),
    "write": lambda folder: folder.write_bytes("a", b"old"),
    "write new": lambda folder: folder.write_new("new", b"mine"),
    "create once": lambda folder: write(folder, "new", b"mine", how="create_once").size,
}
FAULTS = [Fault.SLOW_DOWN, Fault.INTERNAL_ERROR, Fault.RESET, Fault.RESET_AFTER]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("use", USES)
def test_every_operation_survives_two_failures(folder, proxy, use, fault):
    folder.write_bytes("a", b"old")
    expected = USES[use](folder)
    folder.write_bytes("a", b"old")
    folder.remove("new")
    proxy.clear()
    proxy.fail(fault, fault)
    assert USES[use](folder) == expected
    assert proxy.faults == [fault, fault]
    proxy.clear()
    assert folder.exists("a") == (use != "remove")
    assert folder.exists("new") == (use in {"write new", "create once"})


@pytest.mark.parametrize("use", ["read", "list", "write", "write new"])
def test_a_permanent_failure_is_reported_with_the_url(folder, proxy, use):
    folder.write_bytes("a", b"old")
    proxy.fail_always(Fault.SLOW_DOWN)
    with pytest.raises(TransientIOError, match=rf"cannot .* {folder.url}.* tried 3 times"):
        USES[use](folder)
    assert len(proxy.faults) < scaled(100)


def test_forbidden_and_missing_places_are_reported_at_once_with_the_url(store, folder, proxy):
    folder.write_bytes("a", b"old")
    proxy.fail_always(Fault.FORBIDDEN)
    for name in USES.keys() - {"create once"}:  # its uploads are not tried again here
        with pytest.raises(PermissionError, match=rf"(?s){folder.url}.*set credentials"):
            USES[name](folder)
    with pytest.raises(SourceError, match=rf"(?s){folder.url}.*set credentials"):
        find_files(folder.url)
    proxy.clear()
    nowhere = f"{store[0]}://nowhere/a"
    with pytest.raises(FileNotFoundError, match=nowhere):
        Folder(nowhere).read_bytes("b")
    with pytest.raises(FileNotFoundError, match=nowhere):
        Folder(nowhere).write_bytes("b", b"1")


def test_a_truncated_answer_is_read_again(folder, proxy):
    write(folder, "a", LARGE)
    proxy.clear()
    proxy.fail(Fault.TRUNCATE, Fault.TRUNCATE, method="GET", period=2)
    with open_input(folder.join("a"), block_bytes=200_000) as file:
        assert file.read() == LARGE
    assert proxy.faults == [Fault.TRUNCATE] * 2


@pytest.mark.usefixtures("in_process")
def test_a_whole_job_writes_what_it_writes_on_a_disk(folder, proxy, tmp_path):
    write_corpus(tmp_path / "in")
    for path in (tmp_path / "in").rglob("*.*"):
        folder.write_bytes(f"in/{path.relative_to(tmp_path / 'in')}", path.read_bytes())
    large = "limits.slice_bytes=15000"
    proxy.fail_always(*FAULTS, period=29)
    prepare(recipe(f"{folder.url}/in", f"{folder.url}/out", large))
    assert set(proxy.faults) == set(FAULTS)
    proxy.clear()
    again = prepare(recipe(f"{folder.url}/in", f"{folder.url}/out", large))
    assert again.values["status"] == "unchanged"
    prepare(recipe(tmp_path / "in", tmp_path / "out", large))
    outputs = Folder(f"{folder.url}/out"), Folder(str(tmp_path / "out"))
    assert joined_shards(outputs[0]) == joined_shards(outputs[1])
