"""The layouts mds and litdata."""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports import Litdata, Mds, unit_problems
from nanotok_ray.exports import mds as module
from nanotok_ray.storage import Folder
from tests.support.made_output import (
    BOS,
    MadeSource,
    export_here,
    exported_documents,
    made_output,
    native_documents,
)

TAG = "0" * 16
VAL = MadeSource(name="web", split="val", shards=[[[BOS, 65535, 0]]])


def test_a_source_of_empty_documents_has_an_index_without_parts(tmp_path, folder):
    out = made_output(tmp_path / "out", MadeSource(name="web", shards=[[[], []]]))
    exported = export_here(out, Mds(), folder)
    assert json.loads(folder.read_bytes("web/train/index.json")) == {"shards": [], "version": 2}
    assert exported[0].record.left_out == {"documents without a token": 2}


def plain_cut(samples, overhead, limit):
    """Return the number of samples of each part by MDSWriter's rule; no part is empty."""
    parts, size = [], 0
    for sample in samples:
        if not parts or limit < size + sample + 4:
            parts.append(0)
            size = 8 + overhead
        parts[-1] += 1
        size += sample + 4
    return parts


@given(
    lengths=st.lists(st.integers(0, 3000), max_size=30),
    limit=st.integers(4096, 9000),
    item_bytes=st.sampled_from([2, 4]),
    kind=st.sampled_from(["text", "chat"]),
    with_ids=st.booleans(),
)
def test_any_documents_can_be_read_back_cut_at_the_limit(
    tmp_path_factory, *, lengths, limit, item_bytes, kind, with_ids
):
    root = tmp_path_factory.mktemp("mds")
    documents = [[(7 * k) % 60000 for k in range(length)] for length in lengths]
    source = MadeSource(name="s", kind=kind, shards=[documents], with_document_ids=with_ids)
    out = made_output(root / "out", source, item_bytes=item_bytes)
    layout, folder = Mds(size_limit=limit), Folder(str(root / "export"))
    exported = export_here(out, layout, folder)
    want = [one for one in native_documents([each.unit for each in exported]) if one[0]]
    assert exported_documents(exported, folder, layout) == want
    parts = exported[0].record.details["parts"]
    sizes, overhead = [], 0
    for part in parts:
        data = folder.read_bytes(f"s/train/{part['basename']}")
        assert len(data) == part["bytes"]
        assert len(data) <= limit or part["samples"] == 1
        positions = np.frombuffer(data, "<u4", count=part["samples"] + 1, offset=4)
        sizes += np.diff(positions).tolist()
        overhead = int(positions[0]) - 4 - 4 * (part["samples"] + 1)
    assert [part["samples"] for part in parts] == plain_cut(sizes, overhead, limit)


def test_a_document_too_large_for_the_format_is_named(tmp_path, folder, monkeypatch):
    out = made_output(tmp_path / "out", MadeSource(name="web", shards=[[[1], [], [2] * 3000]]))
    layout = Mds(size_limit=4096)
    monkeypatch.setattr(module, "_REACH", 5000)
    with pytest.raises(ExportError, match=rf"document 2 of web/train/part-00000-000-{TAG} .*4,999"):
        export_here(out, layout, folder)


@pytest.mark.parametrize(
    ("position", "bit", "reported"),
    [(0, 1, "samples"), (30, 1, "columns"), (-8, 8, "one dimension"), (-7, 1, "long")],
)
def test_contradictory_parts_are_reported(position, bit, reported, tmp_path, folder):
    out = made_output(tmp_path / "out", VAL)  # its last column is 2 bytes of shape, 6 of values
    exported = export_here(out, Mds(), folder)
    (name,) = exported[0].names(".mds")
    data = bytearray(folder.read_bytes(name))
    data[position] ^= bit
    folder.write_bytes(name, bytes(data))
    part = exported[0].record.details["parts"][0]
    with pytest.raises(CorruptOutputError, match="sha1"):
        list(Mds().read(exported[0], folder))
    part["sha1"] = hashlib.sha1(data).hexdigest()
    with pytest.raises(CorruptOutputError, match=reported):
        list(Mds().read(exported[0], folder))
    assert list(unit_problems(exported[0], Mds(), folder))


TEXT = MadeSource(
    name="web", shards=[[[BOS, *range(6)], [], [BOS, 7]], [[BOS, 9]], [], [[BOS, *range(9)]]]
)


def plain_chunk(blocks, code="H"):
    """Return a chunk according to the format."""
    size = len(blocks[0]) * struct.calcsize(f"<{code}")
    positions = [4 + 4 * (len(blocks) + 1) + size * number for number in range(len(blocks) + 1)]
    ids = [one for block in blocks for one in block]
    head = struct.pack(f"<{len(positions) + 1}I", len(blocks), *positions)
    return head + struct.pack(f"<{len(ids)}{code}", *ids)


def blocks_as_litdata_reads(folder, place, block_size):
    """Read every block of a source and split like TokensLoader, without stored positions."""
    index = json.loads(folder.read_bytes(f"{place}/index.json"))
    dtype = {"no_header_numpy:5": "<u2", "no_header_numpy:6": "<u4"}
    own = np.dtype(dtype[index["config"]["data_format"][0]])
    for chunk in index["chunks"]:
        data = folder.read_bytes(f"{place}/{chunk['filename']}")
        assert len(data) == chunk["chunk_bytes"]
        start = (1 + chunk["chunk_size"] + 1) * 4
        for number in range(chunk["dim"] // block_size):
            offset = start + number * block_size * own.itemsize
            yield np.frombuffer(data, own, count=block_size, offset=offset).tolist()


@pytest.mark.parametrize(("item_bytes", "code", "data_format"), [(2, "H", 5), (4, "I", 6)])
def test_chunks_remainders_and_index_have_this_content(
    item_bytes, code, data_format, tmp_path, folder
):
    out = made_output(tmp_path / "out", TEXT, item_bytes=item_bytes)
    exported = export_here(out, Litdata(block_size=4, chunk_bytes=4096), folder)
    place, stem = "web/train", f"-000-{TAG}.rest"
    joined = [[7, BOS, 9, 7], [8]]
    want = {
        f"{place}/chunk-0-0.{TAG}.bin": plain_chunk([[BOS, 0, 1, 2], [3, 4, 5, BOS]], code),
        f"{place}/part-00000{stem}": struct.pack(f"<{code}", 7),
        f"{place}/part-00001{stem}": struct.pack(f"<2{code}", BOS, 9),
        f"{place}/chunk-3-0.{TAG}.bin": plain_chunk([[BOS, 0, 1, 2], [3, 4, 5, 6]], code),
        f"{place}/part-00003{stem}": struct.pack(f"<2{code}", 7, 8),
        f"{place}/chunk-4-0.bin": plain_chunk(joined[:1], code),
        f"{place}/left-over.bin": struct.pack(f"<{code}", *joined[1]),
    }
    found = [name for name in folder.list() if "records/" not in name]
    assert found == sorted([*want, f"{place}/index.json"])
    for name, data in want.items():
        assert folder.read_bytes(name) == data
    assert [each.record.tokens for each in exported] == [9, 2, 0, 10]
    assert [each.record.documents for each in exported] == [3, 1, 0, 1]
    chunks = [(Path(name).name, data) for name, data in want.items() if "/chunk-" in name]
    index = json.loads(folder.read_bytes(f"{place}/index.json"))
    assert len(index.pop("updated_at")) == 32
    assert index == {
        "chunks": [
            {"chunk_bytes": len(data), "chunk_size": blocks, "dim": 4 * blocks, "filename": name}
            for (name, data), blocks in zip(chunks, (2, 2, 1), strict=True)
        ],
        "config": {
            "chunk_bytes": 4096,
            "chunk_size": None,
            "compression": None,
            "data_format": [f"no_header_numpy:{data_format}"],
            "data_spec": '[1, {"type": null, "context": null, "children_spec": []}]',
            "encryption": None,
            "item_loader": "TokensLoader",
        },
    }


@given(
    shards=st.lists(st.lists(st.integers(0, 2000), max_size=6), min_size=1, max_size=5),
    block_size=st.integers(2, 3000),
    item_bytes=st.sampled_from([2, 4]),
)
def test_all_tokens_but_a_remainder_are_in_blocks(
    tmp_path_factory, *, shards, block_size, item_bytes
):
    root = tmp_path_factory.mktemp("litdata")
    made = [[[k % 60000 for k in range(length)] for length in own] for own in shards]
    out = made_output(root / "out", MadeSource(name="s", shards=made), item_bytes=item_bytes)
    layout = Litdata(block_size=block_size, chunk_bytes=4096)
    folder = Folder(str(root / "export"))
    exported = export_here(out, layout, folder)
    tokens = [one for ids, _ in native_documents([each.unit for each in exported]) for one in ids]
    chunks = [chunk for each in exported for chunk in each.record.details["chunks"]]
    assert all(chunk["chunk_bytes"] <= 4096 or chunk["chunk_size"] == 1 for chunk in chunks)
    assert all(chunk["dim"] == chunk["chunk_size"] * block_size for chunk in chunks)
    seen = [ids.tolist() for each in exported for ids, _ in layout.read(each, folder)]
    assert [one for ids in seen for one in ids] == tokens
    name = "s/train/left-over.bin"
    left = np.frombuffer(folder.read_bytes(name) if folder.exists(name) else b"", f"<u{item_bytes}")
    assert len(left) == len(tokens) % block_size
    if len(tokens) < block_size:
        assert not folder.exists("s/train/index.json")
        assert left.tolist() == tokens
        return
    blocks = list(blocks_as_litdata_reads(folder, "s/train", block_size))
    assert all(len(block) == block_size for block in blocks)
    flat = [[one for document in own for one in document] for own in made]
    whole = [ids[: len(ids) - len(ids) % block_size] for ids in flat]
    rests = [ids[len(own) :] for ids, own in zip(flat, whole, strict=True)]
    want = [one for ids in [*whole, *rests] for one in ids]
    assert [one for block in blocks for one in block] + left.tolist() == want


def test_other_contents_have_another_cache_folder(tmp_path):
    reported = []
    for number in (1, 1, 2):
        root = tmp_path / str(len(reported))
        out = made_output(root / "out", MadeSource(name="web", shards=[[[BOS, 1], [BOS, number]]]))
        folder = Folder(str(root / "export"))
        export_here(out, Litdata(block_size=2), folder)
        reported.append(json.loads(folder.read_bytes("web/train/index.json"))["updated_at"])
    assert reported[0] == reported[1] != reported[2]
