"""Tokens of several words learned from texts in memory, with the steps of a job."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN, SpanCounts
from nanotok_ray.documents import batches_of
from nanotok_ray.formats import Counted
from nanotok_ray.job.superwords import with_frequent_pairs
from nanotok_ray.tokenizer.base import Batch, span_encoder
from nanotok_ray.tokenizer.train import (
    LearnedTokenizer,
    SuperwordRules,
    TrainSettings,
    learn_counts,
    train_tokenizer,
)


def learn_superwords(
    texts: Sequence[str],
    vocab_size: int,
    *,
    from_size: int,
    pattern: str,
    max_words: int = 4,
    forbidden: str = ": ",
    first_pattern: str = SPLIT_PATTERN,
    special_tokens: Sequence[str] = (),
    num_threads: int = 1,
) -> LearnedTokenizer:
    """Learn both stages from texts in memory, as a job does.

    The arguments are those of the recipe; patterns are regular expressions.
    """
    counts = SpanCounts(first_pattern, num_threads=num_threads)
    counts.update(texts)
    size = from_size - len(special_tokens)
    words = TrainSettings(vocab_size=size, pattern=first_pattern, special_tokens=())
    first = learn_counts(counts, words, threads=num_threads)
    base = span_encoder(first.tokenizer)

    def counted(frequent: NDArray[np.uint64] | None) -> list[Batch]:
        counter = _core.SpanCounts(pattern, base=base, frequent=frequent)
        for batch in batches_of(texts):
            counter.update(batch.data, batch.offsets, threads=num_threads)
        _, data, offsets, numbers = counter.sorted_run(threads=num_threads)
        return [(data, offsets, numbers)]

    def learn(least: int, frequent: NDArray[np.uint64]) -> LearnedTokenizer:
        rules = SuperwordRules(
            first=first,
            pattern=pattern,
            max_words=max_words,
            forbidden=forbidden.encode(),
            min_merge_count=least,
        )
        settings = TrainSettings(
            vocab_size=vocab_size, special_tokens=special_tokens, superwords=rules
        )
        segments = counted(frequent)
        distinct = len(segments[0][2])
        return train_tokenizer(segments, settings, _of_segments(distinct), threads=num_threads)

    return with_frequent_pairs(counted(None), vocab_size - from_size, learn)


def _of_segments(distinct: int) -> Counted:
    return Counted(
        documents=None,
        texts=None,
        text_bytes=None,
        spans=0,
        distinct_spans=distinct,
        span_bytes=0,
        gaps=None,
    )
