"""Fixtures of tests of storage: a server of S3 behind a proxy that fails on demand."""

import uuid
from collections.abc import Callable, Iterator

import fsspec
import pytest

from nanotok_ray.storage import Folder
from tests.support.faulty_proxy import FaultyProxy
from tests.support.retry_policy import Hasty
from tests.support.s3_server import BUCKET, SERVERS, s3_behind_a_proxy, without_waiting


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[FaultyProxy]:
    """Return the proxy of each server for the tests of a module."""
    with pytest.MonkeyPatch.context() as patch, s3_behind_a_proxy(request.param) as proxy:
        patch.setattr("s3fs.core.asyncio", Hasty())  # it sleeps for 0.1 s even after its only try
        yield proxy


@pytest.fixture
def moto(request: pytest.FixtureRequest) -> None:
    """Skip a test with s3s-fs, which differs from S3 (docs/storage.md)."""
    _only_with("moto", request)


@pytest.fixture
def s3s(request: pytest.FixtureRequest) -> None:
    """Skip a test with moto."""
    _only_with("s3s", request)


def _only_with(server: str, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["server"] != server:
        pytest.skip(f"only with {server}")


@pytest.fixture
def proxy(server: FaultyProxy) -> Iterator[FaultyProxy]:
    """Return the proxy without faults; only the package retries, without waits."""
    with without_waiting(server) as proxy:
        yield proxy


@pytest.fixture
def folder(proxy: FaultyProxy) -> Folder:
    """Return an empty folder on S3."""
    return Folder(f"s3://{BUCKET}/{uuid.uuid4().hex}")


@pytest.fixture
def client(proxy: FaultyProxy) -> Iterator[Callable[..., None]]:
    """Return a function that sets options of the client of S3."""
    with pytest.MonkeyPatch.context() as patch:
        yield lambda **options: patch.setitem(fsspec.config.conf, "s3", options)
