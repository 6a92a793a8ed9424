"""Outputs of other origin: refused with an error of this package, never executed or followed."""

import json
import pickle
import struct
from pathlib import Path

import pytest

from nanotok_ray.errors import CorruptOutputError, TokenizerError
from nanotok_ray.loader import open_shards
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.finished_output import (
    change_json,
    publish_index,
    read_all,
    with_index,
)


def renamed(name):
    def change(rows, strings):
        rows["name_offset"][:] = 0
        return name + b"\0"

    return change


@pytest.mark.parametrize(
    "name",
    [
        *(b"../../etc/passwd", b"/etc/passwd", b"web/train/../../../x", b"web/val/x"),
        *(b"web/train/a/b", b"", b"\xff\xfe", b"web/train/"),
    ],
)
def test_a_name_outside_the_folder_of_its_shard_is_refused(out, name):
    with_index(out, renamed(name))
    with pytest.raises(CorruptOutputError, match="not the name of a shard"):
        read_all(out)


def test_names_without_an_end_or_outside_the_file_are_refused(out):
    with_index(out, lambda _, strings: strings.rstrip(b"\0"))
    with pytest.raises(CorruptOutputError, match="not the name"):
        read_all(out)
    with_index(out, lambda rows, _: rows["name_offset"].fill(1 << 63))
    with pytest.raises(CorruptOutputError, match="a name outside"):
        read_all(out)


@pytest.mark.parametrize("suffix", ["bin", "idx", "mask"])
def test_a_link_out_of_the_folder_is_not_followed(out, tmp_path, suffix):
    path = min(out.glob(f"chats/train/*.{suffix}"))
    outside = path.rename(tmp_path / "outside")
    path.symlink_to(outside)
    with pytest.raises(CorruptOutputError, match="link out of"):
        read_all(out)
    assert any("link out of" in each for each in verify_output(Folder(str(out))).problems)


def test_a_link_inside_the_folder_and_a_linked_output_are_accepted(out, tmp_path):
    path = min(out.glob("web/train/*.bin"))
    path.symlink_to(path.rename(out / "elsewhere.bin"))
    (tmp_path / "link").symlink_to(out)
    read_all(tmp_path / "link")
    assert verify_output(Folder(str(tmp_path / "link"))).passed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("source", 2), ("split", 7), ("item_bytes", 3), ("item_bytes", 0)),
        *(("documents", 1 << 60), ("documents", (1 << 64) - 1), ("tokens", 1 << 63)),
        *(("bin_bytes", (1 << 64) - 2), ("idx_bytes", 1), ("mask_bytes", 1), ("images_bytes", 1)),
        *(("images_bytes", 1 << 60), ("first_document", 1 << 60)),
    ],
)
def test_a_contradictory_row_is_refused(out, field, value):
    with_index(out, lambda rows, _: rows[field].__setitem__(0, value))
    with pytest.raises(CorruptOutputError, match="row 0 has"):
        read_all(out)


@pytest.mark.parametrize("place", [16, 24])
def test_a_header_with_a_huge_number_of_rows_uses_no_memory(out, place):
    data = bytearray((out / "shards.idx").read_bytes())
    struct.pack_into("<Q", data, place, 1 << 60)
    publish_index(out, bytes(data))
    with pytest.raises(CorruptOutputError, match="its header says"):
        read_all(out)


@pytest.mark.parametrize("count", [1 << 60, (1 << 64) - 1, 0])
def test_a_document_index_with_a_huge_number_of_documents_uses_no_memory(out, count):
    for path in out.glob("*/*/*.idx"):
        data = bytearray(path.read_bytes())
        struct.pack_into("<QQ", data, 18, count, (count + 1) % (1 << 64))
        path.write_bytes(data)
    with pytest.raises(CorruptOutputError):
        read_all(out)


@pytest.mark.parametrize("name", ["manifest.json", "plan.json"])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"format":' * 100_000, "9" * 5000, "NaN", "{}", ""]
)
def test_json_that_is_too_deep_or_not_an_object_is_refused(out, name, text):
    (out / name).write_text(text)
    with pytest.raises(CorruptOutputError, match=name):
        verify_output(Folder(str(out)))


def test_a_manifest_or_plan_of_many_gigabytes_is_refused_unread(out):
    for name, size in (("plan.json", 8 << 30), ("manifest.json", 1 << 40)):
        with (out / name).open("r+b") as file:
            file.truncate(size)
        with pytest.raises(CorruptOutputError, match="is refused"):
            verify_output(Folder(str(out)))
    with pytest.raises(CorruptOutputError, match="is refused"):
        open_shards(str(out))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("sources", "web"), ("sources", [1]), ("sources", ["web", "other"])),
        *(("settings", []), ("settings", {"web": 1, "chats": 1}), ("item_bytes", True)),
        *(("shards_index_sha256", 7), ("totals", None), ("special_tokens", None)),
        *(("special_tokens", {"<|bos|>": "0"}), ("slices", -1), ("slices", 1 << 70)),
    ],
)
def test_a_manifest_with_other_types_is_refused(out, field, value):
    change_json(out / "manifest.json", field, value)
    for read in (read_all, lambda out: verify_output(Folder(str(out)))):
        with pytest.raises(CorruptOutputError, match=r"manifest\.json"):
            read(out)


def change_record(out, change):
    path = min(out.glob("records/tokenize/web/train/*.json"))
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "web/train/\0", "manifest.json", "web/train/x.bin", ""],
)
def test_a_record_naming_a_file_of_another_record_is_a_problem_and_the_file_is_not_read(out, name):
    change_record(out, lambda values: values["files"][0].update(name=name))
    problems = verify_output(Folder(str(out))).problems
    assert any("not a file of its slice" in problem for problem in problems)


def set_range(entry, byte_range):
    """Name the place of an entry of a source map by a range of bytes."""
    entry.pop("row_group", None)
    entry["range"] = byte_range


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values["shards"][0].update(documents=1 << 60, tokens=1 << 60),
        lambda values: values["shards"][0]["source_map"][0].update(rows=1 << 60),
        lambda values: values["shards"][0]["source_map"][0].update(present=[5, 3]),
        lambda values: values["shards"][0]["source_map"][0].update(absent=[1 << 62]),
        lambda values: values["shards"][0]["source_map"][0].update(first_row=-1),
        lambda values: values["shards"][0]["source_map"][0].update(file=["a"]),
        lambda values: values["shards"][0]["source_map"][0].update(file="other.parquet"),
        lambda values: set_range(values["shards"][0]["source_map"][0], []),
        lambda values: set_range(values["shards"][0]["source_map"][0], [9, 0]),
        lambda values: values["shards"][0].update(name="../x"),
        lambda values: values.update(files=values["files"] * 2),
        lambda values: values.update(files=values["files"][1:]),
        lambda values: values.update(read=[]),
        lambda values: values.update(quarantined={"a": "b"}),
        lambda values: values["documents"].update(out=1e300),
        lambda values: values["slice"].update(number=9),
        lambda values: values.update(stage="count"),
    ],
    ids=map(str, range(17)),
)
def test_a_contradictory_record_is_a_problem(out, change):
    change_record(out, change)
    assert verify_output(Folder(str(out))).problems


def test_a_pickle_in_the_folder_of_a_tokenizer_is_never_loaded(out, tmp_path):
    mark = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return (Path.touch, (mark,))

    for name in ("tokenizer.pkl", "token_bytes.pt"):
        (out / "tokenizer" / name).write_bytes(pickle.dumps(Bomb()))
    assert len(verify_output(Folder(str(out))).problems) >= 2
    read_all(out)
    with pytest.raises(TokenizerError, match=r"tokenizer\.txt .*not admitted"):
        Tokenizer.load(out / "tokenizer")
    for name in ("tokenizer.txt", "tokenizer.json"):
        (out / "tokenizer" / name).unlink()
    with pytest.raises(TokenizerError, match=r"not admitted.*nothing in it is executed"):
        Tokenizer.load(out / "tokenizer")
    assert not mark.exists()
