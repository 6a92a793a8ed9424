"""A whole job on three nodes while drivers, workers and nodes die: all bytes are the same."""

import re

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.recipe import load_recipe
from nanotok_ray.sources import make_plan
from tests.support.disturbed_output import differing, named_temporaries
from tests.support.fleet import Driver, fleet, kill_a_worker
from tests.support.gated_driver import num_done
from tests.support.small_corpus import RECIPE, write_corpus

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


def write_recipe(root, name):
    path = root / f"{name}.toml"
    path.write_text(RECIPE.format(root=root / "in", out=root / name).replace("3000", "1500"))
    return path


def num_counted(log):
    """Return, for each driver, the number of slices that had counts when it started."""
    started = re.findall(r"StageStarted\(stage='count', todo=\d+, num_done=(\d+)", log)
    assert len(started) == 2, started
    return [int(number) for number in started]


def test_nothing_is_lost_or_repeated_when_any_process_dies(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    recipe, log = write_recipe(tmp_path, "out"), tmp_path / "log"
    counted = sum(
        each.source == "web" and each.split == "train"
        for each in make_plan(load_recipe(str(recipe))).slices()
    )

    def done():
        return num_done(tmp_path / "out", tmp_path / "out-work")

    with fleet(3) as nodes:
        first = Driver(recipe, address=nodes.address, log=log, gate=tmp_path / "never", after=3)
        first.until(lambda: done() >= 3)
        first.kill()
        kept = done()
        assert 3 <= kept < counted
        gate, after = tmp_path / "gate", counted + 4
        second = Driver(recipe, address=nodes.address, log=log, gate=gate, after=after)
        second.until(lambda: done() >= after)
        second.until(kill_a_worker)
        nodes.remove_node()
        gate.touch()
        second.finish()
    # A worker whose driver has died can still complete the slice that it has.
    assert kept <= num_counted(log.read_text())[1] < counted
    prepare(load_recipe(str(write_recipe(tmp_path, "quiet"))))
    assert differing(tmp_path / "out", tmp_path / "quiet") == []
    assert differing(tmp_path / "out-work", tmp_path / "quiet-work") == []
    assert named_temporaries(tmp_path / "out") == []
