"""Batches and states of nanochat's loaders."""

import json
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.api import prepare
from nanotok_ray.errors import PackingError
from nanotok_ray.loader import (
    ApproximateResumeWarning,
    ConversationLoader,
    ConversationSettings,
    NanochatLoader,
    RowGroups,
    StoredConversations,
    open_shards,
)
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.support.made_output import BOS, MadeSource, made_output, mask_of
from tests.support.plain_loader import FEWER, rows_of
from tests.support.plain_nanochat import plain_batches, plain_sft_batches
from tests.support.planned_output import files_of, planned_output
from tests.support.small_corpus import texts, write_parquet

VECTORS = Path(__file__).parents[1] / "vectors"
LOADER = json.loads((VECTORS / "loader.json").read_text())
KEYS = ("pq_idx", "rg_idx", "epoch")


def plain_state(state):
    return {key: state[key] for key in KEYS}


def as_lists(batch):
    return batch.inputs.tolist(), batch.targets.tolist(), plain_state(batch.state)


def write_job(root, *overrides):
    recipe = f"""
        source = [{{name = "web", kind = "text", paths = ["{root}/in/*.parquet"]}}]
        tokenizer.path = "{root}/tokenizer"
        output = {{path = "{root}/out", work = "{root}/work"}}
    """
    prepare(parse_recipe(recipe, overrides=overrides))
    return f"{root}/out"


@pytest.fixture
def upstreams_corpus(tmp_path, in_process):
    """The files on which nanochat's loader was run, as shards of its tokenizer."""
    training = json.loads((VECTORS / "training.json").read_text())
    Tokenizer.train_from_iterator(training["corpora"]["mix"], 565).save(tmp_path / "tokenizer")
    for name, rows in LOADER["files"].items():
        write_parquet(tmp_path / "in" / name, rows, row_group_size=LOADER["row_group_size"])
    return write_job(tmp_path)


def test_batches_equal_those_recorded_from_nanochat(upstreams_corpus):
    for case in LOADER["bestfit_cases"]:
        args = case["args"]
        loader = NanochatLoader(
            open_shards(upstreams_corpus, split=args["split"]),
            batch_size=args["B"],
            length=args["T"],
            tokenizer_batch_size=2,
            buffer_size=args["nb"],
            rank=args["rank"],
            world_size=args["ws"],
            state=args.get("resume"),
        )
        for expected in case["batches"]:
            wanted = expected["inputs"], expected["targets"], expected["state"]
            assert as_lists(loader.next_batch()) == wanted, case["name"]


SETTINGS = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 3),
        "length": st.integers(1, 14),
        "tokenizer_batch_size": st.integers(1, 5),
        "buffer_size": st.integers(1, 9),
    }
)
WORLDS = st.integers(1, 3).flatmap(lambda size: st.tuples(st.integers(0, size - 1), st.just(size)))
COUNTS = st.lists(st.lists(st.integers(0, 4), max_size=5), max_size=4)


def plain(files, settings, *, rank, world_size, state=None):
    own = {name: value for name, value in settings.items() if name != "tokenizer_batch_size"}
    size = settings["tokenizer_batch_size"]
    return plain_batches(files, rank=rank, world_size=world_size, size=size, state=state, **own)


@given(counts=COUNTS, settings=SETTINGS, world=WORLDS, seed=st.integers(0, 999))
def test_batches_equal_the_plain_rule_over_several_epochs(
    tmp_path_factory, counts, settings, world, seed
):
    rank, world_size = world
    files = [*files_of(counts, seed=seed), [[[BOS, 1, number]] for number in range(world_size)]]
    root = tmp_path_factory.mktemp("out")
    shards = open_shards(planned_output(root, {"web": files}, documents_per_shard=seed % 6 + 1))
    loader = NanochatLoader(shards, rank=rank, world_size=world_size, **settings)
    expected = list(islice(plain(files, settings, rank=rank, world_size=world_size), 12))
    assert [as_lists(loader.next_batch()) for _ in expected] == expected
    for _, _, state in expected[::3]:
        own = plain(files, settings, rank=rank, world_size=world_size, state=state)
        again = NanochatLoader(shards, rank=rank, world_size=world_size, state=state, **settings)
        assert [as_lists(again.next_batch()) for _ in range(4)] == list(islice(own, 4))


@FEWER
@given(settings=SETTINGS, world_size=st.integers(1, 3), seed=st.integers(0, 999))
def test_every_rank_resumes_exactly_from_the_state_of_rank_0(
    tmp_path_factory, settings, world_size, seed
):
    files = files_of([[3, 4, 3, 2], [3, 3, 3, 3, 1]], seed=seed)
    root = tmp_path_factory.mktemp("out")
    shards = open_shards(planned_output(root, {"web": files}))
    loaders = [
        NanochatLoader(shards, rank=rank, world_size=world_size, **settings)
        for rank in range(world_size)
    ]
    whole = [[loader.next_batch() for loader in loaders] for _ in range(6)]
    for stop, batches in enumerate(whole[:-1], 1):
        state = json.loads(json.dumps(batches[0].state))
        for rank in range(world_size):
            loaders[rank].load_state_dict(state)
            # This rank's own state, after a batch, instead of that of rank 0.
            found = [loaders[rank].next_batch() for _ in whole[stop:]]
            assert [as_lists(batch) for batch in found] == [
                as_lists(batches[rank]) for batches in whole[stop:]
            ]
            assert found[-1].state == whole[-1][rank].state


@pytest.fixture
def shards(tmp_path):
    files = files_of([[5, 4, 6, 3], [5, 5]], seed=5)
    return open_shards(planned_output(tmp_path / "out", {"web": files}))


def small(shards, **settings):
    return NanochatLoader(
        shards,
        **({"batch_size": 2, "length": 10, "tokenizer_batch_size": 3, "buffer_size": 4} | settings),
    )


def test_a_state_saved_after_a_minimal_state_can_be_resumed(shards):
    bare = plain_state(small(shards).next_batch().state)
    first = small(shards, state=bare)
    state = [first.next_batch().state for _ in range(3)][-1]
    assert state["start"] == bare
    assert as_lists(small(shards, state=state).next_batch()) == as_lists(first.next_batch())


def test_another_batch_size_continues_with_the_same_rows(shards):
    first = small(shards)
    state = [first.next_batch().state for _ in range(3)][-1]
    following = [row for _ in range(3) for row in first.next_batch().inputs.tolist()]
    again = small(shards, state=state, batch_size=6)
    assert again.next_batch().inputs.tolist() == following


def test_skipped_batches_equal_the_next_ones(shards):
    first, second = small(shards), small(shards)
    for _ in range(5):
        first.next_batch()
    second.skip_batches(5)
    assert second.state_dict() == first.state_dict()
    assert as_lists(second.next_batch()) == as_lists(first.next_batch())
    assert second.report() == first.report()


@pytest.mark.parametrize(
    "change", [{"length": 9}, {"buffer_size": 5}, {"tokenizer_batch_size": 1}, {"world_size": 2}]
)
def test_a_state_of_other_settings_resumes_approximately_with_a_warning(shards, change):
    loader = small(shards)
    state = [loader.next_batch().state for _ in range(3)][-1]
    (name, value), *_ = change.items()
    with pytest.warns(ApproximateResumeWarning, match=rf"{name} \d+, here {value}: resuming as"):
        changed = small(shards, state=state, **change)
    assert as_lists(changed.next_batch()) == as_lists(
        small(shards, state=plain_state(state), **change).next_batch()
    )


def test_a_state_of_documents_without_its_row_group_is_refused(shards, tmp_path):
    others = planned_output(tmp_path / "others", {"web": files_of([[4]], seed=6)})
    loader = small(shards)
    while (state := loader.next_batch().state)["pq_idx"] == 0:
        pass
    with pytest.raises(PackingError, match="of file 1; these shards have 1 files"):
        small(open_shards(others), state=state)


@FEWER
@given(
    corpus=st.tuples(
        st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=1, max_size=4),
        st.lists(st.lists(st.integers(0, 4), max_size=5), min_size=1, max_size=3),
    ),
    settings=SETTINGS,
    world=WORLDS,
    stop_and_seed=st.tuples(st.integers(1, 6), st.integers(0, 999)),
)
def test_after_files_are_added_a_state_resumes_as_in_nanochat(
    tmp_path_factory, corpus, settings, world, stop_and_seed
):
    (counts, added), (rank, world_size), (stop, seed) = corpus, world, stop_and_seed
    ends = [[[BOS, 1, number]] for number in range(world_size)]
    before = [*files_of(counts, seed=seed), ends]
    after = [*before, *files_of(added, seed=seed + 1), ends]
    former, current = (
        open_shards(planned_output(tmp_path_factory.mktemp("out"), {"web": files}))
        for files in (before, after)
    )
    loader = NanochatLoader(former, rank=rank, world_size=world_size, **settings)
    state = json.loads(json.dumps([loader.next_batch().state for _ in range(stop)][-1]))
    with pytest.warns(ApproximateResumeWarning, match="of other documents, as after files were"):
        again = NanochatLoader(current, rank=rank, world_size=world_size, state=state, **settings)
    expected = plain(after, settings, rank=rank, world_size=world_size, state=plain_state(state))
    batches = [again.next_batch() for _ in range(6)]
    assert [as_lists(batch) for batch in batches] == list(islice(expected, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact = NanochatLoader(
            current, rank=rank, world_size=world_size, state=batches[2].state, **settings
        )
    assert [as_lists(exact.next_batch()) for _ in range(3)] == list(map(as_lists, batches[3:]))


@pytest.mark.parametrize(
    ("state", "reported"),
    [
        ({}, "no state of a loader"),
        ([], "list is not a state of a loader, which is a dictionary"),
        ({"pq_idx": "0", "rg_idx": 0}, "pq_idx '0', rg_idx 0, epoch 1: no state of a loader"),
        ({"pq_idx": 0, "rg_idx": -1}, "no state of a loader"),
        ({"pq_idx": 2, "rg_idx": 0}, "row group 0 of file 2; these shards have 2 files"),
        ({"pq_idx": 1, "rg_idx": 2}, "row group 2 of file 1"),
        ({"pq_idx": 0, "rg_idx": 0, "format": "nanotok-loader 1"}, "has format 'nanotok-loader 1'"),
        ({"pq_idx": 0, "rg_idx": 0, "format": "nanotok-nanochat 1"}, "lacks buffer_size, "),
    ],
)
def test_an_invalid_state_is_refused(shards, state, reported):
    with pytest.raises(PackingError, match=reported):
        small(shards, state=state)


def test_more_rows_than_tokens_are_refused(shards):
    loader = small(shards)
    while loader.state_dict()["epoch"] < 3:
        loader.skip_batches(1)
    state = loader.state_dict()
    most = 3 * shards.num_tokens // 11
    assert state["rows"] <= most
    with pytest.raises(PackingError, match=rf"of {most + 1} rows in 3 passes, .* at most {most}"):
        small(shards, state=state | {"rows": most + 1})
    with pytest.raises(PackingError, match="in 0 passes"):
        small(shards, state=state | {"start": plain_state(state | {"epoch": 4})})


def test_a_rank_without_documents_raises_and_does_not_wait(shards):
    loader = small(shards, rank=4, world_size=5)
    with pytest.raises(PackingError, match=r"rank 4 of 5 has no .* more than 4 row groups"):
        loader.next_batch()


def test_batches_fill_given_arrays_that_match(shards):
    expected = as_lists(small(shards, dtype=np.int32).next_batch())
    own = np.zeros((2, 10), np.int32), np.zeros((2, 10), np.int32)
    batch = small(shards).next_batch(into=own)
    assert (batch.inputs is own[0], batch.targets is own[1]) == (True, True)
    assert as_lists(batch) == expected
    with pytest.raises(PackingError, match="into: inputs has shape"):
        small(shards).next_batch(into=(own[0][:, :9], own[1][:, :9]))


def test_segments_identify_the_documents_of_a_row_and_the_report_counts_them(shards):
    loader = small(shards)
    batches = [loader.next_batch() for _ in range(20)]
    for batch in batches:
        for row, own in enumerate(rows_of(batch)):
            ids = [shards[document][start : start + length] for document, start, length in own]
            assert np.concatenate(ids).tolist() == [*batch.inputs[row], batch.targets[row, -1]]
    report, segments = loader.report(), [batch.segments for batch in batches]
    tokens = sum(int(each.lengths.sum()) for each in segments)
    whole = sum(int(shards.lengths(each.documents).sum()) for each in segments)
    assert (report.rows, report.padding) == (40, 0)
    assert report.tokens == tokens == 40 * 11
    assert report.cropped_tokens == whole - tokens > 0
    assert report.groups >= 6


def test_shards_of_a_real_job_equal_the_plain_rule_on_its_files(tmp_path, in_process):
    rows = [texts(43, seed=seed) for seed in range(3)]
    for own in rows:
        own[3::7] = [None] * len(own[3::7])  # unlike any text, null cannot be tokenized
    for number, own in enumerate(rows):
        write_parquet(tmp_path / f"in/{number}.parquet", own, row_group_size=8)
    tokenizer = Tokenizer.train_from_iterator([row for own in rows for row in own if row], 400)
    tokenizer.save(tmp_path / "tokenizer")
    # Shards of 400 tokens: row groups begin and end within them.
    limits = ("slice_bytes=2000", "max_shard_tokens=400", "max_quarantined_share=1.0")
    out = write_job(tmp_path, *(f"limits.{limit}" for limit in limits))
    bos = tokenizer.get_bos_token_id()
    files = [
        [
            [tokenizer.encode(row, prepend=bos) for row in own[at : at + 8] if row is not None]
            for at in range(0, len(own), 8)
        ]
        for own in rows[:-1]
    ]
    assert len(open_shards(out).rows) > 20
    settings = {"batch_size": 2, "length": 40, "tokenizer_batch_size": 3, "buffer_size": 10}
    for rank in range(2):
        loader = NanochatLoader(open_shards(out), rank=rank, world_size=2, **settings)
        expected = list(islice(plain(files, settings, rank=rank, world_size=2), 40))
        assert expected[-1][2]["epoch"] > 1
        assert [as_lists(loader.next_batch()) for _ in expected] == expected


def test_with_splits_by_hash_every_file_counts(tmp_path, in_process):
    for number in range(3):
        rows = texts(30, seed=number)
        write_parquet(tmp_path / f"in/{number}.parquet", rows, row_group_size=8)
    Tokenizer.train_from_iterator(texts(30, seed=0), 300).save(tmp_path / "tokenizer")
    out = write_job(tmp_path, "source.web.split=share:0.3")
    found = 0
    for split in ("train", "val"):
        shards = open_shards(out, split=split)
        groups = RowGroups(shards)
        assert len(groups.files) == 3
        bounds = [groups.bounds(file).tolist() for file in range(3)]
        assert [each[0] for each in bounds[1:]] == [each[-1] for each in bounds[:-1]]
        assert bounds[-1][-1] == len(shards)
        assert len(bounds[0]) == 5
        found += len(shards)
    assert found == 90


PAD = 7


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


def lists_of(arrays):
    return tuple(array.tolist() for array in arrays)


SETTINGS_OF_CONVERSATIONS = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 3),
        "length": st.integers(1, 16),
        "buffer_size": st.integers(1, 8),
    }
)


@given(data=st.data(), settings=SETTINGS_OF_CONVERSATIONS, world=WORLDS)
def test_batches_equal_the_rule_of_nanochat_if_all_conversations_fit(data, settings, world):
    rank, size = world
    chats = data.draw(conversations(longest=settings["length"] + 1, trained=True))
    chats = (chats * size)[: max(len(chats), size)]  # enough for all ranks
    loader = loader_of(chats, rank=rank, world_size=size, **settings)
    plain = plain_sft_batches(chats, pad=PAD, rank=rank, world_size=size, **settings)
    for inputs, targets, consumed, epoch in islice(plain, 10):
        assert lists_of(loader.next_batch()) == (inputs, targets)
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
    settings=SETTINGS_OF_CONVERSATIONS,
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
        assert lists_of(batch) == (inputs, targets)


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
    assert lists_of(loader.next_batch()) == ([[2, 3, 2, 3]], [[3, -1, 3, -1]])
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
