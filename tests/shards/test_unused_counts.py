"""Counts of text that is not rendered: bounded, and summed without a loss."""

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.formats import Totals
from nanotok_ray.shards import totals_of
from nanotok_ray.shards.unused import MAX_KEYS, OTHER_KEYS, count_unused
from tests.support.made_output import NOTHING

KEYS = st.sampled_from([f"key{number}" for number in range(60)]) | st.text(max_size=60)
FOUND = st.lists(st.tuples(KEYS, st.integers(1, 9)), max_size=80)


def record(unused):
    """Return the counts of a record."""
    return Totals(**NOTHING, unused_text=unused)


def counted(*parts):
    counts = {}
    for part in parts:
        count_unused(counts, part)
    return counts


@given(FOUND, st.integers(0, 80))
def test_counts_are_bounded_and_do_not_depend_on_batches(found, cut):
    counts = counted(found)
    assert counts == counted(found[:cut], found[cut:])
    assert sum(counts.values()) == sum(number for _, number in found)
    assert len(counts) <= MAX_KEYS + 1
    assert all(key.isprintable() for key in counts)


@given(st.lists(FOUND, max_size=4))
def test_totals_keep_the_most_frequent_keys(found):
    counts = [counted(part) for part in found]
    total = totals_of([("a/train", record(each)) for each in counts])["all"]
    unused = total.unused_text
    assert sum(unused.values()) == sum(sum(each.values()) for each in counts)
    named = [key for key in unused if key != OTHER_KEYS]
    assert len(named) <= MAX_KEYS
    left = {key for each in counts for key in each} - {*unused, OTHER_KEYS}
    sums = {key: sum(each.get(key, 0) for each in counts) for key in {*left, *named}}
    assert all(sums[key] == unused[key] for key in named)
    assert not left or max(sums[key] for key in left) <= min(sums[key] for key in named)
