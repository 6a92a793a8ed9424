"""Exports and tokenizers of a real job, read with common packages instead of this project's code.

Checks that need larger packages are in tests/peers.
"""

import pickle
import struct
from itertools import pairwise

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import tiktoken
import tokenizers
from tiktoken.load import load_tiktoken_bpe

from nanotok_ray.api import export
from nanotok_ray.exports import parse_layout
from nanotok_ray.loader import open_shards
from nanotok_ray.storage import Folder
from tests.support.finished_output import finished_output
from tests.support.small_corpus import texts

LAYOUTS = ("raw", "parquet", "megatron", "datatrove")
PLACES = ("web/train", "web/val", "chats/train")
MEGATRON_CODES = {8: np.dtype("<u2")}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("light")
    out = finished_output(root)
    for layout in LAYOUTS:
        export(Folder(str(out)), parse_layout(layout))
    return root


@pytest.fixture
def out(root):
    return root / "out"


def native(out, place):
    """Return ids and mask of every document; the mask is None for texts."""
    source, split = place.split("/")
    shards = open_shards(str(out), split, source)
    masks = [shards.mask(number) for number in range(len(shards))]
    return [
        (shards[number].tolist(), None if mask is None else mask.tolist())
        for number, mask in enumerate(masks)
    ]


def files(out, layout, place, suffix):
    found = sorted((out / "export" / layout / place).glob(f"*{suffix}"))
    assert found, f"{layout} has no {suffix} in {place}"
    return found


def cut(ids, ends):
    return [ids[start:end].tolist() for start, end in pairwise([0, *ends])]


def documents(ids_path, ends, mask_path):
    """Return the documents of files of concatenated ids and, if they exist, masks."""
    ids = cut(np.memmap(ids_path, dtype=np.uint16, mode="r"), ends)
    if not mask_path.exists():
        return [(own, None) for own in ids]
    return list(zip(ids, cut(np.memmap(mask_path, dtype=np.uint8, mode="r"), ends), strict=True))


@pytest.mark.parametrize("place", PLACES)
def test_numpy_reads_raw(out, place):
    found = []
    for path in files(out, "raw", place, ".bin"):
        ends = np.load(path.with_suffix(".offsets.npy"))[1:]
        found += documents(path, ends, path.with_suffix(".mask"))
    assert found == native(out, place)


@pytest.mark.parametrize("place", PLACES)
def test_numpy_reads_datatrove(out, place):
    found = []
    for path in files(out, "datatrove", place, ".ds"):
        ends = np.fromfile(f"{path}.index", dtype="<u8").astype(np.int64)
        found += documents(path, ends, path.with_suffix(".ds.loss"))
    assert found == native(out, place)


@pytest.mark.parametrize("place", PLACES)
def test_pyarrow_reads_parquet(out, place):
    wanted = [
        {"input_ids": ids} | ({} if mask is None else {"assistant_masks": mask})
        for ids, mask in native(out, place)
    ]
    paths = files(out, "parquet", place, ".parquet")
    assert [row for path in paths for row in pq.read_table(path).to_pylist()] == wanted
    assert ds.dataset(out / "export/parquet" / place).to_table().to_pylist() == wanted


@pytest.mark.parametrize("place", PLACES)
def test_megatron_is_readable_by_its_index(out, place):
    (path,) = files(out, "megatron", place, "_text_document.idx")
    data = path.read_bytes()
    assert data[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", data, 9)
    assert (version, documents) == (1, sequences + 1)
    lengths = np.frombuffer(data, "<i4", sequences, 34)
    starts = np.frombuffer(data, "<i8", sequences, 34 + lengths.nbytes)
    order = np.frombuffer(data, "<i8", documents, 34 + lengths.nbytes + starts.nbytes)
    assert order.tolist() == list(range(documents))
    assert len(data) == 34 + lengths.nbytes + starts.nbytes + order.nbytes
    ids = np.memmap(path.with_suffix(".bin"), dtype=MEGATRON_CODES[code], mode="r")
    assert cut(ids, (starts + lengths * 2) // 2) == [own for own, _ in native(out, place)]


@pytest.mark.parametrize("peer", ["tokenizer.json", "tokenizer.tiktoken", "tokenizer.pkl"])
def test_documents_equal_the_ids_of_other_tokenizers(out, peer):
    path = out / "tokenizer" / peer
    with (out / "tokenizer/tokenizer.pkl").open("rb") as file:
        pickled = pickle.load(file)
    if peer == "tokenizer.json":
        loaded = tokenizers.Tokenizer.from_file(str(path))
        loaded.encode_special_tokens = True
        encode = lambda text: loaded.encode(text).ids  # noqa: E731
    elif peer == "tokenizer.tiktoken":
        ranks = load_tiktoken_bpe(str(path))
        pattern = pickled._pat_str
        encode = tiktoken.Encoding(
            "ranks", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
        ).encode_ordinary
    else:
        encode = pickled.encode_ordinary
    bos = pickled.encode_single_token("<|bos|>")
    read = [text for seed in range(2) for text in texts(40, seed=seed)]
    assert any("<|bos|>" in text for text in read)
    assert [[bos, *encode(text)] for text in read] == [ids for ids, _ in native(out, "web/train")]
