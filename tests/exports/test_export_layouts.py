"""All layouts: options, golden files, reading with numpy and pyarrow."""

import gzip
import pickle
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import tiktoken
import tokenizers
from tiktoken.load import load_tiktoken_bpe

from nanotok_ray.api import export
from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports import LAYOUTS, parse_layout, unit_problems
from nanotok_ray.loader import open_shards
from nanotok_ray.storage import Folder
from tests.peers.readers import TOKENIZER, checks
from tests.support.finished_output import finished_output
from tests.support.golden_files import GOLDEN, OLD_OUTPUTS, write_golden_files
from tests.support.made_output import BOS, MadeSource, export_here, made_output
from tests.support.small_corpus import texts

TEXT = MadeSource(name="web", shards=[[[BOS, 5, 6], [BOS], [BOS, 7]], [[BOS, 9, 9, 9]], []])
CHAT = MadeSource(name="chat", kind="chat", shards=[[[BOS, 1, 2, 3, 4], [BOS, 8]]])


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_local_and_a_remote_export_have_the_same_bytes(name, tmp_path, folder):
    layout, remote = parse_layout(name), Folder(f"memory://test_export_layouts/{name}/export")
    export_here(made_output(tmp_path / "out", TEXT, CHAT), layout, folder)
    other = made_output(f"memory://test_export_layouts/{name}/out", TEXT, CHAT)
    export_here(other, layout, remote)
    first, second = (
        {own: each.read_bytes(own) for own in each.list()} for each in (folder, remote)
    )
    assert first == second


def test_datatrove_omits_documents_without_a_token(tmp_path, folder):
    out = made_output(
        tmp_path / "out", MadeSource(name="web", shards=[[[], [BOS, 5], [], [], [6]]])
    )
    exported = export_here(out, parse_layout("datatrove"), folder)
    assert exported[0].record.left_out == {"documents without a token": 3}
    (name,) = exported[0].names(".index")
    assert folder.read_bytes(name) == np.array([2, 3], "<u8").tobytes()


STEM = f"web/train/part-00000-000-{'0' * 16}"
MEGATRON_STEM = "web/train/web_train_00000_text_document"
KEPT = replace(TEXT, prepend=(), append=("<|bos|>",), shards=[[[5, 6, BOS], [BOS]]])


@pytest.mark.parametrize(
    ("layout", "source", "pairs"),
    [
        ("raw", TEXT, {f"{STEM}.bin": f"{STEM}.bin"}),
        ("olmo", KEPT, {f"{STEM}.bin": f"{STEM}.npy"}),
        (
            "megatron:datasets=2",
            TEXT,
            {f"{STEM}{own}": f"{MEGATRON_STEM}{own}" for own in (".bin", ".idx")},
        ),
    ],
)
def test_files_of_the_same_content_are_linked_not_copied(layout, source, pairs, tmp_path, folder):
    out = made_output(tmp_path / "out", source)
    for _ in range(2):  # the second time the same links again
        export_here(out, parse_layout(layout), folder)
        for native, own in pairs.items():
            assert (tmp_path / "out" / native).samefile(tmp_path / "export" / own)
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
        ("raw:x=1", "'raw'.*'x=1'.*shuffle"),
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("llmc:bos=<s>", "'<s>'.*<|assistant_end|>, <|bos|>"),
        *(
            (f"olmo:end_token={name}", "is not a special token.*<|assistant_end|>, <|bos|>")
            for name in ("<|eot|>", "")
        ),
        *(
            (f"parquet:mask_column={name}", "assistant_masks, completion_mask, labels")
            for name in ("masks", "", "input_ids")
        ),
    ],
)
def test_an_option_that_names_no_token_or_column_is_refused(text, message, tmp_path, folder):
    out = made_output(tmp_path / "out", TEXT)
    with pytest.raises(ExportError, match=message.replace("|", r"\|")):
        export_here(out, parse_layout(text), folder)
    assert folder.list() == []


BOS_FIRST = r'source\.prepend = \["<.bos.>"\]'
NOT_ONCE = "source web puts <.bos.> twice or not at"


@pytest.mark.parametrize(
    ("layout", "prepend", "append", "message"),
    [
        ("llmc", (), (), BOS_FIRST),
        ("llmc", ("<|assistant_end|>",), (), BOS_FIRST),
        ("llmc", ("<|bos|>", "<|bos|>"), (), "twice"),
        ("llmc", ("<|bos|>",), ("<|bos|>",), r"source\.append"),
        ("olmo", ("<|bos|>",), ("<|bos|>",), NOT_ONCE),
        ("olmo", ("<|assistant_end|>", "<|bos|>"), (), NOT_ONCE),
        ("olmo", (), ("<|bos|>", "<|assistant_end|>"), NOT_ONCE),
    ],
)
def test_sources_with_the_token_elsewhere_are_refused_before_reading(
    layout, prepend, append, *, message, tmp_path, folder
):
    source = MadeSource(name="web", prepend=prepend, append=append, shards=[[[BOS, 1]]])
    out = made_output(tmp_path / "out", CHAT, source)
    with pytest.raises(ExportError, match=message) as error:
        export_here(out, parse_layout(layout), folder)
    assert "web" in str(error.value)
    assert folder.list() == []


def flipped(place, bit=1):
    """Return a function that returns a file with one changed bit."""

    def change(data):
        changed = bytearray(data)
        changed[place] ^= bit
        return bytes(changed)

    return change


OTHER_IDS = np.array([1, BOS, 2], "<u2").tobytes()
OTHER_INDEX = gzip.compress(b"0,4,a,b,0\n4,7,a,b,1\n")
CHANGES = {
    **{f"llmc, byte {n}": ("llmc", ".bin", flipped(n), "chat_train_0") for n in (0, 4, 8, 1024)},
    "llmc, index": ("llmc", ".bos.idx", flipped(0), "chat_train_000000"),
    "element type": ("megatron", "text_document.idx", flipped(17), "chat_train_00000"),
    "length": ("megatron", "text_document.idx", flipped(34), "chat_train_00000"),
    "end of the last document": ("megatron", "text_document.idx", flipped(-8), "chat_train_00000"),
    "size": (
        "megatron",
        "text_document.bin",
        lambda data: data + bytes(2),
        "not what its index says",
    ),
    "length of labels": ("megatron", "text_label_document.idx", flipped(34), "chat_train_00000"),
    "label that is another id": (
        "megatron",
        "text_label_document.bin",
        flipped(4),
        r"label_document\.bin has a label that is neither",
    ),
    "olmo, ids": ("olmo", ".npy", lambda _: OTHER_IDS, r"chat/train/.*\.npy"),
    "olmo, mask": ("olmo", ".label_mask", lambda _: bytes(6), r"chat/train/.*\.label_mask"),
    "olmo, index": ("olmo", ".csv.gz", lambda _: OTHER_INDEX, r"chat/train/.*\.csv\.gz"),
    "litdata": ("litdata:block_size=3", "-0.*.bin", flipped(4, bit=4), "2 blocks"),
}


@pytest.mark.parametrize(
    ("layout", "suffix", "change", "message"), CHANGES.values(), ids=CHANGES.keys()
)
def test_a_changed_file_is_detected(layout, suffix, change, *, message, tmp_path, folder):
    parsed = parse_layout(layout)
    (exported,) = export_here(made_output(tmp_path / "out", CHAT), parsed, folder)
    (path,) = (tmp_path / "export/chat").rglob(f"*{suffix}")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CorruptOutputError, match=message):
        list(parsed.read(exported, folder))
    assert list(unit_problems(exported, parsed, folder))


def test_a_number_of_an_option_may_have_a_unit():
    assert parse_layout("mds:size_limit=1MiB") == parse_layout("mds:size_limit=1048576")


def test_every_layout_names_its_readers():
    for name, layout in LAYOUTS.items():
        assert layout.name == name
        assert layout.reader
        assert layout.format.startswith(name)
    checked = {check.layout for check in checks(None, None)}
    assert checked == {*LAYOUTS, TOKENIZER}, "tests/peers/readers.py names a check of each layout"


NAMES = sorted(
    path.relative_to(GOLDEN).as_posix()
    for path in GOLDEN.rglob("*")
    if path.is_file() and OLD_OUTPUTS not in path.parents
)
TABLES = {".arrow": lambda path: pa.ipc.open_file(path).read_all(), ".parquet": pq.read_table}


def contents(path):
    """Return the bytes of a file, decompressed."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        root = tmp_path_factory.mktemp("golden")
        write_golden_files(root)
        return root


def test_the_same_files_are_written(written):
    found = (path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file())
    assert sorted(found) == NAMES, "run `make golden` and review the diff"
    assert len(NAMES) > 50


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_unchanged(written, name):
    read = TABLES.get(Path(name).suffix)
    if read is None:
        assert contents(written / name) == contents(GOLDEN / name)
    else:
        own, other = read(written / name), read(GOLDEN / name)
        assert own.equals(other)
        assert own.schema.equals(other.schema, check_metadata=True)


READABLE = ("raw", "parquet", "megatron", "datatrove")
PLACES = ("web/train", "web/val", "chats/train")
MEGATRON_CODES = {8: np.dtype("<u2")}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("light")
    out = finished_output(root)
    for layout in READABLE:
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
