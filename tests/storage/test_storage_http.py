"""Reading over HTTP, from servers that send parts of a file, and from those that send it whole."""

import http.server
import re
import threading
from contextlib import ExitStack
from functools import partial

import fsspec
import pyarrow as pa
import pytest
from aiohttp import ClientTimeout
from fsspec.implementations.http import HTTPFileSystem

from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.storage import StoreRetryPolicy, list_files, open_input, use_retry_policy
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.read_pieces import same_pieces
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
    (found,) = list_files([f"{proxy.url}/a.parquet"])
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
