"""Reading documents from shards, with numpy alone."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from nanotok_ray.errors import CorruptOutputError, IncompleteOutputError
from nanotok_ray.loader import Loader, NanochatLoader, open_shards
from nanotok_ray.tokenizer import Tokenizer, expected_tokenizer
from tests.support.small_corpus import conversations, texts


def test_every_document_is_returned_in_order(out):
    tokenizer = Tokenizer.load(out / "tokenizer")
    shards = open_shards(str(out), source="web")
    expected = [*texts(40, seed=0), *texts(40, seed=1)]
    assert len(shards) == 80
    assert [tokenizer.decode(ids) for ids in shards] == [f"<|bos|>{text}" for text in expected]
    assert shards.num_tokens == sum(len(ids) for ids in shards)
    val = open_shards(out, split="val")
    assert [tokenizer.decode(ids[1:]) for ids in val] == texts(40, seed=2)


def test_conversations_are_returned_with_their_masks(out):
    tokenizer = Tokenizer.load(out / "tokenizer")
    shards = open_shards(str(out), source="chats")
    expected = [*conversations(15, seed=0), *conversations(15, seed=1)]
    for number, messages in enumerate(expected):
        ids, mask = tokenizer.render_conversation({"messages": messages}, max_tokens=None)
        assert shards[number].tolist() == ids
        assert shards.mask(number).tolist() == mask


def test_sources_are_in_order_and_texts_have_no_mask(out):
    shards = open_shards(str(out))
    assert len(shards) == 80 + 30
    assert shards.mask(0) is None
    assert shards.mask(80) is not None
    assert shards[-1].tolist() == shards[len(shards) - 1].tolist()


@pytest.mark.parametrize(
    "part", [slice(0, 3), slice(None), slice(-2, None), slice(9, 2, -3), slice(200, 300)], ids=str
)
def test_a_slice_is_a_list_of_documents(out, part):
    shards = open_shards(out)
    expected = [ids.tolist() for ids in shards][part]
    assert [ids.tolist() for ids in shards[part]] == expected


def test_the_text_of_a_document_equals_its_source(out):
    shards = open_shards(out, source="web")
    assert shards.tokenizer == Tokenizer.load(out / "tokenizer")
    assert [shards.text(number) for number in range(3)] == [
        f"<|bos|>{text}" for text in texts(40, seed=0)[:3]
    ]
    assert shards.text(-1) == f"<|bos|>{texts(40, seed=1)[-1]}"
    with pytest.raises(IndexError, match="document 80 of 80"):
        shards.text(80)


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
    with pytest.raises(IndexError, match=f"document {number} of 110"):
        open_shards(str(out))[number]


def test_an_unknown_split_or_source_is_named(out):
    with pytest.raises(ValueError, match="train and val"):
        open_shards(str(out), split="test")
    with pytest.raises(ValueError, match="web, chats"):
        open_shards(str(out), source="wab")


def test_sources_are_in_the_order_of_the_recipe(out):
    every = [ids.tolist() for ids in open_shards(str(out))]
    both = open_shards(str(out), source=["chats", "web"])
    assert [ids.tolist() for ids in both] == every
    assert [ids.tolist() for ids in pickle.loads(pickle.dumps(both))] == every
    only = open_shards(str(out), source=("chats",))
    assert [ids.tolist() for ids in only] == every[80:]
    with pytest.raises(ValueError, match="no source 'wab'"):
        open_shards(str(out), source=["web", "wab"])
    with pytest.raises(ValueError, match="omit it for all of them"):
        open_shards(str(out), source=[])


def test_an_unfinished_or_altered_output_is_refused(out):
    path = next(out.glob("web/train/*.bin"))
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(CorruptOutputError, match=path.name):
        list(open_shards(str(out)))
    (out / "shards.idx").write_bytes(b"")
    with pytest.raises(CorruptOutputError, match=r"shards\.idx"):
        open_shards(str(out))
    (out / "manifest.json").unlink()
    with pytest.raises(IncompleteOutputError, match="run the job again"):
        open_shards(str(out))


def test_reading_imports_neither_the_core_nor_arrow_nor_fsspec_nor_ray(out):
    code = f"""
import sys
for name in ("nanotok_ray._core", "pyarrow", "fsspec", "pydantic", "ray", "tqdm"):
    sys.modules[name] = None
import nanotok_ray
shards = nanotok_ray.open_shards({str(out)!r}, split="train")
print(len(shards), int(shards[0][0]), shards.mask(100).sum() > 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="."
    )
    bos = Tokenizer.load(out / "tokenizer").get_bos_token_id()
    assert done.stdout.split() == ["110", str(bos), "True"]
