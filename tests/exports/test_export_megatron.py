"""megatron: bytes of datasets and of their labels, joined shards, datasets without tokens."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.exports import Megatron
from nanotok_ray.storage import Folder
from tests.support.made_output import (
    BOS,
    MadeSource,
    export_here,
    exported_documents,
    made_output,
    native_documents,
)

TEXT = MadeSource(name="web", shards=[[[BOS, 5, 6], [], [BOS, 7]], [], [[BOS, 9, 9, 9]]])
CHAT = MadeSource(name="chat", kind="chat", shards=[[[BOS, 1, 2, 3, 4], [BOS, 8]], [[BOS, 65535]]])
VAL = MadeSource(name="web", split="val", shards=[[[BOS, 65535, 0]]])
documents = st.lists(st.lists(st.integers(0, 65535), max_size=6), max_size=6)


def index(lengths, *, code, size):
    """Return a Megatron index as written by its writer, one sequence per document."""
    ends = np.cumsum([0, *lengths])
    return (
        b"MMIDIDX\0\0"
        + struct.pack("<QBQQ", 1, code, len(lengths), len(lengths) + 1)
        + np.array(lengths, "<i4").tobytes()
        + (ends[:-1] * size).astype("<i8").tobytes()
        + np.arange(len(lengths) + 1, dtype="<i8").tobytes()
    )


def data_names(folder):
    return [name for name in folder.list() if not name.startswith("records/")]


def test_a_single_shard_is_linked(tmp_path, folder):
    out = made_output(tmp_path / "out", VAL, CHAT)
    export_here(out, Megatron(datasets=2), folder)
    for source, split, number in (("web", "val", 0), ("chat", "train", 1)):
        for suffix in (".bin", ".idx"):
            native = f"{source}/{split}/part-{number:05d}-000-{'0' * 16}{suffix}"
            own = f"{source}/{split}/{source}_{split}_{number:05d}_text_document{suffix}"
            inodes = {
                Path(each.local_path(name) or "").stat().st_ino
                for each, name in ((out, native), (folder, own))
            }
            assert len(inodes) == 1


@settings(max_examples=12, deadline=None)
@given(
    shards=st.lists(documents, min_size=1, max_size=4),
    kind=st.sampled_from(["text", "chat"]),
    datasets=st.integers(1, 5),
    item_bytes=st.sampled_from([2, 4]),
    batch=st.integers(1, 40),
)
def test_every_document_can_be_read_back(
    tmp_path_factory, *, shards, kind, datasets, item_bytes, batch
):
    root = tmp_path_factory.mktemp("made")
    folder = Folder(str(root / "export"))
    out = made_output(
        root / "out", MadeSource(name="own", kind=kind, shards=shards), item_bytes=item_bytes
    )
    layout = Megatron(datasets=datasets)
    exported, corpus = export_here(out, layout, folder, batch_bytes=batch)
    read = exported_documents(exported, corpus, folder, layout)
    wanted = native_documents([each.unit for each in exported if each.unit.tokens])
    assert [ids for ids, _ in read] == [ids for ids, _ in wanted]
    assert [mask or None for _, mask in read] == [mask or None for _, mask in wanted]
    assert len(exported) <= datasets
    lost = sum(sum(each.written.left_out.values()) for each in exported)
    assert len(read) + lost == sum(map(len, shards))
    assert sum(len(ids) for ids, _ in read) == sum(len(own) for each in shards for own in each)


def test_shards_without_tokens_do_not_hide_the_masks_of_others(tmp_path, folder):
    source = MadeSource(name="chat", kind="chat", shards=[[], [[BOS, 7]], [[]]])
    exported, corpus = export_here(made_output(tmp_path / "out", source), Megatron(), folder)
    label = "chat/train/chat_train_00000_text_label_document"
    assert folder.read_bytes(f"{label}.bin") == np.array([-100, 7], "<i4").tobytes()
    assert folder.read_bytes(f"{label}.idx") == index([2, 0], code=4, size=4)
    read = [mask.tolist() for _, mask in Megatron().read(exported[0], corpus, folder)]
    assert read == [[0, 1], []]


def test_a_dataset_without_tokens_has_no_files(tmp_path, folder):
    nothing = MadeSource(name="no", shards=[[], []])
    empty = MadeSource(name="empty", shards=[[[], []]], prepend=())
    exported, _ = export_here(
        made_output(tmp_path / "out", nothing, empty, VAL), Megatron(), folder
    )
    assert {name.split("/")[0] for name in data_names(folder)} == {"web"}
    assert [dict(each.written.left_out) for each in exported] == [
        {},
        {"no tokens in the whole dataset": 2},
        {},
    ]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("text_document.idx", 17),  # element type
        ("text_document.idx", 34),  # a length
        ("text_document.idx", -8),  # the last document's end
        ("text_label_document.idx", 34),
        ("text_label_document.bin", 4),  # a label that is another id
    ],
)
def test_changed_files_are_detected(name, place, tmp_path, folder):
    exported, corpus = export_here(made_output(tmp_path / "out", CHAT), Megatron(), folder)
    path = tmp_path / "export" / f"chat/train/chat_train_00000_{name}"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptOutputError):
        list(Megatron().read(exported[0], corpus, folder))


def test_data_beyond_its_index_is_detected(tmp_path, folder):
    exported, corpus = export_here(made_output(tmp_path / "out", TEXT), Megatron(), folder)
    with (tmp_path / "export/web/train/web_train_00000_text_document.bin").open("ab") as file:
        file.write(b"\0\0")
    with pytest.raises(CorruptOutputError, match="not what its index says"):
        list(Megatron().read(exported[0], corpus, folder))
