"""The core in forked processes, at every CPU level, and beside tiktoken on many strings."""

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.million_strings import ALL_PATTERNS, differing, learned, strings
from nanotok_ray import _core
from nanotok_ray.api import prepare
from nanotok_ray.loader import Loader, open_shards
from tests.support.process_work import put_results, results
from tests.support.small_corpus import recipe, write_corpus

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

CONTEXTS = ["fork", "spawn", "forkserver"]


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


PROGRAM = r"""
import hashlib, random, sys
import numpy as np
from nanotok_ray import Tokenizer, _core
from nanotok_ray.documents.batch import Documents

rng = random.Random(5)
parts = ["the ", " ", "\n", "\r\n", "it's", "'LL", "\u017f", "é", "e\u0301", "中文", "🙂", "12345",
    "½", "\u3000", "\u0085", "!?", "\t", "\0", "a" * 70, " " * 70, "=" * 70, "ภาษาไทย", "\ufeff"]
texts = ["".join(rng.choices(parts, k=rng.randrange(60))) for _ in range(2000)]
texts += [part * rng.randrange(1, 3000) for part in parts]
broken = [bytes(rng.choices(text.encode() + b"\xff\xe4\x80", k=99)) for text in texts[:2000]]
digest = hashlib.sha256()
for pattern in ("nanochat", "cl100k", r"\w+|\W+", r"(a)\1|\w+|\s+"):
    tokenizer = Tokenizer.train_from_iterator(texts, vocab_size=900, pattern=pattern)
    digest.update(repr(tokenizer.merges).encode())
    for batch in (texts, broken, [b"".join(broken)]):
        ids, offsets = tokenizer.encode_batch(batch)
        digest.update(ids.tobytes() + offsets.tobytes())
        digest.update(tokenizer.decode_batch(ids, offsets, as_bytes=True).buffers()[2])
    documents = Documents.from_bytes(broken)
    counts = _core.SpanCounts(tokenizer.pattern)
    counts.update(documents.data, documents.offsets)
    for array in counts.sorted_run():
        digest.update(array.tobytes())
sys.stdout.write(f"{_core.cpu_level()} {digest.hexdigest()}")
"""
LEVELS = ["portable", "avx2", "avx512"]


def run_at(level, program):
    environment = {name: value for name, value in os.environ.items() if name != "NANOTOK_CPU"}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment | ({} if level is None else {"NANOTOK_CPU": level}),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def digest():
    """The results of a process without a selected level."""
    level, _, digest = run_at(None, PROGRAM).stdout.partition(" ")
    assert level == _core.cpu_levels()[-1]
    return digest


@pytest.mark.parametrize("level", LEVELS)
def test_every_cpu_level_returns_the_same_ids_counts_and_bytes(digest, level):
    if level not in _core.cpu_levels():
        pytest.skip(f"this CPU has no {level}: {_core.cpu_levels()}")
    assert run_at(level, PROGRAM).stdout == f"{level} {digest}"


CALLS = """
import numpy as np
from nanotok_ray import _core
from nanotok_ray.errors import TokenizerError

for call in (
    _core.cpu_level,
    lambda: _core.Splitter("a"),
    lambda: _core.SpanCounts("a"),
    lambda: _core.Encoder("a", np.empty((0, 2), np.uint32)),
):
    try:
        call()
    except TokenizerError as error:
        print(error)
"""
LACKING = [level for level in LEVELS if level not in _core.cpu_levels()]


@pytest.mark.parametrize("level", ["nonsense", "AVX2", "avx512 ", *LACKING])
def test_an_unavailable_level_is_an_error_that_names_it(level):
    message = (
        "this CPU lacks it; do not set it"
        if level in LACKING
        else "it must be portable, avx2 or avx512, or not be set"
    )
    assert run_at(level, CALLS).stdout == f'NANOTOK_CPU is "{level}": {message}\n' * 4


FUZZED = Path(__file__).parents[2] / "rust" / "fuzz" / "src" / "patterns.rs"


@pytest.mark.parametrize("name", ALL_PATTERNS)
def test_ids_of_generated_strings_equal_tiktoken(name):
    tokenizer = learned(ALL_PATTERNS[name], seed=7, count=1000)
    assert list(differing(tokenizer, strings(400, seed=7))) == []


@pytest.mark.parametrize("name", ALL_PATTERNS)
def test_the_fuzzed_patterns_are_the_supported_ones(name):
    assert f'    r"{ALL_PATTERNS[name]}",\n' in FUZZED.read_text()
