"""Packing: rows equal the reference's, images, settings."""

import json
import re
import tempfile
import warnings
from contextlib import contextmanager
from itertools import islice

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError, PackingError
from nanotok_ray.loader import (
    ConversationLoader,
    ConversationSettings,
    IgnoredMasksWarning,
    Loader,
    NanochatLoader,
    PackingReport,
    images_in,
    open_shards,
)
from tests.support.made_output import MadeSource, made_output
from tests.support.plain_loader import FEWER, LENGTHS, PlainLoader, all_rows, made_shards, rows_of
from tests.support.vision_shards import IMAGE, VisionShards, documents_with_images

PACKINGS = ("best-fit", "windows", "conversations")
CORPORA = st.lists(LENGTHS, min_size=1, max_size=3)
SETTINGS = st.fixed_dictionaries(
    {
        "length": st.integers(1, 24),
        "packing": st.sampled_from(PACKINGS),
        "shuffle": st.sampled_from([None, "document", "block"]),
        "seed": st.integers(0, 3),
        "block_documents": st.integers(1, 5),
        "group_documents": st.integers(1, 20),
        "too_long": st.sampled_from(["crop", "drop"]),
    }
)


@contextmanager
def opened(lengths):
    assume(any(length for source in lengths for shard in source for length in shard))
    with tempfile.TemporaryDirectory() as root:
        yield made_shards(root, lengths)


def any_fits(lengths, capacity):
    """Return whether some document fits a row if longer ones are dropped."""
    return any(0 < one <= capacity for source in lengths for shard in source for one in shard)


@FEWER
@given(CORPORA, SETTINGS, st.integers(1, 5), st.integers(1, 2))
def test_batches_equal_a_loader_made_of_lists(lengths, settings, batch_size, epochs):
    with opened(lengths) as shards:
        plain = PlainLoader(shards=shards, **settings)
        expected = [(row, *plain.arrays(row)) for row in plain.rows(epochs)]
        assume(expected)
        loader = Loader(shards, batch_size=batch_size, epochs=epochs, **settings)
        assert all_rows(loader) == expected
        tokens = sum(length for row, *_ in expected for *_, length in row)
        capacity = settings["length"] + 1
        if settings["packing"] == "windows":  # the last token of a row is the first of the next
            tokens, capacity = epochs * shards.num_tokens, settings["length"]
        report = loader.report()
        padding = len(expected) * capacity - tokens
        assert (report.rows, report.tokens, report.padding) == (len(expected), tokens, padding)
        if settings["packing"] == "best-fit":
            assert tokens == epochs * shards.num_tokens


@FEWER
@given(CORPORA, SETTINGS, st.data())
def test_weighted_batches_equal_a_loader_made_of_lists(lengths, settings, data):
    with opened(lengths) as shards:
        known = [n for n, own in shards.ranges().items() if any(len(shards[i]) for i in own)]
        names = data.draw(st.lists(st.sampled_from(known), min_size=1, unique=True))
        shares = st.sampled_from([1, 3, 0.1, 0.35, 17.5])
        settings["weights"] = {name: data.draw(shares) for name in names}
        settings["too_long"] = "crop"
        plain = PlainLoader(shards=shards, **settings)
        expected = [(row, *plain.arrays(row)) for row in islice(plain.rows(), 24)]
        assert all_rows(Loader(shards, batch_size=4, **settings), batches=6) == expected


@FEWER
@given(CORPORA, SETTINGS)
def test_conversations_appear_whole_and_once(lengths, settings):
    settings["packing"] = "conversations"
    is_dropped, capacity = settings["too_long"] == "drop", settings["length"] + 1
    assume(not is_dropped or any_fits(lengths, capacity))
    with opened(lengths) as shards:
        loader = Loader(shards, batch_size=3, epochs=1, **settings)
        found = sorted(segment for row, _, _ in all_rows(loader) for segment in row)
        report = loader.report()
        sizes = {number: len(ids) for number, ids in enumerate(shards) if len(ids)}
        long = {number for number, size in sizes.items() if size > capacity}
        kept = sizes.keys() - (long if is_dropped else set())
        assert found == [(number, 0, min(sizes[number], capacity)) for number in sorted(kept)]
        cropped = sum(sizes[number] - capacity for number in long)
        counted = report.dropped_documents, report.cut_documents, report.cropped_tokens
        assert counted == ((len(long), 0, 0) if is_dropped else (0, len(long), cropped))


def test_no_conversation_is_cropped_within_an_image(tmp_path):
    shards = open_shards(str(VisionShards(tmp_path, documents_with_images(12)).publish()))
    cropped = 0
    for length in range(1, 60):
        loader = Loader(shards, batch_size=4, length=length, packing="conversations", epochs=1)
        for document, start, own in (one for row, *_ in all_rows(loader) for one in row):
            images = shards.images(document).tolist()
            assert start == 0
            assert all(end <= own or begin >= own for begin, end, _ in images)
            if own < min(length + 1, len(shards[document])):
                cropped += 1
                assert any(begin == own and end > length + 1 for begin, end, _ in images)
    assert cropped


def test_cut_documents_are_counted(tmp_path):
    shards = made_shards(tmp_path, [[[3, 9, 4, 0, 8]]])
    best = Loader(shards, batch_size=9, length=7, epochs=1)
    best.next_batch()
    assert best.report() == PackingReport(
        rows=3, tokens=24, padding=0, documents=5, cut_documents=1, groups=1
    )
    windows = Loader(shards, batch_size=9, length=4, packing="windows", epochs=1)
    windows.next_batch()  # 3 | 9 | 4 | 8 tokens, cut at 4, 8, 12, 16, 20
    assert windows.report().cut_documents == 2
    assert json.loads(json.dumps(windows.report().to_dict()))["utilisation"] == 1.0


def test_given_arrays_are_filled(tmp_path):
    shards = made_shards(tmp_path, [[[5, 9, 30]], [[4, 4]]])
    for dtype in (np.int32, np.int64):
        into = np.full((4, 8), 7, dtype), np.full((4, 8), 7, dtype)
        plain = Loader(shards, batch_size=4, length=8, epochs=1, dtype=dtype)
        filled = Loader(shards, batch_size=4, length=8, epochs=1)
        while (batch := filled.next_batch(into=into)) is not None:
            expected = plain.next_batch()
            assert batch.inputs.dtype == expected.inputs.dtype == dtype
            assert batch.inputs.base is into[0]
            assert np.array_equal(batch.inputs, expected.inputs)
            assert np.array_equal(into[1][: len(batch.targets)], expected.targets)
        assert expected.inputs.shape == (2, 8)
        assert plain.next_batch() is None


def test_padding_is_0_without_bos(tmp_path):
    shards = made_shards(tmp_path, [[[5]]])
    del shards.manifest.special_tokens["<|bos|>"]
    [(_, inputs, _)] = all_rows(Loader(shards, batch_size=1, length=8, epochs=1))
    assert inputs == [0, 1, 2, 3, 4, 0, 0, 0]


def test_batches_state_their_epoch(tmp_path):
    shards = made_shards(tmp_path, [[[5, 5, 5]]])
    loader = Loader(shards, batch_size=1, length=4, epochs=2)
    assert [batch.epoch for batch in loader] == [0, 0, 0, 1, 1, 1]
    over_the_end = Loader(shards, batch_size=4, length=4, epochs=2)
    assert [batch.epoch for batch in over_the_end] == [1, 1]
    weighted = Loader(shards, batch_size=1, length=4, weights={"a": 1})
    assert weighted.next_batch().epoch is None


def test_planning_reads_no_ids(tmp_path, monkeypatch):
    shards = made_shards(tmp_path, [[[5, 9, 30]], [[4, 4]]])
    for packing in PACKINGS:
        loader = Loader(shards, batch_size=1, length=8, packing=packing)
        with monkeypatch.context() as patch:
            patch.delattr(type(shards), "pieces")
            assert loader.skip_batches(7) == 7
            loader.load_state_dict(loader.state_dict())
        assert loader.next_batch() is not None


def test_a_rank_reads_only_its_own_ids(tmp_path, monkeypatch):
    shards = made_shards(tmp_path, [[[9] * 12]])
    asked = []
    pieces = type(shards).pieces

    def spy(self, documents, *args, **kwargs):
        asked.extend(documents.tolist())
        return pieces(self, documents, *args, **kwargs)

    monkeypatch.setattr(type(shards), "pieces", spy)
    loader = Loader(shards, batch_size=2, length=8, epochs=1, rank=1, world_size=3)
    found = [one for batch in loader for row in rows_of(batch) for one, *_ in row]
    assert found == asked
    assert len(found) == len(set(found)) == 4


def test_dropping_all_documents_is_an_error_and_never_hangs(tmp_path):
    shards = made_shards(tmp_path, [[[5, 9, 30]]])
    settings = {"batch_size": 1, "packing": "conversations", "too_long": "drop"}
    for shuffle in (None, "document"):
        for more in ({}, {"weights": {"a": 1}}, {"group_documents": 2}, {"epochs": 1}):
            endless = Loader(shards, length=2, shuffle=shuffle, **settings, **more)
            with pytest.raises(ValueError, match=r"none made a row.*length \+ 1 = 3 tokens"):
                endless.next_batch()
            assert all_rows(Loader(shards, length=4, **settings, **more), batches=5)


def test_a_packing_that_ignores_masks_warns_and_names_the_sources(finished):
    shards = open_shards(finished)
    settings = {"batch_size": 2, "length": 8}
    for packing in ("best-fit", "windows"):
        with pytest.warns(IgnoredMasksWarning, match="masks of chats: .*packing='conversations'"):
            Loader(shards, packing=packing, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Loader(shards, packing="conversations", **settings)
        Loader(shards, weights={"web": 1}, **settings)
        Loader(open_shards(finished, source="web"), **settings)


@pytest.fixture(scope="module")
def with_images(tmp_path_factory):
    """Return shards of documents with images."""
    made = VisionShards(tmp_path_factory.mktemp("vision"), documents_with_images(40))
    return open_shards(str(made.publish()))


@pytest.mark.parametrize("packing", ["best-fit", "windows", "conversations"])
@pytest.mark.parametrize("length", [15, 64])
def test_images_are_at_the_positions_of_their_tokens(with_images, packing, length):
    shards, image = with_images, with_images.special_tokens[IMAGE]
    seen = set()
    for batch in Loader(shards, batch_size=3, length=length, packing=packing, epochs=1):
        marked = np.zeros(batch.inputs.shape, dtype=bool)
        images = images_in(shards, batch)
        assert images.tolist() == sorted(images.tolist())
        for row, start, stop, document, number in images.tolist():
            assert not marked[row, start:stop].any()
            marked[row, start:stop] = True
            own = shards.images(document)[number]
            assert stop - start <= own[1] - own[0]
            seen.add((document, number))
        assert np.array_equal(marked, batch.inputs == image)
    if packing == "windows":  # every token is an input; otherwise some are only a last target
        every = {(n, k) for n in range(len(shards)) for k in range(len(shards.images(n)))}
        assert seen == every


@pytest.fixture
def three(tmp_path):
    """Return shards of three documents."""
    return made_shards(tmp_path, [[[5, 9, 30]]])


OF_LOADER = [
    ({"length": 0}, "length is 0; it is a whole number from 1 to 2147483646"),
    ({"length": 2**31 - 1}, "length is 2147483647; it is a whole number from 1 to 2147483646"),
    ({"length": 8.0}, "length is 8.0; it is a whole number"),
    ({"length": True}, "length is True; it is a whole number"),
    ({"batch_size": 0}, "batch_size is 0; it is a whole number of 1 or more"),
    ({"rank": -1}, "rank is -1; it is a whole number from 0 to 0"),
    ({"rank": 2, "world_size": 2}, "rank is 2; it is a whole number from 0 to 1"),
    ({"world_size": 0}, "world_size is 0; it is a whole number of 1 or more"),
    ({"epochs": 0}, "epochs is 0; it is a whole number of 1 or more"),
    ({"epochs": 1, "weights": {"a": 1}}, "a mixture has no end; remove one"),
    ({"seed": -1}, "seed is -1; it is a whole number from 0 to 18446744073709551615"),
    ({"seed": None}, "seed is None; it is a whole number from 0 to 18446744073709551615"),
    ({"seed": 2**64}, "seed is 18446744073709551616; it is a whole number from 0"),
    ({"block_documents": 0}, "block_documents is 0; it is a whole number of 1 or more"),
    ({"group_documents": 0}, "group_documents is 0; it is a whole number from 1 to 16777216"),
    ({"packing": "bestfit"}, "packing is 'bestfit'; it is one of 'best-fit', 'windows', 'conv"),
    ({"shuffle": "documents"}, "shuffle is 'documents'; it is one of None, 'document', 'block'"),
    ({"too_long": "cut"}, "too_long is 'cut'; it is one of 'crop', 'drop'"),
    ({"dtype": "int16"}, "dtype is 'int16'; it is int32 or int64"),
    ({"dtype": "ids"}, "dtype is 'ids'; it is int32 or int64"),
]


OF_NANOCHAT = [
    ({"length": -1}, "length is -1"),
    ({"buffer_size": 0}, "buffer_size is 0"),
    ({"tokenizer_batch_size": 1.5}, "tokenizer_batch_size is 1.5"),
    ({"rank": 2, "world_size": 2}, "rank is 2; it is a whole number from 0 to 1"),
]
OF_CONVERSATIONS = [
    ({"length": 0}, "length is 0"),
    ({"buffer_size": 0}, "buffer_size is 0"),
    ({"max_tokens": 0}, "max_tokens is 0"),
    ({"rank": 1}, "rank is 1; it is a whole number from 0 to 0"),
    ({"too_long": "cut"}, "too_long is 'cut'; it is one of 'crop', 'drop'"),
]


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [(Loader, *row) for row in OF_LOADER]
    + [(NanochatLoader, *row) for row in OF_NANOCHAT]
    + [(ConversationSettings, *row) for row in OF_CONVERSATIONS],
)
def test_a_wrong_setting_is_refused(three, make, settings, message):
    first = [] if make is ConversationSettings else [three]
    with pytest.raises(PackingError, match=re.escape(message)):
        make(*first, **{"batch_size": 1, "length": 8, **settings})


def test_an_output_without_conversations_is_refused():
    with pytest.raises(PackingError, match="there is no conversation"):
        ConversationLoader([], ConversationSettings(batch_size=1, length=8), pad=0)


@pytest.mark.parametrize("loader", [Loader, NanochatLoader])
def test_a_path_in_place_of_shards_is_refused(tmp_path, loader):
    with pytest.raises(PackingError, match=r"pass the result of nanotok_ray\.open_shards"):
        loader(str(tmp_path), batch_size=1, length=8)


def test_numpy_integers_are_accepted_and_states_remain_plain(three):
    loader = Loader(
        three, batch_size=np.int64(2), length=np.int32(8), seed=np.uint8(3), dtype="int64"
    )
    assert loader.next_batch().inputs.dtype == np.int64
    assert {type(value) for value in loader.state_dict()["settings"].values()} == {
        *(str, int, type(None))
    }


GIVEN = [
    (np.zeros((1, 8), np.int32), np.zeros((1, 7), np.int32), r"targets has shape \(1, 7\)"),
    (np.zeros((2, 8), np.int32), np.zeros((1, 8), np.int32), r"inputs has shape \(2, 8\)"),
    (np.zeros((1, 8), np.int32), np.zeros((1, 8), np.int64), "targets is int64; pass two arrays"),
    (np.zeros((1, 8), np.int16), np.zeros((1, 8), np.int16), "inputs is int16; pass two arrays"),
    (np.zeros((1, 16), np.int32)[:, ::2], np.zeros((1, 8), np.int32), "inputs must be C-contig"),
    (np.broadcast_to(np.int32(0), (1, 8)), np.zeros((1, 8), np.int32), "inputs must be C-contig"),
]


@pytest.mark.parametrize(("inputs", "targets", "message"), GIVEN)
def test_arrays_that_cannot_hold_a_batch_are_refused_and_no_row_is_lost(
    three, inputs, targets, message
):
    loader = Loader(three, batch_size=1, length=8)
    expected = loader.next_batch()
    loader = Loader(three, batch_size=1, length=8)
    with pytest.raises(PackingError, match=f"into: {message}"):
        loader.next_batch(into=(inputs, targets))
    assert np.array_equal(loader.next_batch().inputs, expected.inputs)


@pytest.mark.parametrize("packing", ["best-fit", "windows", "conversations"])
def test_an_id_unknown_to_the_tokenizer_is_refused_and_named(tmp_path, packing):
    out = made_output(tmp_path, MadeSource(name="web", shards=[[[1, 2, 3]], [[4, 5], [6, 7, 8]]]))
    path = next(tmp_path.glob("web/train/part-00001-*.bin"))
    path.write_bytes(path.read_bytes()[:-2] + b"\xff\xff")  # same size
    loader = Loader(open_shards(out.url), batch_size=4, length=8, packing=packing, epochs=1)
    reported = (
        r"^document 1 of web/train/part-00001-\S+ has the id 65535, .* below 60002: .*changed"
    )
    with pytest.raises(CorruptOutputError, match=reported):
        loader.next_batch()
