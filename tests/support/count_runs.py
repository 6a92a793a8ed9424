"""Counts of spans made in Python, as sorted runs and as count files."""

from collections import Counter

import numpy as np
import xxhash

from nanotok_ray.counts import CountProvenance, pack_counts


def run_of(counts):
    """Return a sorted run of a dict of spans."""
    spans = sorted(counts, key=lambda span: (xxhash.xxh3_64_intdigest(span), span))
    hashes = np.array([xxhash.xxh3_64_intdigest(span) for span in spans], np.uint64)
    offsets = np.cumsum([0, *map(len, spans)], dtype=np.int64)
    data = np.frombuffer(b"".join(spans), np.uint8)
    return hashes, data, offsets, np.array([counts[span] for span in spans], np.uint64)


def origin_of(counts, **others):
    """Return the provenance of counts of three texts."""
    spans = sum(counts.values())
    values = {"pattern": ".", "texts": 3, "text_bytes": spans, "spans": spans, "num_gaps": 1}
    return CountProvenance(**(values | others))


def files_of(folder, counters):
    """Write a count file of each counter, and return their paths."""
    for number, counts in enumerate(counters):
        data = pack_counts(run_of(counts), origin_of(counts))
        (folder / f"{number}.arrow").write_bytes(data)
    return [str(folder / f"{number}.arrow") for number in range(len(counters))]


def many(rng, size):
    """Return counts of about `size` spans."""
    return Counter(str(rng.randrange(3 * size)).encode() for _ in range(size))
