"""The same texts result in the same tokens for all file formats."""

import gzip
import json

import pyarrow as pa
import pytest

from nanotok_ray.api import prepare
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import texts, write_parquet

TEXTS = [text for text in texts(60, seed=4) if text.strip() and "\r" not in text]
ONE_LINE = [text.replace("\n", " ") for text in TEXTS]


def json_lines(rows, *, field="text"):
    return "".join(json.dumps({"id": 1, field: row}) + "\n" for row in rows).encode()


def zstd(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


def write_parquet_files(folder):
    write_parquet(folder / "a.parquet", TEXTS[:30])
    write_parquet(folder / "b.parquet", TEXTS[30:])


def write_plain_json(folder):
    (folder / "a.jsonl").write_bytes(json_lines(TEXTS[:20]))
    (folder / "b.jsonl").write_bytes(json_lines(TEXTS[20:]).replace(b"\n", b"\r\n"))


def write_packed_json(folder):
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(json_lines(TEXTS[:20]), mtime=0))
    (folder / "b.jsonl.zst").write_bytes(zstd(json_lines(TEXTS[20:40])))
    (folder / "c.jsonl").write_bytes(json_lines(TEXTS[40:]))


def write_other_field(folder):
    (folder / "a.jsonl").write_bytes(json_lines(TEXTS, field="body"))


def write_documents(folder):
    for number, text in enumerate(TEXTS):
        (folder / f"{number:03d}.txt").write_text(text, encoding="utf-8", newline="")


CASES = {
    "parquet": (write_parquet_files, ""),
    "json lines": (write_plain_json, ""),
    "compressed json lines": (write_packed_json, ""),
    "another field": (write_other_field, 'column = "body"'),
    "a document a file": (write_documents, 'format = "document"'),
}


def tokens_of(root, out, options, *, slice_bytes="2MiB"):
    prepare(
        parse_recipe(
            f"""
            [[source]]
            name = "web"
            kind = "text"
            paths = ["{root}"]
            split = "train"
            {options}
            [tokenizer]
            vocab_size = 330
            [output]
            path = "{out}"
            [limits]
            slice_bytes = "{slice_bytes}"
            """
        )
    )
    tokenizer = Tokenizer.load(out / "tokenizer")
    return tokenizer, [ids.tolist() for ids in open_shards(str(out))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_format_yields_the_tokens_of_its_texts(tmp_path, in_process, case):
    write, options = CASES[case]
    (tmp_path / "in").mkdir()
    write(tmp_path / "in")
    tokenizer, documents = tokens_of(tmp_path / "in", tmp_path / "out", options)
    assert tokenizer == Tokenizer.train_from_iterator(TEXTS, 330)
    assert documents == tokenizer.encode(TEXTS, prepend="<|bos|>")


@pytest.mark.parametrize("slice_bytes", ["200", "1000", "1MiB"])
def test_one_document_per_line_is_split_anywhere_without_loss(tmp_path, in_process, slice_bytes):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("\n".join(ONE_LINE) + "\n\n", encoding="utf-8", newline="")
    tokenizer, documents = tokens_of(
        tmp_path / "in", tmp_path / "out", 'format = "lines"', slice_bytes=slice_bytes
    )
    assert documents == tokenizer.encode(ONE_LINE, prepend="<|bos|>")
