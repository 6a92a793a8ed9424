"""Ends of slices: the effect of adding or removing a file in the middle is limited."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.sources import RowGroup, SourceFile, estimated_bytes
from nanotok_ray.sources.plan_build import FILE_COST_BYTES, GROUP_LIMIT, cut_file, group_files

SLICE_BYTES = 8 * FILE_COST_BYTES  # small files count as 1/8 or more: 1 in 4 names ends a group


def a_file(name, size, form):
    own = SourceFile(path=name, url=f"/{name}", size=size, mtime_ns=0, format="jsonl")
    if form == "parquet":
        sizes = [size // 3, size // 3, size - 2 * (size // 3)]
        layout = tuple(RowGroup(rows=1, num_bytes=each) for each in sizes)
        return replace(own, format="parquet", layout=layout, footer_sha256="00")
    return replace(own, compression=None if form == "jsonl" else form)


NAMES = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
SIZES = st.one_of(  # most are small, some are divided
    *[st.integers(0, 2 * FILE_COST_BYTES)] * 6, st.integers(0, 5 * SLICE_BYTES)
)
FORMS = st.sampled_from(["jsonl", "jsonl", "parquet", "gzip"])
CORPORA = st.dictionaries(NAMES, st.tuples(SIZES, FORMS), max_size=60)


def files_of(corpus):
    return [a_file(name, *corpus[name]) for name in sorted(corpus, key=str.encode)]


def weight(file):
    pieces = cut_file(file, slice_bytes=SLICE_BYTES)
    return max(FILE_COST_BYTES, sum(estimated_bytes(file, piece) for piece in pieces))


def is_large(file):
    return weight(file) * 4 > SLICE_BYTES


def is_landmark(file):
    """Return whether a group ends with this file for any neighbors."""
    bound = 2 * weight(file) / SLICE_BYTES
    return is_large(file) or _core.hash64(file.path.encode()) / 2**64 < bound


def slices_of(files):
    """Return each slice as (stem, number, ((file, start, stop), ...)), which determines its key."""
    return [
        (stem, number, tuple((file, piece.start, piece.stop) for file, piece in members))
        for stem, number, members in group_files(files, slice_bytes=SLICE_BYTES)
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
