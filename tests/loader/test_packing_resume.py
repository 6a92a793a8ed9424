"""States: a loader resumes exactly, also with other batches and ranks; and refused states."""

import json
from contextlib import contextmanager

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nanotok_ray.errors import PackingError
from nanotok_ray.loader import Loader
from tests.loader.test_packing import SETTINGS, any_fits, opened
from tests.support.plain_loader import FEWER, LENGTHS, all_rows, made_shards

CORPORA = st.lists(LENGTHS.map(lambda own: [shard[:4] for shard in own]), min_size=1, max_size=2)


@contextmanager
def loaders(lengths, settings):
    """Return a function that makes loaders of the same rows."""
    capacity = settings["length"] + 1 if settings["too_long"] == "drop" else 60
    assume(any_fits(lengths, capacity))
    with opened(lengths) as shards:

        def make(batch_size=1, **more):
            return Loader(shards, batch_size=batch_size, **{"epochs": 2, **settings, **more})

        yield make


def through_json(state):
    return json.loads(json.dumps(state))


@FEWER
@given(CORPORA, SETTINGS, st.integers(1, 4))
def test_a_loader_resumes_from_the_state_of_every_batch(lengths, settings, batch_size):
    with loaders(lengths, settings) as make:
        whole = make(batch_size)
        start = whole.state_dict()
        batches = list(whole)
        expected = all_rows(make(batch_size))
        report = whole.report()
        for number, state in enumerate([start, *(batch.state for batch in batches)]):
            again = make(batch_size)
            again.load_state_dict(through_json(state) if number % 2 else state)
            assert again.state_dict() == state
            rest = expected[number * batch_size :]
            if number % 10:
                assert all_rows(again, batches=2) == rest[: 2 * batch_size]
                continue
            assert all_rows(again) == rest
            assert again.report() == report
            assert again.state_dict() == whole.state_dict()


@FEWER
@given(CORPORA, SETTINGS, st.lists(st.tuples(*[st.integers(1, 4)] * 3), min_size=1, max_size=4))
def test_batch_size_and_ranks_may_change_at_the_end_of_a_batch(lengths, settings, turns):
    with loaders(lengths, settings) as make:
        expected = [inputs for _, inputs, _ in all_rows(make())]
        state, found = make().state_dict(), []
        for batch_size, world_size, rounds in turns:
            ranks = [make(batch_size, rank=n, world_size=world_size) for n in range(world_size)]
            for rank in ranks:
                rank.load_state_dict(state)
            for _ in range(rounds):
                batches = [rank.next_batch() for rank in ranks]
                own = [[] if batch is None else batch.inputs.tolist() for batch in batches]
                assert [len(rows) for rows in own] == sorted(map(len, own), reverse=True)
                found += [row for rows in own for row in rows]
                states = [rank.state_dict() for rank in ranks]
                states += [batch.state for batch in batches if batch is not None]
                assert len(set(map(json.dumps, states))) == 1
            state = through_json(states[-1])
        last = make()
        last.load_state_dict(state)
        assert found + [inputs for _, inputs, _ in all_rows(last)] == expected


@FEWER
@given(CORPORA, SETTINGS, st.integers(1, 3), st.integers(1, 3))
def test_without_the_last_batch_all_ranks_have_as_many(lengths, settings, batch_size, world_size):
    with loaders(lengths, settings) as make:
        expected = [inputs for _, inputs, _ in all_rows(make())]
        full = len(expected) // (batch_size * world_size)
        for rank in range(world_size):
            own = {"rank": rank, "world_size": world_size, "drop_last": True}
            loader = make(batch_size, **own)
            batches = list(loader)
            assert [batch.inputs.shape for batch in batches] == [
                (batch_size, settings["length"])
            ] * full
            assert make(batch_size, **own).skip_batches(full + 5) == full
            state = loader.state_dict()
            assert loader.next_batch() is None
            assert loader.state_dict() == state
        rest = make()
        rest.load_state_dict(state)
        assert [inputs for _, inputs, _ in all_rows(rest)] == expected[
            full * batch_size * world_size :
        ]


def test_weighted_states_resume(tmp_path):
    shards = made_shards(tmp_path, [[[5, 9, 30]], [[4, 4, 3]], [[8]]])
    settings = {"length": 8, "weights": {"b": 0.5, "a": 2}, "group_documents": 5}
    whole = Loader(shards, batch_size=2, **settings)
    batches = [whole.next_batch() for _ in range(40)]
    assert batches[-1].state["streams"].keys() == {"a", "b"}
    for number in range(30):
        again = Loader(shards, batch_size=2, shuffle=None, **settings)
        again.load_state_dict(through_json(batches[number].state))
        for batch in batches[number + 1 :][:5]:
            assert again.next_batch().inputs.tolist() == batch.inputs.tolist()


def test_more_epochs_continue_after_fewer(tmp_path):
    shards = made_shards(tmp_path, [[[5, 9, 30], [2, 2]]])
    settings = {"batch_size": 2, "length": 7, "shuffle": "document", "group_documents": 3}
    once = Loader(shards, epochs=1, **settings)
    first = all_rows(once)
    thrice = Loader(shards, epochs=3, **settings)
    thrice.load_state_dict(once.state_dict())
    rest = all_rows(thrice)
    assert first + rest == all_rows(Loader(shards, epochs=3, **settings))
    thrice.load_state_dict(once.state_dict())
    once.load_state_dict(thrice.state_dict())
    assert once.next_batch() is None


def test_resuming_does_not_replay(tmp_path, monkeypatch):
    shards = made_shards(tmp_path, [[[5] * 200]])
    loader = Loader(shards, batch_size=1, length=9, group_documents=4)
    loader.skip_batches(1000)
    asked = []
    lengths = type(shards).lengths

    def spy(self, documents):
        asked.append(len(documents))
        return lengths(self, documents)

    monkeypatch.setattr(type(shards), "lengths", spy)
    again = Loader(shards, batch_size=1, length=9, group_documents=4)
    again.load_state_dict(loader.state_dict())
    again.next_batch()
    assert sum(asked) <= 8


CHANGES = [
    {"packing": "windows"},
    {"length": 9, "seed": 4},
    {"shuffle": "block"},
    {"block_documents": 2},
    {"group_documents": 3},
    {"too_long": "drop"},
    {"weights": {"a": 1}},
]


@pytest.fixture
def shards(tmp_path):
    """Return shards of three documents."""
    return made_shards(tmp_path / "three", [[[5, 9, 30]]])


@pytest.mark.parametrize("changes", CHANGES, ids=", ".join)
def test_a_state_of_other_settings_is_refused(shards, changes):
    state = Loader(shards, batch_size=1, length=8).state_dict()
    other = Loader(shards, batch_size=1, **{"length": 8, **changes})
    was, now = state["settings"], other.state_dict()["settings"]
    parts = "; ".join(f"{name} was {was[name]!r} and is {now[name]!r}" for name in changes)
    with pytest.raises(PackingError, match=f"packed differently: {parts}; use the settings"):
        other.load_state_dict(state)


def test_a_state_of_other_shards_is_refused(shards, tmp_path):
    state = Loader(shards, batch_size=1, length=8).state_dict()
    other = Loader(made_shards(tmp_path / "other", [[[5, 9, 29]]]), batch_size=1, length=8)
    with pytest.raises(PackingError, match=r"belongs to other shards.*start without"):
        other.load_state_dict(state)


ALTERED = [
    (
        {"format": "nanotok-nanochat 1"},
        "format 'nanotok-nanochat 1'.*the kind and the version of the loader",
    ),
    ({"settings": None}, "no settings"),
    ({"streams": {"al": 0}}, "streams of the state is not all"),
    ({"streams": {"all": 0, "more": 0}}, "streams of the state is not all"),
    ({"streams": [0]}, "streams of the state is not all"),
    ({"streams": {"all": -2}}, "all of the state is -2"),
    ({"streams": {"all": 2.0}}, "all of the state is 2.0"),
    ({"streams": {"all": 1}}, "no packing group begins after 1 documents"),
    ({"row": True}, "row of the state is True"),
    ({"row": 50}, "row 50 of a packing group that has 2"),
    ({"row": 3}, "row 3 of a packing group that has 2"),
    ({"totals": {}}, "totals of the state is not rows"),
]


@pytest.mark.parametrize(("change", "message"), ALTERED)
def test_an_altered_state_is_refused_and_changes_nothing(shards, change, message):
    loader = Loader(shards, batch_size=1, length=8, group_documents=2)
    loader.next_batch()
    state = loader.state_dict()
    with pytest.raises(PackingError, match=message):
        loader.load_state_dict({**state, **change})
    assert loader.state_dict() == state
    with pytest.raises(PackingError, match="format None"):
        loader.load_state_dict([])


def test_an_altered_mixture_is_refused(tmp_path):
    shards = made_shards(tmp_path, [[[5, 5]], [[5, 5]]])
    loader = Loader(shards, batch_size=1, length=4, group_documents=2, weights={"a": 1, "b": 1})
    state = loader.state_dict()
    loader.load_state_dict({**state, "streams": {"a": 3, "b": 3}})
    for streams in ({"a": 4, "b": 2}, {"a": 1, "b": 2}):
        with pytest.raises(PackingError, match="no packing group begins after"):
            loader.load_state_dict({**state, "streams": streams})
    loader = Loader(shards, batch_size=1, length=4, group_documents=1, weights={"a": 1, "b": 1})
    with pytest.raises(PackingError, match="no packing group begins after"):  # a is before b
        loader.load_state_dict({**loader.state_dict(), "streams": {"a": 0, "b": 1}})


def test_states_are_independent_copies(shards):
    loader = Loader(shards, batch_size=1, length=8, weights={"a": 1})
    state = loader.state_dict()
    state["settings"]["weights"]["a"] = 2
    state["totals"]["rows"] = 9
    assert loader.state_dict()["settings"]["weights"] == {"a": 1}
    assert loader.report().rows == 0
