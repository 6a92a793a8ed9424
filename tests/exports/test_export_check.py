"""The check of an exported unit, for every layout."""

from dataclasses import replace

import numpy as np
import pytest

from nanotok_ray.errors import CorruptOutputError, TransientIOError
from nanotok_ray.exports import Raw, check_unit, export_unit, unit_problems
from tests.support.made_output import BOS, MadeSource, export_here, made_output, works_of

CHAT = MadeSource(name="chat", kind="chat", shards=[[[BOS, 1, 2], [BOS, 3]]])


@pytest.fixture
def made(tmp_path, folder):
    return made_output(tmp_path / "out", CHAT), folder


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda made: made[:-1], "hold fewer documents than they should, 1"),
        (lambda made: [*made, made[0]], "hold more documents than they should, 2"),
        (lambda made: made[::-1], "document 0: its 2 ids are not the 3"),
        (
            lambda made: [(np.asarray(ids) ^ 1, mask) for ids, mask in made],
            "document 0: its 3 ids are not the 3 of the native shard",
        ),
        (
            lambda made: [(ids, None) for ids, _ in made],
            "document 0: only one of export and native shard has a mask",
        ),
        (lambda made: [(ids, mask ^ 1) for ids, mask in made], "document 0: its mask is not that"),
    ],
    ids=["fewer", "more", "order", "ids", "no mask", "mask"],
)
def test_a_part_that_reads_back_differently_gets_no_record(change, reported, made, monkeypatch):
    out, folder = made
    own = Raw.read
    monkeypatch.setattr(Raw, "read", lambda *arguments: iter(change(list(own(*arguments)))))
    with pytest.raises(TransientIOError, match=reported):
        export_unit(works_of(out, Raw(), folder)[0])
    assert folder.list("records/") == []


@pytest.mark.parametrize("own", [{"documents": 3}, {"tokens": 6}])
def test_the_sums_of_a_record_equal_those_of_its_documents(own, made):
    out, folder = made
    (exported,), corpus = export_here(out, Raw(), folder)
    assert list(unit_problems(exported, Raw(), corpus, folder)) == []
    wrong = replace(exported, written=replace(exported.written, **own))
    (problem,) = unit_problems(wrong, Raw(), corpus, folder)
    assert "2 documents of 5 tokens, its record says" in problem


def test_a_file_of_another_size_is_reported_with_both_sizes(made):
    out, folder = made
    (exported,), corpus = export_here(out, Raw(), folder)
    (name,) = exported.names(".offsets.npy")
    folder.write_whole(name, b"short")
    (problem,) = unit_problems(exported, Raw(), corpus, folder)
    assert f"{folder.join(name)} has 5 bytes, its record says 152" in problem


@pytest.mark.parametrize("own", [{"documents": 3}, {"tokens": 6}])
def test_a_shard_that_contradicts_shards_idx_is_refused(own, made):
    out, folder = made
    (shard,) = works_of(out, Raw(), folder)[0].unit.shards
    wrong = replace(shard, facts=replace(shard.facts, **own))
    with pytest.raises(CorruptOutputError, match=r"\.idx does not agree with shards\.idx"):
        wrong.positions()


def test_a_changed_native_record_is_refused(made):
    out, folder = made
    (work,) = works_of(out, Raw(), folder)
    name = work.unit.shards[0].facts.record_name
    out.write_whole(name, out.read_bytes(name) + b" ")
    with pytest.raises(CorruptOutputError, match=r"is not the one that shards\.idx names"):
        export_unit(work)


def test_a_unit_without_a_matching_record_is_reported(made):
    out, folder = made
    (work,) = works_of(out, Raw(), folder)
    (problem,) = check_unit(work)
    assert "has no record that fits: export again" in problem
