"""The same texts result in the same tokens for all file formats."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.api import prepare
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import texts

TEXTS = [text for text in texts(60, seed=4) if text.strip() and "\r" not in text]
ONE_LINE = [text.replace("\n", " ") for text in TEXTS]


def json_lines(rows, *, field="text"):
    return "".join(json.dumps({"id": 1, field: row}) + "\n" for row in rows).encode()


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": rows}), sink, row_group_size=8)
    return sink.getvalue().to_pybytes()


def zstd(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


CASES = {
    "parquet": ({"a.parquet": parquet(TEXTS[:30]), "b.parquet": parquet(TEXTS[30:])}, ""),
    "json lines": (
        {
            "a.jsonl": json_lines(TEXTS[:20]),
            "b.jsonl": json_lines(TEXTS[20:]).replace(b"\n", b"\r\n"),
        },
        "",
    ),
    "compressed json lines": (
        {
            "a.jsonl.gz": gzip.compress(json_lines(TEXTS[:20]), mtime=0),
            "b.jsonl.zst": zstd(json_lines(TEXTS[20:40])),
            "c.jsonl": json_lines(TEXTS[40:]),
        },
        "",
    ),
    "another field": ({"a.jsonl": json_lines(TEXTS, field="body")}, 'column = "body"'),
    "a document a file": (
        {f"{number:03d}.txt": text.encode() for number, text in enumerate(TEXTS)},
        'format = "document"',
    ),
}


def tokens_of(root, files, options, *, slice_bytes="2MiB"):
    """Write files and run a job; return its tokenizer and documents."""
    (root / "in").mkdir()
    for name, data in files.items():
        (root / "in" / name).write_bytes(data)
    prepare(
        parse_recipe(
            f"""
            [[source]]
            name = "web"
            kind = "text"
            paths = ["{root}/in"]
            split = "train"
            {options}
            [tokenizer]
            vocab_size = 330
            [output]
            path = "{root}/out"
            [limits]
            slice_bytes = "{slice_bytes}"
            """
        )
    )
    tokenizer = Tokenizer.load(root / "out/tokenizer")
    return tokenizer, [ids.tolist() for ids in open_shards(str(root / "out"))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_format_yields_the_tokens_of_its_texts(tmp_path, in_process, case):
    tokenizer, documents = tokens_of(tmp_path, *CASES[case])
    assert tokenizer == Tokenizer.train_from_iterator(TEXTS, 330)
    assert documents == tokenizer.encode(TEXTS, prepend="<|bos|>")


@pytest.mark.parametrize("slice_bytes", ["200", "1000", "1MiB"])
def test_one_document_per_line_is_split_anywhere_without_loss(tmp_path, in_process, slice_bytes):
    files = {"a.txt": "\n".join([*ONE_LINE, "", ""]).encode()}
    options = 'format = "lines"'
    tokenizer, documents = tokens_of(tmp_path, files, options, slice_bytes=slice_bytes)
    assert documents == tokenizer.encode(ONE_LINE, prepend="<|bos|>")
