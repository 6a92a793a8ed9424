"""Fixtures of tests of storage: a server of S3 behind a proxy that fails on demand."""

import asyncio
import uuid
from collections.abc import Callable, Iterator

import fsspec
import pytest

from nanotok_ray.storage import Folder
from tests.support.faulty_proxy import FaultyProxy
from tests.support.s3_server import BUCKET, s3_behind_a_proxy, without_waiting


class Hasty:
    """asyncio without the sleep of s3fs for 0.1 s even after its only try."""

    def __getattr__(self, name: str) -> object:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(_: float) -> None:
        await asyncio.sleep(0)


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyProxy]:
    """Return the proxy of a server for the tests of a module."""
    with pytest.MonkeyPatch.context() as patch, s3_behind_a_proxy() as proxy:
        patch.setattr("s3fs.core.asyncio", Hasty())
        yield proxy


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
