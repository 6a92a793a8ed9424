"""Damaged outputs are refused with an error of this package."""

import copy
import json
import pickle
import struct
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError, NanotokError, TokenizerError
from nanotok_ray.formats import ShardRecord, from_values
from nanotok_ray.loader import open_shards
from nanotok_ray.shards import read_record, verify_output
from nanotok_ray.shards.check import check_files, record_problems
from nanotok_ray.shards.settings import Vocabulary
from nanotok_ray.sources import plan_from_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.finished_output import (
    change_json,
    publish_index,
    read_all,
    with_index,
)
from tests.support.vision_shards import VisionShards, documents_with_images


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


changes = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=9)), min_size=1, max_size=4)


def mutated(data, changes):
    """Overwrite bytes at shares of the length; an empty change cuts the file there."""
    for share, new in changes:
        at = int(share * len(data))
        data = data[:at] + new + data[at + len(new) :] if new else data[:at]
    return data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def replaced(data, path, value):
    """Replace or remove a value of a JSON text at a location chosen by numbers."""
    values = json.loads(data)
    at, key = None, None
    inner = values
    for step in path:
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        if not keys:
            break
        at, key = inner, keys[step % len(keys)]
        inner = at[key]
        if not isinstance(inner, dict | list):
            break
    at[key] = value
    return json.dumps(values).encode()


steps = st.lists(st.integers(0, 50), min_size=1, max_size=6)

mutations = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@contextmanager
def changing(*paths):
    """Let the body change files and be refused; restore them."""
    kept = {path: path.read_bytes() for path in paths}
    try:
        yield
    except NanotokError:
        pass
    finally:
        for path, data in kept.items():
            path.write_bytes(data)


@mutations
@given(number=st.integers(0, 50), changes=changes)
def test_changed_bytes_are_read_or_refused(out, number, changes):
    paths = [*sorted(out.glob("*/*/*.idx")), out / "shards.idx", out / "manifest.json"]
    path = paths[number % len(paths)]
    with changing(path, out / "manifest.json"):
        data = mutated(path.read_bytes(), changes)
        if path.name == "shards.idx":
            publish_index(out, data)
        else:
            path.write_bytes(data)
        read_all(out)


@mutations
@given(steps=steps, value=JSON)
def test_any_value_in_the_manifest_is_read_or_refused(out, steps, value):
    path = out / "manifest.json"
    with changing(path):
        path.write_bytes(replaced(path.read_bytes(), steps, value))
        read_all(out)
        verify_output(Folder(str(out)), depth="names")


@mutations
@given(steps=steps, value=JSON)
def test_any_value_in_a_plan_is_read_or_refused(finished, steps, value):
    try:
        plan = plan_from_json(replaced((finished / "plan.json").read_bytes(), steps, value))
    except NanotokError:
        return
    for each in plan.slices():
        assert each.num_bytes >= 0
        assert each.key


@mutations
@given(steps=steps, value=JSON)
def test_any_value_in_a_record_is_a_problem_or_harmless(out, steps, value):
    path = min(out.glob("records/tokenize/chats/train/*.json"))
    with changing(path):
        path.write_bytes(replaced(path.read_bytes(), steps, value))
        verify_output(Folder(str(out)))
        read_record(Folder(str(out)), path.relative_to(out).as_posix(), ShardRecord)


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    made = VisionShards(tmp_path_factory.mktemp("vision"), documents_with_images(12))
    made.publish()
    return made


def check(made, record):
    """Check a record of vision documents like verification, with its files last."""
    record = from_values(ShardRecord, record, name="record")
    if not list(record_problems(record, item_bytes=2, slice_=made.slice)):
        return check_files(made.out, record, Vocabulary.of(made.tokenizer.model, made.settings))
    return None


@mutations
@given(number=st.integers(0, 4), changes=changes)
def test_changed_files_of_vision_documents_are_read_or_refused(vision, number, changes):
    record = copy.deepcopy(vision.values)
    file = record["files"][number % len(record["files"])]
    path = Path(vision.out.url) / file["name"]
    with changing(path):
        kept = path.read_bytes()
        path.write_bytes(mutated(kept, changes))
        assert (check(vision, record) == []) == (path.read_bytes() == kept)
        # The record agrees with the file, as if this version had written it.
        file["size"], file["sha256"] = path.stat().st_size, vision.out.sha256(file["name"])
        check(vision, record)
        read_all(vision.out.url)


@mutations
@given(steps=steps, value=JSON)
def test_any_value_in_a_record_of_vision_documents_is_harmless(vision, steps, value):
    with changing():
        check(vision, json.loads(replaced(json.dumps(vision.values), steps, value)))
