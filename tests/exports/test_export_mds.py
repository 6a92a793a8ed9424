"""mds: parts like those of MDSWriter, one index for each source and split."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports import Mds, unit_problems
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

ZEROS = "0" * 16
VAL = MadeSource(name="web", split="val", shards=[[[BOS, 65535, 0]]])


def test_a_source_of_empty_documents_has_an_index_without_parts(tmp_path, folder):
    out = made_output(tmp_path / "out", MadeSource(name="web", shards=[[[], []]]))
    exported, _ = export_here(out, Mds(), folder)
    assert json.loads(folder.read_bytes("web/train/index.json")) == {"shards": [], "version": 2}
    assert exported[0].written.left_out == {"documents without a token": 2}


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
    exported, corpus = export_here(out, layout, folder)
    want = [one for one in native_documents([each.unit for each in exported]) if one[0]]
    assert exported_documents(exported, corpus, folder, layout) == want
    parts = exported[0].written.details["parts"]
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
    with pytest.raises(
        ExportError, match=rf"document 2 of web/train/part-00000-000-{ZEROS} .*4,999"
    ):
        export_here(out, layout, folder)


@pytest.mark.parametrize(
    ("position", "bit", "reported"),
    [(0, 1, "samples"), (30, 1, "columns"), (-8, 8, "one dimension"), (-7, 1, "long")],
)
def test_contradictory_parts_are_reported(position, bit, reported, tmp_path, folder):
    out = made_output(tmp_path / "out", VAL)  # its last column is 2 bytes of shape, 6 of values
    exported, corpus = export_here(out, Mds(), folder)
    (name,) = exported[0].names(".mds")
    data = bytearray(folder.read_bytes(name))
    data[position] ^= bit
    folder.write_whole(name, bytes(data))
    part = exported[0].written.details["parts"][0]
    with pytest.raises(CorruptOutputError, match="sha1"):
        list(Mds().read(exported[0], corpus, folder))
    part["sha1"] = hashlib.sha1(data).hexdigest()
    with pytest.raises(CorruptOutputError, match=reported):
        list(Mds().read(exported[0], corpus, folder))
    assert list(unit_problems(exported[0], Mds(), corpus, folder))
