"""moto's S3 server in a separate process behind a proxy, and AWS's variables for it."""

import http.client
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
import pytest
from s3fs import S3FileSystem

from nanotok_ray.storage import StoreRetryPolicy, use_retry_policy
from tests.support.faulty_proxy import FaultyProxy
from tests.support.machine_speed import scaled

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


@contextmanager
def s3_behind_a_proxy() -> Iterator[FaultyProxy]:
    """Yield a proxy for an S3 server, whose address is set in the environment."""
    with (
        _served() as (port, pid),
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
def _served() -> Iterator[tuple[int, int]]:
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
