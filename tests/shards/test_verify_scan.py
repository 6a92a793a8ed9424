"""Statistics of ids and masks block by block equal those of the whole, for any blocks."""

from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.shards.check import IdScan, MaskScan

SPECIAL = (10, 11, 15)
IMAGE = 11


def blocks(data, cuts):
    """Divide bytes at shares of their length."""
    places = [0, *sorted(int(share * len(data)) for share in cuts), len(data)]
    return [memoryview(data)[start:stop] for start, stop in pairwise(places)]


def runs(ids):
    """Return start and end of runs of image tokens in plain Python."""
    at, edges = 0, []
    for is_image, own in groupby(ids, lambda number: number == IMAGE):
        length = len(list(own))
        edges += [at, at + length] if is_image else []
        at += length
    return edges


@pytest.mark.parametrize("item_bytes", [2, 4])
@given(
    ids=st.lists(st.sampled_from([0, 9, 10, 11, 11, 12, 15, 16]), max_size=30),
    cuts=st.lists(st.floats(0, 1), max_size=6),
)
def test_ids_are_scanned_in_blocks_of_any_size(item_bytes, ids, cuts):
    scan = IdScan(item_bytes, special_ids=SPECIAL, image_id=IMAGE, max_images=30)
    for block in blocks(np.array(ids, dtype=f"<u{item_bytes}").tobytes(), cuts):
        scan.add(block)
    assert scan.largest == max(ids, default=-1)
    assert scan.special_counts.tolist() == [ids.count(number) for number in SPECIAL]
    assert scan.image_edges.tolist() == runs(ids)


def test_positions_of_images_are_kept_up_to_a_limit():
    scan = IdScan(2, special_ids=SPECIAL, image_id=IMAGE, max_images=1)
    for _ in range(1000):
        scan.add(memoryview(np.array([0, IMAGE], dtype="<u2").tobytes()))
    assert 2 < len(scan.image_edges) < 10
    assert scan.special_counts.tolist() == [0, 1000, 0]


def test_without_special_tokens_only_the_largest_id_is_known():
    scan = IdScan(2)
    scan.add(memoryview(np.array([3, 500], dtype="<u2").tobytes()))
    assert (scan.largest, len(scan.special_counts), scan.saw_images) == (500, 0, False)


@given(flags=st.lists(st.integers(0, 3), max_size=20), cuts=st.lists(st.floats(0, 1), max_size=3))
def test_masks_are_scanned_in_blocks(flags, cuts):
    scan = MaskScan()
    for block in blocks(bytes(flags), cuts):
        scan.add(block)
    assert scan.largest == max(flags, default=-1)
    assert scan.ones == sum(flag > 0 for flag in flags)
