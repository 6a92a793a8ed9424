"""Reading documents from shards, with numpy alone."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.loader import Loader, NanochatLoader, open_shards
from nanotok_ray.tokenizer import Tokenizer, expected_tokenizer
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
    other = Tokenizer.train_from_iterator(["ab ab"], 266)
    other.save(out / "tokenizer", overwrite=True)
    expected_tokenizer.cache_clear()  # the job has cached the right one
    shards = open_shards(out)
    with pytest.raises(CorruptOutputError, match=f"{other.sha256[:16]}, .* was expected"):
        shards.text(0)
    assert len(shards[0])


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
