"""Settings of a loader: each is checked, and the message contains its range."""

import re

import numpy as np
import pytest

from nanotok_ray.errors import CorruptOutputError, PackingError
from nanotok_ray.loader import (
    ConversationLoader,
    ConversationSettings,
    Loader,
    NanochatLoader,
    open_shards,
)
from tests.support.made_output import MadeSource, made_output
from tests.support.plain_loader import made_shards


@pytest.fixture
def shards(tmp_path):
    return made_shards(tmp_path, [[[5, 9, 30]]])


WRONG = [
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


@pytest.mark.parametrize(("settings", "message"), WRONG)
def test_a_wrong_setting_is_refused(shards, settings, message):
    with pytest.raises(PackingError, match=re.escape(message)):
        Loader(shards, **{"batch_size": 1, "length": 8, **settings})


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
    [(NanochatLoader, *row) for row in OF_NANOCHAT]
    + [(ConversationSettings, *row) for row in OF_CONVERSATIONS],
)
def test_a_wrong_setting_of_the_other_loaders_is_refused(shards, make, settings, message):
    first = [shards] if make is NanochatLoader else []
    with pytest.raises(PackingError, match=re.escape(message)):
        make(*first, **{"batch_size": 1, "length": 8, **settings})


def test_an_output_without_conversations_is_refused():
    with pytest.raises(PackingError, match="there is no conversation"):
        ConversationLoader([], ConversationSettings(batch_size=1, length=8), pad=0)


@pytest.mark.parametrize("loader", [Loader, NanochatLoader])
def test_a_path_in_place_of_shards_is_refused(tmp_path, loader):
    with pytest.raises(PackingError, match=r"pass the result of nanotok_ray\.open_shards"):
        loader(str(tmp_path), batch_size=1, length=8)


def test_numpy_integers_are_accepted_and_states_remain_plain(shards):
    loader = Loader(
        shards, batch_size=np.int64(2), length=np.int32(8), seed=np.uint8(3), dtype="int64"
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
    shards, inputs, targets, message
):
    loader = Loader(shards, batch_size=1, length=8)
    expected = loader.next_batch()
    loader = Loader(shards, batch_size=1, length=8)
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
