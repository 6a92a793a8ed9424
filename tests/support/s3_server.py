"""A server of S3, requests counted, outputs uploaded."""

import http.client
import io
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from s3fs import S3FileSystem

from nanotok_ray.storage import Folder, StoreRetryPolicy
from tests.support.faulty_proxy import FaultyProxy
from tests.support.machine_speed import scaled
from tests.support.retry_policy import use_retry_policy
from tests.support.small_corpus import texts

BUCKET = "bucket"

_SERVE = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


S3S = Path(__file__).parents[2] / ".s3-server/bin/s3s-fs"
"""A server of S3 that keeps files on a disk; `make s3-server` builds it."""
SERVERS = [
    "moto",
    pytest.param("s3s", marks=pytest.mark.skipif(not S3S.exists(), reason="make s3-server")),
]


@contextmanager
def s3_behind_a_proxy(server: str = "moto") -> Iterator[FaultyProxy]:
    """Yield a proxy for an S3 server, whose address is set in the environment."""
    with (
        {"moto": _moto, "s3s": _s3s}[server]() as (port, pid),
        FaultyProxy("127.0.0.1", port, server_pid=pid) as proxy,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("AWS_ENDPOINT_URL", proxy.url)
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_CONFIG_FILE", "/dev/null")
        for name in ("AWS_PROFILE", "AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        S3FileSystem.clear_instance_cache()
        yield proxy
        S3FileSystem.clear_instance_cache()


@contextmanager
def _s3s() -> Iterator[tuple[int, int]]:
    """Serve a temporary folder, which has a bucket."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="nanotok-s3-") as root:
        Path(root, BUCKET).mkdir()
        keys = ["--access-key", "key", "--secret-key", "secret"]
        process = subprocess.Popen(
            [S3S, "--host", "127.0.0.1", "--port", str(port), *keys, root],
            env={"RUST_LOG": "off"},
        )
        try:
            _wait_for(port)
            yield port, process.pid
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + scaled(10)
    while True:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)


@contextmanager
def _moto() -> Iterator[tuple[int, int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        connection.close()
        yield port, process.pid
    finally:
        process.communicate("")


def one_try(*, seconds: float) -> dict[str, object]:
    """Return the settings of a client that tries once, with a time limit for a quiet machine."""
    limit = scaled(seconds)
    retries = {"total_max_attempts": 1}
    return {"connect_timeout": limit, "read_timeout": limit, "retries": retries}


@contextmanager
def without_waiting(
    proxy: FaultyProxy, *, seconds: float = 1, tries: int | None = None
) -> Iterator[FaultyProxy]:
    """Yield the proxy without faults; only storage retries, `tries` times, without waits."""
    policy = StoreRetryPolicy(first_wait=0.001)
    if tries is not None:
        policy = StoreRetryPolicy(first_wait=0.001, tries=tries)
    settings = {"config_kwargs": one_try(seconds=seconds)}
    proxy.clear()
    with pytest.MonkeyPatch.context() as patch, use_retry_policy(policy):
        patch.setitem(fsspec.config.conf, "s3", settings)
        yield proxy
    proxy.clear()


KINDS = ("GET", "HEAD", "LIST", "PUT", "DELETE")
SLICES_OF_A_FILE = 4

RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/*.parquet"]

[tokenizer]
vocab_size = 350

[output]
path = "{root}/out"
work = "{root}/work"

[limits]
slice_bytes = {slice_bytes}
"""


def corpus_of(folder: Folder, slices: int) -> str:
    """Write parquet files of a number of slices to a folder, and return the recipe."""
    for number in range(slices // SLICES_OF_A_FILE):
        table = pa.table({"text": pa.array(texts(40, seed=number), pa.string())})
        sink = io.BytesIO()
        pq.write_table(table, sink, row_group_size=10)
        folder.write_bytes(f"in/{number:06}.parquet", sink.getvalue())
    return RECIPE.format(root=folder.url, slice_bytes=1000)


def kind_of(method: str, path: str) -> str:
    """Return the kind of a request in the price list of S3.

    >>> kind_of("GET", "/bucket?list-type=2&prefix=out"), kind_of("POST", "/bucket/a?uploads")
    ('LIST', 'PUT')
    """
    if method == "POST":
        return "DELETE" if path.partition("?")[2].startswith("delete") else "PUT"
    if method == "GET" and "list-type=2" in path:
        return "LIST"
    return method


def upload(root: Path, url: str) -> Folder:
    """Copy all files of an output to a store."""
    folder = Folder(url)
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.relative_to(root).as_posix().startswith("run/"):
            folder.write_bytes(path.relative_to(root).as_posix(), path.read_bytes())
    return folder


def same_documents(there, local) -> int:
    """Compare all values of every document of two readers; return the number of documents."""
    assert len(there) == len(local)
    assert there.fingerprint == local.fingerprint
    for number in range(len(local)):
        assert there[number].dtype == local[number].dtype
        assert np.array_equal(there[number], local[number])
        for ask in ("mask", "images"):
            own, expected = getattr(there, ask)(number), getattr(local, ask)(number)
            assert (own is None) == (expected is None)
            assert expected is None or np.array_equal(own, expected)
        assert there.document_id(number) == local.document_id(number)
    _same_pieces(there, local)
    return len(local)


def _same_pieces(there, local) -> None:
    documents = np.random.default_rng(1).permutation(len(local))
    lengths = local.lengths(documents)
    assert np.array_equal(there.lengths(documents), lengths)
    starts = lengths // 3
    left = lengths - starts
    mine, own = (each.pieces(documents, starts, left, masks=True) for each in (there, local))
    for place, length in enumerate(left.tolist()):
        for name in ("ids", "masks"):
            parts = [_cut(each, name, place, length) for each in (mine, own)]
            assert parts[0] == parts[1]


def _cut(pieces, name: str, place: int, length: int) -> list[int] | None:
    array = getattr(pieces, name)[pieces.which[place]]
    start = pieces.offsets[place]
    return None if array is None else array[start : start + length].tolist()
