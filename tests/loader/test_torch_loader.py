"""Torch tensors of packed batches: any number of workers, exact resuming, nanochat's functions."""

import json
from itertools import islice, zip_longest
from types import SimpleNamespace

import numpy as np
import pytest

from nanotok_ray.api import prepare
from nanotok_ray.errors import PackingError
from nanotok_ray.loader import Loader, NanochatLoader, open_shards
from nanotok_ray.tokenizer import Tokenizer
from tests.support.finished_output import finished_output
from tests.support.made_output import BOS
from tests.support.plain_nanochat import plain_sft_batches
from tests.support.planned_output import files_of, planned_output
from tests.support.process_work import Reencoded
from tests.support.small_corpus import recipe, write_corpus

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402 - only where torch is

from nanotok_ray.nanochat import (  # noqa: E402
    sft_data_generator_bos_bestfit,
    tokenizing_distributed_data_loader_bos_bestfit,
    tokenizing_distributed_data_loader_with_state_bos_bestfit,
)
from nanotok_ray.torch import PackedDataset, batches_on_device, this_rank  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # 3 on 2 cores

NANOCHAT = {"batch_size": 2, "length": 10, "tokenizer_batch_size": 3, "buffer_size": 4}
OWN = {"batch_size": 2, "length": 10, "group_documents": 7, "shuffle": "document", "epochs": 3}


@pytest.fixture(autouse=True)
def _one_process(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "NANOTOK_SHARDS", "NANOTOK_CHAT_SHARDS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path):
    files = files_of([[5, 4, 6, 3], [5, 5, 2]], seed=5)
    return planned_output(tmp_path / "out", {"web": files})


@pytest.fixture
def shards(folder):
    return open_shards(folder)


def dataset(shards, packing, **others):
    settings = NANOCHAT if packing == "nanochat" else OWN
    return PackedDataset(shards, packing=packing, **(settings | others))


def plain(shards, packing, count, **others):
    own = NANOCHAT | others if packing == "nanochat" else OWN | others | {"packing": packing}
    loader = NanochatLoader if packing == "nanochat" else Loader
    return [
        (batch.inputs.tolist(), batch.targets.tolist(), batch.state)
        for batch in islice(loader(shards, **own), count)
    ]


def taken(batches, count):
    return [
        (inputs.tolist(), targets.tolist(), dict(state))
        for inputs, targets, state in islice(batches, count)
    ]


PACKINGS = ["nanochat", "best-fit", "windows"]
COUNT = 9


@pytest.mark.parametrize("packing", PACKINGS)
def test_batches_are_those_of_the_loader_as_int64_tensors(shards, packing):
    own = dataset(shards, packing)
    assert taken(own, COUNT) == plain(shards, packing, COUNT)
    inputs, targets, _ = next(iter(own))
    assert inputs.dtype == targets.dtype == torch.int64
    assert next(iter(dataset(shards, packing, dtype=np.int32)))[0].dtype == torch.int32


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_number_of_workers_changes_nothing(shards, packing, workers):
    expected = plain(shards, packing, COUNT)
    loader = DataLoader(dataset(shards, packing), batch_size=None, num_workers=workers)
    assert taken(loader, COUNT) == expected
    # Also the end of the data, where workers end one after the other.
    if packing != "nanochat":
        assert taken(loader, None) == plain(shards, packing, None)


@pytest.mark.parametrize("packing", ["best-fit", "windows", "conversations"])
def test_ranks_with_workers_share_the_rows_of_an_epoch(shards, packing):
    whole = plain(shards, packing, None, epochs=1)
    expected = [row for inputs, _, _ in whole for row in inputs]
    # Ranks of 2 and 1 workers, then others that resume with other numbers of both.
    first = [ranks_rows(shards, packing, workers, rank, 2) for rank, workers in enumerate((2, 1))]
    assert dealt(first) == expected
    rows, state = first[0][1]
    assert state == first[1][1][1]
    rest = [ranks_rows(shards, packing, rank, rank, 3, state=state) for rank in range(3)]
    assert dealt(rest) == expected[2 * 2 * len(rows) :]


def dealt(ranks):
    """Return the rows of all ranks, batch after batch."""
    batches = zip_longest(*ranks, fillvalue=([], None))
    return [row for batch in batches for rows, _ in batch for row in rows]


def ranks_rows(shards, packing, workers, rank, world_size, *, state=None):
    """Return the inputs of each batch of a rank, and the state after it."""
    own = dataset(shards, packing, epochs=1, rank=rank, world_size=world_size)
    if state is not None:
        own.load_state_dict(state)
    loader = DataLoader(own, batch_size=None, num_workers=workers)
    return [(inputs.tolist(), dict(state)) for inputs, _, state in loader]


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["best-fit", "nanochat"])
def test_spawned_workers_change_nothing(shards, packing):
    loader = DataLoader(
        dataset(shards, packing), batch_size=None, num_workers=2, multiprocessing_context="spawn"
    )
    assert taken(loader, COUNT) == plain(shards, packing, COUNT)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_read_shards_and_encode(tmp_path, in_process, context):
    write_corpus(tmp_path / "in")
    prepare(recipe(tmp_path / "in", tmp_path / "out"))
    shards = open_shards(tmp_path / "out", source="web")
    tokenizer = shards.tokenizer
    tokenizer.encode_batch([shards.text(0)] * 9, num_threads=2)  # it is in use
    loader = DataLoader(
        Reencoded(tokenizer, shards),
        batch_size=None,
        num_workers=2,
        multiprocessing_context=context,
    )
    assert list(map(list, loader)) == [[ids.tolist()] * 2 for ids in shards]


@pytest.mark.parametrize("packing", PACKINGS)
def test_any_number_of_workers_resumes_after_the_last_used_batch(shards, packing):
    expected = plain(shards, packing, COUNT)
    first = DataLoader(dataset(shards, packing), batch_size=None, num_workers=2)
    state = json.loads(json.dumps(taken(first, 4)[-1][2]))
    again = dataset(shards, packing)
    again.load_state_dict(state)
    for workers in (0, 3):
        loader = DataLoader(again, batch_size=None, num_workers=workers)
        assert taken(loader, COUNT - 4) == expected[4:]


def test_the_rank_is_that_of_the_main_process(shards, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    own = dataset(shards, "nanochat")
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    expected = plain(shards, "nanochat", 4, rank=1, world_size=2)
    assert taken(DataLoader(own, batch_size=None, num_workers=1), 4) == expected
    assert expected != plain(shards, "nanochat", 4)


def test_a_rank_without_a_world_size_is_refused(monkeypatch):
    assert this_rank() == (0, 1)
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(PackingError, match="set both to numbers"):
        this_rank()
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(PackingError, match="set both to numbers"):
        this_rank()


def test_the_rank_of_a_process_group_overrides_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "8")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    try:
        assert this_rank() == (0, 1)
    finally:
        torch.distributed.destroy_process_group()
    assert this_rank() == (5, 8)


def test_unknown_settings_are_refused_at_once(shards):
    with pytest.raises(PackingError, match="lengthy"):
        dataset(shards, "best-fit", lengthy=3)
    with pytest.raises(PackingError, match="batch_size"):
        dataset(shards, "nanochat", batch_size=0)


@pytest.mark.parametrize("packing", PACKINGS)
def test_batches_are_copied_to_a_device_in_one_buffer(shards, packing):
    expected = plain(shards, packing, None if packing != "nanochat" else COUNT)
    found, places = [], set()
    for inputs, targets, state in batches_on_device(dataset(shards, packing), "cpu"):
        found.append((inputs.tolist(), targets.tolist(), state))
        places.add(inputs.data_ptr())
        assert targets.data_ptr() == inputs.data_ptr() + inputs.numel() * 8
        if len(found) == len(expected):
            break
    assert found == expected
    assert len(places) == 1


def test_batches_of_a_loader_are_copied_to_a_device(shards):
    loader = Loader(shards, **OWN)
    found = taken(batches_on_device(loader, torch.device("cpu")), 5)
    assert found == plain(shards, "best-fit", 5)


class TheirTokenizer:
    """The part of nanochat's tokenizer that is compared."""

    def __init__(self, *, bos=BOS, size=60002, **others):
        self.bos, self.size = bos, size
        vars(self).update(others)

    def get_bos_token_id(self):
        return self.bos

    def get_vocab_size(self):
        return self.size


def drop_in(folder, **others):
    return tokenizing_distributed_data_loader_with_state_bos_bestfit(
        others.pop("tokenizer", TheirTokenizer()),
        2,
        10,
        **(
            {"split": "train", "device": "cpu", "tokenizer_batch_size": 3, "buffer_size": 4}
            | {"shards": folder}
            | others
        ),
    )


def test_the_function_of_nanochat_returns_the_batches_of_the_loader(folder, shards, monkeypatch):
    expected = plain(shards, "nanochat", COUNT)
    assert taken(drop_in(folder), COUNT) == expected
    assert taken(drop_in(shards), COUNT) == expected
    monkeypatch.setenv("NANOTOK_SHARDS", folder)
    assert taken(drop_in(None), COUNT) == expected
    assert taken(drop_in(folder, resume_state_dict=expected[3][2]), 4) == expected[4:8]


def test_the_function_of_nanochat_works_without_a_state(folder):
    batches = tokenizing_distributed_data_loader_bos_bestfit(
        TheirTokenizer(), 2, 10, split="train", device="cpu", shards=folder
    )
    inputs, targets = next(batches)
    assert inputs.shape == targets.shape == (2, 10)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"shards": None}, "Set NANOTOK_SHARDS"),
        ({"split": "test"}, "split is 'test'"),
        ({"tokenizer": TheirTokenizer(bos=3)}, r"another id of <\|bos\|> \(3\)"),
        ({"tokenizer": TheirTokenizer(size=5)}, "another vocabulary size"),
        ({"tokenizer": TheirTokenizer(sha256="1" * 64)}, "another sha256"),
    ],
)
def test_the_function_of_nanochat_refuses_other_arguments(folder, wrong, reported):
    with pytest.raises(PackingError, match=reported):
        drop_in(folder, **wrong)


def test_the_text_of_a_job_with_chats_is_read_with_its_tokenizer(tmp_path):
    out = finished_output(tmp_path)
    tokenizer = Tokenizer.load(out / "tokenizer")
    theirs = TheirTokenizer(bos=tokenizer.get_bos_token_id(), size=tokenizer.get_vocab_size())
    theirs.enc = tokenizer.to_tiktoken()
    expected = plain(open_shards(str(out), source="web"), "nanochat", 3)
    for own in (tokenizer, theirs):
        assert taken(drop_in(str(out), tokenizer=own), 3) == expected
    other = Tokenizer.train_from_iterator(["ab " * 9], 350)
    theirs.enc = other.to_tiktoken()
    with pytest.raises(PackingError, match="another sha256"):
        drop_in(str(out), tokenizer=theirs)


CHATS = [
    {
        "messages": [
            {"role": "user", "content": "the cat " * (number % 5)},
            {"role": "assistant", "content": "sat on the mat " * (number % 4 + 1)},
        ]
    }
    for number in range(23)
]


def script_of(tokenizer, *, length, num_iterations=-1, **others):
    """The variables of nanochat's scripts/chat_sft.py."""
    args = SimpleNamespace(device_batch_size=2, max_seq_len=length, num_iterations=num_iterations)
    ranks = {"ddp_rank": 0, "ddp_world_size": 1, "device": "cpu", "device_type": "cpu"}
    state = {"last_step": False, "approx_progress": 0.0, "current_epoch": 1}
    data = {"train_dataset": CHATS, "val_dataset": CHATS[:5]}
    return {"args": args, "tokenizer": tokenizer, **ranks, **data, **state} | others


@pytest.fixture(scope="module")
def chat_tokenizer():
    return Tokenizer.train_from_iterator(["the cat sat on the mat"], 280)


@pytest.mark.parametrize("split", ["train", "val"])
def test_batches_for_fine_tuning_equal_the_rule_of_nanochat(chat_tokenizer, split):
    script = script_of(chat_tokenizer, length=120)
    chats = [chat_tokenizer.render_conversation(chat) for chat in script[f"{split}_dataset"]]
    plain = plain_sft_batches(
        chats, batch_size=2, length=120, buffer_size=6, pad=chat_tokenizer.get_bos_token_id()
    )
    batches = sft_data_generator_bos_bestfit(split, buffer_size=6, script=script)
    for inputs, targets, consumed, epoch in islice(plain, 8):
        found = next(batches)
        assert [each.tolist() for each in found] == [inputs, targets]
        assert [each.dtype for each in found] == [torch.int32, torch.int64]
        if split == "train":
            assert script["current_epoch"] == epoch
            assert script["approx_progress"] == consumed / len(CHATS)
            assert script["last_step"] == (consumed >= len(CHATS))
    assert split == "train" or not script["last_step"]


def test_the_number_of_steps_ends_fine_tuning(chat_tokenizer):
    script = script_of(chat_tokenizer, length=120, num_iterations=2)
    batches = sft_data_generator_bos_bestfit("train", script=script)
    next(batches)
    assert (script["approx_progress"], script["last_step"]) == (0.5, False)
    next(batches)
    assert (script["approx_progress"], script["last_step"]) == (1.0, True)


def test_the_variables_of_the_caller_are_used(chat_tokenizer):
    script = script_of(chat_tokenizer, length=120, make=sft_data_generator_bos_bestfit)
    exec("loader = (lambda: make('train'))()", script)
    next(script["loader"])
    assert script["approx_progress"] > 0
    with pytest.raises(PackingError, match="the caller has no variable 'tokenizer'"):
        sft_data_generator_bos_bestfit("train")


@pytest.mark.parametrize("too_long", ["crop", "drop"])
def test_no_loss_is_nan_if_most_conversations_exceed_a_row(chat_tokenizer, too_long):
    script = script_of(chat_tokenizer, length=25)
    batches = sft_data_generator_bos_bestfit("train", 4, too_long=too_long, script=script)
    logits = torch.zeros(50, chat_tokenizer.get_vocab_size())
    for _, targets in islice(batches, 200):
        assert (targets != -1).any(dim=1).all()
        loss = torch.nn.functional.cross_entropy(logits, targets.view(-1), ignore_index=-1)
        assert loss.isfinite()


def test_stored_conversations_replace_the_datasets_of_the_script(tmp_path, monkeypatch):
    out = finished_output(tmp_path)
    tokenizer = Tokenizer.load(out / "tokenizer")
    monkeypatch.setenv("NANOTOK_CHAT_SHARDS", str(out))
    script = script_of(tokenizer, length=120)
    del script["train_dataset"]
    inputs, targets = next(sft_data_generator_bos_bestfit("train", script=script))
    assert inputs[0, 0] == tokenizer.get_bos_token_id()
    assert (targets != -1).any(dim=1).all()
    other = Tokenizer.train_from_iterator(["other"], 270)
    with pytest.raises(PackingError, match="the tokenizer has another id of"):
        sft_data_generator_bos_bestfit("train", script=script_of(other, length=120))
