"""Outputs made by somebody else: refused with an error of ours, and never run, followed or filled."""

import hashlib
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanotok_ray.cluster.job import prepare
from nanotok_ray.errors import CorruptOutputError, NanotokError, TokenizerError
from nanotok_ray.manifest import ROW
from nanotok_ray.output import read_record
from nanotok_ray.plan import plan_from_json
from nanotok_ray.reader import open_shards
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Model, Tokenizer, differing_files
from nanotok_ray.tokenizer.readable import to_readable
from nanotok_ray.verify import verify_output
from tests.small_corpus import recipe, write_corpus

HEADER_BYTES = 32


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Make one small output for all tests."""
    root = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        patch.setattr("nanotok_ray.cluster.job.ray_session", _no_session)
        patch.setattr("nanotok_ray.cluster.fan_out.run_tasks", _run_here)
        write_corpus(root / "in")
        prepare(recipe(root / "in", root / "out", "limits.slice_bytes=60000"))
    return root / "out"


def _no_session(**_):
    from contextlib import nullcontext  # noqa: PLC0415

    return nullcontext()


def _run_here(tasks, **_):
    from nanotok_ray.cluster.engine import Ended  # noqa: PLC0415

    return (Ended(task=task, result=task.work(task.argument)) for task in tasks)


@pytest.fixture
def out(finished, tmp_path):
    """Give a copy of the output that a test may change."""
    return copy_of(finished, tmp_path / "out")


def copy_of(finished, target):
    for path in finished.rglob("*"):
        if path.is_file():
            own = target / path.relative_to(finished)
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_bytes(path.read_bytes())
    return target


def read_all(out):
    """Touch every document and mask as a trainer does."""
    for split in ("train", "val"):
        shards = open_shards(str(out), split=split)
        for document in range(len(shards)):
            ids, mask = shards[document], shards.mask(document)
            assert mask is None or len(mask) == len(ids)
            shards.shard_of(document)


def with_index(out, change):
    """Change the rows and names of shards.idx, and name the new file in the manifest."""
    path = out / "shards.idx"
    data = path.read_bytes()
    count = struct.unpack_from("<Q", data, 16)[0]
    rows = np.frombuffer(data, dtype=ROW, count=count, offset=HEADER_BYTES).copy()
    strings = change(rows, data[HEADER_BYTES + rows.nbytes :])
    strings = data[HEADER_BYTES + rows.nbytes :] if strings is None else strings
    header = data[:24] + struct.pack("<Q", len(strings))
    publish_index(out, header + rows.tobytes() + strings)


def publish_index(out, data):
    (out / "shards.idx").write_bytes(data)
    change_json(out / "manifest.json", "shards_index_sha256", hashlib.sha256(data).hexdigest())


def change_json(path, field, value):
    values = json.loads(path.read_text())
    values[field] = value
    path.write_text(json.dumps(values))


def renamed(name):
    def change(rows, strings):
        rows["name_offset"][:] = 0
        return name + b"\0"

    return change


@pytest.mark.parametrize(
    "name",
    [
        b"../../etc/passwd",
        b"/etc/passwd",
        b"web/train/../../../x",
        b"web/val/x",
        b"web/train/a/b",
        b"",
        b"\xff\xfe",
        b"web/train/",
    ],
)
def test_a_name_that_is_not_of_the_shards_own_folder_is_refused(out, name):
    with_index(out, renamed(name))
    with pytest.raises(CorruptOutputError, match="not the name of a shard"):
        read_all(out)


def test_names_without_an_end_or_beyond_all_are_refused(out):
    with_index(out, lambda rows, strings: strings.rstrip(b"\0"))
    with pytest.raises(CorruptOutputError, match="not the name"):
        read_all(out)
    with_index(out, lambda rows, strings: rows["name_offset"].fill(1 << 63))
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


def test_a_link_inside_of_the_folder_and_a_linked_output_are_fine(out, tmp_path):
    path = min(out.glob("web/train/*.bin"))
    path.symlink_to(path.rename(out / "elsewhere.bin"))
    (tmp_path / "link").symlink_to(out)
    read_all(tmp_path / "link")
    assert verify_output(Folder(str(tmp_path / "link"))).passed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source", 2),
        ("split", 7),
        ("item_bytes", 3),
        ("item_bytes", 0),
        ("documents", 1 << 60),
        ("documents", (1 << 64) - 1),
        ("tokens", 1 << 63),
        ("bin_bytes", (1 << 64) - 2),
        ("idx_bytes", 1),
        ("mask_bytes", 1),
        ("first_document", 1 << 60),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(out, field, value):
    with_index(out, lambda rows, _: rows[field].__setitem__(0, value))
    with pytest.raises(CorruptOutputError, match="row 0 has"):
        read_all(out)


@pytest.mark.parametrize("place", [16, 24])
def test_a_header_that_claims_ever_so_many_rows_takes_no_memory(out, place):
    data = bytearray((out / "shards.idx").read_bytes())
    struct.pack_into("<Q", data, place, 1 << 60)
    publish_index(out, bytes(data))
    with pytest.raises(CorruptOutputError, match="its header says"):
        read_all(out)


@pytest.mark.parametrize("count", [1 << 60, (1 << 64) - 1, 0])
def test_a_document_index_that_claims_ever_so_many_documents_takes_no_memory(out, count):
    for path in out.glob("*/*/*.idx"):
        data = bytearray(path.read_bytes())
        struct.pack_into("<QQ", data, 18, count, (count + 1) % (1 << 64))
        path.write_bytes(data)
    with pytest.raises(CorruptOutputError):
        read_all(out)


def test_offsets_that_fall_or_overlap_are_refused(out):
    path = min(out.glob("web/train/*.idx"))
    sound = path.read_bytes()
    count = struct.unpack_from("<Q", sound, 18)[0]
    for place, form, value in (
        (34, "<i", -5),
        (34 + 4 * count + 8, "<q", -8),
        (34 + 4 * count + 16, "<q", 0),
        (34, "<i", 2**31 - 1),
    ):
        data = bytearray(sound)
        struct.pack_into(form, data, place, value)
        path.write_bytes(data)
        with pytest.raises(CorruptOutputError):
            read_all(out)


@pytest.mark.parametrize("name", ["manifest.json", "plan.json"])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"format":' * 100_000, "9" * 5000, "NaN", "{}", ""]
)
def test_json_that_is_too_deep_or_no_object_is_refused(out, name, text):
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
        ("sources", "web"),
        ("sources", [1]),
        ("sources", ["web", "other"]),
        ("settings", []),
        ("settings", {"web": 1, "chats": 1}),
        ("item_bytes", True),
        ("shards_index_sha256", 7),
        ("totals", None),
        ("slices", -1),
        ("slices", 1 << 70),
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
def test_a_record_that_names_a_file_of_another_is_a_problem_and_the_file_is_not_read(out, name):
    change_record(out, lambda values: values["files"][0].update(name=name))
    problems = verify_output(Folder(str(out))).problems
    assert any("no file of its slice" in problem for problem in problems)


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
        lambda values: values["shards"][0].update(name="../x"),
        lambda values: values.update(files=values["files"] * 2),
        lambda values: values.update(files=values["files"][1:]),
        lambda values: values.update(read=[]),
        lambda values: values.update(quarantined={"a": "b"}),
        lambda values: values["documents"].update(out=1e300),
        lambda values: values["slice"].update(number=9),
        lambda values: values.update(stage="count"),
    ],
    ids=map(str, range(15)),
)
def test_a_record_that_contradicts_itself_is_a_problem(out, change):
    change_record(out, change)
    assert verify_output(Folder(str(out))).problems


def test_a_pickle_in_the_tokenizers_folder_is_never_loaded(out, tmp_path):
    mark = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return (Path.touch, (mark,))

    for name in ("tokenizer.pkl", "token_bytes.pt", "span_table.bin"):
        (out / "tokenizer" / name).write_bytes(pickle.dumps(Bomb()))
    assert len(verify_output(Folder(str(out))).problems) >= 3
    read_all(out)
    Tokenizer.load(out / "tokenizer", span_table=False)
    (out / "tokenizer" / "tokenizer.txt").unlink()
    with pytest.raises(TokenizerError, match="pickle can run code"):
        Tokenizer.load(out / "tokenizer", span_table=False)
    assert not mark.exists()


def readable(merges, *, claimed=None, special=()):
    lines = [
        "nanotok-tokenizer 1",
        "unicode 16.0.0",
        'pattern "a"',
        f"special_tokens {len(special)}",
    ]
    lines += [f'{number} "<{number}>"' for number in special]
    lines += [f"merges {len(merges) if claimed is None else claimed}"]
    lines += [f"{left} {right}" for left, right in merges]
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (readable([(97, 97)], claimed=10**9), "ends too early"),
        (readable([(97, 300)]), "must join two ids below 256"),
        (readable([(97, 256)]), "must join two ids below 256"),
        (readable([(97, 97), *((n, n) for n in range(256, 316))]), "more than 268435456 bytes"),
        (readable([(97, 97), (97, 97)]), "repeats merge 0"),
        (readable([], special=[2**31]), "are free"),
        (readable([], claimed=10**30), "expected a number"),
        (b"nanotok-tokenizer 1\nunicode 16.0.0\npattern " + b"[" * 100_000 + b"\n", "JSON string"),
        (b"\n" * 1000, "expected"),
    ],
)
def test_a_readable_tokenizer_that_asks_for_the_impossible_is_refused(tmp_path, data, message):
    (tmp_path / "tokenizer.txt").write_bytes(data)
    with pytest.raises(TokenizerError, match=message):
        Tokenizer.load(tmp_path)


def test_a_readable_tokenizer_of_many_gigabytes_is_refused_unread(tmp_path):
    with (tmp_path / "tokenizer.txt").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TokenizerError, match="are refused"):
        Tokenizer.load(tmp_path)


def test_an_id_far_above_all_others_makes_no_file_as_long_as_that(tmp_path):
    model = Model(
        pattern="a", unicode_version="16.0.0", merges=(), special_tokens={"<|x|>": 2**31 - 1}
    )
    (tmp_path / "tokenizer.txt").write_bytes(to_readable(model))
    tokenizer = Tokenizer.load(tmp_path)
    with pytest.raises(TokenizerError, match="unused"):
        differing_files(tokenizer.model, tmp_path)
    with pytest.raises(TokenizerError, match="unused"):
        tokenizer.save(tmp_path / "copy")


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
    """Put a value at a place of a JSON text, chosen by numbers; or take that place out."""
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


@mutations
@given(number=st.integers(0, 50), changes=changes)
def test_bytes_changed_anywhere_are_read_or_refused(out, number, changes):
    paths = sorted(out.glob("*/*/*.idx")) + [out / "shards.idx", out / "manifest.json"]
    path = paths[number % len(paths)]
    kept, manifest = path.read_bytes(), (out / "manifest.json").read_bytes()
    try:
        if path.name == "shards.idx":
            publish_index(out, mutated(kept, changes))
        else:
            path.write_bytes(mutated(kept, changes))
        read_all(out)
    except NanotokError:
        pass
    finally:
        path.write_bytes(kept)
        (out / "manifest.json").write_bytes(manifest)


@mutations
@given(steps=steps, value=JSON)
def test_any_value_anywhere_in_the_manifest_is_read_or_refused(out, steps, value):
    path = out / "manifest.json"
    kept = path.read_bytes()
    try:
        path.write_bytes(replaced(kept, steps, value))
        read_all(out)
        verify_output(Folder(str(out)), read_files=False)
    except NanotokError:
        pass
    finally:
        path.write_bytes(kept)


@mutations
@given(steps=steps, value=JSON)
def test_any_value_anywhere_in_a_plan_is_read_or_refused(finished, steps, value):
    data = (finished / "plan.json").read_bytes()
    try:
        plan = plan_from_json(replaced(data, steps, value))
    except NanotokError:
        return
    for each in plan.slices():
        assert each.num_bytes >= 0
        assert each.key


@mutations
@given(steps=steps, value=JSON)
def test_any_value_anywhere_in_a_record_is_a_problem_or_harmless(out, steps, value):
    path = min(out.glob("records/tokenize/chats/train/*.json"))
    kept = path.read_bytes()
    try:
        path.write_bytes(replaced(kept, steps, value))
        verify_output(Folder(str(out)))
        read_record(Folder(str(out)), path.relative_to(out).as_posix())
    except NanotokError:
        pass
    finally:
        path.write_bytes(kept)


@mutations
@given(changes=changes)
def test_a_tokenizer_changed_anywhere_is_read_or_refused(finished, tmp_path, changes):
    data = (finished / "tokenizer/tokenizer.txt").read_bytes()
    (tmp_path / "tokenizer.txt").write_bytes(mutated(data, changes))
    try:
        tokenizer = Tokenizer.load(tmp_path)
    except NanotokError:
        return
    tokenizer.decode(tokenizer.encode("a plain text"))
