"""Shards and batches from S3, through a proxy that counts requests and fails on demand."""

import multiprocessing
import uuid
from itertools import islice

import numpy as np
import pytest

from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.loader import Loader, NanochatLoader, open_shards, remote
from tests.loader.test_reader_remote import settled
from tests.support.faulty_proxy import Fault
from tests.support.s3_server import BUCKET, s3_behind_a_proxy, without_waiting
from tests.support.uploaded_output import same_documents, upload

pytestmark = [pytest.mark.timeout(60)]

BLOCK = 1 << 12

FAULTS = [Fault.RESET, Fault.SLOW_DOWN, Fault.TRUNCATE, Fault.INTERNAL_ERROR, Fault.THROTTLED]


@pytest.fixture(scope="module")
def server(finished):
    with s3_behind_a_proxy() as proxy:
        upload(finished, f"s3://{BUCKET}/out")
        yield proxy


@pytest.fixture
def proxy(server, monkeypatch):
    """Return the proxy without faults, with small blocks, and retries without waits."""
    monkeypatch.setattr(remote, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(remote, "_READ_AHEAD_BYTES", 16)
    with without_waiting(server) as proxy:
        yield proxy


@pytest.fixture
def folder(proxy, finished):
    folder = upload(finished, f"s3://{BUCKET}/{uuid.uuid4().hex}")
    proxy.clear()
    return folder


URL = f"s3://{BUCKET}/out"


def test_every_document_is_read_despite_failures_of_any_kind(proxy, finished, tmp_path):
    proxy.fail_always(*FAULTS, method="GET", period=3)
    proxy.fail(Fault.RESET, Fault.SLOW_DOWN, method="HEAD")
    there = open_shards(URL, cache=tmp_path, check_files=True)
    assert same_documents(there, open_shards(str(finished))) == 110
    settled(there)
    assert set(proxy.faults) == set(FAULTS)


def test_a_silent_store_is_reported_and_nothing_of_it_is_stored(proxy, tmp_path):
    shards = open_shards(URL, cache=tmp_path)
    proxy.fail_always(Fault.SLOW_DOWN, method="GET")
    with pytest.raises(TransientIOError, match=rf"{URL}/web/train/.*\.idx .*tried 5 time"):
        shards[0]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    proxy.clear()
    assert len(shards[0]) > 0


@pytest.mark.parametrize("handles", [0, 4])
def test_a_file_replaced_while_it_is_read_is_refused(folder, tmp_path, monkeypatch, handles):
    monkeypatch.setattr(remote, "BLOCK_BYTES", 64)
    monkeypatch.setattr(remote, "_HANDLES", handles)
    shards = open_shards(folder.url, cache=tmp_path)
    assert len(shards[0]) > 0
    settled(shards)
    name = f"{shards.name(0)}.bin"
    data = folder.read_bytes(name)
    folder.write_whole(name, bytes([data[0] ^ 1]) + data[1:])
    with pytest.raises(SourceError, match=r"\.bin (changed|was replaced) while it was read"):
        list(shards)


def read_all(shards, queue):
    queue.put([ids.tolist() for ids in shards])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_continue_with_any_start_method(proxy, finished, tmp_path, method):
    shards = open_shards(URL, cache=tmp_path)
    expected = [ids.tolist() for ids in open_shards(str(finished))]
    assert shards[100].tolist() == expected[100]
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    worker = context.Process(target=read_all, args=(shards, queue))
    worker.start()
    assert queue.get() == expected
    worker.join()
    assert worker.exitcode == 0
    assert [ids.tolist() for ids in shards] == expected


ROWS = {"batch_size": 3, "length": 40}
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
def test_batches_equal_those_of_the_disk_and_resume(proxy, finished, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(remote, "BLOCK_BYTES", 1 << 10)
    proxy.fail_always(*FAULTS, method="GET", period=3)
    expected = taken(LOADERS[kind](str(finished)), 30)
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
