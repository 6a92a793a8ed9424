"""More shards than open files, and mixtures."""

import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError, PackingError
from nanotok_ray.formats import ROW
from nanotok_ray.loader import DocumentOrder, Loader, Mixture, RowSettings, open_shards
from nanotok_ray.loader.shards import max_files
from tests.support.finished_output import change_json, publish_index
from tests.support.machine_speed import scaled
from tests.support.made_output import MadeSource, made_output, mask_of
from tests.support.plain_loader import made_shards, made_sources

SHARDS = 90
"""More than the limit of views of `pieces`."""


def document(seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 60000, int(rng.integers(0, 9))).tolist()


WEB = [[document(100 * shard + n) for n in range(shard % 4)] for shard in range(SHARDS)]
CHATS = [[document(-1 - n + 10_000) for n in range(7)], [], [[1, 2, 3]]]
DOCUMENTS = [*(d for shard in WEB for d in shard), *(d for shard in CHATS for d in shard)]
TEXTS = sum(map(len, WEB))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made") / "out"
    made_output(
        root,
        MadeSource(name="web", shards=WEB),
        MadeSource(name="none", shards=[[]]),
        MadeSource(name="chats", shards=CHATS, kind="chat"),
    )
    return root


def stretches(data):
    """Return documents, in any order and repeated, and a part of each."""
    documents = data.draw(st.lists(st.integers(0, len(DOCUMENTS) - 1), max_size=150))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    starts = [int(rng.integers(0, len(DOCUMENTS[d]) + 1)) for d in documents]
    lengths = [
        int(rng.integers(0, len(DOCUMENTS[d]) - s + 1))
        for d, s in zip(documents, starts, strict=True)
    ]
    return tuple(np.array(each, dtype=np.int64) for each in (documents, starts, lengths))


@given(st.data(), st.sampled_from([0, 64]))
def test_lengths_and_parts_equal_those_of_the_documents(made, data, most_viewed):
    shards = open_shards(str(made))
    documents, starts, lengths = stretches(data)
    assert shards.lengths(documents).tolist() == [len(DOCUMENTS[d]) for d in documents]
    pieces = shards.pieces(documents, starts, lengths, masks=True, max_viewed=most_viewed)
    for place, (number, start, length) in enumerate(zip(documents, starts, lengths, strict=True)):
        array, first = pieces.which[place], pieces.offsets[place]
        expected = DOCUMENTS[number][start : start + length]
        assert pieces.ids[array][first : first + length].tolist() == expected
        mask = pieces.masks[array]
        assert (mask is None) == (number < TEXTS)
        if mask is not None:
            own = mask_of(DOCUMENTS[number])[start : start + length]
            assert mask[first : first + length].tolist() == own.tolist()
    assert all(type(ids) is np.ndarray and ids.dtype == np.uint16 for ids in pieces.ids)
    assert len(pieces.ids) <= SHARDS + len(CHATS)


def test_a_missing_document_is_an_index_error(made):
    shards, one, zero = open_shards(str(made)), np.array([1]), np.array([0])
    total = len(DOCUMENTS)
    for wrong in (-1, total):
        with pytest.raises(IndexError, match=f"document {wrong} of {total}"):
            shards.lengths(np.array([0, wrong]))
    for start, length in ((zero, one * 99), (-one, one), (one, -one)):
        with pytest.raises(IndexError, match=r"ends after its document, of web/train/part-00001"):
            shards.pieces(zero, start, length)


def test_ranges_locate_the_sources(made):
    shards = open_shards(str(made))
    assert shards.ranges() == {"web": range(TEXTS), "chats": range(TEXTS, len(DOCUMENTS))}
    assert shards.sources == ["web", "none", "chats"]
    assert shards.num_ids == 60002
    assert shards.special_tokens["<|bos|>"] == 60000


def test_the_fingerprint_depends_on_ids_and_sources(made, tmp_path):
    own = open_shards(str(made)).fingerprint
    assert open_shards(str(shutil.copytree(made, tmp_path / "out"))).fingerprint == own
    assert open_shards(str(made), source="web").fingerprint != own
    found = set()
    for web, code in (([[[1, 2]]], []), ([[[1, 3]]], []), ([], [[[1, 2]]])):
        sources = MadeSource(name="web", shards=web), MadeSource(name="code", shards=code)
        folder = made_output(tmp_path / str(len(found)), *sources)
        found.add(open_shards(folder.url).fingerprint)
    assert len(found) == 3


@given(
    st.integers(1, 12),
    st.sampled_from([None, "document", "block"]),
    st.integers(0, 5),
    st.integers(0, 250),
)
def test_ranks_share_the_documents_of_an_epoch(made, world_size, shuffle, epoch, start):
    shards = open_shards(str(made))
    order = DocumentOrder(len(shards), shuffle=shuffle, seed=4, block_documents=10)
    found: list[object] = [None] * (len(shards) - start)
    for rank in range(world_size):
        own = list(shards.documents_of(rank, world_size, order, epoch, start))
        found[rank::world_size] = [number for number, _ in own]
        assert all(ids.tolist() == DOCUMENTS[number] for number, ids in own)
    assert found == order.at(np.arange(len(shards)), epoch).tolist()[start:]


def test_arguments_of_ranks_are_optional_and_checked_at_once(made):
    shards = open_shards(str(made))
    assert [ids.tolist() for _, ids in shards.documents_of(0, 1)] == DOCUMENTS
    for rank, size in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(PackingError, match=f"rank {rank} of {size}"):
            shards.documents_of(rank, size)
    with pytest.raises(PackingError, match=f"3 documents for {len(DOCUMENTS)}"):
        shards.documents_of(0, 1, DocumentOrder(3))
    with pytest.raises(PackingError, match="start is -1"):
        shards.documents_of(0, 1, start=-1)


def test_a_file_url_is_a_local_folder(made, tmp_path):
    shards = open_shards(f"file://{made}", cache=tmp_path / "cache")
    assert isinstance(shards[-1], np.memmap)
    assert not (tmp_path / "cache").exists()


def test_a_pickled_copy_reads_the_same_unless_the_output_was_replaced(finished, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    shards = open_shards(str(out), source="chats", check_files=True)
    assert len(shards[0]) > 0
    packed = pickle.dumps(shards)
    assert len(packed) < 1000
    again = pickle.loads(packed)
    assert again.check_files
    assert [ids.tolist() for ids in again] == [ids.tolist() for ids in shards]
    shutil.rmtree(out / "tokenizer")  # it would be another one
    made_output(out, MadeSource(name="chats", kind="chat", shards=[[[1]]]))
    with pytest.raises(CorruptOutputError, match="other documents than when it was opened"):
        pickle.loads(packed)


def test_records_are_those_named_by_the_index(finished, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    shards = open_shards(str(out))
    for place in range(len(shards.rows)):
        record = shards.record(place)
        assert shards.name(place) in [each["name"] for each in record["shards"]]
        assert record == json.loads(shards.read_file(shards.record_name(place), limit=1 << 20))
    path = out / shards.record_name(0)
    path.write_bytes(path.read_bytes().replace(b"tokenize", b"tokenise", 1))
    with pytest.raises(CorruptOutputError, match=r"not the record that shards\.idx names"):
        shards.record(0)
    path.unlink()
    with pytest.raises(CorruptOutputError, match="is missing; `nanotok verify"):
        shards.record(0)


def test_any_file_of_the_output_is_read_up_to_a_size(finished):
    shards = open_shards(str(finished))
    plan = (finished / "plan.json").read_bytes()
    assert shards.read_file("plan.json", limit=len(plan)) == plan
    with pytest.raises(CorruptOutputError, match="more than 10 is refused"):
        shards.read_file("plan.json", limit=10)
    with pytest.raises(FileNotFoundError):
        shards.read_file("plan.jsn", limit=10)
    with pytest.raises(CorruptOutputError, match="not the name of a file inside"):
        shards.read_file("../in/a", limit=10)


@pytest.mark.parametrize("suffix", [".bin", ".mask"])
def test_other_bytes_of_the_same_size_are_detected_if_requested(finished, tmp_path, suffix):
    out = shutil.copytree(finished, tmp_path / "out")
    expected = [ids.tolist() for ids in open_shards(str(out), check_files=True)]
    assert expected == [ids.tolist() for ids in open_shards(str(out))]
    path = min(out.glob(f"chats/train/*{suffix}"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert len(list(open_shards(str(out)))) == len(expected)
    shards = open_shards(str(out), check_files=True)
    assert len(shards[0]) > 0  # another shard
    with pytest.raises(CorruptOutputError, match=rf"{path.name} has another sha256 .* run the job"):
        list(shards)


def test_more_shards_are_read_than_files_may_be_open(made):
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
import numpy as np
from nanotok_ray.loader import open_shards
shards = open_shards({str(made)!r})
print(sum(len(ids) for ids in shards), sum(shards.mask(n) is None for n in range(len(shards))))
documents = np.arange(len(shards))
lengths = shards.lengths(documents)
pieces = shards.pieces(documents, np.zeros_like(lengths), lengths, masks=True)
print(sum(map(len, pieces.ids)), len(shards._open))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    tokens, texts, in_pieces, kept = map(int, done.stdout.split())
    assert tokens == in_pieces == sum(map(len, DOCUMENTS))
    assert texts == TEXTS
    assert kept <= 12


def test_threads_may_read_the_same_shards(made):
    shards = open_shards(str(made))
    shards._open.max_files = 6
    documents = np.arange(len(shards))

    def read(seed):
        order = np.random.default_rng(seed).permutation(documents)
        return all(shards[n].tolist() == DOCUMENTS[n] for n in order.tolist() * 4)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(read, range(4)))
    finally:
        sys.setswitchinterval(before)
    kept = shards._open
    assert kept._files == sum(shard.num_files for shard in kept._shards.values()) <= 6


def test_half_of_the_allowed_open_files_are_mapped(monkeypatch):
    for limit, expected in ((1024, 512), (10**6, 40_000), (resource.RLIM_INFINITY, 40_000)):
        monkeypatch.setattr("resource.getrlimit", lambda _, limit=limit: (limit, limit))
        assert max_files() == expected


@pytest.mark.parametrize("kind", ["out", "inside", "folder", "pipe"])
def test_files_outside_the_output_are_refused(finished, tmp_path, kind):
    out = shutil.copytree(finished, tmp_path / "out")
    path = max(out.glob("web/train/*.bin"))
    moved = path.rename((tmp_path if kind == "out" else out) / "moved")
    make = {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}
    make.get(kind, lambda: path.symlink_to(moved))()
    shards = open_shards(str(out), source="web")
    assert len(shards[0]) > 0
    if kind == "inside":
        assert len(list(shards)) == len(shards)
        return
    reasons = {"out": "is a link out of", "pipe": "is not a regular file", "folder": "is a folder"}
    expected = reasons[kind]
    with pytest.raises(CorruptOutputError, match=rf"{path.name} {expected}"):
        list(shards)


def many_shards(root, count):
    """Write manifest and index of an output of many shards without files."""
    made_output(root, MadeSource(name="web", shards=[[[1, 2]]]))
    names = b"".join(b"web/train/part-%05d-000-%016d\0" % (n, 0) for n in range(count))
    rows = np.zeros(count, dtype=ROW)
    rows["item_bytes"], rows["documents"], rows["tokens"], rows["bin_bytes"] = 2, 1000, 5000, 10000
    rows["idx_bytes"] = 34 + 20 * 1000 + 8
    rows["first_document"] = np.arange(count) * 1000
    rows["record_sha256"] = np.random.default_rng(1).integers(0, 256, (count, 32))
    own = np.frombuffer(names, dtype=np.uint8)
    rows["name_offset"] = np.concatenate([[0], np.flatnonzero(own == 0)[:-1] + 1])
    header = np.frombuffer((root / "shards.idx").read_bytes()[:32], dtype="<u8").copy()
    header[2:] = count, len(names)
    publish_index(root, header.tobytes() + rows.tobytes() + names)
    change_json(root / "manifest.json", "shards", count)


def test_two_hundred_thousand_shards_can_be_opened(tmp_path):
    many_shards(tmp_path / "out", 200_000)
    started = time.perf_counter()
    shards = open_shards(str(tmp_path / "out"))
    assert shards.shard_of(-1) == (f"web/train/part-199999-000-{0:016d}", 999)
    assert time.perf_counter() - started < scaled(5)
    assert len(shards) == 200_000_000
    with pytest.raises(CorruptOutputError, match=r"part-00007-000-0+\.bin is missing"):
        shards[7500]


def shards_of(sources):
    """Return shards without files: (documents, tokens) of each source, one shard each."""
    names = [f"s{number}" for number in range(len(sources))]
    rows = np.zeros(len(sources), dtype=[("source", "<u4"), ("tokens", "<u8")])
    rows["source"] = range(len(sources))
    rows["tokens"] = [tokens for _, tokens in sources]
    ends = np.cumsum([0, *(documents for documents, _ in sources)]).tolist()
    return SimpleNamespace(
        index=SimpleNamespace(rows=rows),
        rows=np.arange(len(sources)),
        sources=names,
        num_tokens=sum(tokens for _, tokens in sources),
        ranges=lambda: {name: range(ends[n], ends[n + 1]) for n, name in enumerate(names)},
        __len__=lambda: ends[-1],
    )


def mixture_of(sources, weights, **more):
    names = [f"s{number}" for number in range(len(sources))]
    settings = RowSettings(
        packing="best-fit", length=8, weights=dict(zip(names, weights, strict=True)), **more
    )
    return Mixture.of(shards_of(sources), settings)


def streams_of(mixture, documents):
    """Return the index of the stream of each document."""
    return np.searchsorted(
        [stream.documents.stop for stream in mixture.streams], documents, "right"
    )


SOURCES = st.lists(
    st.tuples(
        st.tuples(st.integers(1, 2000), st.integers(1, 10**7)),
        st.one_of(st.integers(1, 100), st.floats(1e-9, 1e9), st.floats(0.01, 1)),
    ),
    min_size=1,
    max_size=6,
)


@given(SOURCES, st.integers(1, 50))
def test_shares_hold_at_any_length(sources, group_documents):
    sizes, weights = zip(*sources, strict=True)
    mixture = mixture_of(sizes, weights, group_documents=group_documents)
    shares = [
        Fraction(repr(float(weight))) * documents / tokens
        for (documents, tokens), weight in zip(sizes, weights, strict=True)
    ]
    shares = [share / sum(shares) for share in shares]
    taken, counts, length = (0,) * len(sizes), Counter(), 0
    for _ in range(-(-150 // group_documents)):
        documents, taken = mixture.next_group(taken)
        assert len(documents) == group_documents
        assert mixture.is_start_of_group(taken)
        for stream in streams_of(mixture, documents).tolist():
            counts[stream] += 1
            length += 1
            for number, share in enumerate(shares):
                bound = Fraction(1, 2) + share * len(shares) / 2
                assert abs(counts[number] - length * share) <= bound + Fraction(length, 2**31)
    assert taken == tuple(counts[number] for number in range(len(sizes)))


@given(SOURCES, st.lists(st.integers(0, 60), max_size=8), st.integers(0, 3))
def test_any_part_of_a_mixture_equals_that_part_of_the_whole(sources, parts, seed):
    sizes, weights = zip(*sources, strict=True)
    mixture = mixture_of(sizes, weights, seed=seed, shuffle="document")
    taken = (0,) * len(sizes)
    whole, end = mixture.take(taken, sum(parts))
    position = 0
    for count in parts:
        assert mixture.taken_before(position) == taken
        documents, taken = mixture.take(taken, count)
        assert documents.tolist() == whole[position : position + count].tolist()
        position += count
    assert taken == mixture.taken_before(position) == end


@given(SOURCES, st.integers(10**9, 10**15), st.integers(1, 50))
def test_any_distant_part_of_a_mixture_can_be_computed(sources, position, count):
    sizes, weights = zip(*sources, strict=True)
    mixture = mixture_of(sizes, weights)
    taken = mixture.taken_before(position)
    assert sum(taken) == position
    documents, after = mixture.take(taken, count)
    assert len(documents) == count
    assert mixture.taken_before(position + count) == after


@given(SOURCES, st.integers(0, 3), st.sampled_from([None, "document", "block"]))
def test_the_position_of_each_document_of_an_epoch(sources, seed, shuffle):
    sizes, weights = zip(*sources, strict=True)
    mixture = mixture_of(sizes, weights, seed=seed, shuffle=shuffle, block_documents=7)
    for stream in mixture.streams:
        for epoch in range(2):
            start = epoch * len(stream.documents)
            documents = stream.take(start, len(stream.documents))
            positions = stream.position_of(documents, epoch) - start
            assert positions.tolist() == list(range(len(stream.documents)))


def test_a_rare_source_does_not_affect_the_others():
    mixture = mixture_of([(10, 100), (10, 10**18)], [1, 1e-300], group_documents=4096)
    assert mixture.next_group((0, 0))[1] == (4096, 0)
    assert mixture.next_group((4096 * 10**9, 0))[1] == (4096 * 10**9 + 4096, 0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"web": 1}, "weights name 'web', .*; the sources are a, c$"),
        ({"a": 1, "b": 1}, "weights name 'b', .*; the sources are a, c$"),
        ({}, "weights name no source"),
        ({"a": 0}, "weight of source 'a' is 0; it is a number above 0"),
        ({"a": -1}, "weight of source 'a' is -1;"),
        ({"a": float("nan")}, "weight of source 'a' is nan;"),
        ({"a": float("inf")}, "weight of source 'a' is inf;"),
        ({"a": True}, "weight of source 'a' is True;"),
        ({"a": "much"}, "weight of source 'a' is 'much';"),
    ],
)
def test_invalid_weights_are_refused(tmp_path, weights, message):
    shards = made_shards(tmp_path, [[[5]], [[0, 0]], [[5]]])
    with pytest.raises(PackingError, match=message):
        Loader(shards, batch_size=1, length=8, weights=weights)


def test_an_empty_selection_is_refused(tmp_path):
    made_output(tmp_path, *made_sources([[[0, 0]]]))
    for split in ("train", "val"):
        with pytest.raises(PackingError, match=r"nothing to pack: \d documents without a token"):
            Loader(open_shards(str(tmp_path), split), batch_size=1, length=8)
