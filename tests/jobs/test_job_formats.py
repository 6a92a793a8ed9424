"""Whole jobs over every format and any slicing equal rustbpe's merges and one call of encode."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rustbpe

from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess, in_place_of_ray, shuffled
from tests.support.run_job import run
from tests.support.small_corpus import texts

TEXTS = [text for text in texts(60, seed=4) if text.strip() and "\r" not in text]
ONE_LINE = [text.replace("\n", " ") for text in TEXTS]
RECIPE = """
tokenizer.vocab_size = 330
output.path = "{root}/out"
limits.slice_bytes = {slice_bytes}
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in"]
split = "train"
{options}
"""


def json_lines(rows, *, field="text"):
    return "".join(json.dumps({"id": 1, field: row}) + "\n" for row in rows).encode()


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": rows}), sink, row_group_size=8)
    return sink.getvalue().to_pybytes()


def run_on(root, files, options="", *, slice_bytes=2 << 20):
    """Write files and run a job; return the numbers of its slices, its tokenizer and documents."""
    (root / "in").mkdir()
    for name, data in files.items():
        (root / "in" / name).write_bytes(data)
    ran = run(parse_recipe(RECIPE.format(root=root, slice_bytes=slice_bytes, options=options)))
    documents = [ids.tolist() for ids in open_shards(str(root / "out"))]
    return ran.stages, Tokenizer.load(root / "out/tokenizer"), documents


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({"a.parquet": parquet(TEXTS[:30]), "b.parquet": parquet(TEXTS[30:])}, ""),
        (
            {
                "a.jsonl.gz": gzip.compress(json_lines(TEXTS[:20]), mtime=0),
                "b.jsonl.zst": pa.Codec("zstd").compress(json_lines(TEXTS[20:40]), asbytes=True),
                "c.jsonl": json_lines(TEXTS[40:]).replace(b"\n", b"\r\n"),
            },
            "",
        ),
        ({"a.jsonl": json_lines(TEXTS, field="body")}, 'column = "body"'),
        (
            {f"{number:03d}.txt": text.encode() for number, text in enumerate(TEXTS)},
            'format = "document"',
        ),
    ],
    ids=["parquet", "JSON lines", "another field", "a document a file"],
)
def test_every_format_yields_the_tokens_of_its_texts(tmp_path, in_process, files, options):
    _, tokenizer, documents = run_on(tmp_path, files, options)
    assert tokenizer == Tokenizer.train_from_iterator(TEXTS, 330)
    assert documents == tokenizer.encode(TEXTS, prepend="<|bos|>")


@pytest.mark.parametrize("slices", [1, 3, 16, 100])
def test_merges_sums_and_tokens_do_not_depend_on_number_or_order_of_slices(
    tmp_path, in_process, slices
):
    data = "\n".join([*ONE_LINE, "", ""]).encode()
    with in_place_of_ray(InProcess(order=shuffled(3))):
        stages, tokenizer, documents = run_on(
            tmp_path, {"a.txt": data}, 'format = "lines"', slice_bytes=-(-len(data) // slices)
        )
    assert stages["count"] == stages["tokenize"] == (slices, 0)
    assert documents == tokenizer.encode(ONE_LINE, prepend="<|bos|>")
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(ONE_LINE), 321, pattern=SPLIT_PATTERN)
    assert list(tokenizer.model.tokens) == [bytes(t) for t, _ in peer.get_mergeable_ranks()]
    splitter = _core.Splitter(SPLIT_PATTERN)
    spans = [span for text in ONE_LINE for span in splitter.split(text.encode())]
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())
    assert (report["texts"], report["text_bytes"]) == (len(ONE_LINE), sum(map(len, spans)))
    assert (report["spans"], report["distinct_spans"]) == (len(spans), len(set(spans)))
