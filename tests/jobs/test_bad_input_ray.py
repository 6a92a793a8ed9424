"""Wrong and damaged input on a real local Ray, by the command line: what is said, and when."""

import json
import random
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.cli import main

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("shared_ray"),
]

RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in"]
split = "train"

[tokenizer]
vocab_size = 300

[output]
path = "{root}/out"

[limits]
slice_bytes = 100000
"""


def lines(count, *, seed):
    rng = random.Random(seed)
    texts = ("".join(rng.choices("abcdefgh ", k=60)) for _ in range(count))
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def prepare(root, capsys):
    """Run `prepare`; give its exit code, its error, and the report page of the run."""
    recipe = root / "recipe.toml"
    recipe.write_text(RECIPE.format(root=root))
    code = main(["prepare", str(recipe)])
    values = json.loads(capsys.readouterr().out.splitlines()[-1])
    page = root / "out/run/report.html"
    return code, values.get("error"), page.read_text() if page.exists() else None


@pytest.fixture
def root(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path


def test_counting_on_workers_names_the_first_bad_line_and_its_list(root, capsys):
    good = lines(900, seed=1).splitlines(keepends=True)
    (root / "in/a.jsonl").write_bytes(b"".join([*good[:500], b"\n", *[b"oops\n"] * 9, *good[500:]]))
    code, error, page = prepare(root, capsys)
    assert code == 3
    assert "the first is source 'web', a.jsonl, line 502: invalid JSON: Expecting value" in error
    (listed,) = re.findall(r"; see (\S+), correct", error)
    assert len(Path(listed).read_text().splitlines()) == 9
    assert "invalid JSON: Expecting value" in page


def test_a_stage_on_workers_ends_early_where_nothing_can_be_used(root, capsys):
    texts = {"a.parquet": [None] * 50_000, "b.parquet": ["good"] * 50}
    for name, own in texts.items():
        table = pa.table({"text": pa.array(own, pa.string())})
        pq.write_table(table, root / "in" / name, row_group_size=50_000)
    code, error, _ = prepare(root, capsys)
    assert code == 3
    assert error.startswith("count stopped early: all 10,240 documents that were read of 1 slice")
    assert "source 'web', a.parquet, row 1: field is null: 'text'; see " in error
