"""The stages of a job that learns tokens of several words, as users see them."""

import json

from nanotok_ray.api import train
from nanotok_ray.job.events import Advanced, StageStarted
from tests.support.small_corpus import recipe, write_corpus


def test_the_progress_of_learning_counts_the_merges_of_each_stage(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    keys = ("tokenizer.superword={from = 320}", "tokenizer.vocab_size=1200")
    events = []
    train(recipe(tmp_path / "in", tmp_path / "out", *keys), on_event=events.append)
    stages = [each.stage for each in events if isinstance(each, StageStarted)]
    begin = [number for number, stage in enumerate(stages) if stage == "learn"]
    assert stages[begin[0] :][:3] == ["learn", "pairs", "segments"]
    assert len(begin) == 2
    learn = [each for each in events if isinstance(each, Advanced) and each.stage == "learn"]
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())
    first, merges = report["superwords"]["first_merges"], len(report["merges"]["count"])
    assert {each.todo: each.done for each in learn} == {first: first, 1200 - 320: merges - first}
