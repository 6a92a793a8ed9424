"""Numbers and sizes that no machine can serve are errors, and never end the process."""

import ast
import os
import subprocess
import sys

import numpy as np
import pytest

from nanotok_ray import _core
from nanotok_ray.errors import TokenizerError

NONE = np.empty((0, 2), np.uint32)
SPECIAL = ["<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"]
CHAT = b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'


def batch(documents):
    ends = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return np.frombuffer(b"".join(documents), np.uint8), ends


def encoded(threads):
    return _core.Encoder("a|b", NONE).encode_batch(*batch([b"ab"] * 3000), threads=threads)


def encoded_strings(threads):
    return _core.Encoder("a|b", NONE).encode_strings(["ab"] * 3000, threads=threads)


def rendered(threads):
    encoder, dialect = _core.Encoder("a|b", NONE), _core.Dialect("chat", "messages")
    special = [(name, 256 + number) for number, name in enumerate(SPECIAL)]
    return encoder.render(dialect, special, *batch([CHAT] * 3000), threads=threads)


def counted(threads):
    counts = _core.SpanCounts("..?")
    counts.update(*batch([b"%d" % number for number in range(3000)]), threads=threads)
    return counts.sorted_run()


def sorted_run(threads):
    counts = _core.SpanCounts("..?")
    counts.update(*batch([b"%d" % number for number in range(3000)]))
    return counts.sorted_run(threads=threads)


def learned(threads):
    spans = (*batch([b"ab" * 3000]), np.array([1], np.uint64))
    return _core.learn([spans], num_merges=9, threads=threads)[:3]


CALLS = [encoded, encoded_strings, rendered, counted, sorted_run, learned]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("threads", [100_000, 2**64 - 1, 2**200])
def test_more_threads_than_a_process_can_have_give_the_same_result(call, threads):
    for one, many in zip(call(1), call(threads), strict=True):
        assert np.array_equal(one, many)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("threads", [0, -1, -(2**200)])
def test_less_than_one_thread_is_refused(call, threads):
    with pytest.raises(TokenizerError, match=f"^threads is {threads}: it must be at least 1"):
        call(threads)


def test_threads_must_be_a_whole_number():
    for threads in ("2", 1.5, None):
        with pytest.raises(TypeError):
            encoded(threads)


@pytest.mark.parametrize("number", [-1, 2**64])
def test_other_numbers_out_of_range_are_refused(number):
    spans = [(*batch([b"abab"]), np.array([1], np.uint64))]
    for call in (
        lambda: _core.Encoder("a", NONE, cache_bytes=number),
        lambda: _core.learn(spans, num_merges=number),
        lambda: _core.learn(spans, num_merges=1, max_token_bytes=number),
        lambda: _core.learn(spans, num_merges=1, min_pair_count=number),
        lambda: _core.Splitter("a").boundaries(spans[0][0], number, 1),
        lambda: _core.RunSums(min_count=number),
        lambda: _core.BestFitBuffer(4, 1).pack(2**64 if number > 0 else -(2**64)),
        lambda: _core.Dialect("vision", "text", image_tokens=number),
    ):
        with pytest.raises(OverflowError):
            call()


def test_the_largest_numbers_are_accepted():
    most = 2**64 - 1
    document = np.frombuffer(b"aaaa", np.uint8)
    assert _core.Encoder("a", NONE, cache_bytes=most).encode(b"aa").tolist() == [97, 97]
    assert _core.Encoder("a", NONE, cache_bytes=0).encode(b"aa").tolist() == [97, 97]
    assert _core.Splitter("a").boundaries(document, 2, most).tolist() == [2, 3, 4]
    assert _core.Splitter("a").boundaries(document, most, most).tolist() == []
    spans = [(*batch([b"abab"]), np.array([1], np.uint64))]
    learned = _core.learn(spans, num_merges=most, max_token_bytes=most)
    assert learned[0].tolist() == [[97, 98], [256, 256]]
    buffer = _core.BestFitBuffer(2**32 - 1, 2**32 - 1)
    buffer.push(np.array([1, 2]))
    assert buffer.pack(2**63 - 1)[2].tolist() == [0]


OUT_OF_MEMORY = {
    "window_rows": "_core.window_rows(int64([2**32 - 1] * 1000), 1)",
    "best_fit_rows": "_core.best_fit_rows(int64([2**32 - 1] * 1000), 1, keep_rest=True)",
    "window_rows of many documents": "_core.window_rows(zeros(100 << 20), 8)",
    "best_fit_rows of many": "_core.best_fit_rows(zeros(100 << 20), 8, keep_rest=True)",
    "push of many": "_core.BestFitBuffer(8, 1).push(zeros(40 << 20) + 1)",
    "before": "encoder.encode_batch(*many, before=[5] * 100_000)",
    "after": "encoder.encode_batch(*many, after=[5] * 100_000, wide=True, threads=3)",
    "offsets": "encoder.encode_batch(zeros(1, 'u1'), zeros(80 << 20))",
    "one long text": "_core.Encoder('.', none).encode(bytes(500 << 20))",
    "images": "encoder.render(vision, special, *images, wide=True)",
    "images in threads": "encoder.render(vision, special, *images, wide=True, threads=4)",
    "decode": "decoder.decode(np.full(10**5, 271, np.uint32))",
    "decode_batch": "decoder.decode_batch(np.full(10**5, 271, np.uint16), int64([0, 10**5]))",
    "decode_batch replace": "decoder.decode_batch(invalid, int64([0, len(invalid)]), replace=True)",
    "decoded rows": "decoder.decode_batch(zeros(1, 'u2'), zeros(80 << 20))",
    "hash_documents": "_core.hash_documents(zeros(1, 'u1'), zeros(80 << 20))",
    "json_rows": "_core.json_rows(zeros(1, 'u1'), zeros(80 << 20), field='a', id_field=None)",
    "boundaries": "_core.Splitter('.').boundaries(zeros(500 << 20, 'u1'), 0, 2**63)",
    "split": "_core.Splitter('.').split(bytes(100 << 20))",
    "learn": "_core.learn([(zeros(700 << 20, 'u1'), int64([0, 700 << 20]), ones)], num_merges=1)",
    "merge_runs": "_core.merge_runs([run_of_nothing])",
    "counts": "counts.update(random, int64([0, len(random)]))",
    "counts in threads": "more.update(random, np.arange(0, len(random), 1000), threads=4)",
}
BEFORE = """
import resource
import numpy as np
from nanotok_ray import _core

def int64(values):
    return np.array(values, np.int64)

def zeros(number, kind="i8"):
    return np.zeros(number, kind)

none, ones = np.empty((0, 2), np.uint32), np.ones(1, np.uint64)
encoder = _core.Encoder("a|b", none)
many = np.frombuffer(b"ab" * 100_000, np.uint8), np.arange(0, 200_001, 2)
vision = _core.Dialect("vision", "text", image_token="<image>", image_tokens=1 << 20)
special = [("<|bos|>", 256), ("<image>", 257)]
line = b'{"text": "<image>"}'
images = np.frombuffer(line * 400, np.uint8), np.arange(0, 401 * len(line), len(line))
doubling = np.array([(0, 0), *((last, last) for last in range(256, 271))], np.uint32)
decoder = _core.Decoder(doubling, [])
invalid = np.full(6_000, 271, np.uint16)
invalid[0] = 255
run_of_nothing = zeros(20 << 20, "u8"), zeros(1, "u1"), zeros((20 << 20) + 1), zeros(20 << 20, "u8")
random = np.random.default_rng(1).integers(97, 123, 120 << 20, np.uint8)
counts, more = _core.SpanCounts("(?s:.{8})"), _core.SpanCounts("(?s:.{8})")
with open("/proc/self/statm") as statm:
    now = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30),) * 2)
results = {}
"""
CALL = """
try:
    {call}
    results[{name!r}] = "no error"
except BaseException as error:
    results[{name!r}] = (type(error).__name__, str(error))
"""
AFTER = """
try:
    counts.total()
except ValueError as error:
    results["afterwards"] = (type(error).__name__, str(error))
results["still"] = encoder.encode_batch(*many, threads=1000)[0][:3].tolist()
print(results)
"""


@pytest.fixture(scope="module")
def results():
    """Return the errors of all calls in one process that can allocate one more GiB."""
    calls = [CALL.format(name=name, call=call) for name, call in OUT_OF_MEMORY.items()]
    program = "".join([BEFORE, *calls, AFTER])
    command = [sys.executable, "-c", program]
    # Otherwise the threads of earlier calls keep an amount of address space that varies.
    env = os.environ | {"MALLOC_ARENA_MAX": "1"}
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert found.returncode == 0, found.stderr[-2000:]
    return ast.literal_eval(found.stdout)


@pytest.mark.parametrize("name", OUT_OF_MEMORY)
def test_an_allocation_that_fails_is_a_memory_error(results, name):
    error, message = results[name]
    assert error == "MemoryError", message
    assert message.startswith("out of memory: cannot allocate ")


def test_counts_that_are_incomplete_are_not_used(results):
    message = "the object was taken already, or dropped when memory ran out"
    assert results["afterwards"] == ("TokenizerError", message)


def test_a_process_that_ran_out_of_memory_continues_with_the_threads_that_it_can_start(results):
    assert results["still"] == [97, 98, 97]
