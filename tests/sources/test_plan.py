"""Plans: cuts that depend on one file alone, splits that stay frozen, keys of changed inputs."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import PlanError
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.sources import RowGroup, SourceFile, make_plan, plan_from_json, plan_to_json
from nanotok_ray.sources.plan_build import cut_file, group_files
from tests.support.small_corpus import recipe, texts, write_corpus, write_parquet

FILES = st.dictionaries(
    st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.integers(0, 5000), min_size=1, max_size=60
)


def line_file(name, size):
    return SourceFile(path=f"{name}.jsonl", url=f"/{name}", size=size, mtime_ns=0, format="jsonl")


def groups_of(sizes, *, slice_bytes):
    files = [line_file(name, size) for name, size in sorted(sizes.items())]
    found = group_files(files, slice_bytes=slice_bytes)
    return [
        [(file.path, piece.start, piece.stop) for file, piece in group] for _, _, group in found
    ]


@given(FILES, st.integers(100_000, 2_000_000))
def test_groups_hold_every_byte_once_and_in_order(sizes, slice_bytes):
    flat = [part for group in groups_of(sizes, slice_bytes=slice_bytes) for part in group]
    assert flat == [(f"{name}.jsonl", 0, size) for name, size in sorted(sizes.items())]


@given(FILES, st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.integers(500_000, 4_000_000))
def test_an_added_small_file_changes_groups_only_up_to_the_next_cut_by_name(
    sizes, added, slice_bytes
):
    before = groups_of(sizes, slice_bytes=slice_bytes)
    after = groups_of({**sizes, added: 10}, slice_bytes=slice_bytes)
    # Groups whose files all sort before the added one, and those after a common cut, are the same.
    changed = [group for group in after if group not in before]
    names = [path for group in changed for path, _, _ in group]
    assert f"{added}.jsonl" in names or added in sizes
    inner_cuts = [group[-1][0] for group in changed if group[-1][0] > f"{added}.jsonl"]
    by_name = {
        group[-1][0]
        for name in sizes
        for group in groups_of({name: sizes[name], "~": 1}, slice_bytes=slice_bytes)[:-1]
    }
    # No changed group begins after a cut by name that lies behind the added file.
    assert all(cut not in by_name for cut in inner_cuts[:-1])


@given(st.integers(0, 10_000), st.integers(1, 3000))
def test_byte_ranges_cover_a_file_without_overlap(size, slice_bytes):
    pieces = cut_file(line_file("a", size), slice_bytes=slice_bytes)
    assert [piece.start for piece in pieces[1:]] == [piece.stop for piece in pieces[:-1]]
    assert pieces[0].start == 0
    assert pieces[-1].stop == size


@given(st.lists(st.integers(0, 500), max_size=30), st.integers(1, 2000))
def test_row_groups_are_gathered_up_to_the_target(sizes, slice_bytes):
    layout = tuple(RowGroup(rows=1, num_bytes=size) for size in sizes)
    file = SourceFile(path="a", url="/a", size=9, format="parquet", layout=layout)
    pieces = cut_file(file, slice_bytes=slice_bytes)
    assert [n for piece in pieces for n in range(piece.start, piece.stop)] == [*range(len(sizes))]
    for piece in pieces:
        own = sizes[piece.start : piece.stop]
        assert sum(own) <= slice_bytes or len(own) == 1


def splits_of(plan, source="web"):
    planned = next(each for each in plan.sources if each.name == source)
    return dict(zip([file.path for file in planned.files], planned.splits, strict=True))


def test_val_is_the_last_file_of_a_text_source_and_chats_have_none(tmp_path):
    write_corpus(tmp_path / "in")
    plan = make_plan(recipe(tmp_path / "in", tmp_path / "out"))
    assert list(splits_of(plan).values()) == ["train", "train", "val"]
    assert set(splits_of(plan, "chats").values()) == {"train"}


def test_a_file_added_later_is_train_even_if_it_sorts_last(tmp_path):
    write_corpus(tmp_path / "in")
    job = recipe(tmp_path / "in", tmp_path / "out")
    first = make_plan(job)
    write_parquet(tmp_path / "in/text/shard_00009.parquet", texts(5, seed=9))
    second = make_plan(job, previous=plan_from_json(plan_to_json(first)))
    assert splits_of(second) == {**splits_of(first), "shard_00009.parquet": "train"}
    kept = {each.key for each in first.slices()}
    assert kept <= {each.key for each in second.slices()}
    assert splits_of(make_plan(job, previous=first, resplit=True))["shard_00009.parquet"] == "val"


def test_a_recipe_that_contradicts_the_frozen_split_is_refused(tmp_path):
    write_corpus(tmp_path / "in")
    first = make_plan(recipe(tmp_path / "in", tmp_path / "out"))
    other = recipe(tmp_path / "in", tmp_path / "out", "source.web.split=train")
    with pytest.raises(PlanError, match="--resplit"):
        make_plan(other, previous=first)
    assert set(splits_of(make_plan(other, previous=first, resplit=True)).values()) == {"train"}


def test_a_source_of_one_file_has_no_val_split_and_the_plan_says_so(tmp_path):
    write_corpus(tmp_path / "in")
    job = recipe(
        tmp_path / "in",
        tmp_path / "out",
        f'source.web.paths=["{tmp_path}/in/text/shard_00000.parquet"]',
    )
    plan = make_plan(job)
    assert list(splits_of(plan).values()) == ["train"]
    assert any("'web' has one file" in note for note in plan.notes)


def test_the_plan_is_the_same_after_a_round_trip_through_its_file(tmp_path):
    write_corpus(tmp_path / "in")
    plan = make_plan(recipe(tmp_path / "in", tmp_path / "out"))
    again = plan_from_json(plan_to_json(plan))
    assert plan_to_json(again) == plan_to_json(plan)
    assert [each.key for each in again.slices()] == [each.key for each in plan.slices()]


def test_a_changed_file_has_another_key_and_the_others_keep_theirs(tmp_path):
    write_corpus(tmp_path / "in")
    job = recipe(tmp_path / "in", tmp_path / "out")
    before = {each.key: each.files[0].path for each in make_plan(job).slices()}
    os.utime(tmp_path / "in/chats/0.jsonl", ns=(1, 1))
    after = {each.key for each in make_plan(job).slices()}
    changed = {key for key, path in before.items() if path == "0.jsonl"}
    assert before.keys() - after == changed
    assert changed


def test_a_source_may_not_take_a_name_of_the_output_folder(tmp_path):
    write_corpus(tmp_path / "in")
    text = f"""
    [[source]]
    name = "records"
    kind = "text"
    paths = ["{tmp_path}/in/text"]
    [output]
    path = "{tmp_path}/out"
    """
    with pytest.raises(PlanError, match="records"):
        make_plan(parse_recipe(text))
