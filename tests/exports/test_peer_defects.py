"""What other tools were seen to get wrong, each as a job that gets it right, by the command line.

The name of a test says what would be wrong; exit codes, files and tokens are looked at as a user
would. What is about one module alone is tested there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanotok_ray.cli import main
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import contents, texts

RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["{paths}"]
split = "train"
append = {append}

[tokenizer]
vocab_size = {vocab_size}
special_tokens = {special_tokens}

[output]
path = "{out}"
work = "{out}-work"

[limits]
slice_bytes = 2000
"""


@pytest.fixture
def job(tmp_path, in_process, capsys):
    """Return a function that runs a command on files of documents: (exit code, JSON, stderr)."""

    def run(*arguments, command="prepare", append=(), special_tokens=SPECIAL_TOKENS, size=340):
        recipe = tmp_path / "recipe.toml"
        values = {"append": json.dumps(append), "special_tokens": json.dumps(special_tokens)}
        recipe.write_text(
            RECIPE.format(paths=tmp_path / "in", out=tmp_path / "out", vocab_size=size, **values)
        )
        code = main([command, str(recipe), *arguments])
        printed = capsys.readouterr()
        return code, json.loads(printed.out.splitlines()[-1]), printed.err

    (tmp_path / "in").mkdir()
    return run


def write(folder: Path, name: str, documents: list[str]) -> list[str]:
    """Write documents, one a line, and give them back."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    (folder / "in" / name).write_text(lines)
    return documents


def test_special_tokens_in_a_page_end_no_document_and_no_space_is_stripped(job, tmp_path):
    said = ["a<|bos|>b", "<|user_end|>", " <|endoftext|> ", "  a \n", "", "\n\n", "b", "", " "]
    documents = write(tmp_path, "a.jsonl", said * 9)
    code, told, _ = job(append=["<|user_end|>"])
    assert code == 0
    assert told["special_text"] == 18
    tokenizer = Tokenizer.load(tmp_path / "out/tokenizer")
    end = tokenizer.encode_special("<|user_end|>")
    for ids, text in zip(open_shards(str(tmp_path / "out")), documents, strict=True):
        assert [ids[0], ids[-1]] == [tokenizer.get_bos_token_id(), end]
        assert tokenizer.decode(ids[1:-1]) == text
        assert (ids[1:-1] < 256 + len(tokenizer.merges)).all()


def test_the_seed_of_pythons_hash_changes_no_byte(tmp_path):
    (tmp_path / "in").mkdir()
    write(tmp_path, "a.jsonl", texts(30, seed=1))
    code = (
        "import sys, pytest\n"
        "from nanotok_ray.storage import Folder\n"
        "from nanotok_ray.sources import make_plan\n"
        "from nanotok_ray.recipe import load_recipe\n"
        "from nanotok_ray.shards import ShardSettings, tokenize_slice\n"
        "from nanotok_ray.tokenizer import Tokenizer\n"
        "from nanotok_ray.formats.manifest import to_json\n"
        "plan = make_plan(load_recipe(sys.argv[1]))\n"
        "own = Tokenizer.train_from_iterator(['ab ab'], 270)\n"
        "settings = ShardSettings(tokenizer_sha256=own.sha256, gaps='spans', prepend=(),\n"
        "    append=(), max_document_bytes=9999, max_shard_tokens=99, max_tokens=None)\n"
        "for each in plan.slices():\n"
        "    record = tokenize_slice(each, settings, tokenizer=own, out=Folder(sys.argv[2]))\n"
        "    sys.stdout.buffer.write(to_json(record))\n"
    )
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        RECIPE.format(
            paths=tmp_path / "in", out="unused", vocab_size=340, append="[]", special_tokens="[]"
        ).replace("[tokenizer]", "prepend = []\n[tokenizer]")
    )
    answers = [
        subprocess.run(
            [sys.executable, "-c", code, str(recipe), str(tmp_path / f"out-{seed}")],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert answers[0] == answers[1] != b""
    assert contents(tmp_path / "out-1") == contents(tmp_path / "out-2")
