"""Jobs that also write smaller tokenizers: equal to learned ones, without learning again."""

import json

import pytest

from nanotok_ray.api import prepare, train
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.job.decide import decide
from nanotok_ray.tokenizer import Tokenizer
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe

ALSO = "tokenizer.also=[300, 330]"


def test_a_smaller_tokenizer_equals_one_learned_at_its_size_in_every_file(corpus, tmp_path):
    run(recipe(corpus, tmp_path / "out", ALSO), train)
    for size in (300, 330):
        run(recipe(corpus, tmp_path / f"{size}", f"tokenizer.vocab_size={size}"), train)
        expected = contents(tmp_path / f"{size}/tokenizer")
        assert contents(tmp_path / f"out/tokenizer-{size}") == expected
        assert len(expected) == 7
        Tokenizer.load(tmp_path / "out/tokenizer").truncated(size).save(tmp_path / f"cut-{size}")
        del expected["report.json"]
        assert contents(tmp_path / f"cut-{size}") == expected


def test_other_sizes_are_written_without_learning_and_the_manifest_stays(corpus, tmp_path):
    run(recipe(corpus, tmp_path / "out"), prepare)
    before = contents(tmp_path / "out")
    summary, stages, notes = run(recipe(corpus, tmp_path / "out", ALSO), prepare)
    assert (stages, notes) == ({}, [])
    assert summary.values["status"] == "done"
    assert summary.values["learned"]["also"] == [300, 330]
    assert "; also 300, 330 ids\n" in summary.text()
    after = contents(tmp_path / "out")
    del before["records/learn.json"]
    assert before.items() <= after.items()
    run(recipe(corpus, tmp_path / "once", ALSO), prepare)
    assert contents(tmp_path / "once") == after
    summary, stages, _ = run(recipe(corpus, tmp_path / "out", ALSO), prepare)
    assert (summary.values["status"], stages) == ("unchanged", {})


def test_a_size_no_longer_requested_stays_until_another_tokenizer_is_learned(corpus, tmp_path):
    run(recipe(corpus, tmp_path / "out", ALSO), train)
    run(recipe(corpus, tmp_path / "out"), train)
    run(recipe(corpus, tmp_path / "out", "tokenizer.also=310"), train)
    record = json.loads((tmp_path / "out/records/learn.json").read_text())
    assert record["also"] == [300, 310, 330]
    for size in record["also"]:
        assert Tokenizer.load(tmp_path / f"out/tokenizer-{size}").get_vocab_size() == size
    other = ("tokenizer.min_pair_count=2", "tokenizer.also=[310]")
    run(recipe(corpus, tmp_path / "out", *other), train)
    assert [path.parent.name for path in tokenizers(tmp_path / "out")] == ["tokenizer-310"]


def tokenizers(out):
    """Return the readable files of the smaller tokenizers."""
    return sorted(out.glob("tokenizer-*/tokenizer.txt"))


def test_a_size_that_learning_does_not_reach_is_reported_and_has_no_folder(corpus, tmp_path):
    run(recipe(corpus, tmp_path / "out", ALSO), train)
    job = recipe(corpus, tmp_path / "out", ALSO, "tokenizer.min_pair_count=82")
    summary, _, notes = run(job, train)
    reached = summary.values["vocab_size"]
    assert 300 <= reached < 330
    relearned, ended, note = notes
    assert "learned with other settings" in relearned
    assert "below min_pair_count = 82" in ended
    assert f"330 ids and learning ended at {reached}" in note
    assert str(tmp_path / "out/tokenizer-330") in note
    assert [path.parent.name for path in tokenizers(tmp_path / "out")] == ["tokenizer-300"]
    assert summary.values["learned"]["also"] == [300]
    assert f"{reached - 265} merges: below min_pair_count = 82" in summary.text()
    assert summary.values["learned"]["not_reached"] == [330, 350]
    assert (
        f"not reached a vocabulary of 330 and 350 ids: learning ended at {reached}, below "
        "min_pair_count = 82\n" in summary.text()
    )
    again, stages, notes = run(job, train)
    assert (again.values["status"], stages) == ("unchanged", {})
    assert notes == [note]


def test_a_plan_counts_what_is_missing(corpus, tmp_path):
    job = recipe(corpus, tmp_path / "out", ALSO)
    assert decide(job, command="train").values["also"] == {"todo": 2, "done": 0}
    run(job, train)
    (tmp_path / "out/tokenizer-300/tokenizer.pkl").unlink()
    announced = decide(job, command="train")
    assert announced.values["also"] == {"todo": 1, "done": 1}
    assert "also        1 to do, 1 done" in announced.text()
    assert not (tmp_path / "out/tokenizer-300/tokenizer.pkl").exists()
    assert "also" not in decide(recipe(corpus, tmp_path / "out"), command="train").values


def test_a_damaged_report_is_named_before_it_is_cut(corpus, tmp_path):
    run(recipe(corpus, tmp_path / "out"), train)
    path = tmp_path / "out/tokenizer/report.json"
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(CorruptOutputError, match=r"report\.json"):
        run(recipe(corpus, tmp_path / "out", ALSO), train)
    assert not tokenizers(tmp_path / "out")
    path.unlink()
    _, stages, _ = run(recipe(corpus, tmp_path / "out", ALSO), train)
    assert "learn" in stages
    assert len(tokenizers(tmp_path / "out")) == 2
