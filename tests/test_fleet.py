"""Counting on three nodes while drivers, workers and nodes die: every slice is in the sum once."""

import json

import pytest
import rustbpe

from nanotok_ray.count_file import join_runs, sum_ranges
from nanotok_ray.patterns import SPLIT_PATTERN
from nanotok_ray.plan import make_plan
from nanotok_ray.recipe import load_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.fleet import Driver, fleet, kill_a_worker, num_counted
from tests.small_corpus import RECIPE, texts, write_corpus

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


def test_nothing_is_counted_twice_or_lost_whatever_dies(tmp_path):
    write_corpus(tmp_path / "in")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        RECIPE.format(root=tmp_path / "in", out=tmp_path / "out").replace("3000", "1500")
    )
    slices = sum(
        each.source == "web" and each.split == "train"
        for each in make_plan(load_recipe(str(recipe))).slices()
    )
    work, log = tmp_path / "out-work", tmp_path / "log"
    with fleet(3) as nodes:
        first = Driver(recipe, address=nodes.address, log=log, gate=tmp_path / "never", after=3)
        first.until(lambda: num_counted(work) >= 3)
        first.kill()
        kept = num_counted(work)
        assert 3 <= kept < slices
        gate = tmp_path / "gate"
        second = Driver(recipe, address=nodes.address, log=log, gate=gate, after=kept + 2)
        second.until(lambda: num_counted(work) >= kept + 2)
        second.until(kill_a_worker)
        nodes.remove_node()
        gate.touch()
        second.finish()
    told = log.read_text()
    assert f"kept={kept}" in told
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())
    documents = [*texts(40, seed=0), *texts(40, seed=1)]
    assert report["texts"] == len(documents)
    assert report["text_bytes"] == sum(len(text.encode()) for text in documents)
    files = sorted(map(str, work.glob("counts/*/*.arrow")))
    assert len(files) == slices
    sums = join_runs(list(sum_ranges(files)))
    assert report["spans"] == int(sums[3].sum())
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(documents), 341, pattern=SPLIT_PATTERN)
    ours = Tokenizer.load(tmp_path / "out/tokenizer").model.tokens
    assert list(ours) == [bytes(token) for token, _ in peer.get_mergeable_ranks()]
