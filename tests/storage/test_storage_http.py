"""HTTP, and retries of requests."""

import errno
import http.server
import random
import re
import threading
import uuid
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import fsspec
import pyarrow as pa
import pytest
from aiohttp import ClientTimeout
from fsspec.implementations.http import HTTPFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry, known_implementations

from nanotok_ray.errors import SourceError, TransientIOError, how_to_install
from nanotok_ray.storage import (
    Folder,
    StoreRetryPolicy,
    attempt,
    connect,
    extra_for,
    find_files,
    open_input,
    read_start,
    store_options,
)
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.missing_packages import uninstall_stores
from tests.support.read_pieces import same_pieces
from tests.support.retry_policy import use_retry_policy
from tests.support.small_corpus import texts, write_parquet


class WholeFiles(http.server.SimpleHTTPRequestHandler):
    """A server that ignores ranges, like Python's own."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


class WholeFilesSaidSo(WholeFiles):
    """A server that announces that it does not support ranges."""

    def end_headers(self):
        self.send_header("Accept-Ranges", "none")
        super().end_headers()


class Ranges(WholeFiles):
    """A server that sends ranges."""

    def do_GET(self):
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked is None:
            super().do_GET()
            return
        with open(self.translate_path(self.path), "rb") as file:  # noqa: PTH123
            data = file.read()
        start, stop = int(asked[1]), min(int(asked[2]) + 1, len(data))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        self.wfile.write(data[start:stop])


class NoSizes(WholeFiles):
    """A server that does not report sizes."""

    def send_header(self, name, value):
        if name != "Content-Length":
            super().send_header(name, value)
        else:
            super().send_header("Connection", "close")


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Return a function that serves `tmp_path` through a proxy, and returns the proxy."""
    monkeypatch.setitem(fsspec.config.conf, "http", {"block_size": 10_000})

    def start(stack, handler):
        handler = partial(handler, directory=str(tmp_path))
        server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        return stack.enter_context(FaultyProxy(*server.server_address[:2]))

    with ExitStack() as stack, use_retry_policy(StoreRetryPolicy(first_wait=0.001)):
        yield partial(start, stack)
        HTTPFileSystem.clear_instance_cache()


@pytest.mark.parametrize("handler", [Ranges, WholeFiles, WholeFilesSaidSo])
@pytest.mark.parametrize("fault", [None, Fault.RESET, Fault.TRUNCATE, Fault.SLOW_DOWN])
def test_a_file_is_read_from_servers_with_and_without_ranges(serve, tmp_path, handler, fault):
    data = bytes(range(256)) * 400
    (tmp_path / "a").write_bytes(data)
    proxy = serve(handler)
    if fault:
        proxy.fail(*[fault] * 3, method="GET", period=2)
    assert Folder(proxy.url).read_start("a", 128) == data[:128]
    assert read_start(f"{proxy.url}/a", 128) == data[:128]
    with open_input(f"{proxy.url}/a") as file:
        file.seek(60_000)
        assert file.read(7) == data[60_000:60_007]
        file.seek(5)
        assert file.read() == data[5:]
        assert file.read() == b""
    assert bool(proxy.faults) == bool(fault)


@pytest.mark.parametrize("handler", [Ranges, WholeFiles])
def test_sources_are_read_byte_for_byte(serve, tmp_path, handler):
    write_parquet(tmp_path / "a.parquet", texts(300, seed=1), row_group_size=50)
    with pa.CompressedOutputStream(str(tmp_path / "a.txt.zst"), "zstd") as stream:
        stream.write("\n".join(texts(300, seed=2)).encode())
    proxy = serve(handler)
    proxy.fail_always(Fault.TRUNCATE, Fault.RESET, method="GET", period=2)
    size = (tmp_path / "a.txt.zst").stat().st_size
    pieces = {
        "a.parquet": {"stop": 6, "form": "parquet"},
        "a.txt.zst": {"stop": size, "form": "lines", "compression": "zstd"},
    }
    for name, options in pieces.items():
        assert same_pieces(f"{proxy.url}/{name}", tmp_path / name, **options)
    assert len(proxy.faults) >= 2
    (found,) = find_files(f"{proxy.url}/a.parquet").files
    assert found.size == (tmp_path / "a.parquet").stat().st_size


def test_a_silent_server_is_given_up(serve, tmp_path, monkeypatch):
    limits = {"client_kwargs": {"timeout": ClientTimeout(sock_read=0.1)}}
    monkeypatch.setitem(fsspec.config.conf, "http", limits)
    (tmp_path / "a").write_bytes(b"1")
    proxy = serve(Ranges)
    proxy.fail_always(Fault.STALL, method="GET")
    with (
        use_retry_policy(StoreRetryPolicy(tries=2, first_wait=0.001)),
        open_input(f"{proxy.url}/a") as file,
        pytest.raises(TransientIOError, match=f"of {proxy.url}/a .*tried 2 time.*[Tt]imeout"),
    ):
        file.read()


def test_a_missing_file_and_a_missing_size_are_named(serve, tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    proxy = serve(NoSizes)
    with pytest.raises(FileNotFoundError, match=f"{proxy.url}/b"):
        open_input(f"{proxy.url}/b")
    with pytest.raises(SourceError, match="/a does not report its size"):
        open_input(f"http://127.0.0.1:{proxy.server[1]}/a")


@pytest.fixture
def waits():
    """Yield the list of waits, which are not slept."""
    made = []
    with use_retry_policy(StoreRetryPolicy(sleep=made.append)):
        yield made


def failing(*errors: Exception) -> Mock:
    """Return a function that raises each of these errors in turn, then returns "done"."""
    return Mock(side_effect=[*errors, "done"])


def test_an_operation_is_retried_after_increasing_waits_of_an_own_random_state(waits):
    state = random.getstate()
    assert attempt("read", "s3://a/b", failing(*[TimeoutError()] * 4)) == "done"
    assert random.getstate() == state
    assert all(low <= wait <= 2 * low for low, wait in zip([0.25, 0.5, 1, 2], waits, strict=True))


def test_the_last_failure_names_the_url_and_the_number_of_attempts(waits):
    operation = failing(*[ConnectionResetError(104, "reset")] * 5)
    with pytest.raises(
        TransientIOError,
        match=r"cannot read s3://a/b for now, tried 5 times in .* s "
        r"\(ConnectionResetError: .*reset\); try again",
    ) as caught:
        attempt("read", "s3://a/b", operation)
    assert operation.call_count == 5
    assert isinstance(caught.value.__cause__, ConnectionResetError)


NoCredentialsError = type("NoCredentialsError", (Exception,), {})


@pytest.mark.parametrize("kind", [FileNotFoundError, PermissionError, NoCredentialsError])
def test_missing_and_forbidden_files_are_named(waits, kind):
    expected = PermissionError if kind is NoCredentialsError else kind
    operation = failing(kind("the bucket"))
    with pytest.raises(expected, match="cannot read s3://a/b: the bucket") as caught:
        attempt("read", "s3://a/b", operation)
    assert caught.value.errno in {errno.ENOENT, errno.EACCES}
    assert (operation.call_count, waits) == (1, [])


def test_a_failure_retried_inside_is_not_retried_outside(waits):
    operation = failing(TransientIOError("tried already"))
    with pytest.raises(TransientIOError, match="tried already"):
        attempt("read", "s3://a/b", operation)
    assert operation.call_count == 1


def test_no_attempt_starts_after_the_time_limit():
    now, waits = iter([0.0, 20.0, 40.0, 59.9]), []
    policy = StoreRetryPolicy(sleep=waits.append, monotonic=lambda: next(now))
    with use_retry_policy(policy), pytest.raises(TransientIOError, match=r"3 times in 59.9 s"):
        attempt("read", "s3://a/b", failing(*[TimeoutError()] * 5))


class ShortFile:
    """A file that once returns fewer bytes than it has."""

    def __init__(self, file):
        self.file, self.is_short = file, True

    def __getattr__(self, name):
        return getattr(self.file, name)

    def read(self, size):
        data = self.file.read(size // 2 if self.is_short and size > 1 else 0)
        self.is_short = False
        return data


def test_a_truncated_response_is_never_the_end_of_a_file(waits, monkeypatch):
    folder = Folder(f"memory://{uuid.uuid4().hex}")
    folder.write_bytes("a", bytes(range(200)))
    opened = []
    original = MemoryFileSystem._open

    def open_short(file_system, path, mode="rb", **options):
        file = original(file_system, path, mode, **options)
        opened.append(path)
        return file if len(opened) == 3 else ShortFile(file)

    monkeypatch.setattr(MemoryFileSystem, "_open", open_short)
    with open_input(folder.join("a")) as file:
        assert file.read() == bytes(range(200))
    assert len(opened) == 3
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("url", "extra"),
    [
        ("s3://b/a", "s3"),
        ("s3a://b/a", "s3"),
        ("gs://b/a", "gcs"),
        ("gcs://b/a", "gcs"),
        ("abfss://c@a/b", "azure"),
        ("az://c/b", "azure"),
        ("https://h/a", "http"),
        ("hf://datasets/a/b", "hf"),
        ("zip://a::s3://b/c.zip", "s3"),
        ("sftp://h/a", None),
        ("memory://a", None),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, url, extra):
    uninstall_stores(monkeypatch, "Install that first")
    with pytest.raises(SourceError) as caught:
        open_input(url)
    hint = f"; {how_to_install(extra)}" if extra else ""
    assert str(caught.value) == f"cannot open {url}: Install that first{hint}"
    assert extra_for(url) == extra


def test_a_scheme_of_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.delitem(known_implementations, "abfss", raising=False)
    monkeypatch.delitem(_registry, "abfss", raising=False)
    with pytest.raises(SourceError) as caught:
        open_input("abfss://c@a/b")
    message = f"cannot open abfss://c@a/b: Protocol not known: abfss; {how_to_install('azure')}"
    assert str(caught.value) == message


def test_every_kind_of_store_has_limits_that_the_user_can_change(monkeypatch):
    limits = ClientTimeout(total=None, sock_connect=10, sock_read=20)
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")
    config = {"connect_timeout": 10, "read_timeout": 20, "max_pool_connections": 64}
    assert store_options("s3://b/a") == {"s3": {"config_kwargs": config}}
    assert store_options("gs://b/a") == {"gs": {"requests_timeout": limits}}
    assert store_options("https://h/a") == {"https": {"client_kwargs": {"timeout": limits}}}
    monkeypatch.setitem(fsspec.config.conf, "gcs", {"requests_timeout": 5})
    monkeypatch.setitem(fsspec.config.conf, "abfs", {"read_timeout": 5})
    monkeypatch.setitem(fsspec.config.conf, "http", {"client_kwargs": {"timeout": 5}})
    assert store_options("gs://b/a") == {"gs": {"requests_timeout": 5}}
    assert store_options("az://b/a")["az"] == {"connection_timeout": 10, "read_timeout": 5}
    assert store_options("http://h/a") == {"http": {"client_kwargs": {"timeout": 5}}}
    assert store_options("/data/a") == store_options("memory://a") == {}


def test_the_limits_reach_the_store_behind_a_chain(tmp_path):
    file_system, _ = connect("simplecache::http://localhost/a")
    assert file_system.fs.client_kwargs["timeout"].sock_read == 20


def test_extras_are_those_that_errors_name():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for url in ("s3://", "gs://", "az://", "http://", "hf://"):
        assert f"\n{extra_for(url)} = [" in text
