"""Tokenizer, shards and loader in other processes and threads return the same results."""

import multiprocessing
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.loader import Loader, open_shards
from tests.support.process_work import put_results, results
from tests.support.small_corpus import recipe, write_corpus

CONTEXTS = ["fork", "spawn", "forkserver"]
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def things(tmp_path, in_process):
    """Return a tokenizer, shards and a loader after one batch."""
    write_corpus(tmp_path / "in")
    prepare(recipe(tmp_path / "in", tmp_path / "out"))
    shards = open_shards(tmp_path / "out")
    return shards.tokenizer, shards, started(shards)


def started(shards):
    loader = Loader(shards, batch_size=2, length=16, shuffle="document")
    loader.next_batch()
    return loader


def in_process_of(context, *things):
    """Return the result of a process, or its error."""
    queue = context.SimpleQueue()
    process = context.Process(target=put_results, args=(queue, *things))
    process.start()
    process.join(40)
    alive = process.is_alive()
    process.kill()
    assert not alive, "the process hangs"
    assert process.exitcode == 0, queue.get()
    return queue.get()


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_child_process_returns_the_same_results(things, name):
    tokenizer, shards, _ = things
    expected = results(tokenizer, shards, started(shards))
    assert in_process_of(multiprocessing.get_context(name), *things) == expected
    assert results(*things) == expected  # the position of this process's loader is unchanged


def test_a_copy_continues_where_the_original_is(things):
    expected = results(things[0], things[1], started(things[1]))
    assert results(*pickle.loads(pickle.dumps(things))) == expected


def test_a_fork_while_threads_work_returns_the_same_results(things):
    tokenizer, shards, _ = things
    expected = results(tokenizer, shards, started(shards))
    stop = threading.Event()

    def work():
        while not stop.is_set():
            assert results(tokenizer, shards, started(shards)) == expected

    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(work) for _ in range(3)]
        try:
            context = multiprocessing.get_context("fork")
            for _ in range(25):
                assert in_process_of(context, tokenizer, shards, started(shards)) == expected
        finally:
            stop.set()
        assert [future.result() for future in working] == [None] * 3
