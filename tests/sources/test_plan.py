"""Plans: frozen splits, by the last file or by named files; keys of changed inputs."""

from functools import partial

import pytest

from nanotok_ray.errors import PlanError, RecipeError
from nanotok_ray.recipe import OutputRecipe, Recipe, SourceRecipe
from nanotok_ray.sources import Plan, make_plan, plan_from_json, plan_to_json
from tests.support.small_corpus import plan_of, recipe, texts, write_corpus, write_parquet


def splits_of(plan, source="web"):
    planned = next(each for each in plan.sources if each.name == source)
    return dict(zip([file.path for file in planned.files], planned.splits, strict=True))


@pytest.fixture
def job(tmp_path):
    write_corpus(tmp_path / "in")
    return partial(recipe, tmp_path / "in", tmp_path / "out")


def test_a_file_added_later_is_train_even_if_it_sorts_last(job, tmp_path):
    first = make_plan(job())
    assert list(splits_of(first).values()) == ["train", "train", "val"]
    assert set(splits_of(first, "chats").values()) == {"train"}
    write_parquet(tmp_path / "in/text/shard_00009.parquet", texts(5, seed=9))
    second = make_plan(job(), previous=plan_from_json(plan_to_json(first)))
    assert splits_of(second) == {**splits_of(first), "shard_00009.parquet": "train"}
    kept = {each.key for each in first.slices()}
    assert kept <= {each.key for each in second.slices()}
    assert splits_of(make_plan(job(), previous=first, resplit=True))["shard_00009.parquet"] == "val"


def test_a_recipe_that_contradicts_the_frozen_split_is_refused(job):
    first, other = make_plan(job()), job("source.web.split=train")
    with pytest.raises(PlanError, match="--resplit"):
        make_plan(other, previous=first)
    assert set(splits_of(make_plan(other, previous=first, resplit=True)).values()) == {"train"}


def test_a_source_of_one_file_has_no_val_split_and_a_note(job, tmp_path):
    plan = make_plan(job(f'source.web.paths=["{tmp_path}/in/text/shard_00000.parquet"]'))
    assert list(splits_of(plan).values()) == ["train"]
    assert any("'web' has one file" in note for note in plan.notes)


def test_a_source_may_not_have_a_reserved_name_of_the_output_folder(job, tmp_path):
    with pytest.raises(PlanError, match="records"):
        plan_of(tmp_path / "in/text", name="records")


# Splits by named files

NAMES = ("a.jsonl", "b.jsonl", "held/a.jsonl", "held/more/c.jsonl")


def write_lines(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b'{"text": "a"}\n')


def named_plan(folder, *val_files, previous: Plan | None = None, resplit=False) -> Plan:
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
def test_val_files_are_the_named_ones(tmp_path, val_files, val):
    write_lines(tmp_path, *NAMES)
    assert val_of(named_plan(tmp_path, *val_files)) == val


@pytest.mark.parametrize("pattern", ["c.jsonl", "held", "*.parquet", "/held/a.jsonl", "more/*"])
def test_a_name_that_matches_no_file_is_refused(tmp_path, pattern):
    write_lines(tmp_path, *NAMES)
    with pytest.raises(PlanError, match=r"source\.web\.val_files has .*none of its 4 files"):
        named_plan(tmp_path, "a.jsonl", pattern)


def test_files_added_later_are_train_unless_named(tmp_path):
    write_lines(tmp_path, *NAMES)
    first = named_plan(tmp_path, "held/**")
    write_lines(tmp_path, "c.jsonl", "held/d.jsonl")
    second = named_plan(tmp_path, "held/**", previous=first)
    assert val_of(second) == ["held/a.jsonl", "held/d.jsonl", "held/more/c.jsonl"]


@pytest.mark.parametrize(
    ("val_files", "reported"),
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
def test_a_frozen_file_is_not_moved_without_resplit(tmp_path, val_files, reported):
    write_lines(tmp_path, *NAMES)
    first = named_plan(tmp_path, "held/**")
    with pytest.raises(PlanError) as caught:
        named_plan(tmp_path, *val_files, previous=first)
    assert reported in str(caught.value)
    assert "--resplit" in str(caught.value)
    moved = named_plan(tmp_path, *val_files, previous=first, resplit=True)
    assert val_of(moved) == val_of(named_plan(tmp_path, *val_files))


@pytest.mark.parametrize(
    ("split", "val_files"),
    [("files", ()), ("files", ("",)), ("train", ("a",)), ("share:0.1", ("a",))],
    ids=str,
)
def test_val_files_requires_the_split_by_files(split, val_files):
    with pytest.raises(RecipeError, match=r"source\.web\.val_files"):
        SourceRecipe(name="web", kind="text", paths=("a",), split=split, val_files=val_files)
