"""The plan: files, splits, slices."""

import json
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.errors import PlanError, RecipeError
from nanotok_ray.formats import RowGroup, SourceFile
from nanotok_ray.recipe import OutputRecipe, Recipe, SourceRecipe
from nanotok_ray.sources import (
    EarlierPlan,
    Plan,
    SliceReading,
    make_plan,
    plan_from_json,
    plan_to_json,
)
from nanotok_ray.sources.plan_build import FILE_COST_BYTES, GROUP_LIMIT, cut_file, group_files
from tests.support.small_corpus import plan_of, recipe, texts, write_corpus, write_parquet


def splits_of(plan, source="web"):
    planned = next(each for each in plan.sources if each.name == source)
    return {file.path: file.split for file in planned.files}


@pytest.fixture
def job(tmp_path):
    write_corpus(tmp_path / "in")
    return partial(recipe, tmp_path / "in", tmp_path / "out")


def test_a_file_added_later_is_train_even_if_it_sorts_last(job, tmp_path):
    first = make_plan(job())
    assert list(splits_of(first).values()) == ["train", "train", "val"]
    assert set(splits_of(first, "chats").values()) == {"train"}
    write_parquet(tmp_path / "in/text/shard_00009.parquet", texts(5, seed=9))
    second = make_plan(job(), earlier=EarlierPlan(plan=plan_from_json(plan_to_json(first))))
    assert splits_of(second) == {**splits_of(first), "shard_00009.parquet": "train"}
    kept = {each.key for each in first.slices()}
    assert kept <= {each.key for each in second.slices()}
    assert (
        splits_of(make_plan(job(), earlier=EarlierPlan(plan=first, resplit=True)))[
            "shard_00009.parquet"
        ]
        == "val"
    )


def test_a_recipe_that_contradicts_the_frozen_split_is_refused(job):
    first, other = make_plan(job()), job("source.web.split=train")
    with pytest.raises(PlanError, match="--resplit"):
        make_plan(other, earlier=EarlierPlan(plan=first))
    assert set(
        splits_of(make_plan(other, earlier=EarlierPlan(plan=first, resplit=True))).values()
    ) == {"train"}


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
    return make_plan(recipe, earlier=EarlierPlan(plan=previous, resplit=resplit))


def val_of(plan: Plan) -> list[str]:
    (source,) = plan.sources
    by_file = [file.path for file in source.files if file.split == "val"]
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


SLICE_BYTES = 8 * FILE_COST_BYTES  # small files count as 1/8 or more: 1 in 4 names ends a group


def a_file(name, size, form):
    own = SourceFile(path=name, url=f"/{name}", size=size, mtime_ns=0, format="jsonl")
    if form == "parquet":
        sizes = [size // 3, size // 3, size - 2 * (size // 3)]
        layout = tuple(RowGroup(rows=1, num_bytes=each) for each in sizes)
        return replace(own, format="parquet", layout=layout, footer_sha256="00")
    return replace(own, compression=None if form == "jsonl" else form)


SIZES = st.one_of(  # most are small, some are divided
    *[st.integers(0, 2 * FILE_COST_BYTES)] * 6, st.integers(0, 5 * SLICE_BYTES)
)
FORMS = st.sampled_from(["jsonl", "jsonl", "parquet", "gzip"])
CORPORA = st.dictionaries(
    st.from_regex(r"[a-z]{1,6}", fullmatch=True), st.tuples(SIZES, FORMS), max_size=60
)


def files_of(corpus):
    return [a_file(name, *corpus[name]) for name in sorted(corpus, key=str.encode)]


def weight(file):
    pieces = cut_file(file, slice_bytes=SLICE_BYTES)
    return max(FILE_COST_BYTES, sum(piece.num_bytes for piece in pieces))


def is_large(file):
    return weight(file) * 4 > SLICE_BYTES


def is_landmark(file):
    """Return whether a group ends with this file for any neighbors."""
    bound = 2 * weight(file) / SLICE_BYTES
    return is_large(file) or _core.hash64(file.path.encode()) / 2**64 < bound


def slices_of(files):
    """Return each slice as (stem, number, ((file, start, stop), ...)), which determines its key."""
    return [
        (stem, number, tuple((piece.file, piece.start, piece.stop) for piece in pieces))
        for stem, number, pieces in group_files(files, slice_bytes=SLICE_BYTES)
    ]


def check(files, removed):
    """Check that removing adjacent files, and adding them back, changes only allowed slices."""
    names = [file.path for file in files]
    left = [file for file in files if file.path not in removed]
    first = min(names.index(name) for name in removed)
    last = max(names.index(name) for name in removed)
    before = [n for n in range(first) if is_landmark(files[n])]
    behind = [n for n in range(last + 1, len(files)) if is_landmark(files[n])]
    start = before[-1] + 1 if before else 0
    stop = behind[0] + 1 if behind else len(files)
    outside = {*names[:start], *names[stop:]}

    def is_apart(file):
        return file.path in outside or (is_large(file) and file.path not in removed)

    def apart(slices):
        return [each for each in slices if all(is_apart(file) for file, _, _ in each[2])]

    whole, without = slices_of(files), slices_of(left)
    assert apart(whole) == apart(without)
    # No slice crosses a landmark, so those disjoint from it are all slices outside the region.
    for slices in (whole, without):
        seen = {file.path for each in apart(slices) for file, _, _ in each[2]}
        assert outside <= seen
    # Between two landmarks with less than the limit there is one group, before and after.
    region = [file for file in files[start:stop] if not is_large(file)]
    if sum(map(weight, region)) <= GROUP_LIMIT * SLICE_BYTES and first == last:
        changed = [each for each in without if each not in whole]
        assert len(changed) <= 1


@given(CORPORA.filter(bool), st.data())
def test_added_or_removed_neighbors_change_only_adjacent_groups(corpus, data):
    files = files_of(corpus)
    first = data.draw(st.integers(0, len(files) - 1))
    last = data.draw(st.integers(first, min(first + 5, len(files) - 1)))
    check(files, {file.path for file in files[first : last + 1]})


@given(CORPORA)
def test_no_group_exceeds_the_limit_and_no_byte_is_lost(corpus):
    files = files_of(corpus)
    slices = slices_of(files)
    for _, _, members in slices:
        if len({file.path for file, _, _ in members}) > 1:
            assert sum(weight(file) for file, _, _ in members) <= GROUP_LIMIT * SLICE_BYTES
            assert not any(is_large(file) for file, _, _ in members)
    flat = [member for _, _, members in slices for member in members]
    cut = [(file, cut_file(file, slice_bytes=SLICE_BYTES)) for file in files]
    assert flat == [(file, piece.start, piece.stop) for file, pieces in cut for piece in pieces]


def test_few_groups_end_at_the_limit():
    files = [a_file(f"{number:06}", FILE_COST_BYTES, "jsonl") for number in range(20_000)]
    slices = [[file for file, _, _ in members] for _, _, members in slices_of(files)]
    by_limit = [members for members in slices[:-1] if not is_landmark(members[-1])]
    at_landmarks = sum(map(is_landmark, files))
    assert 0 < len(by_limit) / at_landmarks < 0.03
    assert {len(members) for members in by_limit} == {GROUP_LIMIT * 8}  # eight files weigh a slice
    assert max(map(len, slices)) == GROUP_LIMIT * 8
    assert 3 < len(files) / len(slices) < 5  # a quarter of the names end a group


@given(st.integers(0, 10_000), st.integers(1, 3000))
def test_byte_ranges_cover_a_file_without_overlap(size, slice_bytes):
    pieces = cut_file(a_file("a", size, "jsonl"), slice_bytes=slice_bytes)
    assert [piece.start for piece in pieces[1:]] == [piece.stop for piece in pieces[:-1]]
    assert pieces[0].start == 0
    assert pieces[-1].stop == size


@given(st.lists(st.integers(0, 500), max_size=30), st.integers(1, 2000))
def test_row_groups_are_grouped_up_to_the_target(sizes, slice_bytes):
    layout = tuple(RowGroup(rows=1, num_bytes=size) for size in sizes)
    file = SourceFile(path="a", url="/a", size=9, format="parquet", layout=layout)
    pieces = cut_file(file, slice_bytes=slice_bytes)
    assert [n for piece in pieces for n in range(piece.start, piece.stop)] == [*range(len(sizes))]
    for piece in pieces:
        own = sizes[piece.start : piece.stop]
        assert sum(own) <= slice_bytes or len(own) == 1


def readings(folder, **source):
    """Return a reading of every slice of a source."""
    return [SliceReading(each) for each in plan_of(folder, **source).slices()]


def test_returned_and_quarantined_bytes_sum_to_the_input(tmp_path):
    lines = [b'{"text": "\\u00e9a"}', b"oops", b'{"text": "bcd"}', b"x" * 500, b'{"text": "ef"}']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    (each,) = plan_of(tmp_path).slices()
    reading = SliceReading(each, max_document_bytes=100)
    for piece, batch in reading:
        assert list(batch.documents) == ["éa".encode(), b"bcd", b"ef"]
        reading.quarantine(piece, batch, 1, reason="cannot be split: at byte 1")
    assert reading.documents_in == 5
    assert reading.bytes_in == 3 + 4 + 3 + 500 + 2
    assert reading.bytes_quarantined == 4 + 500 + 3
    assert [entry.bytes for entry in reading.quarantined] == [4, 500, 3]
    assert reading.reasons == {"cannot be split": 1, "invalid JSON": 1, "too large": 1}


def test_with_a_share_every_byte_is_in_one_split(tmp_path):
    texts = [f"text {number}" for number in range(200)]
    lines = [json.dumps({"text": text}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "oops"]))
    train, val = readings(tmp_path, split="share:0.3")
    given = [[text for _, batch in each for text in batch.documents] for each in (train, val)]
    assert sorted(given[0] + given[1]) == sorted(text.encode() for text in texts)
    assert 0 < val.documents_in < 200
    assert val.bytes_in == sum(map(len, given[1]))
    assert (train.bytes_quarantined, val.bytes_quarantined) == (4, 0)
    assert train.bytes_in + val.bytes_in == sum(map(len, texts)) + 4


def test_a_share_that_rounds_to_all_takes_all(tmp_path):
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(99)))
    train, val = readings(tmp_path, split=f"share:0.{'9' * 40}", format="lines")
    assert [len(batch.documents) for _, batch in train] == []
    assert sum(len(batch.documents) for _, batch in val) == 99


def test_the_documents_of_a_share_stay_in_their_split_when_files_are_added(tmp_path):
    def val_texts():
        plan = plan_of(tmp_path, split="share:0.3", format="lines")
        val = map(SliceReading, plan.slices(split="val"))
        return {text for each in val for _, batch in each for text in batch.documents}

    def write(name):
        (tmp_path / name).write_text("".join(f"{name} {number}\n" for number in range(100)))

    write("b")
    before = val_texts()
    write("a")
    write("c")
    after = val_texts()
    assert {text for text in after if text.startswith(b"b")} == before
    assert {text[:1] for text in after} == {b"a", b"b", b"c"}
