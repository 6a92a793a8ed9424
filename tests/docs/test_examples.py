"""What the recipes of examples/ make; test_docs_commands.py runs the commands of their pages."""

import py_compile

import numpy as np
import pyarrow.parquet as pq
import pytest

from nanotok_ray import open_shards, open_tokenizer
from nanotok_ray.api import prepare
from nanotok_ray.recipe import load_recipe
from tests.support.doc_commands import ROOT, make_folder, write_tokenizer

EXAMPLES = ROOT / "examples"
FOLDERS = sorted(path.parent.name for path in EXAMPLES.glob("*/recipe.toml"))
MAX_LINES = 60
"""Lines of a page of one screen."""


@pytest.fixture
def data(tmp_path, monkeypatch, in_process):
    make_folder(tmp_path)
    monkeypatch.setenv("DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "data"


def run(name):
    recipe = load_recipe(str(EXAMPLES / name / "recipe.toml"))
    prepare(recipe)
    return recipe.output.path


def texts_of(path):
    return pq.read_table(path)["text"].to_pylist()


def test_every_folder_is_listed_and_has_a_page_of_one_screen():
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert len(FOLDERS) == 5
    for name in FOLDERS:
        assert f"]({name}/README.md)" in listed
        lines = (EXAMPLES / name / "README.md").read_text("utf-8").splitlines()
        assert len(lines) <= MAX_LINES
    assert {path.parent.name for path in EXAMPLES.glob("*/README.md")} == {*FOLDERS}


def test_the_files_of_llmc_equal_what_tiktoken_encodes(data):
    run("llmc")
    tokenizer = open_tokenizer(str(data / "gpt"))
    encoding = tokenizer.to_tiktoken()
    start = tokenizer.special_tokens["<|endoftext|>"]
    for split, files in (("train", ["0", "1"]), ("val", ["2"])):
        texts = [text for file in files for text in texts_of(data / f"web/{file}.parquet")]
        wanted = [number for text in texts for number in (start, *encoding.encode_ordinary(text))]
        [path] = (data / "out-llmc/export/llmc/web" / split).glob("*.bin")
        assert np.fromfile(path, np.uint16, offset=1024).tolist() == wanted


def test_the_second_night_keeps_the_tokenizer_and_adds_the_new_file(data):
    out = run("nightly")
    first = (data / "out-nightly/tokenizer/tokenizer.txt").read_bytes()
    before = sum(len(open_shards(out, split)) for split in ("train", "val"))
    new = pq.read_table(data / "web/0.parquet").slice(0, 5)
    pq.write_table(new, data / "web/3.parquet")
    assert run("nightly") == out
    assert (data / "out-nightly/tokenizer/tokenizer.txt").read_bytes() == first
    assert sum(len(open_shards(out, split)) for split in ("train", "val")) == before + 5


def test_conversations_are_trained_on_the_answers_and_calls_alone(data):
    out = run("sft-trl")
    shards = open_shards(out)
    call = next(number for number in range(len(shards)) if "<tool_call>" in shards.text(number))
    ids, mask = shards[call], shards.mask(call)
    trained = shards.tokenizer.decode(ids[mask == 1].tolist())
    assert trained.startswith("<tool_call>")
    assert trained.endswith("It is 3.<|im_end|>\n")
    assert "1 + 2?" not in trained


def test_a_continued_tokenizer_keeps_every_id_of_its_base(data):
    write_tokenizer(data / "gpt")
    longer = open_tokenizer(f"{run('continue')}/tokenizer")
    base = open_tokenizer(str(data / "gpt"))
    kept = [longer.decode_bytes([number]) for number in range(base.vocab_size)]
    assert kept == [base.decode_bytes([number]) for number in range(base.vocab_size)]


def test_the_program_for_trl_compiles(tmp_path):
    py_compile.compile(EXAMPLES / "sft-trl/train.py", tmp_path / "train.pyc", doraise=True)
