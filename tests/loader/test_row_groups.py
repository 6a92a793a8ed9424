"""The documents of each row group from plan and records, in order or from the middle."""

import json
import random
from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError, PackingError
from nanotok_ray.loader import RowGroups, open_shards
from tests.support.finished_output import change_json
from tests.support.made_output import BOS
from tests.support.planned_output import files_of, planned_output

COUNTS = st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=5)


def documents_of(files):
    return [
        [[document for document in group if document is not None] for group in file]
        for file in files
    ]


def read_all(groups, shards, order):
    found = {}
    for file in order:
        bounds = groups.bounds(file).tolist()
        found[file] = [
            [shards[document].tolist() for document in range(start, stop)]
            for start, stop in pairwise(bounds)
        ]
    return [found[file] for file in range(len(groups.files))]


@given(counts=COUNTS, size=st.integers(1, 7), seed=st.integers(0, 99))
def test_each_row_group_has_its_documents_in_any_order_of_access(
    tmp_path_factory, counts, size, seed
):
    files = [*files_of(counts, seed=seed), [[[BOS]]]]
    out = planned_output(tmp_path_factory.mktemp("out"), {"web": files}, documents_per_shard=size)
    shards = open_shards(out)
    order = list(range(len(files)))
    assert read_all(RowGroups(shards), shards, order) == documents_of(files)
    random.Random(seed).shuffle(order)
    assert read_all(RowGroups(shards), shards, order) == documents_of(files)


def test_files_are_numbered_over_all_sources(tmp_path):
    first, second = files_of([[2, 3], [1]], seed=0), files_of([[4], [2, 2]], seed=1)
    shards = open_shards(planned_output(tmp_path / "out", {"web": first, "books": second}))
    groups = RowGroups(shards)
    assert [(file.source, file.path, file.row_groups) for file in groups.files] == [
        ("web", "0.parquet", 2),
        ("web", "1.parquet", 1),
        ("books", "0.parquet", 1),
        ("books", "1.parquet", 2),
    ]
    assert read_all(groups, shards, range(4)) == documents_of([*first, *second])
    books = open_shards(str(tmp_path / "out"), source="books")
    assert read_all(RowGroups(books), books, range(2)) == documents_of(second)


def test_a_plan_that_the_manifest_does_not_name_is_refused(tmp_path):
    out = planned_output(tmp_path / "out", {"web": files_of([[2]], seed=0)})
    path = tmp_path / "out/plan.json"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(CorruptOutputError, match=r"plan\.json is not the one"):
        RowGroups(open_shards(out))
    path.unlink()
    with pytest.raises(CorruptOutputError, match=r"plan\.json is missing"):
        RowGroups(open_shards(out))
    path.mkdir()
    with pytest.raises(CorruptOutputError, match=r"plan\.json is missing"):
        RowGroups(open_shards(out))


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (list.reverse, "has row groups out of order"),
        (list.pop, "maps other than 2 documents"),
        (lambda runs: runs[0].pop("row_group"), "maps row group None of"),
        (lambda runs: runs[1].update(row_group=2), "maps row group 2 of"),
    ],
)
def test_a_record_that_contradicts_plan_or_index_is_refused(
    tmp_path, monkeypatch, change, reported
):
    shards = open_shards(planned_output(tmp_path / "out", {"web": [[[[BOS]], [[BOS]]]]}))
    record = shards.record(0)
    change(record["shards"][0]["source_map"])
    monkeypatch.setattr(type(shards), "record", lambda *_: record)
    with pytest.raises(CorruptOutputError, match=reported):
        RowGroups(shards).bounds(0)


def settings_changed(**changes):
    def change(out):
        path = out / "manifest.json"
        settings = json.loads(path.read_text())["settings"]
        change_json(path, "settings", {"web": settings["web"] | changes})

    return change


def files_of_lines(out):
    path = out / "plan.json"
    sources = json.loads(path.read_text())["sources"]
    sources[0]["files"][0]["format"] = "jsonl"
    change_json(path, "sources", sources)
    change_json(out / "manifest.json", "plan_sha256", sha256(path.read_bytes()).hexdigest())


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (settings_changed(prepend=[]), r"has \[\] before and \[\] after.*Loader"),
        (
            settings_changed(append=["<|assistant_end|>"]),
            r".* and \['<\|assistant_end\|>'\] after.*Loader",
        ),
        (lambda out: change_json(out / "manifest.json", "kinds", {"web": "chat"}), "is of kind ch"),
        (files_of_lines, "has files of jsonl, and ranks take"),
    ],
    ids=["before", "after", "kind", "format"],
)
def test_documents_that_do_not_start_like_those_of_nanochat_are_refused(tmp_path, change, reported):
    out = planned_output(tmp_path / "out", {"web": [[[[BOS]]]]})
    change(tmp_path / "out")
    with pytest.raises(PackingError, match=rf"source 'web' {reported}"):
        RowGroups(open_shards(out))


def test_a_split_without_documents_is_refused(tmp_path):
    out = planned_output(tmp_path / "out", {"web": [[[[BOS]]]]})
    with pytest.raises(PackingError, match="no document"):
        RowGroups(open_shards(out, split="val"))
