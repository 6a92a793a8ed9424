"""docs/columns.md: every recipe makes of the row above it the document that is shown below it."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.api import prepare
from nanotok_ray.errors import NanotokError
from nanotok_ray.loader import Shards, open_shards
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.support.doc_commands import ROOT, make_folder

PAGE = (ROOT / "docs/columns.md").read_text("utf-8")
BLOCK = re.compile(r"^```(json|toml|python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECTIONS = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
ROWS = 20
TABLE = re.compile(r"^(?=\[)", re.MULTILINE)
PREFERENCES = """
[[source]]
name = "preferences"
kind = "chat"
paths = ["/data/preferences/*.jsonl"]

[tokenizer]
path = "/data/model"

[output]
path = "/data/out"
"""


def sections():
    """Return the blocks by language, the recipe and the files of each section with a recipe."""
    tables, found = {}, []
    for title, text in SECTIONS:
        blocks = BLOCK.findall(text)
        own = {kind: block for kind, block in blocks if kind not in ("toml", "python")}
        for kind, block in blocks:
            if kind == "toml":
                tables |= {part.partition("\n")[0]: part for part in TABLE.split(block) if part}
        files = [block for kind, block in blocks if kind == "python"]
        found.append(pytest.param(own, "\n".join(tables.values()), files, id=title))
    return found


def marked(shards: Shards, document: int, tokenizer: Tokenizer) -> str:
    """Return the text of a document with [[ and ]] around each run of tokens with mask 1."""
    ids, mask = shards[document].tolist(), shards.mask(document)
    if mask is None:
        return tokenizer.decode(ids)
    text, trained = "", False
    for number, one in zip([*ids, None], [*mask.tolist(), 0], strict=True):
        if bool(one) != trained:
            text += "[[" if one else "]]"
            trained = bool(one)
        text += "" if number is None else tokenizer.decode([number])
    return text


@pytest.fixture
def write(tmp_path, monkeypatch, in_process):
    """Return a function that makes the recipe of a section, with its row as data."""
    make_folder(tmp_path)
    monkeypatch.chdir(tmp_path / "here")

    def function(recipe, row, files):
        for file in files:
            Path(re.match(r"# (\w+\.py), beside the recipe\n", file)[1]).write_text(file, "utf-8")
        name = re.search(r'^name = "(\w+)"', recipe, re.MULTILINE)[1]
        folder = tmp_path / "own" / name
        folder.mkdir(parents=True)
        rows = pa.Table.from_pylist([json.loads(row)] * ROWS)
        for number in range(2):  # the last file is for validation
            (folder / f"{number}.jsonl").write_text(f"{row.strip()}\n" * ROWS)
            pq.write_table(rows, folder / f"{number}.parquet")
        text = recipe.replace(f'"/data/{name}/', f'"{folder}/')
        text = text.replace("/data/", f"{tmp_path}/data/")
        text = re.sub(r'(transform = ")(\w+):', r"\1\2.py:", text)
        return parse_recipe(text)

    return function


@pytest.mark.parametrize(("own", "text", "files"), sections())
def test_the_job_writes_the_document_on_the_page(own, text, files, write):
    recipe = write(text, own["json"], files)
    prepare(recipe)
    tokenizer = Tokenizer.load(f"{recipe.output.path}/tokenizer")
    splits = [open_shards(recipe.output.path, split) for split in ("train", "val")]
    written = [marked(split, each, tokenizer) for split in splits for each in range(len(split))]
    assert written == [own["text"].removesuffix("\n")] * 2 * ROWS


def test_preferences_are_refused_without_a_function(write):
    (row,) = re.findall(r'^\{"prompt": .*"chosen".*', PAGE, re.MULTILINE)
    recipe = write(PREFERENCES, row, [])
    with pytest.raises(NanotokError, match="preference data"):
        prepare(recipe)
