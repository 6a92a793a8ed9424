"""ConversationLoader: the rows of nanochat's chat_sft, each with targets."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import PackingError
from nanotok_ray.loader import (
    ConversationLoader,
    ConversationSettings,
    StoredConversations,
    open_shards,
)
from tests.support.made_output import MadeSource, made_output, mask_of
from tests.support.plain_nanochat import plain_sft_batches

PAD = 7
LENGTHS = st.integers(1, 16)


def conversations(*, least=0, longest=30, trained=False):
    """Lists of ids and masks; `trained`: at least one token after the first is learned."""

    def pair(drawn):
        masks, start = drawn
        if trained:
            masks = [0, *masks[1:-1], 1]
        return [*range(start, start + len(masks))], masks

    masks = st.lists(st.integers(0, 1), min_size=max(least, 2 if trained else 0), max_size=longest)
    one = st.tuples(masks, st.integers(100, 900)).map(pair)
    return st.lists(one, min_size=1, max_size=12)


def loader_of(data, **settings):
    return ConversationLoader(data, ConversationSettings(**settings), pad=PAD)


def as_lists(batch):
    return batch[0].tolist(), batch[1].tolist()


SETTINGS = st.fixed_dictionaries(
    {"batch_size": st.integers(1, 3), "length": LENGTHS, "buffer_size": st.integers(1, 8)}
)
WORLDS = st.integers(1, 3).flatmap(lambda size: st.tuples(st.integers(0, size - 1), st.just(size)))


@given(data=st.data(), settings=SETTINGS, world=WORLDS)
def test_batches_equal_the_rule_of_nanochat_if_all_conversations_fit(data, settings, world):
    rank, size = world
    chats = data.draw(conversations(longest=settings["length"] + 1, trained=True))
    chats = (chats * size)[: max(len(chats), size)]  # enough for all ranks
    loader = loader_of(chats, rank=rank, world_size=size, **settings)
    plain = plain_sft_batches(chats, pad=PAD, rank=rank, world_size=size, **settings)
    for inputs, targets, consumed, epoch in islice(plain, 10):
        assert as_lists(loader.next_batch()) == (inputs, targets)
        assert (loader.consumed, loader.epoch) == (consumed, epoch)
    assert (loader.batches, loader.cropped, loader.left_out) == (10, 0, 0)


def prepared(chats, *, limit, too_long):
    """The conversations that are packed, by the two rules that nanochat lacks."""
    if too_long == "drop":
        chats = [(ids, mask) for ids, mask in chats if len(ids) <= limit]
    chats = [(ids[:limit], mask[:limit]) for ids, mask in chats]
    return [(ids, mask) for ids, mask in chats if any(mask[1:])]


@given(
    chats=conversations(),
    settings=SETTINGS,
    max_tokens=st.integers(1, 30),
    too_long=st.sampled_from(["crop", "drop"]),
)
def test_every_row_has_targets_and_equals_nanochat_on_the_kept_conversations(
    chats, settings, max_tokens, too_long
):
    loader = loader_of(chats, max_tokens=max_tokens, too_long=too_long, **settings)
    limit = min(max_tokens, settings["length"] + 1)
    remaining = prepared(chats, limit=limit, too_long=too_long)
    if not remaining:
        with pytest.raises(PackingError, match="has a token to train on in"):
            loader.next_batch()
        return
    plain = plain_sft_batches(remaining, pad=PAD, **settings)
    for inputs, targets, *_ in islice(plain, 12):
        batch = loader.next_batch()
        assert (batch[1] != -1).any(axis=1).all()
        assert as_lists(batch) == (inputs, targets)


def test_long_conversations_are_cropped_and_never_fill_the_buffer():
    """In nanochat#590 they accumulate until rows are only padding."""
    short, long = ([1, 2, 3], [0, 1, 1]), ([4] * 40, [0] + [1] * 39)
    loader = loader_of([short, long], batch_size=1, length=8, buffer_size=4)
    assert all((loader.next_batch()[1] != -1).any() for _ in range(50))
    assert loader.cropped > 10


def test_a_conversation_cropped_to_no_trainable_token_is_dropped():
    loader = loader_of(
        [([1] * 20, [0] * 19 + [1]), ([2, 3], [0, 1])], batch_size=1, length=4, buffer_size=1
    )
    assert as_lists(loader.next_batch()) == ([[2, 3, 2, 3]], [[3, -1, 3, -1]])
    assert (loader.cropped, loader.left_out) == (0, 3)
    assert loader.consumed == 5


def test_stored_conversations_equal_those_of_the_shards_and_are_no_texts(tmp_path):
    chats = [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11, 12]]
    folder = made_output(
        tmp_path,
        MadeSource(name="chats", shards=[chats[:2], chats[2:]], kind="chat"),
        MadeSource(name="web", shards=[[[1, 2]]]),
    )
    stored = StoredConversations(open_shards(folder.url, source="chats"))
    assert len(stored) == 3
    assert list(stored) == [(ids, mask_of(ids).tolist()) for ids in chats]
    with pytest.raises(PackingError, match="source 'web' is of kind text, conversations"):
        StoredConversations(open_shards(folder.url))
