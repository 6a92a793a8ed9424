"""Batches from S3, behind a proxy that fails as it is told, beside those from the disk."""

from itertools import islice

import fsspec
import numpy as np
import pytest

from nanotok_ray.loader import Loader, NanochatLoader, open_shards, remote
from nanotok_ray.storage import StoreRetryPolicy, use_retry_policy
from tests.support.faulty_proxy import Fault
from tests.support.finished_output import finished_output
from tests.support.machine_speed import scaled
from tests.support.s3_server import BUCKET, s3_behind_a_proxy
from tests.support.uploaded_output import upload

pytestmark = [pytest.mark.timeout(60)]

FAULTS = [Fault.RESET, Fault.SLOW_DOWN, Fault.TRUNCATE, Fault.INTERNAL_ERROR, Fault.THROTTLED]
CLIENT = {
    "connect_timeout": scaled(1),
    "read_timeout": scaled(1),
    "retries": {"total_max_attempts": 1},
}
URL = f"s3://{BUCKET}/packed"
ROWS = {"batch_size": 3, "length": 40}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return finished_output(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="module")
def server(local):
    with s3_behind_a_proxy() as proxy:
        upload(local, URL)
        yield proxy


@pytest.fixture
def proxy(server, monkeypatch):
    """Return a proxy that fails every third time, small blocks, and storage that does not wait."""
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": CLIENT})
    monkeypatch.setattr(remote, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(remote, "_READ_AHEAD_BYTES", 16)
    server.clear()
    server.fail_always(*FAULTS, method="GET", period=3)
    with use_retry_policy(StoreRetryPolicy(first_wait=0.001)):
        yield server
    server.clear()


LOADERS = {
    "best-fit": lambda url, **cache: Loader(
        open_shards(url, **cache), **ROWS, shuffle="document", seed=1, epochs=2
    ),
    "windows": lambda url, **cache: Loader(
        open_shards(url, **cache), **ROWS, packing="windows", shuffle="block", epochs=2
    ),
    "conversations": lambda url, **cache: Loader(
        open_shards(url, **cache), **ROWS, packing="conversations", epochs=2
    ),
    "mixture": lambda url, **cache: Loader(
        open_shards(url, **cache), **ROWS, weights={"web": 1, "chats": 2}
    ),
    "nanochat": lambda url, **cache: NanochatLoader(
        open_shards(url, source="web", **cache), **ROWS, buffer_size=10, tokenizer_batch_size=4
    ),
}


def taken(loader, count):
    return [(each.inputs, each.targets, each.state) for each in islice(loader, count)]


@pytest.mark.parametrize("kind", LOADERS)
def test_batches_are_those_of_the_disk_and_go_on_where_they_were(proxy, local, tmp_path, kind):
    expected = taken(LOADERS[kind](str(local)), 30)
    found = taken(LOADERS[kind](URL, cache=tmp_path / "one"), 13)
    again = LOADERS[kind](URL, cache=tmp_path / "other")
    again.load_state_dict(found[-1][2])
    found += taken(again, 17)
    assert len(found) == len(expected) == 30
    for own, other in zip(found, expected, strict=True):
        assert np.array_equal(own[0], other[0])
        assert np.array_equal(own[1], other[1])
        assert own[2] == other[2]
    assert len(proxy.faults) > 3
