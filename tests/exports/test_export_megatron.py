"""The layouts megatron and llmc."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray.errors import ExportError
from nanotok_ray.exports import Llmc, Megatron, llmc, parse_layout
from nanotok_ray.storage import Folder
from tests.support.made_output import (
    BOS,
    END,
    MadeSource,
    export_here,
    exported_documents,
    made_output,
    native_documents,
)

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
    exported = export_here(out, layout, folder, batch_bytes=batch)
    read = exported_documents(exported, folder, layout)
    wanted = native_documents([each.unit for each in exported if each.unit.tokens])
    assert [ids for ids, _ in read] == [ids for ids, _ in wanted]
    assert [mask or None for _, mask in read] == [mask or None for _, mask in wanted]
    assert len(exported) <= datasets
    lost = sum(sum(each.record.left_out.values()) for each in exported)
    assert len(read) + lost == sum(map(len, shards))
    assert sum(len(ids) for ids, _ in read) == sum(len(own) for each in shards for own in each)


def test_shards_without_tokens_do_not_hide_the_masks_of_others(tmp_path, folder):
    source = MadeSource(name="chat", kind="chat", shards=[[], [[BOS, 7]], [[]]])
    exported = export_here(made_output(tmp_path / "out", source), Megatron(), folder)
    label = "chat/train/chat_train_00000_text_label_document"
    assert folder.read_bytes(f"{label}.bin") == np.array([-100, 7], "<i4").tobytes()
    assert folder.read_bytes(f"{label}.idx") == index([2, 0], code=4, size=4)
    read = [mask.tolist() for _, mask in Megatron().read(exported[0], folder)]
    assert read == [[0, 1], []]


def test_a_dataset_without_tokens_has_no_files(tmp_path, folder):
    web = MadeSource(name="web", shards=[[[BOS, 65535, 0]]])
    nothing = MadeSource(name="no", shards=[[], []])
    empty = MadeSource(name="empty", shards=[[[], []]], prepend=())
    exported = export_here(made_output(tmp_path / "out", nothing, empty, web), Megatron(), folder)
    assert {name.split("/")[0] for name in data_names(folder)} == {"web"}
    assert [dict(each.record.left_out) for each in exported] == [
        {},
        {"no tokens in the whole dataset": 2},
        {},
    ]


TEXT = MadeSource(name="web", shards=[[[BOS, 5, 6], [BOS], [BOS, 7]], [], [[BOS, 9, 9]]])
llmc_documents = st.lists(
    st.lists(st.integers(0, BOS - 1), max_size=6).map(lambda ids: [BOS, *ids]), max_size=8
)


def bin_names(folder):
    return [name for name in folder.list() if name.endswith(".bin")]


def read_as_llm_c(folder, name):
    """Read a file by the rules of llm.c's dataloader.h, whose offsets are ints."""
    data = folder.read_bytes(name)
    head = np.frombuffer(data[:1024], "<i4").tolist()
    assert head[:2] == [20240520, 1]
    assert head[2] > 0
    assert len(data) == 1024 + 2 * head[2] < 2**31
    return np.frombuffer(data[1024:], "<u2").tolist()


@settings(max_examples=10, deadline=None)
@given(shards=st.lists(llmc_documents, min_size=1, max_size=2), batch=st.integers(1, 12))
def test_large_shards_are_split_between_documents(tmp_path_factory, shards, batch):
    root = tmp_path_factory.mktemp("made")
    out = made_output(root / "out", MadeSource(name="web", shards=shards))
    folder = Folder(str(root / "export"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llmc, "MAX_FILE_BYTES", 1024 + 2 * 9 + 1)
        export_here(out, Llmc(), folder, batch_bytes=2 * batch)
    found = sorted(each.name for each in (root / "export").glob("web/train/web_train_*.bin"))
    ids = [read_as_llm_c(folder, f"web/train/{name}") for name in found]
    assert all(own[0] == BOS and len(own) <= 9 for own in ids)
    assert [one for own in ids for one in own] == [
        one for shard in shards for document in shard for one in document
    ]


def test_names_of_split_shards_sort_in_order(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(llmc, "MAX_FILE_BYTES", 1024 + 2 * 3)
    export_here(made_output(tmp_path / "out", TEXT), Llmc(), folder)
    assert bin_names(folder) == [
        "web/train/web_train_000000_0000.bin",
        "web/train/web_train_000000_0001.bin",
        "web/train/web_train_000002.bin",
    ]
    second = folder.read_bytes("web/train/web_train_000000_0001.bos.idx")
    assert second == np.array([0, 1], "<i4").tobytes()


def refusal(out, folder, **options):
    with pytest.raises(ExportError) as error:
        export_here(out, Llmc(), folder, **options)
    assert not bin_names(folder)
    return str(error.value)


@pytest.mark.parametrize(
    ("document", "reported"),
    [
        ([4, 5], "does not begin with <|bos|>"),
        ([], "does not begin with <|bos|>"),
        ([4, BOS], "does not begin with <|bos|>"),
        ([BOS, 5, BOS], "holds <|bos|> again at token 2"),
    ],
)
@pytest.mark.parametrize(
    ("kind", "batch_bytes"), [("text", 1 << 20), ("chat", 1 << 20), ("text", 4)]
)
def test_documents_that_readers_would_not_find_are_refused(
    document, reported, *, kind, batch_bytes, tmp_path, folder
):
    source = MadeSource(name="web", kind=kind, shards=[[[BOS, 1], [BOS], document, [BOS]]])
    out = made_output(tmp_path / "out", source)
    message = refusal(out, folder, batch_bytes=batch_bytes)
    stem = f"web/train/part-00000-000-{'0' * 16}"
    assert message.startswith(f"layout 'llmc': source 'web', shard {stem}, document 2 {reported}")
    assert "source.prepend" in message


def test_another_token_may_start_documents(tmp_path, folder):
    source = MadeSource(name="web", shards=[[[END, 1, BOS], [END]]], prepend=("<|assistant_end|>",))
    out = made_output(tmp_path / "out", source)
    exported = export_here(out, parse_layout("llmc:bos=<|assistant_end|>"), folder)
    assert exported[0].record.documents == 2
    assert folder.read_bytes("web/train/web_train_000000.bos.idx") == bytes(np.array([0, 3], "<i4"))


def test_a_document_larger_than_a_file_is_refused(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(llmc, "MAX_FILE_BYTES", 1024 + 2 * 2)
    message = refusal(made_output(tmp_path / "out", TEXT), folder)
    assert "document 0 has 3 tokens, and a file holds at most 2" in message


def test_too_many_shards_for_the_names_are_refused(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(llmc, "MAX_UNITS", 2)
    with pytest.raises(ExportError, match="is shard 2 of its source and split"):
        export_here(made_output(tmp_path / "out", TEXT), Llmc(), folder)
