"""Results of learning by the core and by rustbpe, for comparisons."""

import numpy as np
import rustbpe

from nanotok_ray import Tokenizer, _core
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.documents import Documents


def learn_all(counts, num_merges):
    """All results of the core for spans."""
    spans = Documents.from_bytes(list(counts))
    numbers = np.array(list(counts.values()), np.uint64)
    return _core.learn([(spans.data, spans.offsets, numbers)], num_merges=num_merges)


def learn(counts, num_merges):
    """Merges of spans and the count of each pair, from the core."""
    merges, found, *_ = learn_all(counts, num_merges)
    return [tuple(pair) for pair in merges.tolist()], found.tolist()


def rustbpes_tokens(documents, num_merges):
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(documents), 256 + num_merges, pattern=SPLIT_PATTERN)
    return [bytes(token) for token, _ in peer.get_mergeable_ranks()]


def check(documents, num_merges):
    """Learn from texts; the merges must be rustbpe's. Return the tokenizer."""
    own = Tokenizer.train_from_iterator(documents, 256 + num_merges, special_tokens=())
    assert list(own.model.tokens) == rustbpes_tokens(documents, num_merges)
    return own
