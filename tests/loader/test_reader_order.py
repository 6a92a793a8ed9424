"""Permutations without a table, and the orders of documents based on them."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import PackingError
from nanotok_ray.loader import MAX_SIZE, DocumentOrder, Permutation

SEEDS = st.integers(-(2**70), 2**70)
EPOCHS = st.integers(0, 2**40)


def everything(order: DocumentOrder, epoch: int = 0) -> list[int]:
    return order.at(np.arange(order.documents), epoch).tolist()


@given(st.integers(0, 3000), SEEDS, EPOCHS, st.text(max_size=5))
def test_any_size_seed_epoch_and_name_is_a_permutation(size, seed, epoch, name):
    own = Permutation(size, seed=seed, epoch=epoch, name=name)
    assert sorted(own(np.arange(size)).tolist()) == list(range(size))


@given(st.integers(1, MAX_SIZE), SEEDS, st.data())
def test_the_permutation_of_any_number_can_be_inverted(size, seed, data):
    numbers = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=20)), dtype=np.int64)
    own = Permutation(size, seed=seed)
    there = own(numbers)
    assert ((there >= 0) & (there < size)).all()
    assert own.inverse(there).tolist() == numbers.tolist()
    assert own(own.inverse(numbers)).tolist() == numbers.tolist()


@given(st.integers(1, 300), SEEDS, st.integers(0, 2**40))
def test_each_variant_is_a_different_permutation(size, seed, variant):
    own = Permutation(size, seed=seed)
    variants = np.full(size, variant)
    there = own(np.arange(size), variants=variants)
    assert sorted(there.tolist()) == list(range(size))
    assert own.inverse(there, variants=variants).tolist() == list(range(size))


def test_permutations_are_the_same_in_every_version():
    assert Permutation(10, seed=0)(np.arange(10)).tolist() == GOLDEN_TEN
    large = Permutation(2**40, seed=7, epoch=3, name="web")
    assert large(np.array([0, 1, 2**40 - 1])).tolist() == GOLDEN_LARGE
    order = DocumentOrder(11, shuffle="block", block_documents=4, seed=2, name="web")
    assert everything(order, 1) == GOLDEN_BLOCKS
    assert everything(DocumentOrder(7, shuffle="document", seed=2), 1) == GOLDEN_DOCUMENTS


GOLDEN_TEN = [6, 4, 1, 9, 7, 0, 2, 8, 5, 3]
GOLDEN_LARGE = [693192009046, 326669151617, 633341090947]
GOLDEN_BLOCKS = [2, 0, 1, 3, 8, 9, 10, 6, 5, 7, 4]
GOLDEN_DOCUMENTS = [1, 3, 0, 2, 6, 5, 4]


def chi_square(found: np.ndarray, cells: int) -> float:
    counts = np.bincount(found, minlength=cells)
    expected = len(found) / cells
    return float(((counts - expected) ** 2).sum() / expected)


@pytest.mark.parametrize("number", [0, 1, 50, 99])
def test_a_number_is_equally_likely_at_every_position(number):
    found = [Permutation(100, seed=seed)(np.array([number]))[0] for seed in range(4000)]
    assert chi_square(np.array(found), 100) < 160  # 99 degrees of freedom: 1 in 10,000


def test_neighbors_are_equally_likely_at_every_distance():
    there = Permutation(1 << 20, seed=9)(np.arange(1 << 20))
    steps = np.diff(there) % (1 << 20)
    assert chi_square(steps >> 12, 256) < 360
    assert chi_square(there[: 1 << 12] >> 12, 256) < 360


@pytest.mark.parametrize("numbers", [[-1], [0, 10], [2**62]])
def test_a_number_beyond_the_size_is_refused(numbers):
    orders = DocumentOrder(10, shuffle="block"), DocumentOrder(10)
    for order in (Permutation(10, seed=0), *(partial(own.at, epoch=0) for own in orders)):
        with pytest.raises(IndexError, match=rf"number {numbers[-1]} of 10"):
            order(np.array(numbers))


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (Permutation, {"size": -1, "seed": 0}, "-1 numbers"),
        (Permutation, {"size": 2**48 + 1, "seed": 0}, str(2**48 + 1)),
        (DocumentOrder, {"documents": -1}, "-1 documents"),
        (DocumentOrder, {"documents": 3, "shuffle": "blocks"}, "'blocks'; .* None, 'document', 'b"),
        (DocumentOrder, {"documents": 3, "block_documents": 0}, "block_documents is 0"),
    ],
)
def test_impossible_settings_are_named(make, settings, message):
    with pytest.raises(PackingError, match=message):
        make(**settings)


@given(
    st.integers(0, 500),
    st.sampled_from([None, "document", "block"]),
    st.integers(1, 600),
    SEEDS,
    EPOCHS,
)
def test_an_epoch_contains_every_document_once(documents, shuffle, block, seed, epoch):
    order = DocumentOrder(documents, shuffle=shuffle, block_documents=block, seed=seed)
    found = everything(order, epoch)
    assert sorted(found) == list(range(documents))
    backwards = order.at(np.arange(documents)[::-1], epoch)
    assert backwards.tolist() == found[::-1]
    if shuffle is None:
        assert found == list(range(documents))


@given(st.integers(1, 500), st.integers(1, 60), SEEDS)
def test_the_documents_of_a_block_stay_together(documents, block, seed):
    order = DocumentOrder(documents, shuffle="block", block_documents=block, seed=seed)
    blocks = [document // block for document in everything(order)]
    changes = sum(a != b for a, b in pairwise(blocks))
    assert changes + 1 == len(set(blocks)) == -(-documents // block)
