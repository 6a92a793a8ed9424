"""docs/frameworks.md: its programs return the ids of every row's text."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from nanotok_ray import Tokenizer

PAGE = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text()
PROGRAMS = {
    title: re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for title, section in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
}
TEXTS = ["ab ab", "é🙂", "", "the cat\n", None] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator([text for text in TEXTS if text], 270)


@pytest.fixture
def run(tmp_path, tokenizer):
    """Return a function that runs a program on a corpus and returns its names."""
    tokenizer.save(tmp_path / "out/tokenizer")
    (tmp_path / "web").mkdir()
    for number, part in enumerate((TEXTS[:7], TEXTS[7:])):
        pq.write_table(pa.table({"text": part}), tmp_path / f"web/{number}.parquet")

    def function(title, number=0):
        names = {}
        exec(PROGRAMS[title][number].replace("/data/", f"{tmp_path}/"), names)
        return names

    return function


def expected(tokenizer):
    return [None if text is None else tokenizer.encode(text, "<|bos|>") for text in TEXTS]


@pytest.mark.parametrize("number", [0, 1])
def test_datasets_reads_an_output(run, tokenizer, tmp_path, number, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    result = run("Hugging Face datasets", number)["result"]
    assert result["ids"][:] == expected(tokenizer)


def test_polars_reads_an_output(run, tokenizer):
    pytest.importorskip("polars")
    assert run("polars")["result"]["ids"].to_list() == expected(tokenizer)


def test_duckdb_reads_an_output(run, tokenizer):
    pytest.importorskip("duckdb")
    found = dict(run("DuckDB")["result"].fetchall())
    assert found == dict(zip(TEXTS, expected(tokenizer), strict=True))


@pytest.mark.ray
@pytest.mark.parametrize("number", [0, 1])
def test_ray_data_reads_an_output(run, tokenizer, tmp_path, number, monkeypatch):
    pytest.importorskip("pandas")  # ray.data imports it
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        rows = run("Ray Data", number)["result"].take_all()
    finally:
        ray.shutdown()
    found = [(row["text"], None if row["ids"] is None else list(row["ids"])) for row in rows]
    wanted = zip(TEXTS, expected(tokenizer), strict=True)
    assert sorted(found, key=repr) == sorted(wanted, key=repr)  # files are in any order


def test_spark_and_daft_read_an_output(run, tokenizer):
    (result,) = run("Spark")["tokenize"](iter([pa.record_batch({"text": TEXTS})]))
    assert result["ids"].to_pylist() == expected(tokenizer)
    assert result.schema.field("ids").type == pa.list_(pa.int32())

    class Series:
        def to_arrow(self):
            return pa.array(TEXTS, pa.large_string())

    assert run("Daft")["encode"](Series()).to_pylist() == expected(tokenizer)


def test_conversations_are_read(run, tokenizer):
    good, bad = run("Conversations")["result"].to_pylist()
    messages = [{"role": "user", "content": "hi"}]
    assert good["ids"] == tokenizer.render_conversation({"messages": messages})[0]
    assert bad["problem"] == "the conversation has no messages"


def test_every_program_runs():
    counts = {"Ray Data": 2, "Hugging Face datasets": 2, "polars": 1, "DuckDB": 1, "Spark": 1}
    counts |= {"Daft": 1, "Conversations": 1}
    assert {title: len(programs) for title, programs in PROGRAMS.items()} == counts


def test_the_first_example_runs(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "out/tokenizer")
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    names = {}
    exec(example.replace("/data/", f"{tmp_path}/"), names)
    assert names["ids"].to_pylist() == [tokenizer.encode("hello world", "<|bos|>"), None]
    assert names["counts"].to_pylist() == [len(names["ids"][0]) - 1, None]
    assert names["same"].to_pylist() == ["<|bos|>hello world", None]
