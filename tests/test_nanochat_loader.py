"""NanochatLoader: the batches of nanochat's own loader, and going on exactly."""

import json
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.cluster.job import prepare
from nanotok_ray.errors import PackingError
from nanotok_ray.packing.nanochat import ApproximateResumeWarning, NanochatLoader
from nanotok_ray.reader import open_shards
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.made_output import BOS
from tests.plain_nanochat import plain_batches
from tests.planned_output import files_of, planned_output
from tests.small_corpus import texts, write_parquet

VECTORS = Path(__file__).parent / "vectors"
LOADER = json.loads((VECTORS / "loader.json").read_text())
KEYS = ("pq_idx", "rg_idx", "epoch")


def plain_state(state):
    return {key: state[key] for key in KEYS}


def as_lists(batch):
    return batch.inputs.tolist(), batch.targets.tolist(), plain_state(batch.state)


def write_job(root, *overrides):
    recipe = f"""
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/*.parquet"]

[tokenizer]
path = "{root}/tokenizer"

[output]
path = "{root}/out"
work = "{root}/work"
"""
    prepare(parse_recipe(recipe, overrides=overrides))
    return f"{root}/out"


@pytest.fixture
def upstreams_corpus(tmp_path, in_process):
    """The files that nanochat's loader was run on, as shards of the tokenizer it was run with."""
    training = json.loads((VECTORS / "training.json").read_text())
    Tokenizer.train_from_iterator(training["corpora"]["mix"], 565).save(tmp_path / "tokenizer")
    for name, rows in LOADER["files"].items():
        write_parquet(tmp_path / "in" / name, rows, row_group_size=LOADER["row_group_size"])
    return write_job(tmp_path)


def test_batches_are_those_that_nanochats_loader_gave(upstreams_corpus):
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
            batch = loader.next_batch()
            assert batch.inputs.tolist() == expected["inputs"], case["name"]
            assert batch.targets.tolist() == expected["targets"], case["name"]
            assert plain_state(batch.state) == expected["state"], case["name"]
