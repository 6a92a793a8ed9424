"""States of other origin: a loader refuses them with an error of this package, or continues."""

import copy
import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import PackingError
from nanotok_ray.loader import Loader, NanochatLoader, open_shards
from tests.support.plain_loader import FEWER
from tests.support.planned_output import files_of, planned_output

pytestmark = pytest.mark.filterwarnings("ignore:the state was saved by a loader")


def deep():
    value = []
    for _ in range(5000):
        value = [value]
    return value


LONG = {"deep": deep, "long": lambda: 10**5000, "keys": lambda: {1: 2, "a": 3}}
"""Values that must not be printed or sorted; Hypothesis knows only their names."""

SINGLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**62, 2**63 - 1, 2**63, 10**30, -1, 2.0, math.nan, math.inf]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(sorted(LONG)).map(lambda name: LONG[name]()),
)
NAMES = st.sampled_from(["format", "pq_idx", "rg_idx", "epoch", "all", "web", "rows", "row", "x"])
VALUES = st.recursive(
    SINGLE,
    lambda own: st.lists(own, max_size=3) | st.dictionaries(NAMES, own, max_size=4),
    max_leaves=6,
)

SIZES = {"batch_size": 1, "length": 8}
LOADERS = {
    "whole": partial(Loader, **SIZES, group_documents=5),
    "mixed": partial(Loader, **SIZES, group_documents=5, weights={"web": 1, "books": 2}),
    "nanochat": partial(NanochatLoader, **SIZES, buffer_size=4, tokenizer_batch_size=3),
}


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    files = {"web": files_of([[5, 4, 6], [5, 2]], seed=5), "books": files_of([[3]], seed=1)}
    return open_shards(planned_output(tmp_path_factory.mktemp("made") / "out", files))


def offer(loader, state):
    """Load a state into a loader, which accepts it or keeps its position."""
    before = loader.state_dict()
    try:
        loader.load_state_dict(state)
    except PackingError:
        assert loader.state_dict() == before
    else:
        loader.next_batch()


def locations_of(state):
    """Return the keys of all values in a state."""
    inner = [(name, own) for name, each in state.items() if type(each) is dict for own in each]
    return [(name,) for name in state] + inner


def changed(state, place, value):
    own = copy.deepcopy(state)
    *outer, name = place
    target = own
    for each in outer:
        target = target[each]
    target[name] = value
    return own


@pytest.mark.parametrize("kind", LOADERS)
@FEWER
@given(value=VALUES)
def test_an_invalid_state_is_refused(shards, kind, value):
    offer(LOADERS[kind](shards), value)


@pytest.mark.parametrize("kind", LOADERS)
@FEWER
@given(data=st.data(), batches=st.integers(0, 9))
def test_an_altered_state_is_refused_or_valid(shards, kind, data, batches):
    loader = LOADERS[kind](shards)
    loader.skip_batches(batches)
    state = loader.state_dict()
    place = data.draw(st.sampled_from(locations_of(state)))
    offer(loader, changed(state, place, data.draw(VALUES)))


@pytest.mark.parametrize("kind", LOADERS)
def test_each_part_of_a_state_may_have_any_value(shards, kind):
    loader = LOADERS[kind](shards)
    loader.skip_batches(5)
    state = loader.state_dict()
    some = [*LONG.values(), lambda: 2**62, lambda: 10**12, lambda: 2.0, lambda: -1, lambda: None]
    for place in locations_of(state):
        for make in some:
            offer(loader, changed(state, place, make()))
    for make in LOADERS.values():
        offer(loader, make(shards).state_dict())
