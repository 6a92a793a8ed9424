"""Groups of count files, and their merged file, which equals that of counting at once."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.counts import (
    CountPart,
    CountProvenance,
    count_file,
    merge_count_files,
    merge_groups,
    merged_key,
    pack_counts,
    provenances_of,
    reduce_counts,
)
from nanotok_ray.errors import CorruptOutputError, CountsError
from nanotok_ray.formats import RECORD_FORMAT, key_of
from nanotok_ray.storage import Folder
from tests.support.count_runs import files_of, many, origin_of, run_of

BATCH_ROWS = count_file.BATCH_ROWS
COUNTERS = st.lists(
    st.dictionaries(st.binary(max_size=3), st.integers(1, 9), max_size=30), min_size=1, max_size=5
)


def merged(folder, urls, **options):
    keys = [Path(url).stem for url in urls]
    return merge_count_files(urls, keys=keys, folder=Folder(str(folder)), name="all", **options)


def check(folder, counters, **options):
    urls = files_of(folder, counters)
    record = merged(folder, urls, **options)
    total = sum(map(Counter, counters), Counter())
    whole = pack_counts(run_of(total), CountProvenance.joined(provenances_of(urls))).to_pybytes()
    path = folder / record["files"][0]["name"]
    assert path.read_bytes() == whole
    parts = [CountPart(url=url) for url in urls]
    one, each = reduce_counts([CountPart(url=str(path))]), reduce_counts(parts)
    for name in ("data", "offsets", "counts"):
        assert np.array_equal(getattr(one, name), getattr(each, name))
    assert one.totals == each.totals
    return record


@given(COUNTERS, st.sampled_from([50_000, 1 << 28]), st.sampled_from([1, 2, 7]))
def test_a_merged_file_equals_counting_all_texts_at_once(
    tmp_path_factory, counters, buffer_bytes, batch_rows
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_file, "BATCH_ROWS", batch_rows)
        check(tmp_path_factory.mktemp("counts"), counters, buffer_bytes=buffer_bytes)


@pytest.mark.parametrize("buffer_bytes", [400_000, 1 << 28])
def test_batches_of_a_merged_file_are_full(tmp_path, buffer_bytes):
    rng = random.Random(1)
    counters = [many(rng, size) for size in (3 * BATCH_ROWS, 10, 4 * BATCH_ROWS, BATCH_ROWS)]
    check(tmp_path, counters, buffer_bytes=buffer_bytes)


def test_the_record_lists_what_was_merged(tmp_path):
    record = check(tmp_path, [{b"a": 2, b"b": 1}, {b"b": 4}])
    [file] = record.pop("files")
    size = (tmp_path / "all.arrow").stat().st_size
    sha256 = Folder(str(tmp_path)).sha256("all.arrow")
    assert file == {"name": "all.arrow", "size": size, "sha256": sha256}
    assert record == {
        "format": RECORD_FORMAT,
        "stage": "merge",
        "key": merged_key(["0", "1"]),
        "count_files": 2,
        "texts": 6,
        "text_bytes": 7,
        "spans": 7,
        "distinct_spans": 2,
        "gaps": 2,
    }


def test_a_damaged_file_or_one_of_another_pattern_is_named_and_nothing_is_left(tmp_path):
    urls = files_of(tmp_path, [{b"a": 1}, {b"a": 1}])
    hashes, *rest = run_of({b"a": 1, b"b": 1})
    damaged = pack_counts((hashes[::-1].copy(), *rest), origin_of({}))
    other = pack_counts(run_of({b"a": 1}), origin_of({b"a": 1}, pattern="a"))
    for data, error, message in (
        (damaged, CorruptOutputError, r"/1\.arrow"),
        (other, CountsError, r"1\.arrow has 'a'"),
    ):
        Path(urls[1]).write_bytes(data)
        with pytest.raises(error, match=message):
            merged(tmp_path, urls)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["0.arrow", "1.arrow"]


def keys_of(number, seed=0):
    return [key_of([seed, each]) for each in range(number)]


@given(st.integers(0, 400), st.integers(1, 9), st.integers(0, 5))
def test_groups_contain_all_keys_in_order_and_respect_the_limit(number, target, seed):
    keys = keys_of(number, seed)
    groups = merge_groups(keys, target=target)
    assert [each for first, end in groups for each in range(first, end)] == list(range(number))
    assert all(0 < end - first <= 4 * target for first, end in groups)


def test_groups_have_about_the_requested_length():
    groups = merge_groups(keys_of(30_000))
    assert 40 < 30_000 / len(groups) < 80
    equal = merge_groups(["same"] * 50, target=3)
    assert all(end - first <= 12 for first, end in equal)
    assert sum(end - first for first, end in equal) == 50


@pytest.mark.parametrize("number", [300, 3000])
def test_an_added_key_changes_only_its_group(number):
    keys = keys_of(number)
    before = {tuple(keys[first:end]) for first, end in merge_groups(keys)}
    changed = []
    for place in range(0, number, 37):
        more = [*keys[:place], key_of(["more", place]), *keys[place:]]
        after = {tuple(more[first:end]) for first, end in merge_groups(more)}
        changed.append(len(before - after))
    assert max(changed) <= 2
    assert sorted(changed)[len(changed) // 2] == 1
