"""S3 through s3fs, with a server behind a proxy that fails on demand."""

import errno
import gc
import gzip
import hashlib
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pyarrow as pa
import pytest
from s3fs import S3FileSystem

from nanotok_ray.api import prepare
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.storage import (
    Folder,
    StoreRetryPolicy,
    connect,
    find_files,
    inputs,
    open_input,
    read_start,
    version_of,
)
from tests.support.faulty_proxy import Fault
from tests.support.machine_speed import scaled
from tests.support.read_pieces import same_pieces
from tests.support.retry_policy import use_retry_policy
from tests.support.s3_server import BUCKET, one_try
from tests.support.small_corpus import joined_shards, recipe, texts, write_corpus, write_parquet

pytestmark = [pytest.mark.timeout(60)]

PART_BYTES = 5 << 20
"""The smallest part of an upload that S3 accepts."""

READ_BYTES = 10_000

CLIENT = one_try(seconds=1)
"""All retries are those of the package, so that tests can count them."""

READ_FAULTS = [
    *(Fault.RESET, Fault.SLOW_DOWN, Fault.TRUNCATE, Fault.INTERNAL_ERROR, Fault.THROTTLED)
]


@pytest.fixture
def small_parts(client):
    """Let uploads use the smallest parts that S3 accepts."""
    patient = {**CLIENT, "read_timeout": scaled(10)}
    client(config_kwargs=patient, default_block_size=PART_BYTES)


@pytest.fixture
def no_waits(monkeypatch):
    """Remove the waits of S3's client between its tries."""
    monkeypatch.setattr(
        "botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.001
    )


@pytest.fixture
def small_reads(folder, client, monkeypatch):
    """Let reads use small blocks, so that a file needs several requests; not for writing."""
    client(config_kwargs=CLIENT, default_block_size=READ_BYTES)
    monkeypatch.setattr(inputs, "BUFFER_BYTES", READ_BYTES)


def uploads(folder) -> list:
    """Return the uploads to a folder that were neither completed nor aborted."""
    file_system, path = connect(folder.url)
    try:
        found = file_system.call_s3("list_multipart_uploads", Bucket=BUCKET).get("Uploads", [])
    except OSError as error:
        if error.errno != errno.ENOSYS:  # s3s-fs does not list them
            raise
        return []
    return [each for each in found if f"{BUCKET}/{each['Key']}".startswith(path)]


def test_a_found_object_has_its_size_and_etag(folder):
    folder.write_bytes("a/b.bin", b"abc")
    folder.write_bytes("c", b"")
    (found,) = find_files(f"{folder.url}/*/b.*").files
    assert (found.path, found.size) == (folder.join("a/b.bin"), 3)
    with open_input(found.path) as file:
        assert version_of(file).etag == hashlib.md5(b"abc").hexdigest()
        assert found.etag in {version_of(file).etag, None}


@pytest.mark.usefixtures("moto")
def test_a_listing_has_etags(folder):
    folder.write_bytes("a", b"abc")
    assert find_files(folder.url).files[0].etag == hashlib.md5(b"abc").hexdigest()


@pytest.mark.usefixtures("s3s")  # moto takes four times as long
def test_a_listing_of_several_pages_is_complete(folder):
    names = [f"a/{number:04}" for number in range(1001)]  # a page has 1,000
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(folder.create_empty, names))
    folder.write_bytes("b", b"")
    assert folder.list() == [*names, "b"]
    assert folder.list("a/1") == ["a/1000"]
    folder.remove_below("a/")
    assert folder.list() == ["b"]


USES = {
    "read": lambda folder: folder.read_bytes("a"),
    "read the start": lambda folder: folder.read_start("a", 3),
    "sha256": lambda folder: folder.sha256("a"),
    "list": lambda folder: folder.list(),
    "size": lambda folder: folder.size("a"),
    "find": lambda folder: [  # without its time, which differs a second later
        (file.path, file.size, file.etag) for file in find_files(folder.url).files
    ],
    "remove": lambda folder: folder.remove("a"),
    "write": lambda folder: folder.write_bytes("a", b"old"),
    "write new": lambda folder: folder.write_new("new", b"mine"),
}


FAULTY_USES = [
    *((use, fault) for use in USES for fault in (Fault.RESET, Fault.SLOW_DOWN)),
    *((use, Fault.TRUNCATE) for use in ("read", "read the start", "sha256", "list")),
    *((use, Fault.INCOMPLETE_BODY) for use in ("write", "write new")),
    *((use, Fault.INTERNAL_ERROR) for use in ("read", "write")),
    *((use, Fault.THROTTLED) for use in ("read", "write")),
    *((use, Fault.RESET_AFTER) for use in USES),
]


@pytest.mark.parametrize(("use", "fault"), FAULTY_USES)
def test_every_operation_survives_two_failures_of_any_kind(folder, proxy, use, fault):
    check_two_failures(folder, proxy, use, fault)


@pytest.mark.usefixtures("moto")  # no server sees these requests
@pytest.mark.parametrize("use", ["read", "sha256", "write new"])
def test_an_operation_survives_two_stalls(folder, proxy, use):
    check_two_failures(folder, proxy, use, Fault.STALL)


def check_two_failures(folder, proxy, use, fault):
    folder.write_bytes("a", b"old")
    expected = USES[use](folder)
    folder.write_bytes("a", b"old")
    folder.remove("new")
    proxy.clear()
    proxy.fail(fault, fault, method="GET" if fault is Fault.TRUNCATE else None)
    assert USES[use](folder) == expected
    assert proxy.faults == [fault, fault]
    proxy.clear()
    assert folder.exists("a") == (use != "remove")
    assert folder.exists("new") == (use == "write new")


@pytest.mark.usefixtures("moto")  # no server sees these requests
@pytest.mark.parametrize("fault", [Fault.RESET, Fault.STALL, Fault.SLOW_DOWN])
def test_a_permanent_failure_is_reported_with_url_and_attempts(folder, proxy, fault):
    proxy.fail_always(fault)
    started = time.monotonic()
    with (
        use_retry_policy(StoreRetryPolicy(tries=3, first_wait=0.001)),
        pytest.raises(TransientIOError, match=rf"cannot read {folder.url}/a .*tried 3 time"),
    ):
        folder.read_bytes("a")
    # After a reset, aiohttp itself retries once more.
    assert len(proxy.faults) in ({3, 4, 5, 6} if fault is Fault.RESET else {3})
    assert time.monotonic() - started < scaled(10)


def test_forbidden_and_missing_objects_are_reported_at_once(folder, proxy):
    folder.write_bytes("a", b"1")
    for fault, errors, tries in (
        (Fault.FORBIDDEN, (PermissionError, SourceError), 5),
        (Fault.SLOW_DOWN, (TransientIOError,), 1),
    ):
        proxy.clear()
        proxy.fail_always(fault)
        for use in USES.values():
            before = len(proxy.requests)
            with (
                use_retry_policy(StoreRetryPolicy(tries=tries)),
                pytest.raises(errors, match=folder.url),
            ):
                use(folder)
            assert len(proxy.requests) == before + 1
    proxy.clear()
    for path in ("s3://nobucket/a", f"{folder.url}/nothing"):
        with pytest.raises(FileNotFoundError, match=path):
            open_input(path)


@pytest.mark.usefixtures("moto")
def test_a_write_to_a_missing_bucket_says_that_it_must_be_created(folder):
    with pytest.raises(FileNotFoundError, match=r"cannot .* s3://nobucket/a.*create it, or change"):
        Folder("s3://nobucket").write_bytes("a", b"1")


@pytest.mark.parametrize(
    ("url", "advice"),
    [("s3://no-such-bucket/web/*.parquet", "there is no bucket no-such-bucket"), ("", "check the")],
)
def test_a_path_without_matches_says_whether_its_bucket_exists(folder, url, advice):
    with pytest.raises(SourceError, match=f"matches no file; {advice}"):
        find_files(url or f"{folder.url}/web/*.parquet")


def test_an_existing_name_is_refused_and_our_own_write_is_not(folder, proxy):
    assert folder.write_new("lease", b"first")
    assert not folder.write_new("lease", b"second")
    assert not folder.write_new("lease", b"other")
    proxy.fail(Fault.RESET_AFTER, method="PUT")
    assert folder.write_new("mine", b"first")
    proxy.fail(Fault.RESET_AFTER, method="PUT")
    assert not folder.write_new("mine", b"second")
    assert proxy.faults == [Fault.RESET_AFTER, Fault.RESET_AFTER]
    assert folder.read_bytes("mine") == folder.read_bytes("lease") == b"first"


@pytest.mark.parametrize("fault", [None, Fault.TRUNCATE])
def test_a_file_that_changes_while_it_is_read_is_an_error(folder, proxy, small_reads, fault):
    folder.write_bytes("a", b"1" * 100_000)
    with open_input(folder.join("a")) as file:
        assert file.read(5) == b"11111"
        folder.write_bytes("a", b"2" * 100_000)
        if fault:
            proxy.fail(fault, method="GET")
        file.seek(50_000)
        with pytest.raises(SourceError, match=f"{folder.url}/a changed while it was read"):
            file.read()


@pytest.mark.usefixtures("moto", "small_reads")  # s3s-fs ignores it by itself
def test_a_file_that_changes_in_a_store_that_ignores_conditions_is_an_error(folder, proxy):
    proxy.ignores_conditions = True
    folder.write_bytes("a", b"1" * 100_000)
    with open_input(folder.join("a")) as file:
        assert file.read(5) == b"11111"
        folder.write_bytes("a", b"2" * 100_000)
        with pytest.raises(SourceError, match=f"{folder.url}/a changed while it was read"):
            file.read()


LINES = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts(3000, seed=1))
FILES = {
    "a.jsonl": ({"form": "jsonl"}, LINES),
    "a.jsonl.zst": (
        {"form": "jsonl", "compression": "zstd"},
        pa.compress(LINES, "zstd", asbytes=True),
    ),
    "a.jsonl.gz": ({"form": "jsonl", "compression": "gzip"}, gzip.compress(LINES, mtime=0)),
    "a.parquet": ({"form": "parquet"}, None),
}


@pytest.mark.parametrize("name", FILES)
def test_a_source_is_read_byte_for_byte_despite_failures(
    folder, proxy, tmp_path, small_reads, name
):
    options, data = FILES[name]
    path = tmp_path / name
    if data is None:
        write_parquet(path, texts(3000, seed=2), row_group_size=500)
        data = path.read_bytes()
    path.write_bytes(data)
    folder.write_bytes(name, data)
    stop = 6 if name == "a.parquet" else len(data)
    proxy.clear()
    proxy.fail(Fault.STALL, Fault.TRUNCATE, Fault.RESET, method="GET")
    proxy.fail(*READ_FAULTS, method="GET", period=2)
    proxy.fail(Fault.RESET, Fault.SLOW_DOWN, method="HEAD")
    assert same_pieces(folder.join(name), path, stop=stop, **options)
    assert len(proxy.faults) >= 5


def test_a_long_file_is_uploaded_in_parts_that_its_client_retries(folder, proxy, client, no_waits):
    client(config_kwargs={"read_timeout": scaled(1)}, default_block_size=PART_BYTES)
    data = bytes(range(256)) * (3 * PART_BYTES // 256) + b"end"
    folder = Folder(folder.url)
    proxy.fail(Fault.SLOW_DOWN, Fault.RESET_AFTER, Fault.STALL, path="uploads")
    proxy.fail(Fault.RESET, Fault.SLOW_DOWN, Fault.INTERNAL_ERROR, path="partNumber", period=2)
    write(folder, "a", data)
    assert len(proxy.faults) == 6
    proxy.clear()
    assert folder.read_bytes("a") == data
    assert folder.sha256("a") == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("path", ["uploads", "partNumber=1", "partNumber=2", "uploadId"])
@pytest.mark.parametrize("fault", [Fault.RESET, Fault.SLOW_DOWN])
def test_a_failed_upload_leaves_nothing_visible(folder, proxy, small_parts, path, fault):
    folder = Folder(folder.url)
    folder.write_bytes("old", b"old")
    proxy.fail_always(fault, path=path, method="POST" if path == "uploadId" else None)
    for name in ("new", "old"):
        with pytest.raises(TransientIOError, match=folder.join(name)):
            write(folder, name, b"x" * (2 * PART_BYTES + 1))
    proxy.clear()
    assert folder.list() == ["old"]
    assert folder.read_bytes("old") == b"old"
    assert uploads(folder) == []


def test_a_long_file_that_fails_when_it_is_written_whole_leaves_nothing(folder, proxy, small_parts):
    folder = Folder(folder.url)
    proxy.fail_always(Fault.SLOW_DOWN, method="PUT")
    with pytest.raises(TransientIOError, match=folder.join("a")):
        folder.write_bytes("a", bytes(2 * PART_BYTES))
    proxy.clear()
    assert folder.list() == []
    assert uploads(folder) == []


@pytest.mark.usefixtures("moto")
def test_an_upload_whose_last_response_is_lost_is_complete(folder, proxy, client, no_waits):
    client(config_kwargs={"read_timeout": scaled(10)}, default_block_size=PART_BYTES)
    folder, data = Folder(folder.url), b"x" * (PART_BYTES + 1)
    proxy.fail(Fault.RESET_AFTER, Fault.RESET_AFTER, method="POST", path="uploadId")
    write(folder, "a", data)
    assert len(proxy.faults) == 2
    assert folder.read_bytes("a") == data
    assert uploads(folder) == []


def test_a_writer_that_stops_leaves_nothing(folder, proxy, small_parts):
    folder = Folder(folder.url)
    for size in (1, 2 * PART_BYTES):
        with pytest.raises(ZeroDivisionError):
            write(folder, "a", b"x" * size, stop=ZeroDivisionError)
    gc.collect()  # an open file is published when it is collected
    assert folder.list() == []
    assert uploads(folder) == []


def write(folder, name, data, *, stop=None):
    """Write a file in parts, and raise before its end if requested."""
    with folder.create(name) as file:
        for start in range(0, len(data), 1 << 20):
            file.write(data[start : start + (1 << 20)])
        if stop:
            raise stop


def test_the_client_has_our_limits_unless_the_user_set_others(folder, monkeypatch):
    def config(url="s3://x/a"):
        file_system, _ = connect(url)
        return file_system.s3.meta.config

    monkeypatch.delitem(fsspec.config.conf, "s3")
    assert (config().connect_timeout, config().read_timeout) == (10, 20)
    assert config().retries == {"mode": "standard", "total_max_attempts": 4}
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": {"read_timeout": 99}})
    assert (config().connect_timeout, config().read_timeout) == (10, 99)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
    assert config().retries["total_max_attempts"] == 7


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("no_waits", "in_process")
def test_a_whole_job_on_s3_writes_what_it_writes_on_a_disk(proxy, folder, tmp_path, client):
    client(config_kwargs={"read_timeout": scaled(1)})
    write_corpus(tmp_path / "in")
    for path in (tmp_path / "in").rglob("*.*"):
        folder.write_bytes(f"in/{path.relative_to(tmp_path / 'in')}", path.read_bytes())
    faults = [Fault.RESET, Fault.SLOW_DOWN, Fault.RESET_AFTER, Fault.TRUNCATE]
    proxy.clear()
    proxy.fail_always(*faults, period=29)
    proxy.fail(Fault.STALL, period=100)
    large = "limits.slice_bytes=15000"
    remote = prepare(recipe(f"{folder.url}/in", f"{folder.url}/out", large)).values
    assert set(proxy.faults) == {*faults, Fault.STALL}
    proxy.clear()
    local = prepare(recipe(tmp_path / "in", tmp_path / "out", large)).values
    same = local.keys() - {"output", "stages", "started", "seconds"}
    assert {key: remote[key] for key in same} == {key: local[key] for key in same}
    outputs = Folder(f"{folder.url}/out"), Folder(str(tmp_path / "out"))
    assert joined_shards(outputs[0]) == joined_shards(outputs[1])


@pytest.fixture
def fetched(monkeypatch) -> list[int]:
    """Return a list of the bytes requested by every read of an object."""
    sizes: list[int] = []
    call = S3FileSystem.call_s3

    def counted(self, method, *settings, **options):
        answer = call(self, method, *settings, **options)
        if method == "get_object":
            sizes.append(answer["ContentLength"])
        return answer

    monkeypatch.setattr(S3FileSystem, "call_s3", counted)
    return sizes


def test_small_blocks_of_a_count_file_are_fetched_for_any_block_size_of_the_store(
    folder, proxy, fetched, client
):
    client(config_kwargs=CLIENT)
    folder.write_bytes("a", bytes(4 * READ_BYTES))
    with open_input(folder.join("a"), block_bytes=READ_BYTES // 4) as file:
        assert file.read(10) == bytes(10)
    assert sum(fetched) <= READ_BYTES
    fetched.clear()
    with open_input(folder.join("a")) as file:
        file.read(10)
    assert fetched == [4 * READ_BYTES]


MIB = 1 << 20


@pytest.mark.parametrize("at", [0, -1, 2 * MIB + 5, 3 * MIB, 4 * MIB])
def test_opening_fetches_the_bytes_that_are_read_first(folder, fetched, proxy, at):
    data = random.Random(at).randbytes(3 * MIB)
    folder.write_bytes("a", data)
    proxy.clear()
    with open_input(folder.join("a"), at=at) as file:
        assert version_of(file).size == len(data)
        begin = 2 * MIB if at < 0 else min(at, len(data))
        file.seek(begin)
        assert file.read(MIB) == data[begin : begin + MIB]
        first = len(proxy.requests)
        assert sum(fetched) <= MIB
        file.seek(0)
        assert file.read() == data
    assert first == (1 if at < len(data) else 2)  # nothing can be fetched after the end


def test_the_start_of_an_empty_file_is_empty(folder):
    folder.write_bytes("a", b"")
    assert folder.read_start("a", 3) == read_start(folder.join("a"), 3) == b""


@pytest.mark.usefixtures("moto")
def test_a_small_file_and_its_size_are_one_request_and_an_empty_file_two(folder, proxy):
    folder.write_bytes("a", b"abc")
    folder.write_bytes("b", b"")
    proxy.clear()
    with open_input(folder.join("a"), at=-1) as file:
        assert (file.seek(0, 2), file.seek(0), file.read()) == (3, 0, b"abc")
    assert [method for method, _, _ in proxy.requests] == ["GET"]
    proxy.clear()
    with open_input(folder.join("b")) as file:
        assert (version_of(file).size, file.read()) == (0, b"")
    assert [method for method, _, _ in proxy.requests] == ["GET", "HEAD"]
    folder.write_bytes("c/d", b"abc")
    proxy.clear()
    assert (folder.size("c/d"), folder.size("c"), folder.size("e")) == (3, None, None)
    assert [method for method, _, _ in proxy.requests] == ["HEAD"] * 3
