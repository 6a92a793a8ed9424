"""docs/training.md: its Python blocks run in order on a generated output."""

import importlib.util
import re
from pathlib import Path

import pytest

from nanotok_ray.tokenizer import Tokenizer
from tests.support.finished_output import change_json
from tests.support.planned_output import files_of, planned_output

PAGE = Path(__file__).parents[2] / "docs/training.md"
FOLDER = "/data/out"
NEEDS_TORCH = re.compile(r"^(import|from) (torch|nanotok_ray\.(torch|nanochat))\b", re.MULTILINE)
"""Blocks with such a line run if torch is installed."""

BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    tokenizer = Tokenizer.train_from_iterator(["a tokenizer of these shards"], 270)
    bos = tokenizer.get_bos_token_id()

    def of_tokenizer(rows):
        return [one and [bos, *(number % 256 for number in one[1:])] for one in rows]

    sources = {
        name: [
            [of_tokenizer(rows) for rows in file]
            for file in files_of([[40, 40], [40, 40], [30]], seed=seed, most=90)
        ]
        for seed, name in enumerate(("web", "code"))
    }
    out = planned_output(tmp_path_factory.mktemp("training") / "out", sources)
    tokenizer.save(f"{out}/tokenizer")
    made_by = {
        "tokenizer_sha256": tokenizer.sha256,
        "special_tokens": tokenizer.special_tokens,
        "num_ids": tokenizer.get_vocab_size(),
    }
    for name, value in made_by.items():
        change_json(Path(out, "manifest.json"), name, value)
    return out


def test_every_block_runs(out, monkeypatch):
    monkeypatch.setenv("NANOTOK_SHARDS", out)
    assert len(BLOCKS) > 3
    assert all(FOLDER in block for block in BLOCKS if "open_shards(" in block)
    names = {"__name__": "docs"}
    for block in BLOCKS:
        if NEEDS_TORCH.search(block) and not importlib.util.find_spec("torch"):
            continue
        code = block.replace(FOLDER, out)
        exec(compile(code, str(PAGE), "exec"), names)
