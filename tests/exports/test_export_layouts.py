"""Layouts: raw and datatrove, and common properties of all layouts."""

from pathlib import Path

import numpy as np
import pytest

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports import LAYOUTS, parse_layout
from nanotok_ray.storage import Folder
from tests.peers.readers import TOKENIZER, checks
from tests.support.made_output import BOS, MadeSource, export_here, made_output

TEXT = MadeSource(name="web", shards=[[[BOS, 5, 6], [BOS], [BOS, 7]], [[BOS, 9, 9, 9]], []])
CHAT = MadeSource(name="chat", kind="chat", shards=[[[BOS, 1, 2, 3, 4], [BOS, 8]]])


@pytest.mark.parametrize("name", ["raw", "datatrove"])
def test_remote_folders_contain_the_same_files(name, tmp_path, folder):
    remote = "memory://test_export_layouts"
    made_output(tmp_path / "out", TEXT, CHAT)
    made_output(f"{remote}/{name}/out", TEXT, CHAT)
    layout, other = parse_layout(name), Folder(f"{remote}/{name}/export")
    export_here(Folder(str(tmp_path / "out")), layout, folder)
    export_here(Folder(f"{remote}/{name}/out"), layout, other)
    assert {n: other.read_bytes(n) for n in other.list()} == {
        n: folder.read_bytes(n) for n in folder.list()
    }


def test_datatrove_omits_documents_without_a_token(tmp_path, folder):
    out = made_output(
        tmp_path / "out", MadeSource(name="web", shards=[[[], [BOS, 5], [], [], [6]]])
    )
    exported, _ = export_here(out, parse_layout("datatrove"), folder)
    assert exported[0].written.left_out == {"documents without a token": 3}
    (name,) = exported[0].names(".index")
    assert folder.read_bytes(name) == np.array([2, 3], "<u8").tobytes()


def test_ids_are_linked_not_copied(tmp_path, folder):
    out = made_output(tmp_path / "out", TEXT)
    export_here(out, parse_layout("raw"), folder)
    name = f"web/train/part-00000-000-{'0' * 16}.bin"
    own, other = (Path(each.local_path(name) or "").stat() for each in (out, folder))
    assert own.st_ino == other.st_ino
    export_here(out, parse_layout("raw"), folder)  # the same link again
    assert folder.list_temporaries() == []


@pytest.mark.parametrize("suffix", [".bin", ".idx", ".mask", ".ids"])
@pytest.mark.parametrize("name", ["raw", "datatrove"])
def test_a_changed_native_file_is_not_exported(name, suffix, tmp_path, folder):
    source = MadeSource(
        name="chat", kind="chat", shards=[[[BOS, 1], [BOS]]], with_document_ids=True
    )
    out = made_output(tmp_path / "out", source)
    (path,) = (tmp_path / "out/chat").rglob(f"*{suffix}")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptOutputError, match=path.name):
        export_here(out, parse_layout(name), folder)
    assert not [name for name in folder.list() if name.startswith("records/")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zarr", "'zarr'.*datatrove"),
        ("raw:x=1", "'raw'.*'x=1'.*none"),
        ("raw:", "''"),
        ("litdata:block_size=1", "block_size = 1 .*2 to 16777216"),
        ("litdata:block_size=16777217", "block_size = 16777217.*16777216"),
        ("litdata:chunk_bytes=4095", "chunk_bytes = 4095.*4096.*4294967296"),
        ("litdata:chunk_bytes=4294967296", "chunk_bytes = 4294967296"),
        *(
            (f"mds:size_limit={n}", f"size_limit = {n} .*4096.*4294967296")
            for n in (0, 4095, 2**32)
        ),
        ("megatron:datasets=0", "datasets = 0: .*at least 1"),
        ("megatron:datasets=two", "'two' is not a whole number"),
    ],
)
def test_wrong_layouts_are_refused(text, message):
    with pytest.raises(ExportError, match=message):
        parse_layout(text)


def test_a_number_of_an_option_may_have_a_unit():
    assert parse_layout("mds:size_limit=1MiB") == parse_layout("mds:size_limit=1048576")


@pytest.mark.parametrize("name", LAYOUTS)
def test_two_exports_have_the_same_bytes(name, tmp_path):
    out = made_output(tmp_path / "out", TEXT, CHAT)
    folders = [Folder(str(tmp_path / name)) for name in "ab"]
    for folder in folders:
        export_here(out, parse_layout(name), folder)
    first, second = ({own: each.read_bytes(own) for own in each.list()} for each in folders)
    assert first == second


def test_every_layout_names_its_readers():
    for name, layout in LAYOUTS.items():
        assert layout.name == name
        assert layout.reader
        assert layout.format.startswith(name)
    checked = {check.layout for check in checks(None, None)}
    assert checked == {*LAYOUTS, TOKENIZER}, "tests/peers/readers.py names a check of each layout"
