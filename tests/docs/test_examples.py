"""The examples run unchanged, and the model learns."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.support.finished_output import finished_output

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return finished_output(tmp_path_factory.mktemp("job"))


def run(monkeypatch, capsys, name, *arguments):
    path = EXAMPLES / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
    runpy.run_path(str(path), run_name="__main__")
    return capsys.readouterr().out


def test_numpy_batches_do_not_require_torch(output, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    settings = ("--source", "web", "--length", 32, "--batch-size", 4, "--batches", 6)
    reported = run(monkeypatch, capsys, "numpy_batches", output, *settings)
    assert re.search(r"\d+ rows of [\d,]+ tokens .* 0 tokens lost\n", reported)
    assert "768 inputs in" in reported


def test_a_tiny_model_learns(output, monkeypatch, capsys):
    pytest.importorskip("torch")
    settings = ("--steps", 60, "--length", 32, "--every", 15, "--source", "web")
    reported = run(monkeypatch, capsys, "train_tiny", output, *settings)
    losses = [float(found) for found in re.findall(r"loss ([\d.]+)", reported)]
    bits = [float(found) for found in re.findall(r"validation ([\d.]+) bits", reported)]
    assert len(losses) == 4
    assert len(bits) == 2
    assert losses[-1] < losses[0] - 0.3
    assert 0 < bits[1] < bits[0] - 0.1 < 20
