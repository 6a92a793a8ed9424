"""Reading shards: documents, orders, row groups."""

import json
import pickle
import random
import shutil
import subprocess
import sys
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError, PackingError
from nanotok_ray.formats import to_json
from nanotok_ray.loader import (
    MAX_SIZE,
    DocumentOrder,
    Loader,
    NanochatLoader,
    Permutation,
    RowGroups,
    open_shards,
)
from nanotok_ray.tokenizer import Tokenizer, expected_tokenizer
from tests.support.finished_output import change_json
from tests.support.made_output import BOS
from tests.support.planned_output import files_of, planned_output
from tests.support.small_corpus import texts


def test_every_document_is_returned_in_order(out):
    shards = open_shards(str(out), source="web")
    expected = [f"<|bos|>{text}" for seed in range(2) for text in texts(40, seed=seed)]
    assert len(shards) == 80
    assert shards.tokenizer == Tokenizer.load(out / "tokenizer")
    assert [shards.tokenizer.decode(ids) for ids in shards] == expected
    assert [shards.text(number) for number in range(-1, 80)] == [expected[-1], *expected]
    assert shards.num_tokens == sum(len(ids) for ids in shards)
    val = open_shards(out, split="val")
    assert [val.text(number) for number in range(40)] == [f"<|bos|>{t}" for t in texts(40, seed=2)]


@pytest.mark.parametrize(
    "part", [slice(0, 3), slice(None), slice(-2, None), slice(9, 2, -3), slice(200, 300)], ids=str
)
def test_a_slice_is_a_list_of_documents(out, part):
    shards = open_shards(out)
    expected = [ids.tolist() for ids in shards][part]
    assert [ids.tolist() for ids in shards[part]] == expected


def test_texts_of_another_tokenizer_are_refused(out):
    shards = open_shards(out)
    other = Tokenizer.train_from_iterator(["ab ab"], 266)
    other.save(out / "tokenizer", overwrite=True)
    expected_tokenizer.cache_clear()  # the job has cached the right one
    with pytest.raises(CorruptOutputError, match=f"{other.sha256[:16]}, .* was expected"):
        shards.text(0)
    assert len(shards[0])
    with pytest.raises(CorruptOutputError, match="not the tokenizer of the shards"):
        open_shards(out)
    shutil.rmtree(out / "tokenizer")
    assert len(open_shards(out)[0])


def test_the_repr_of_shards_and_loaders_is_one_line(out):
    shards = open_shards(out)
    numbers = f"110 documents, {shards.num_tokens:,} tokens of web, chats"
    assert repr(shards) == f"<Shards of {out}: {numbers}>"
    loader = Loader(shards, batch_size=2, length=16)
    assert repr(loader) == f"<Loader, best-fit: batches of 2 x 16, rank 0 of 1, {shards!r}>"
    nanochat = NanochatLoader(open_shards(out, source="web"), batch_size=2, length=16)
    assert repr(nanochat).startswith("<NanochatLoader: batches of 2 x 16, <Shards of ")


def test_a_document_is_a_view_of_the_mapped_file(out):
    ids = open_shards(str(out))[3]
    assert isinstance(ids, np.memmap)
    assert ids.dtype == np.uint16
    with pytest.raises(ValueError, match="read-only"):
        ids[0] = 1


@pytest.mark.parametrize("number", [110, -111])
def test_an_index_out_of_range_is_an_index_error(out, number):
    shards = open_shards(str(out))
    for read in (shards.text, shards.__getitem__):
        with pytest.raises(IndexError, match=f"document {number} of 110"):
            read(number)


def test_sources_are_in_the_order_of_the_recipe(out):
    every = [ids.tolist() for ids in open_shards(str(out))]
    both = open_shards(str(out), source=["chats", "web"])
    assert [ids.tolist() for ids in both] == every
    assert [ids.tolist() for ids in pickle.loads(pickle.dumps(both))] == every
    only = open_shards(str(out), source=("chats",))
    assert [ids.tolist() for ids in only] == every[80:]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"split": "test"}, "train and val"),
        ({"source": "wab"}, "web, chats"),
        ({"source": ["web", "wab"]}, "no source 'wab'"),
        ({"source": []}, "omit it for all of them"),
    ],
)
def test_an_unknown_split_or_source_is_named(out, wrong, message):
    with pytest.raises(ValueError, match=message):
        open_shards(str(out), **wrong)


def test_an_altered_output_is_refused(out):
    path = next(out.glob("web/train/*.bin"))
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(CorruptOutputError, match=path.name):
        list(open_shards(str(out)))
    (out / "shards.idx").write_bytes(b"")
    with pytest.raises(CorruptOutputError, match=r"shards\.idx"):
        open_shards(str(out))


def test_reading_and_packing_import_neither_arrow_nor_fsspec_nor_ray_nor_torch(out):
    code = f"""
import sys
for name in ("nanotok_ray._core", "pyarrow", "fsspec", "pydantic", "ray", "torch", "tqdm"):
    sys.modules[name] = None
import nanotok_ray
shards = nanotok_ray.open_shards({str(out)!r}, split="train")
print(len(shards), int(shards[0][0]), shards.mask(100).sum() > 0)
del sys.modules["nanotok_ray._core"]  # only packing needs it
loader = nanotok_ray.Loader(shards, batch_size=2, length=8, packing="conversations")
print(*loader.next_batch().inputs.shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="."
    )
    bos = Tokenizer.load(out / "tokenizer").get_bos_token_id()
    assert done.stdout.split() == ["110", str(bos), "True", "2", "8"]


SEEDS = st.integers(-(2**70), 2**70)
EPOCHS = st.integers(0, 2**40)


def everything(order: DocumentOrder, epoch: int = 0) -> list[int]:
    return order.at(np.arange(order.documents), epoch).tolist()


@given(st.integers(0, 3000), SEEDS, EPOCHS, st.text(max_size=5), st.integers(0, 2**40))
def test_any_size_seed_epoch_name_and_variant_is_a_permutation(size, seed, epoch, name, variant):
    own = Permutation(size, seed=seed, epoch=epoch, name=name)
    for variants in (None, np.full(size, variant)):
        there = own(np.arange(size), variants=variants)
        assert sorted(there.tolist()) == list(range(size))
        assert own.inverse(there, variants=variants).tolist() == list(range(size))


@given(st.integers(1, MAX_SIZE), SEEDS, st.data())
def test_the_permutation_of_any_number_can_be_inverted(size, seed, data):
    numbers = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=20)), dtype=np.int64)
    own = Permutation(size, seed=seed)
    there = own(numbers)
    assert ((there >= 0) & (there < size)).all()
    assert own.inverse(there).tolist() == numbers.tolist()
    assert own(own.inverse(numbers)).tolist() == numbers.tolist()


def test_permutations_are_the_same_in_every_version():
    assert Permutation(10, seed=0)(np.arange(10)).tolist() == GOLDEN_TEN
    large = Permutation(2**40, seed=7, epoch=3, name="web")
    assert large(np.array([0, 1, 2**40 - 1])).tolist() == GOLDEN_LARGE
    order = DocumentOrder(11, shuffle="block", block_documents=4, seed=2, name="web")
    assert everything(order, 1) == GOLDEN_BLOCKS
    assert everything(DocumentOrder(7, shuffle="document", seed=2), 1) == GOLDEN_DOCUMENTS


GOLDEN_TEN = [6, 4, 1, 9, 7, 0, 2, 8, 5, 3]
GOLDEN_LARGE = [693192009046, 326669151617, 633341090947]
GOLDEN_BLOCKS = [2, 0, 1, 3, 8, 9, 10, 6, 5, 7, 4]
GOLDEN_DOCUMENTS = [1, 3, 0, 2, 6, 5, 4]


def chi_square(found: np.ndarray, cells: int) -> float:
    counts = np.bincount(found, minlength=cells)
    expected = len(found) / cells
    return float(((counts - expected) ** 2).sum() / expected)


@pytest.mark.parametrize("number", [0, 1, 50, 99])
def test_a_number_is_equally_likely_at_every_position(number):
    found = [Permutation(100, seed=seed)(np.array([number]))[0] for seed in range(4000)]
    assert chi_square(np.array(found), 100) < 160  # 99 degrees of freedom: 1 in 10,000


def test_neighbors_are_equally_likely_at_every_distance():
    there = Permutation(1 << 20, seed=9)(np.arange(1 << 20))
    steps = np.diff(there) % (1 << 20)
    assert chi_square(steps >> 12, 256) < 360
    assert chi_square(there[: 1 << 12] >> 12, 256) < 360


@pytest.mark.parametrize("numbers", [[-1], [0, 10], [2**62]])
def test_a_number_beyond_the_size_is_refused(numbers):
    orders = DocumentOrder(10, shuffle="block"), DocumentOrder(10)
    for order in (
        Permutation(10, seed=0),
        *(partial(each, epoch=0) for own in orders for each in (own.at, own.position_of)),
    ):
        with pytest.raises(IndexError, match=rf"number {numbers[-1]} of 10"):
            order(np.array(numbers))


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (Permutation, {"size": -1, "seed": 0}, "-1 numbers"),
        (Permutation, {"size": 2**48 + 1, "seed": 0}, str(2**48 + 1)),
        (DocumentOrder, {"documents": -1}, "-1 documents"),
        (DocumentOrder, {"documents": 3, "shuffle": "blocks"}, "'blocks'; .* None, 'document', 'b"),
        (DocumentOrder, {"documents": 3, "block_documents": 0}, "block_documents is 0"),
    ],
)
def test_impossible_settings_are_named(make, settings, message):
    with pytest.raises(PackingError, match=message):
        make(**settings)


@given(
    st.integers(0, 500),
    st.sampled_from([None, "document", "block"]),
    st.integers(1, 600),
    SEEDS,
    EPOCHS,
)
def test_an_epoch_contains_every_document_once(documents, shuffle, block, seed, epoch):
    order = DocumentOrder(documents, shuffle=shuffle, block_documents=block, seed=seed)
    found = everything(order, epoch)
    assert sorted(found) == list(range(documents))
    backwards = order.at(np.arange(documents)[::-1], epoch)
    assert backwards.tolist() == found[::-1]
    assert order.position_of(np.array(found, dtype=np.int64), epoch).tolist() == everything(
        DocumentOrder(documents), epoch
    )
    if shuffle is None:
        assert found == list(range(documents))


@given(st.integers(1, 500), st.integers(1, 60), SEEDS)
def test_the_documents_of_a_block_stay_together(documents, block, seed):
    order = DocumentOrder(documents, shuffle="block", block_documents=block, seed=seed)
    blocks = [document // block for document in everything(order)]
    changes = sum(a != b for a, b in pairwise(blocks))
    assert changes + 1 == len(set(blocks)) == -(-documents // block)


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
        (lambda runs: runs[0].pop("row_group"), "row group None of"),
        (lambda runs: runs[-1].update(row_group=2), "maps row group 2 of"),
    ],
)
def test_a_record_that_contradicts_plan_or_index_is_refused(tmp_path, change, reported):
    out = Path(planned_output(tmp_path / "out", {"web": [[[[BOS]], [[BOS]]]]}))
    shards = open_shards(out)
    values = shards.record(0)
    change(values["shards"][0]["source_map"])
    record = to_json(values)
    (out / shards.record_name(0)).write_bytes(record)
    index = (out / "shards.idx").read_bytes()
    old = shards.index.rows["record_sha256"][0].tobytes()
    index = index.replace(old, sha256(record).digest())
    (out / "shards.idx").write_bytes(index)
    change_json(out / "manifest.json", "shards_index_sha256", sha256(index).hexdigest())
    with pytest.raises(CorruptOutputError, match=reported):
        RowGroups(open_shards(out)).bounds(0)


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
