"""Splits by named files: what the first plan froze stays."""

import pytest

from nanotok_ray.errors import PlanError, RecipeError
from nanotok_ray.recipe import OutputRecipe, Recipe, SourceRecipe
from nanotok_ray.sources import Plan, make_plan, plan_from_json, plan_to_json

NAMES = ("a.jsonl", "b.jsonl", "held/a.jsonl", "held/more/c.jsonl")


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b'{"text": "a"}\n')


def plan_of(folder, *val_files, previous: Plan | None = None, resplit=False) -> Plan:
    source = SourceRecipe(
        name="web", kind="text", paths=(str(folder),), split="files", val_files=val_files
    )
    recipe = Recipe(sources=(source,), output=OutputRecipe(path="/out"))
    if previous is not None:
        previous = plan_from_json(plan_to_json(previous))
    return make_plan(recipe, previous=previous, resplit=resplit)


def val_of(plan: Plan) -> list[str]:
    (source,) = plan.sources
    by_file = [
        file.path for file, split in zip(source.files, source.splits, strict=True) if split == "val"
    ]
    by_slice = {file.path for each in plan.slices(split="val") for file in each.files}
    assert set(by_file) == by_slice
    return by_file


@pytest.mark.parametrize(
    ("val_files", "val"),
    [
        (("b.jsonl",), ["b.jsonl"]),
        (("*.jsonl",), ["a.jsonl", "b.jsonl"]),
        (("held/*.jsonl",), ["held/a.jsonl"]),
        (("held/**", "a.jsonl"), ["a.jsonl", "held/a.jsonl", "held/more/c.jsonl"]),
        (("**/a.jsonl",), ["a.jsonl", "held/a.jsonl"]),
        (("**",), list(NAMES)),
    ],
    ids=str,
)
def test_val_is_what_is_named(tmp_path, val_files, val):
    write(tmp_path, *NAMES)
    assert val_of(plan_of(tmp_path, *val_files)) == val


@pytest.mark.parametrize("pattern", ["c.jsonl", "held", "*.parquet", "/held/a.jsonl", "more/*"])
def test_a_name_that_is_no_file_is_refused(tmp_path, pattern):
    write(tmp_path, *NAMES)
    with pytest.raises(PlanError, match=r"source\.web\.val_files has .*none of its 4 files"):
        plan_of(tmp_path, "a.jsonl", pattern)


def test_files_added_later_are_train_unless_they_are_named(tmp_path):
    write(tmp_path, *NAMES)
    first = plan_of(tmp_path, "held/**")
    write(tmp_path, "c.jsonl", "held/d.jsonl")
    second = plan_of(tmp_path, "held/**", previous=first)
    assert val_of(second) == ["held/a.jsonl", "held/d.jsonl", "held/more/c.jsonl"]


@pytest.mark.parametrize(
    ("val_files", "told"),
    [
        (
            ("held/**", "a.jsonl"),
            "val_files now names what the first plan froze as train: a.jsonl;",
        ),
        (
            ("held/a.jsonl",),
            "no longer names what the first plan froze as val: held/more/c.jsonl;",
        ),
    ],
    ids=str,
)
def test_a_frozen_file_is_not_moved_without_resplit(tmp_path, val_files, told):
    write(tmp_path, *NAMES)
    first = plan_of(tmp_path, "held/**")
    with pytest.raises(PlanError) as caught:
        plan_of(tmp_path, *val_files, previous=first)
    assert told in str(caught.value)
    assert "--resplit" in str(caught.value)
    moved = plan_of(tmp_path, *val_files, previous=first, resplit=True)
    assert val_of(moved) == val_of(plan_of(tmp_path, *val_files))


@pytest.mark.parametrize(
    ("split", "val_files"),
    [("files", ()), ("files", ("",)), ("train", ("a",)), ("share:0.1", ("a",))],
    ids=str,
)
def test_val_files_and_the_split_files_go_together(split, val_files):
    with pytest.raises(RecipeError, match=r"source\.web\.val_files"):
        SourceRecipe(name="web", kind="text", paths=("a",), split=split, val_files=val_files)
