"""From texts in memory to a model, in this process: count spans, learn merges.

Gives what nanochat's training gives, bit for bit. The job that learns from a corpus on disk is
elsewhere; this is for texts that an iterator yields. Knows no files.
"""

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from nanotok_ray import _core
from nanotok_ray.documents import Documents, to_utf8
from nanotok_ray.errors import TokenizerError, VocabularySizeError
from nanotok_ray.patterns import resolve_pattern
from nanotok_ray.tokenizer.model import MAX_ID, NUM_BYTES, Model, number_special_tokens

_log = logging.getLogger(__name__)

BATCH_BYTES = 8 * 1024 * 1024
BATCH_TEXTS = 8192


def learn_model(
    texts: Iterable[str],
    *,
    vocab_size: int,
    pattern: str,
    special_tokens: Sequence[str],
    threads: int | None,
) -> Model:
    """Learn a model of `vocab_size` ids, special tokens included, or fewer if pairs run out.

    Raises:
        VocabularySizeError: There is no room for 256 bytes and the special tokens.
        TokenizerError: `texts` is one string.
        TypeError: One of the texts is not a str.
    """
    num_merges = num_merges_for(vocab_size, num_special_tokens=len(special_tokens))
    pattern = resolve_pattern(pattern)
    _, data, offsets, span_counts = count_spans(
        texts, pattern=pattern, threads=threads
    ).sorted_run()
    merges, *_ = _core.learn(data, offsets, span_counts, num_merges=num_merges)
    if len(merges) < num_merges:
        _log.warning(
            "no pair of tokens is left to merge: the vocabulary has %d ids, %d were asked for",
            vocab_size - num_merges + len(merges),
            vocab_size,
        )
    return make_model(merges.tolist(), pattern=pattern, special_tokens=special_tokens)


def count_spans(texts: Iterable[str], *, pattern: str, threads: int | None) -> _core.SpanCounts:
    """Count the spans of texts; `pattern` is a regular expression.

    Raises:
        PatternError: The pattern cannot be compiled.
        SplitError: The regex engine gave up on a text.
        TokenizerError: `texts` is one string.
        TypeError: One of the texts is not a str.
    """
    if isinstance(texts, str | bytes):
        raise TokenizerError("expected an iterator of texts, got one text: put it into a list")
    counts = _core.SpanCounts(pattern)
    num_threads = default_threads() if threads is None else threads
    for batch in _batches(texts):
        counts.update(batch.data, batch.offsets, threads=num_threads)
    return counts


def num_merges_for(vocab_size: int, *, num_special_tokens: int) -> int:
    """Give how many merges a vocabulary has room for.

    Raises:
        VocabularySizeError: There is not even room for 256 bytes; nanochat's own message.
    """
    room = vocab_size - num_special_tokens
    if room < NUM_BYTES:
        raise VocabularySizeError(f"vocab_size_no_special must be at least {NUM_BYTES}, got {room}")
    if vocab_size - 1 > MAX_ID:
        raise VocabularySizeError(f"vocab_size must be at most {MAX_ID + 1}, got {vocab_size}")
    return room - NUM_BYTES


def make_model(
    merges: Iterable[Sequence[int]], *, pattern: str, special_tokens: Sequence[str]
) -> Model:
    """Put learned merges and the names of special tokens together.

    Raises:
        TokenizerError: A merge or a special token is impossible.
    """
    pairs = tuple((int(left), int(right)) for left, right in merges)
    return Model(
        pattern=resolve_pattern(pattern),
        unicode_version=_core.UNICODE_VERSION,
        merges=pairs,
        special_tokens=number_special_tokens(special_tokens, num_merges=len(pairs)),
    )


def default_threads() -> int:
    """Give the cores this process may use; one inside a Ray worker, as Ray gave out the others."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        worker = getattr(ray.get_runtime_context(), "worker", None)
        if getattr(worker, "mode", None) == ray.WORKER_MODE:
            return 1
    return len(os.sched_getaffinity(0))


def _batches(texts: Iterable[str]) -> Iterator[Documents]:
    """Gather texts so that a call of the core has work for all its threads."""
    batch: list[bytes] = []
    num_bytes = 0
    for text in texts:
        batch.append(to_utf8(text))
        num_bytes += len(batch[-1])
        if num_bytes >= BATCH_BYTES or len(batch) >= BATCH_TEXTS:
            yield Documents.from_bytes(batch)
            batch, num_bytes = [], 0
    yield Documents.from_bytes(batch)
