"""docs/formats.md: the journal's events and their fields are those of the model."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from nanotok_ray.job import (
    JOURNAL_FORMAT,
    FailedAttempt,
    Happened,
    JournalledSlice,
    Stage,
    segment_name,
)
from nanotok_ray.loader import open_shards
from tests.support.finished_output import finished_output

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/formats.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `([a-z ]+)` \| (.*) \|$", PAGE, re.MULTILINE))
COUNTED = {"done", "failed", "done_bytes", "progress", "seconds"}
"""Fields that the event of a stage's begin lacks."""


@pytest.mark.parametrize(
    ("event", "model"),
    [("slice", JournalledSlice), ("attempt", FailedAttempt), ("note", Happened), ("stage", Stage)],
)
def test_an_event_on_the_page_equals_its_model(event, model):
    own = {each.name for each in fields(model)} - {"at"}
    if model is Stage:
        own = own - COUNTED - {"stage", "num_done"} | {"name", "kept"}
    assert own <= set(re.findall(r"`(\w+)`", ROWS[event]))


def test_every_event_is_on_the_page():
    source = (ROOT / "nanotok_ray/job/journal.py").read_text("utf-8")
    assert set(re.findall(r'^ +case "([a-z ]+)":', source, re.MULTILINE)) <= ROWS.keys()


def test_names_and_versions_match_the_code():
    assert f"OUT/{segment_name(17, 0)}" in PAGE
    assert f"`{JOURNAL_FORMAT}`" in PAGE


def test_the_example_reads_the_first_document(tmp_path):
    out = finished_output(tmp_path)
    shard = min(Path(out, "web/train").glob("*.bin")).with_suffix("")
    example = re.search(r"```python\n(from pathlib.*?)```", PAGE, re.DOTALL)[1]
    names = {}
    exec(example.replace("/data/out/web/train/NAME", str(shard)), names)
    assert any(names["first"].tolist() == ids.tolist() for ids in open_shards(out, "train", "web"))
