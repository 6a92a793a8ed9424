"""The sum of count files, in one process and by parts."""

import json
import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.counts import (
    NUM_RANGES,
    CountPart,
    CountProvenance,
    CountWriter,
    HashPart,
    PartSettings,
    PartSums,
    SpanCounts,
    count_file,
    hash_ranges,
    merge_count_files,
    merge_groups,
    merged_key,
    pack_counts,
    part_key,
    provenances_of,
    reduce_counts,
    reduce_part,
)
from nanotok_ray.errors import CorruptOutputError, CountOverflowError, CountsError, NanotokError
from nanotok_ray.formats import MergeRecord, StoredFile, key_of
from nanotok_ray.storage import Folder
from tests.support.count_runs import files_of, many, origin_of, run_of
from tests.support.machine_speed import scaled
from tests.support.s3_server import BUCKET, s3_behind_a_proxy

BATCH_ROWS = count_file.BATCH_ROWS
ORIGIN = CountProvenance.nothing(pattern=".", gaps="spans")

COUNTERS = st.lists(
    st.dictionaries(st.binary(max_size=3), st.integers(1, 9), max_size=30), max_size=5
)


def parts_of(folder, counters, weights=None):
    weights = weights or [1] * len(counters)
    urls = files_of(folder, counters)
    return [CountPart(url=url, weight=weight) for url, weight in zip(urls, weights, strict=True)]


def spans_of(data, offsets, counts):
    data = bytes(data)
    spans = [data[start:end] for start, end in pairwise(offsets.tolist())]
    assert len(set(spans)) == len(spans)
    return dict(zip(spans, counts.tolist(), strict=True))


def found(reduced):
    """Return the count of each span of all batches in order."""
    counts = {}
    for batch in reduced:
        spans = spans_of(*batch)
        assert not spans.keys() & counts.keys()
        counts |= spans
    return counts


def check(reduced, counters, weights, min_count):
    """Compare the weighted counts of the kept spans, and all totals, with plain counters."""
    plain, weighted = Counter(), Counter()
    for counts, weight in zip(counters, weights, strict=True):
        plain.update(counts)
        weighted.update({span: count * weight for span, count in counts.items()})
    dropped = {span: count for span, count in plain.items() if count < min_count}
    kept = {span: count for span, count in weighted.items() if span not in dropped}
    assert found(reduced) == kept
    assert reduced.weighted_bytes == bytes_of(kept)
    own = reduced.totals
    assert (own.spans, own.span_bytes) == (plain.total(), bytes_of(plain))
    assert (own.dropped_spans, own.dropped_bytes) == (sum(dropped.values()), bytes_of(dropped))
    assert (own.distinct_spans, own.dropped_distinct) == (len(plain), len(dropped))


def bytes_of(counts):
    return sum(len(span) * count for span, count in counts.items())


@given(
    counters=COUNTERS,
    weights=st.lists(st.integers(1, 2**40), min_size=5, max_size=5),
    min_count=st.integers(1, 20),
    sizes=st.tuples(*map(st.sampled_from, ([50_000, 1 << 28], [1, 2, 7], [1, 2, 8, 16]))),
    rng=st.randoms(use_true_random=False),
)
def test_sums_equal_those_of_counters(
    tmp_path_factory, *, counters, weights, min_count, sizes, rng
):
    buffer_bytes, batch_rows, num_parts = sizes
    weights = weights[: len(counters)]
    folder = Folder(str(tmp_path_factory.mktemp("counts")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_file, "BATCH_ROWS", batch_rows)
        parts = parts_of(Path(folder.url), counters, weights)
    shuffled = rng.sample(parts, len(parts))
    reduced = reduce_counts(shuffled, min_count=min_count, buffer_bytes=buffer_bytes)
    check(reduced, counters, weights, min_count)
    hashes = [xxhash.xxh3_64_intdigest(span) for span in found(reduced)]
    assert hashes == sorted(hashes)
    records = []
    for number in range(num_parts):
        part = HashPart(number=number, num_parts=num_parts)
        settings = PartSettings(min_count=min_count, part=part)
        record = reduce_part(parts, settings, folder=folder, name=f"part-{number}", key="k")
        records.append(record)
    by_parts = PartSums(folder=folder, records=records)
    check(by_parts, counters, weights, min_count)
    assert list(found(by_parts)) == list(found(reduced))


@pytest.mark.parametrize("damage", ["cut", "other", "more", "fewer", "gone"])
def test_a_damaged_part_is_named(tmp_path, damage):
    folder = Folder(str(tmp_path))
    parts = parts_of(tmp_path, [many(random.Random(4), 500)])
    settings = PartSettings(min_count=1, part=HashPart())
    record = reduce_part(parts, settings, folder=folder, name="part", key="k")
    path = tmp_path / "part.arrow"
    match damage:
        case "cut":
            path.write_bytes(path.read_bytes()[:-100])
        case "other":
            path.write_bytes((tmp_path / "0.arrow").read_bytes())
        case "more" | "fewer":
            change = 1 if damage == "fewer" else -1
            record = replace(record, sum=replace(record.sum, spans=record.sum.spans + change))
        case "gone":
            path.unlink()
    expected = FileNotFoundError if damage == "gone" else CorruptOutputError
    with pytest.raises(expected, match=r"part\.arrow"):
        list(PartSums(folder=folder, records=[record]))


def test_the_key_of_a_part_contains_everything_it_depends_on():
    def key(*keys, min_count=1, number=0, num_parts=4):
        part = HashPart(number=number, num_parts=num_parts)
        return part_key([*keys], PartSettings(min_count=min_count, part=part))

    a, b = ("a", 1), ("b", 1)
    keys = [key(a), key(("a", 2)), key(b), key(a, b)]
    keys += [key(a, min_count=2), key(a, number=1), key(a, num_parts=8)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("buffer_bytes", [1, 300_000, 1 << 28])
def test_files_of_many_batches_are_read_once_with_any_buffer(tmp_path, monkeypatch, buffer_bytes):
    rng = random.Random(1)
    sizes = [2 * BATCH_ROWS + 1, 0, 5 * BATCH_ROWS, 10]
    counters = [many(rng, size) for size in sizes]
    parts = parts_of(tmp_path, counters, [1, 2, 3, 4])
    read = Counter()
    batch = count_file.CountReader.batch

    def counted(self, number):
        read[self.name, number] += 1
        return batch(self, number)

    monkeypatch.setattr(count_file.CountReader, "batch", counted)
    reduced = reduce_counts(parts, min_count=2, buffer_bytes=buffer_bytes)
    check(reduced, counters, [1, 2, 3, 4], 2)
    assert set(read.values()) == {1}
    assert len(read) == sum(-(-len(counts) // BATCH_ROWS) for counts in counters)


def test_more_files_than_can_stay_open_are_summed(tmp_path, monkeypatch):
    rng = random.Random(2)
    counters = [many(rng, 20) for _ in range(300)]
    parts = parts_of(tmp_path, counters)
    check(reduce_counts(parts, buffer_bytes=40 << 20), counters, [1] * 300, 1)
    monkeypatch.setattr(hash_ranges, "MAX_OPEN", 3)
    opened = set()
    start, close = count_file.CountReader.__init__, count_file.CountReader.close

    def noted(self, source, *, name):
        opened.add(name)
        assert len(opened) <= 4
        start(self, source, name=name)

    def forgotten(self):
        opened.discard(self.name)
        close(self)

    monkeypatch.setattr(count_file.CountReader, "__init__", noted)
    monkeypatch.setattr(count_file.CountReader, "close", forgotten)
    check(reduce_counts(parts[:20], buffer_bytes=1 << 20), counters[:20], [1] * 20, 1)
    assert not opened


def test_compressed_and_uncompressed_files_are_read(tmp_path):
    counts = many(random.Random(4), 5000)
    run = run_of(counts)
    data = pack_counts(run, origin_of(counts))
    plain = count_file.ROW_BYTES * len(counts) + len(run[1])
    assert data.size < 0.9 * plain
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    head = table.schema.metadata
    del head[b"bytes"]  # as in files without compression
    with pa.ipc.new_file(str(tmp_path / "0.arrow"), table.schema.with_metadata(head)) as writer:
        writer.write_table(table.replace_schema_metadata(head), max_chunksize=65_536)
    parts = [CountPart(url=str(tmp_path / "0.arrow"))]
    check(reduce_counts(parts, buffer_bytes=50_000), [counts], [1], 1)


def test_progress_reports_bytes_and_its_exception_ends_the_call(tmp_path):
    parts = parts_of(tmp_path, [many(random.Random(3), 3000)])
    reported = []
    reduce_counts(parts, buffer_bytes=20_000, on_progress=lambda *each: reported.append(each))
    spans = many(random.Random(3), 3000)
    size = sum(count_file.ROW_BYTES + len(span) for span in spans)
    assert len(reported) > 1
    assert reported == sorted(reported)
    assert reported[-1] == (size, size)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reduce_counts(parts, on_progress=stop)


@pytest.mark.parametrize(("weight", "other"), [(1, 2**63), (2, 1)], ids=["plain", "weighted"])
def test_a_sum_over_64_bits_names_the_span(tmp_path, weight, other):
    parts = parts_of(tmp_path, [{b"ab\xff": 2**63}, {b"ab\xff": other, b"c": 1}], [weight, 1])
    with pytest.raises(CountOverflowError, match=r'"ab\\xff" would pass 2\*\*64 - 1'):
        reduce_counts(parts)


def test_a_weight_or_min_count_out_of_range_is_refused():
    for weight in (0, -1, 2**64):
        with pytest.raises(CountsError, match=rf"a\.arrow is {weight}: it must be 1"):
            CountPart(url="a.arrow", weight=weight)
    assert CountPart(url="a.arrow", weight=2**64 - 1).weight == 2**64 - 1
    with pytest.raises(CountsError, match="min_count is 0"):
        reduce_counts([], min_count=0)


def flipped_span(hashes, spans, counts):
    spans[7] = bytes([spans[7][0] ^ 1]) + spans[7][1:]


def flipped_hash(hashes, spans, counts):
    hashes[7] ^= 1


def no_count(hashes, spans, counts):
    counts[7] = 0


def exchanged(hashes, spans, counts):
    for values in (hashes, spans, counts):
        values[7], values[8] = values[8], values[7]


def repeated(hashes, spans, counts):
    for values in (hashes, spans, counts):
        values.insert(8, values[7])


WRONG_ROWS = {
    flipped_span: "the hash64 of span .* is not the hash of its bytes",
    flipped_hash: "the hash64 of span .* is not the hash of its bytes",
    no_count: "the count of span .* is 0",
    exchanged: "rows are not sorted",
    repeated: "or a span is repeated",
}


@pytest.fixture(params=[8, BATCH_ROWS], ids=["rows of two batches", "rows of one batch"])
def wrong_rows(request, tmp_path):
    """Return a function that writes two files, of which the second has wrong rows."""

    def write(damage):
        files_of(tmp_path, [{b"a": 1}])
        hashes, data, offsets, counts = run_of({b"%d" % n: 1 for n in range(40)})
        spans = [bytes(data[start:end]) for start, end in pairwise(offsets.tolist())]
        hashes, counts = hashes.tolist(), counts.tolist()
        damage(hashes, spans, counts)
        columns = [pa.array(hashes, pa.uint64()), pa.array(spans, pa.large_binary())]
        columns.append(pa.array(counts, pa.uint64()))
        starts = [0, *np.cumsum(count_file.range_sizes(np.array(sorted(hashes), np.uint64)))]
        head = pa.ipc.open_file(str(tmp_path / "0.arrow")).schema.metadata
        origin = json.loads(head[b"origin"]) | {"spans": sum(counts)}
        head |= {b"ranges": str([*map(int, starts)]), b"origin": json.dumps(origin)}
        schema = count_file.COUNTS_SCHEMA.with_metadata(head)
        with pa.ipc.new_file(str(tmp_path / "1.arrow"), schema) as writer:
            writer.write_table(pa.table(columns, schema=schema), max_chunksize=request.param)
        return [str(tmp_path / f"{number}.arrow") for number in range(2)]

    return write


@pytest.mark.parametrize("damage", WRONG_ROWS, ids=lambda damage: damage.__name__)
def test_wrong_rows_name_their_file(wrong_rows, tmp_path, damage):
    urls = wrong_rows(damage)
    for read in (
        lambda: reduce_counts([CountPart(url=url) for url in urls]),
        lambda: SpanCounts.load(*urls),
        lambda: merged(tmp_path, urls),
    ):
        with pytest.raises(CorruptOutputError, match=rf"/1\.arrow: .*{WRONG_ROWS[damage]}.*again"):
            read()


def test_counts_that_do_not_add_up_to_their_head_are_refused(tmp_path):
    counts = many(random.Random(4), 5000)
    wrong = pack_counts(run_of(counts), origin_of(counts | {b"1": counts[b"1"] + 1}))
    (tmp_path / "wrong.arrow").write_bytes(wrong)
    urls = [str(tmp_path / "wrong.arrow"), *files_of(tmp_path, [{b"a": 1}])]
    for read in (
        lambda: reduce_counts([CountPart(url=url) for url in urls], buffer_bytes=20_000),
        lambda: SpanCounts.load(*urls),
        lambda: merged(tmp_path, urls),
    ):
        with pytest.raises(CorruptOutputError, match=r"wrong\.arrow.*do not add up"):
            read()


@pytest.mark.parametrize("seed", range(3))
def test_no_flipped_bit_changes_counts(tmp_path, seed):
    rng, counts = random.Random(seed), many(random.Random(4), 300)
    path = tmp_path / "0.arrow"
    path.write_bytes(pack_counts(run_of(counts), origin_of(counts)))
    data, expected = path.read_bytes(), SpanCounts.load(str(path))
    for _ in range(100):
        place = rng.randrange(len(data))
        path.write_bytes(
            data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        )
        with suppress(NanotokError):
            found = SpanCounts.load(str(path))
            assert (found.origin, found.most_common()) == (expected.origin, expected.most_common())


DAMAGE = {
    "cut": lambda data: data[: len(data) // 2],
    "other bytes": lambda data: data[::-1],
    "no start": lambda data: data.replace(b"[0, ", b"[9, "),
    "too few rows": lambda data: data.replace(b", 3000]", b", 9999]"),
    "no offsets": lambda data: data.replace(b"ranges", b"rangez"),
    "no numbers": lambda data: data.replace(b"[0, ", b'["",'),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_named(tmp_path, damage):
    counters = [{b"%d" % n: 1 for n in range(3000)}, {b"a": 1}]
    parts = parts_of(tmp_path, counters)
    path = tmp_path / "0.arrow"
    data = path.read_bytes()
    path.write_bytes(damage(data))
    assert path.read_bytes() != data
    with pytest.raises(CorruptOutputError, match=r"/0\.arrow"):
        reduce_counts(parts[::-1], buffer_bytes=20_000)


def test_rows_outside_their_range_are_refused(tmp_path):
    run = run_of({b"%d" % n: 1 for n in range(3000)})
    sizes = count_file.range_sizes(run[0])
    last = np.flatnonzero(sizes[: NUM_RANGES // 2])[-1]
    sizes[last] -= 1
    sizes[NUM_RANGES // 2] += 1
    path = tmp_path / "0.arrow"
    with pa.OSFile(str(path), "wb") as sink:
        writer = CountWriter(sink, sizes, ORIGIN, span_bytes=len(run[1]))
        writer.write(run)
        writer.close()
    with pytest.raises(CorruptOutputError, match=r"/0\.arrow.*hashes of its rows"):
        reduce_counts([CountPart(url=str(path))], buffer_bytes=20_000)


def test_a_missing_value_is_refused(tmp_path):
    schema = pa.ipc.open_file(pa.BufferReader(pack_counts(run_of({b"a": 1}), ORIGIN))).schema
    columns = [pa.array([1], pa.uint64()), pa.array([None], pa.large_binary())]
    table = pa.table([*columns, pa.array([1], pa.uint64())], schema=schema)
    sizes = np.zeros(NUM_RANGES, np.int64)
    sizes[0] = 1
    starts = f"[0, {', '.join(map(str, np.cumsum(sizes)))}]"
    path = tmp_path / "a.arrow"
    head = schema.metadata | {b"ranges": starts}
    with pa.ipc.new_file(str(path), schema.with_metadata(head)) as writer:
        writer.write_table(table)
    with pytest.raises(CorruptOutputError, match=r"a\.arrow.*1 nulls"):
        reduce_counts([CountPart(url=str(path))])


def test_remote_files_are_read_in_parallel_with_one_request_each(tmp_path):
    rng = random.Random(5)
    counters = [many(rng, 40) for _ in range(40)]
    with s3_behind_a_proxy() as proxy:
        folder = Folder(f"s3://{BUCKET}/counts")
        parts = []
        for number, path in enumerate(files_of(tmp_path, counters)):
            folder.write_bytes(f"{number}.arrow", Path(path).read_bytes())
            parts.append(CountPart(url=folder.join(f"{number}.arrow")))
        proxy.clear()
        proxy.delay = scaled(0.05)
        check(reduce_counts(parts), counters, [1] * len(counters), 1)
        assert len(proxy.requests) == len(counters)
        assert proxy.most_at_once >= 8


def merged(folder, urls, **options):
    keys = [Path(url).stem for url in urls]
    return merge_count_files(urls, keys=keys, folder=Folder(str(folder)), name="all", **options)


def check_merged(folder, counters, **options):
    urls = files_of(folder, counters)
    record = merged(folder, urls, **options)
    total = sum(map(Counter, counters), Counter())
    whole = pack_counts(run_of(total), CountProvenance.joined(provenances_of(urls))).to_pybytes()
    path = folder / record.files[0].name
    assert path.read_bytes() == whole
    parts = [CountPart(url=url) for url in urls]
    one, each = reduce_counts([CountPart(url=str(path))]), reduce_counts(parts)
    for name in ("data", "offsets", "counts"):
        assert np.array_equal(getattr(one, name), getattr(each, name))
    assert one.totals == each.totals
    return record


@given(COUNTERS.filter(bool), st.sampled_from([50_000, 1 << 28]), st.sampled_from([1, 2, 7]))
def test_a_merged_file_equals_counting_all_texts_at_once(
    tmp_path_factory, counters, buffer_bytes, batch_rows
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_file, "BATCH_ROWS", batch_rows)
        check_merged(tmp_path_factory.mktemp("counts"), counters, buffer_bytes=buffer_bytes)


@pytest.mark.parametrize("buffer_bytes", [400_000, 1 << 28])
def test_batches_of_a_merged_file_are_full(tmp_path, buffer_bytes):
    rng = random.Random(1)
    counters = [many(rng, size) for size in (3 * BATCH_ROWS, 10, 4 * BATCH_ROWS, BATCH_ROWS)]
    check_merged(tmp_path, counters, buffer_bytes=buffer_bytes)


def test_the_record_lists_what_was_merged(tmp_path):
    record = check_merged(tmp_path, [{b"a": 2, b"b": 1}, {b"b": 4}])
    [file] = record.files
    size = (tmp_path / "all.arrow").stat().st_size
    sha256 = Folder(str(tmp_path)).sha256("all.arrow")
    assert file == StoredFile(name="all.arrow", size=size, sha256=sha256)
    assert record == MergeRecord(
        stage="merge",
        key=merged_key(["0", "1"]),
        count_files=2,
        texts=6,
        text_bytes=7,
        spans=7,
        distinct_spans=2,
        gaps=2,
        files=(file,),
    )


def test_a_damaged_file_or_one_of_another_pattern_is_named_and_nothing_is_left(tmp_path):
    urls = files_of(tmp_path, [{b"a": 1}, {b"a": 1}])
    hashes, *rest = run_of({b"a": 1, b"b": 1})
    damaged = pack_counts((hashes[::-1].copy(), *rest), origin_of({}))
    other = pack_counts(run_of({b"a": 1}), origin_of({b"a": 1}, pattern="a"))
    for data, error, message in (
        (b"damaged", CorruptOutputError, r"/1\.arrow .*; remove it and count its texts again"),
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
