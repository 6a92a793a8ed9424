"""The counting stage as a whole: any slices in any order, and counts kept from an earlier run."""

import json

import pytest
import rustbpe

from nanotok_ray import _core
from nanotok_ray.api import train
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.job import StageStarted, count_work, training_of, use_executor
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.sources import make_plan
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess, shuffled
from tests.support.small_corpus import texts

RECIPE = """
tokenizer.vocab_size = 350
output = {{path = "{root}/out", work = "{root}/work"}}
limits.slice_bytes = {slice_bytes}

[[source]]
name = "web"
kind = "text"
paths = ["{root}/in"]
split = "train"
"""


@pytest.fixture
def folder(tmp_path, in_process):
    (tmp_path / "in").mkdir()
    return tmp_path


@pytest.fixture
def in_any_order():
    with use_executor(InProcess(order=shuffled(3))):
        yield


def write(path, documents):
    """Write documents as JSON lines; return the size of the file."""
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in documents]
    return path.write_bytes("\n".join([*lines, ""]).encode())


def learn(folder, slice_bytes):
    """Run the job; return its report, and the work of its count stage."""
    recipe = parse_recipe(RECIPE.format(root=folder, slice_bytes=slice_bytes))
    events = []
    train(recipe, on_event=events.append)
    [counting] = [e for e in events if isinstance(e, StageStarted) and e.stage == "count"]
    return json.loads((folder / "out/tokenizer/report.json").read_text()), counting


@pytest.mark.parametrize("slices", [1, 3, 16, 200])
def test_merges_and_sums_do_not_depend_on_number_or_order_of_slices(folder, in_any_order, slices):
    documents = texts(250, seed=4)
    size = write(folder / "in/a.jsonl", documents)
    report, counting = learn(folder, -(-size // slices))
    assert counting.todo == slices
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(documents), 341, pattern=SPLIT_PATTERN)
    ours = Tokenizer.load(folder / "out/tokenizer").model.tokens
    assert list(ours) == [bytes(token) for token, _ in peer.get_mergeable_ranks()]
    splitter = _core.Splitter(SPLIT_PATTERN)
    spans = [span for text in documents for span in splitter.split(text.encode())]
    assert (report["texts"], report["text_bytes"]) == (250, sum(map(len, spans)))
    assert (report["spans"], report["distinct_spans"]) == (len(spans), len(set(spans)))


def test_a_slice_finished_by_another_attempt_is_not_repeated(folder):
    write(folder / "in/a.jsonl", texts(40, seed=1))
    write(folder / "in/b.jsonl", texts(40, seed=2))
    recipe = parse_recipe(RECIPE.format(root=folder, slice_bytes=3000))
    training = training_of(recipe, make_plan(recipe))
    works = [training.work(each) for each in training.slices]
    sizes = [count_work(work) for work in works]
    (folder / f"work/{works[1].name}.arrow").write_bytes(b"cut off")
    (folder / "in/b.jsonl").unlink()  # it cannot be counted again

    def written():
        return [(folder / f"work/{work.name}.arrow").stat().st_ino for work in works]

    before = written()
    assert [count_work(work) for work in works] == sizes
    changed = [old != new for old, new in zip(before, written(), strict=True)]
    assert changed == [work is works[1] for work in works]
    assert {file.path for work in works for file in work.slice.files} == {"a.jsonl", "b.jsonl"}


def test_a_sum_that_contradicts_its_records_is_refused(folder):
    write(folder / "in/a.jsonl", texts(40, seed=1))
    learn(folder, 3000)
    record = next((folder / "work/counts/web").glob("*.json"))
    values = json.loads(record.read_text())
    record.write_text(json.dumps(values | {"spans": values["spans"] + 1}))
    (folder / "out/records/learn.json").unlink()
    with pytest.raises(CorruptOutputError, match=r"spans, their records say"):
        learn(folder, 3000)
