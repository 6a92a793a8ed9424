"""Portable code, AVX2 and AVX-512 return the same ids, counts and bytes; NANOTOK_CPU selects one.

The level is selected once per process, so each has its own process.
"""

import os
import subprocess
import sys

import pytest

from nanotok_ray import _core

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
