"""The same tokenizer and the same joined tokens for any slices in any order."""

import hashlib

import numpy as np

from nanotok_ray.api import prepare
from nanotok_ray.job import use_executor
from nanotok_ray.loader import open_shards
from nanotok_ray.sources import make_plan
from tests.support.executors import InProcess, shuffled
from tests.support.small_corpus import contents, recipe, write_corpus


def train_slices(job):
    return sum(each.source == "web" for each in make_plan(job).slices(split="train"))


def stream(out, *, split, source):
    shards = open_shards(str(out), split=split, source=source)
    ids = np.concatenate([*shards, np.zeros(0, np.uint16)])
    ends = np.cumsum([len(document) for document in shards])
    masks = [shards.mask(document) for document in range(len(shards))]
    mask = b"".join(m.tobytes() for m in masks if m is not None)
    return hashlib.sha256(ids.tobytes() + ends.tobytes() + mask).hexdigest()


ORDERS = {"in order": list, "shuffled": shuffled(7)}

# Slice sizes that divide the train files of the text source into 1, 2 and 7 slices.
TARGETS = {1: 10_000_000, 2: 50_000, 7: 4_750}


def test_tokenizer_and_joined_tokens_do_not_depend_on_the_slicing(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    results = {}
    for number, target in TARGETS.items():
        for name, order in ORDERS.items():
            out = tmp_path / f"out-{number}-{name[0]}"
            job = recipe(tmp_path / "in", out, f"limits.slice_bytes={target}")
            assert train_slices(job) == number
            with use_executor(InProcess(order=order)):
                prepare(job)
            results[number, name] = (
                contents(out / "tokenizer"),
                stream(out, split="train", source="web"),
                stream(out, split="val", source="web"),
                stream(out, split="train", source="chats"),
            )
        for suffix in ("", "-work"):
            one, two = (contents(tmp_path / f"out-{number}-{name[0]}{suffix}") for name in ORDERS)
            assert one == two
    first = results[1, "in order"]
    assert all(result == first for result in results.values())
    assert len(first[0]) == 7
