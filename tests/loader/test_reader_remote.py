"""Remote shards over HTTP and S3."""

import multiprocessing
import os
import pickle
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from nanotok_ray.errors import (
    CorruptOutputError,
    IncompleteOutputError,
    SourceError,
    TransientIOError,
)
from nanotok_ray.loader import Loader, NanochatLoader, open_shards, remote
from nanotok_ray.loader.remote import BlockCache, cache_folder
from nanotok_ray.storage import Folder, RemoteInput
from tests.support.faulty_proxy import Fault
from tests.support.made_output import MadeSource, made_output
from tests.support.s3_server import (
    BUCKET,
    s3_behind_a_proxy,
    same_documents,
    upload,
    without_waiting,
)

pytestmark = [pytest.mark.timeout(60)]

BLOCK = 512
NUMBERS = [[int(n) for n in range(50 * k, 50 * k + 40 + k)] for k in range(40)]


@pytest.fixture
def fetched(monkeypatch) -> list[tuple[str, int, int]]:
    """Return the fetched parts of files of shards: name, position and bytes."""
    seen = []
    plain = RemoteInput.readinto

    def readinto(self, buffer):
        name = self._url.partition("/out/")[2]
        if "/train/" in name and not name.endswith(".json"):
            seen.append((name, self.tell(), len(buffer)))
        return plain(self, buffer)

    monkeypatch.setattr(RemoteInput, "readinto", readinto)
    return seen


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return a local output and its copy on a store; the shards have several small blocks."""
    monkeypatch.setattr(remote, "BLOCK_BYTES", BLOCK)
    made_output(
        tmp_path / "made",
        MadeSource(name="web", shards=[NUMBERS, [], NUMBERS[:3]], with_document_ids=True),
        MadeSource(name="chats", shards=[NUMBERS[::-1]], kind="chat"),
    )
    return tmp_path / "made", upload(tmp_path / "made", f"memory://{uuid.uuid4().hex}/out")


def settled(shards) -> None:
    """Wait for the end of read-ahead."""
    thread = shards.files._here()._thread
    if thread is not None:
        thread.join()


def files_of(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file())


def size_of(cache: Path) -> int:
    return sum(path.stat().st_size for path in files_of(cache))


@pytest.mark.parametrize("limit", [None, 2000])
def test_remote_shards_equal_the_local_ones(made, tmp_path, limit):
    root, folder = made
    there = open_shards(folder.url, cache=tmp_path / "cache", cache_bytes=limit)
    assert same_documents(there, open_shards(str(root))) == 83
    assert there.ranges() == open_shards(str(root)).ranges()
    assert there.read_file("shards.idx", limit=10**6) == (root / "shards.idx").read_bytes()


def test_a_new_opening_and_a_small_pickled_copy_fetch_no_block_again(made, tmp_path, fetched):
    root, folder = made
    first = open_shards(folder.url, cache=tmp_path / "cache")
    same_documents(first, open_shards(str(root)))
    settled(first)
    assert len(fetched) == len(set(fetched)) == len(files_of(tmp_path / "cache"))
    assert {length for name, _, length in fetched if name.endswith(".bin")} > {BLOCK}
    assert all(start == 0 for name, start, _ in fetched if not name.endswith((".bin", ".mask")))
    fetched.clear()
    packed = pickle.dumps(first)
    assert len(packed) < 1000
    for again in (open_shards(folder.url, cache=tmp_path / "cache"), pickle.loads(packed)):
        same_documents(again, open_shards(str(root)))
        assert fetched == []


def test_opening_fetches_no_shard_and_a_document_only_its_blocks(made, tmp_path, fetched):
    _, folder = made
    shards = open_shards(folder.url, source="web", cache=tmp_path / "cache")
    assert fetched == []
    start = sum(map(len, NUMBERS[:20])) * 2
    assert shards[20].tolist() == NUMBERS[20]
    first, last = start // BLOCK, (start + 2 * len(NUMBERS[20]) - 1) // BLOCK
    blocks = [(at // BLOCK) for name, at, _ in fetched if name.endswith(".bin")]
    settled(shards)
    assert blocks[: last - first + 1] == list(range(first, last + 1))


def test_a_failed_prefetch_is_reported_when_the_block_is_needed(made, tmp_path, monkeypatch):
    _, folder = made
    shards = open_shards(folder.url, source="web", cache=tmp_path / "cache")
    shard, plain, reported = shards._shard(0), RemoteInput.readinto, []

    def readinto(self, buffer):
        if self.tell() == 2 * BLOCK:
            reported.append(threading.current_thread().daemon)
            raise SourceError("no block 2")
        return plain(self, buffer)

    monkeypatch.setattr(RemoteInput, "readinto", readinto)
    shard.ids.part(0, 2 * BLOCK)
    settled(shards)
    assert reported == [True]
    with pytest.raises(SourceError, match="no block 2"):
        shard.ids.part(2 * BLOCK, 2 * BLOCK + 2)
    monkeypatch.undo()


def test_a_block_of_a_wrong_size_is_fetched_again(made, tmp_path, fetched):
    root, folder = made
    same_documents(open_shards(folder.url, cache=tmp_path / "cache"), open_shards(str(root)))
    path = next(each for each in files_of(tmp_path / "cache") if ".bin.1." in each.name)
    expected = path.read_bytes()
    for wrong in (b"", expected + b"1"):
        path.write_bytes(wrong)
        fetched.clear()
        same_documents(open_shards(folder.url, cache=tmp_path / "cache"), open_shards(str(root)))
        assert [at for _, at, _ in fetched] == [BLOCK]
        assert path.read_bytes() == expected


def test_blocks_over_the_limit_are_removed(made, tmp_path, monkeypatch):
    _, folder = made
    limit, sizes, plain = 4 * BLOCK, [], BlockCache.put

    def put(self, name, data):
        block = plain(self, name, data)
        sizes.append(size_of(tmp_path / "cache"))
        return block

    monkeypatch.setattr(BlockCache, "put", put)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/of-others").write_bytes(b"1" * limit * 2)
    own = limit * 2
    shards = open_shards(folder.url, cache=tmp_path / "cache", cache_bytes=limit)
    for _ in range(2):
        assert [ids.tolist() for ids in shards] == [*NUMBERS, *NUMBERS[:3], *NUMBERS[::-1]]
    settled(shards)
    assert len(sizes) > 20
    assert max(sizes) - own <= limit + BLOCK  # one that the other thread writes at the same time
    assert size_of(tmp_path / "cache") - own <= limit
    assert (tmp_path / "cache/of-others").exists()


def test_the_least_recently_used_blocks_are_removed_first(tmp_path):
    cache = BlockCache(tmp_path, max_bytes=100)
    names = [f"{n:064x}-000.bin.0" for n in range(5)]
    for place, name in enumerate(names[:4]):
        cache.put(name, bytes(25))
        os.utime(next(tmp_path.rglob(f"{name}*")), ns=(place, place))
    assert cache.get(names[0], 25) is not None  # a use of the block
    cache.put(names[4], bytes(25))
    left = [cache.get(name, 25) is not None for name in names]
    assert left == [True, False, False, True, True]


def test_only_abandoned_blocks_and_no_other_files_are_removed(tmp_path):
    cache = BlockCache(tmp_path, max_bytes=10)
    left, written = (tmp_path / "00" / f"{0:064x}-0.bin.0.block.{n:032x}.tmp" for n in range(2))
    notes = tmp_path / "00/notes.txt"
    left.parent.mkdir()
    for path in (left, written, notes):
        path.write_bytes(bytes(20))
    os.utime(left, (1, 1))
    for number in range(2):
        cache.put(f"{number:064x}-000.bin.0", bytes(8))
    assert [path.exists() for path in (left, written, notes)] == [False, True, True]
    assert [cache.get(f"{n:064x}-000.bin.0", 8) is not None for n in range(2)] == [False, True]


def test_a_block_that_could_not_be_stored_leaves_no_files(tmp_path, monkeypatch):
    def replace(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OSError, match="No space left on device; pass another"):
        BlockCache(tmp_path).put(f"{0:064x}-000.bin.0", bytes(8))
    assert files_of(tmp_path) == []


def test_a_mapped_block_outlives_its_file(tmp_path):
    block = BlockCache(tmp_path, max_bytes=10).put(f"{0:064x}-000.bin.0", b"1" * 11)
    assert files_of(tmp_path) == []
    assert block.tobytes() == b"1" * 11
    assert not block.flags.writeable


def test_an_unwritable_cache_is_named(made, tmp_path):
    _, folder = made
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SourceError, match=r"file/a, the cache of .* another `cache`"):
        open_shards(folder.url, cache=tmp_path / "file/a")
    with pytest.raises(SourceError, match="cache_bytes is 511; one block of 512 is the least"):
        open_shards(folder.url, cache=tmp_path / "cache", cache_bytes=511)
    shards = open_shards(folder.url, cache=tmp_path / "cache")
    (tmp_path / "cache").rmdir()
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(OSError, match=r"cannot write to .*cache, the cache .* `cache_bytes`"):
        shards[0]


@pytest.mark.parametrize("wrong", ["missing", "longer", "shorter"])
def test_a_file_of_another_size_is_refused(made, tmp_path, wrong):
    _, folder = made
    shards = open_shards(folder.url, source="chats", cache=tmp_path / "cache")
    name = f"{shards.name(0)}.bin"
    data = folder.read_bytes(name)
    if wrong == "missing":
        folder.remove(name)
        expected = r"\.bin is missing; `nanotok verify memory://"
    else:
        changed = data + b"12" if wrong == "longer" else data[:-2]
        folder.write_bytes(name, changed)
        expected = rf"\.bin has {len(changed)} bytes, shards\.idx says {len(data)}"
    with pytest.raises(CorruptOutputError, match=expected):
        shards[0]


def test_an_output_without_a_manifest_or_index_is_refused(made):
    _, folder = made
    folder.remove("shards.idx")
    with pytest.raises(CorruptOutputError, match=r"shards\.idx is missing, though"):
        open_shards(folder.url)
    folder.remove("manifest.json")
    with pytest.raises(IncompleteOutputError, match="run the job again"):
        open_shards(folder.url)
    with pytest.raises(SourceError, match="nosuchstore://a"):
        open_shards("nosuchstore://a")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_shards_work_after_a_fork_while_the_parent_fetches(made, tmp_path):
    _, folder = made
    shards = open_shards(folder.url, cache=tmp_path / "cache")
    assert shards[0].tolist() == NUMBERS[0]
    process = shards.files._here()
    queue = multiprocessing.get_context("fork").SimpleQueue()

    def read():
        own = [ids.tolist() for ids in shards]
        queue.put((own, shards.files._here()._parent is process))

    with process._lock:  # as if another thread of the parent were fetching
        child = multiprocessing.get_context("fork").Process(target=read)
        child.start()
        found, keeps_what_is_of_the_parent = queue.get()
        child.join()
    assert keeps_what_is_of_the_parent
    assert found == [*NUMBERS, *NUMBERS[:3], *NUMBERS[::-1]]
    assert shards[80].tolist() == NUMBERS[2]
    assert shards.files._here() is process


def test_threads_may_read_in_parallel(made, tmp_path):
    _, folder = made
    shards = open_shards(folder.url, source="chats", cache=tmp_path / "cache")
    shards[0]
    orders = [np.random.default_rng(seed).permutation(40).tolist() for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for order, found in zip(
            orders, pool.map(lambda own: [shards[n].tolist() for n in own], orders), strict=True
        ):
            assert found == [NUMBERS[39 - n] for n in order]


def test_the_cache_is_in_the_cache_folder_of_the_node(made, monkeypatch, tmp_path):
    _, folder = made
    monkeypatch.setenv("NANOTOK_CACHE_DIR", str(tmp_path / "copies"))
    open_shards(folder.url)[0]
    assert files_of(tmp_path / "copies/shards")
    assert Folder(folder.url).list() == folder.list()


def test_an_unwritable_cache_folder_is_replaced_by_the_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("NANOTOK_CACHE_DIR", str(tmp_path / "file/below"))
    assert cache_folder().parent == tmp_path / "tmp"
    monkeypatch.delenv("NANOTOK_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg/nanotok_ray"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home/.cache/nanotok_ray"


FAULTS = [Fault.RESET, Fault.SLOW_DOWN, Fault.TRUNCATE, Fault.INTERNAL_ERROR, Fault.THROTTLED]


@pytest.fixture(scope="module")
def server(finished):
    with s3_behind_a_proxy() as proxy:
        upload(finished, f"s3://{BUCKET}/out")
        yield proxy


@pytest.fixture
def proxy(server, monkeypatch):
    """Return the proxy without faults, with small blocks, and retries without waits."""
    monkeypatch.setattr(remote, "BLOCK_BYTES", 1 << 12)
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
    folder.write_bytes(name, bytes([data[0] ^ 1]) + data[1:])
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
    "best-fit": (Loader, {"shuffle": "document", "seed": 1, "epochs": 2}),
    "windows": (Loader, {"packing": "windows", "shuffle": "block", "epochs": 2}),
    "conversations": (Loader, {"packing": "conversations", "epochs": 2}),
    "mixture": (Loader, {"weights": {"web": 1, "chats": 2}}),
    "nanochat": (NanochatLoader, {"buffer_size": 10, "tokenizer_batch_size": 4}),
}


def loader_of(kind, url, **cache):
    make, settings = LOADERS[kind]
    source = "web" if kind == "nanochat" else None
    return make(open_shards(url, source=source, **cache), **ROWS, **settings)


def taken(loader, count):
    return [(each.inputs, each.targets, each.state) for each in islice(loader, count)]


@pytest.mark.parametrize("kind", LOADERS)
def test_batches_equal_those_of_the_disk_and_resume(proxy, finished, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(remote, "BLOCK_BYTES", 1 << 10)
    proxy.fail_always(*FAULTS, method="GET", period=3)
    expected = taken(loader_of(kind, str(finished)), 30)
    found = taken(loader_of(kind, URL, cache=tmp_path / "one"), 13)
    again = loader_of(kind, URL, cache=tmp_path / "other")
    again.load_state_dict(found[-1][2])
    found += taken(again, 17)
    assert len(found) == len(expected) == 30
    for own, other in zip(found, expected, strict=True):
        assert np.array_equal(own[0], other[0])
        assert np.array_equal(own[1], other[1])
        assert own[2] == other[2]
    assert len(proxy.faults) > 3
