"""Files of a tokenizer: the readable one, and those of tiktoken, nanochat and torch."""

import hashlib
import io
import pickle
import resource
import sys
import zipfile
from collections import OrderedDict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.documents import Documents
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer import (
    Model,
    Tokenizer,
    files_of_others,
    folder,
    from_readable,
    get_token_bytes,
    get_tokenizer,
    make_model,
    open_tokenizer,
    sha256_of,
    to_huggingface_file,
    to_readable,
    to_tiktoken_file,
    write_file,
)
from nanotok_ray.tokenizer import nanochat_files as nanochat
from nanotok_ray.tokenizer.nanochat_files import pickle_instance
from tests.support.foreign_models import GPT2_ORDER, in_order, orders

FILES = [
    *("token_bytes.pt", "tokenizer.json", "tokenizer.pkl", "tokenizer.tiktoken", "tokenizer.txt"),
    "tokenizer_config.json",
]
SMALL = Model(
    pattern="\\w+|'é \n",
    unicode_version="16.0.0",
    merges=((97, 98), (256, 256)),
    special_tokens={"<|bos|>": 258, "<é>": 260},
)
SMALL_FILE = rb"""nanotok-tokenizer 1
unicode 16.0.0
pattern "\\w+|'\u00e9 \n"
special_tokens 2
258 "<|bos|>"
260 "<\u00e9>"
merges 2
97 98
256 256
"""
OTHER_ORDER_FILE = to_readable(in_order())
# "abc" twice: ab + c and a + bc.
TWICE = Model(
    pattern=SPLIT_PATTERN,
    unicode_version="16.0.0",
    merges=((97, 98), (256, 99), (98, 99), (97, 258)),
    special_tokens={},
)

ORDER_OF_VALUES = bytes(range(256))


@st.composite
def models(draw):
    num_merges = draw(st.integers(0, 20))
    merges = []
    for number in range(num_merges):
        ids = st.integers(0, 255 + number)
        pair = draw(st.tuples(ids, ids).filter(lambda pair: pair not in merges))
        merges.append(pair)
    names = draw(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), unique=True))
    free = st.integers(256 + num_merges, 2**31 - 1)
    numbers = draw(st.sets(free, min_size=len(names), max_size=len(names)))
    return Model(
        pattern=draw(st.text(st.characters(codec="utf-8"))),
        unicode_version="16.0.0",
        merges=tuple(merges),
        special_tokens=dict(zip(names, sorted(numbers), strict=True)),
        byte_order=draw(st.just(ORDER_OF_VALUES) | orders),
    )


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(["the cat sat on the mat, the hat: 123"] * 2, 290)


def test_the_readable_file_equals_its_description_in_the_module():
    assert to_readable(SMALL) == SMALL_FILE
    assert sha256_of(SMALL) == hashlib.sha256(SMALL_FILE).hexdigest()


@given(models())
def test_the_readable_file_stores_the_whole_model(model):
    data = to_readable(model)
    assert from_readable(data, name="f") == model
    if model.byte_order == ORDER_OF_VALUES:
        assert data.startswith(b"nanotok-tokenizer 1\n")
    else:
        assert data.startswith(b"nanotok-tokenizer 2\n")
        assert data.splitlines()[3] == b"bytes " + model.byte_order.hex().encode()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"tokenizer 1", b"tokenizer 3", "f has format 'nanotok-tokenizer 3', this version reads"),
        (b"tokenizer 1", b"tokenizer 2", "line 4: expected 'bytes ...', found 'special_tokens'"),
        (b"unicode 16.0.0\n", b"", "line 2: expected 'unicode ...', found 'pattern"),
        (b"16.0.0", b"sixteen", "f: 'sixteen' is not a Unicode version"),
        (b'"\\\\w+', b"\\\\w+", "line 3: expected a JSON string: "),
        (b'"<|bos|>"', b"7", "line 5: expected a JSON string, found '7'"),
        (b'"<|bos|>"', b"[" * 10**5, "line 5: expected a JSON string: maximum recursion"),
        (b"258 ", b" ", "line 5: expected a number, found ''"),
        (b"258 ", b"260 ", "f: special tokens must be in order of ids: '<|bos|>' 260, '<é>' 260"),
        (b"258 ", b"257 ", "f: the special token '<|bos|>' has id 257: 258 to 2147483647 are"),
        (b"\\u00e9>", "é>".encode(), "line 6: not ASCII"),
        (b"\\u00e9>", b"\\ud800>", "f: the special token '<\\ud800>' holds a lone surrogate"),
        (b"\\u00e9>", b"\\u00E9>", "line 6: expected '260"),
        (b"merges 2", b"merges 3", "line 10: the file ends too early"),
        (b"97 98\n", b"97\n", "line 8: expected a number, found ''"),
        (b"97 98\n", b"97 98 \n", "line 8: expected a number, found '98 '"),
        (b"97 98\n", b"97 +98\n", "line 8: expected a number, found '+98'"),
        (b"97 98\n", b"97 098\n", "line 8: expected '97 98'"),
        (b"97 98\n", b"97 %d\n" % 10**20, "line 8: expected a number, found '1000"),
        (b"256 256", b"256 257", "f: merge 1 of (256, 257) must join two ids below 257"),
        (b"256 256", b"97 98", "f: merge 1 repeats merge 0: (97, 98)"),
        (b"256 256\n", b"256 256\n\n", "line 10: expected the end of the file"),
        (b"merges 2", b"merges %d" % 10**9, "the file ends too early"),
        (b"merges 2", b"merges %d" % 10**30, "line 7: expected a number"),
        (b"260 ", b"%d " % 2**31, "258 to 2147483647 are free"),
        (b"bytes 21", b"bytes zz", "line 4: expected hexadecimal digits, found 'zz22"),
        (b"bytes 21", b"bytes ", "f: ids 0 to 255 must be each byte once: the byte order has 255"),
        (b"bytes 21", b"bytes 22", "256 bytes, 255 of them different"),
        (b"bytes 2122", b"bytes 21 22", "line 4: expected 'bytes 2122"),
        (
            GPT2_ORDER.hex().encode(),
            ORDER_OF_VALUES.hex().encode(),
            "line 1: expected 'nanotok-tokenizer 1'",
        ),
    ],
)
def test_a_damaged_file_is_refused_with_its_name_and_line(old, new, message):
    file = SMALL_FILE if old in SMALL_FILE else OTHER_ORDER_FILE
    assert old in file
    with pytest.raises(TokenizerError) as caught:
        from_readable(file.replace(old, new, 1), name="f")
    assert message in str(caught.value)
    assert str(caught.value).startswith("f")


@given(st.data())
def test_a_changed_byte_is_refused_or_yields_another_tokenizer(data):
    at = data.draw(st.integers(0, len(SMALL_FILE) - 1))
    changed = bytearray(SMALL_FILE)
    changed[at] = data.draw(st.integers(0, 255).filter(lambda value: value != SMALL_FILE[at]))
    try:
        model = from_readable(bytes(changed), name="f")
    except TokenizerError:
        return
    assert model != SMALL
    assert to_readable(model) == changed


@pytest.mark.parametrize("size", range(len(SMALL_FILE)))
def test_a_truncated_file_is_refused(size):
    with pytest.raises(TokenizerError):
        from_readable(SMALL_FILE[:size], name="f")


def doubling(number):
    """Return merges of which each doubles the last token."""
    return [(97, 97), *((last, last) for last in range(256, 255 + number))]


def opened_file(folder, merges):
    lines = ["nanotok-tokenizer 1", "unicode 16.0.0", 'pattern "a"', "special_tokens 0"]
    lines += [f"merges {len(merges)}", *(f"{left} {right}" for left, right in merges), ""]
    (folder / "tokenizer.txt").write_text("\n".join(lines))
    return open_tokenizer(folder / "tokenizer.txt")


def core_encoder(folder, merges):
    return _core.Encoder("a", np.array(merges, np.uint32))


def core_decoder(folder, merges):
    return _core.Decoder(np.array(merges, np.uint32), [])


def refusal(open_merges, folder, merges):
    with pytest.raises(TokenizerError) as caught:
        open_merges(folder, merges)
    return str(caught.value).replace(",", "")


@pytest.mark.parametrize("open_merges", [opened_file, core_encoder, core_decoder])
def test_tokens_of_too_many_bytes_are_refused_before_they_are_made(tmp_path, open_merges):
    assert open_merges(tmp_path, doubling(17))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = refusal(open_merges, tmp_path, doubling(60))
    assert "token 273 has 262144 bytes: the limit is 131072" in message
    longest = [(270, byte) for byte in range(256)]
    longer = [(271 + first, byte) for first in range(10) for byte in range(256)]
    message = refusal(open_merges, tmp_path, [*doubling(15), *longest, *longer])
    assert message.endswith("tokens up to 2316 have 67112954 bytes: the limit is 67108864")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert peak - before < 400 << 10


def test_a_name_of_too_many_bytes_is_refused():
    name = "é" * 512
    assert replace(SMALL, merges=(), special_tokens={name: 256}).num_ids == 257
    assert _core.Decoder(np.empty((0, 2), np.uint32), [(256, name)])
    with pytest.raises(TokenizerError, match="token 256 has 1,025 bytes: the limit is 1,024"):
        replace(SMALL, merges=(), special_tokens={f"{name}a": 256})
    with pytest.raises(TokenizerError, match="256 has a name of 1025 bytes: the limit is 1024"):
        _core.Decoder(np.empty((0, 2), np.uint32), [(256, f"{name}a")])


def test_a_saved_tokenizer_loads_unchanged(tokenizer, tmp_path, monkeypatch):
    written = []
    write = folder.Folder.write_bytes

    def noted(self, name, data):
        written.append(name)
        write(self, name, data)

    monkeypatch.setattr(folder.Folder, "write_bytes", noted)
    path = tmp_path / "new" / "folder"
    tokenizer.save(path)
    assert written[-1] == "tokenizer.txt"
    assert sorted(written) == sorted(each.name for each in path.iterdir()) == FILES
    assert Tokenizer.from_directory(path) == tokenizer


RANK_KEYED = {
    "tokenizer.pkl": nanochat.to_pickle,
    "tokenizer.tiktoken": to_tiktoken_file,
    "tokenizer.json": to_huggingface_file,
    "to_tiktoken": lambda model: Tokenizer(model).to_tiktoken(),
}


@pytest.mark.parametrize("name", RANK_KEYED)
def test_only_formats_keyed_by_ids_store_two_ids_with_the_same_bytes(name, tmp_path):
    RANK_KEYED[name](replace(TWICE, merges=TWICE.merges[:3]))
    for write in (RANK_KEYED[name], lambda model: Tokenizer(model).save(tmp_path)):
        with pytest.raises(TokenizerError) as caught:
            write(TWICE)
        for words in ("ids 257 and 259 both stand for b'abc'", "keyed by the bytes of tokens"):
            assert words in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert from_readable(to_readable(TWICE), name="f") == TWICE
    assert nanochat.to_token_bytes(TWICE)
    own = Tokenizer(TWICE)
    assert [own.decode([number]) for number in (257, 259)] == ["abc", "abc"]
    assert own.decode(own.encode("abc")) == "abc"


@given(st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 9), max_size=20))
def test_learned_tokenizers_have_no_two_ids_with_the_same_bytes(counts):
    """All merges of one token's bytes are equal: see rust/bpe/src/learn.rs."""
    spans = Documents.from_strings(list(counts))
    numbers = np.array(list(counts.values()), np.uint64)
    merges, *_ = _core.learn([(spans.data, spans.offsets, numbers)], num_merges=99)
    model = make_model(merges.tolist(), pattern=SPLIT_PATTERN, special_tokens=())
    assert len(model.ranks()) == len(model.tokens)


def test_with_unused_special_ids_tokenizer_json_is_omitted(tmp_path, caplog):
    own = Tokenizer(SMALL)
    own.save(tmp_path)
    written = [name for name in FILES if not name.endswith(".json")]
    assert sorted(path.name for path in tmp_path.iterdir()) == written
    assert "left out tokenizer.json, tokenizer_config.json: special tokens leave" in caplog.text
    assert Tokenizer.load(tmp_path) == own
    assert folder.differing_files(SMALL, tmp_path) == []
    with (tmp_path / "tokenizer.pkl").open("rb") as file:
        assert pickle.load(file).n_vocab == own.get_vocab_size()


@pytest.mark.parametrize("name", ["the", "é", "Ġ"])
def test_with_a_special_token_spelled_as_an_ordinary_token_tokenizer_json_is_omitted(
    tmp_path, caplog, name
):
    own = Tokenizer.train_from_iterator(["the the"] * 3, 258, special_tokens=()).extended([name])
    own.save(tmp_path)
    assert not (tmp_path / "tokenizer.json").exists()
    assert f"the special token {name!r} is spelled there as the token" in caplog.text
    with pytest.raises(TokenizerError, match="cannot represent the ids"):
        write_file(own.model, str(tmp_path / "alone.json"))
    assert Tokenizer.load(tmp_path) == own
    assert folder.differing_files(own.model, tmp_path) == []


def test_a_changed_tokenizer_json_is_that_of_another(tmp_path):
    tokenizer = Tokenizer.train_from_iterator(["the the cat"] * 3, 270, pattern="gpt4")
    tokenizer.save(tmp_path)
    file = tmp_path / "tokenizer.json"
    assert folder.differing_files(tokenizer.model, tmp_path) == []
    assert files_of_others(tokenizer.model, str(file)) == []
    file.write_bytes(file.read_bytes().replace(b"Isolated", b"Removed"))
    assert folder.differing_files(tokenizer.model, tmp_path) == ["tokenizer.json"]
    assert files_of_others(tokenizer.model, str(file)) == ["tokenizer.json"]


def test_a_tokenizer_json_saved_here_is_removed_and_a_foreign_one_kept(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    assert "tokenizer.json" in folder.differing_files(SMALL, tmp_path)
    Tokenizer(SMALL).save(tmp_path, overwrite=True)
    assert not (tmp_path / "tokenizer.json").exists()
    (tmp_path / "tokenizer.txt").unlink()
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    message = r"holds tokenizer\.json, which cannot represent the ids"
    with pytest.raises(TokenizerError, match=message):
        Tokenizer(SMALL).save(tmp_path, overwrite=True)
    assert (tmp_path / "tokenizer.json").read_bytes() == b"{}"


# A batch of a dict's items has 1,000; a frame ends after 64 KiB; longer strings are outside it.
@pytest.mark.parametrize("num_special", [0, 1, 2])
@pytest.mark.parametrize("num_ranks", [256, 257, 999, 1000, 1001, 2000, 12_345])
@pytest.mark.parametrize("pattern", ["a|.", "é" * 300, "x" * 65_536], ids=len)
def test_the_pickle_equals_that_of_an_encoding_of_tiktoken(num_ranks, num_special, pattern):
    tokens = [bytes([value]) for value in range(256)]
    tokens += [b"%d" % number * (1 + number % 70) for number in range(10, 10 + num_ranks - 256)]
    tokens += [b"-" * size for size in (65_535, 65_536, 70_000) if num_ranks == 257]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    special_tokens = {f"<{number}>": len(ranks) + number for number in range(num_special)}
    peer = tiktoken.Encoding(
        "rustbpe", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special_tokens
    )
    state = {"name": "rustbpe", "pat_str": pattern}
    state |= {"mergeable_ranks": ranks, "special_tokens": special_tokens}
    data = pickle_instance("tiktoken.core", "Encoding", state=state)
    assert data == pickle.dumps(peer, protocol=4)


class TensorReader(pickle.Unpickler):
    """Reads data.pkl with torch's functions replaced by names."""

    def find_class(self, module, name):
        known = {
            "torch._utils._rebuild_tensor_v2": lambda *arguments: arguments,
            "torch.IntStorage": "int32",
            "collections.OrderedDict": OrderedDict,
        }
        return known[f"{module}.{name}"]

    def persistent_load(self, pid):
        return pid


@pytest.mark.parametrize("size", [0, 1, 565, 65_536])
def test_torch_can_read_a_tensor_file(size):
    values = np.arange(size, dtype=np.int32) * 7
    data = nanochat.save_tensor(values)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        assert list(entries) == [
            f"archive/{name}" for name in ("data.pkl", "byteorder", "data/0", "version")
        ]
        assert {entry.compress_type for entry in entries.values()} == {zipfile.ZIP_STORED}
        call = TensorReader(io.BytesIO(archive.read("archive/data.pkl"))).load()
        raw = archive.read("archive/data/0")
        assert archive.read("archive/byteorder") == b"little"
        assert archive.read("archive/version") == b"3\n"
    storage = ("storage", "int32", "0", "cpu", size)
    assert call == (storage, 0, (size,), (1,), False, OrderedDict())
    assert raw == values.astype("<i4").tobytes()
    header = entries["archive/data/0"]
    start = header.header_offset + 30 + len(header.filename) + len(header.extra)
    assert data[start:].startswith(raw)
    assert start % 64 == 0
    assert nanochat.save_tensor(values) == data


def test_token_bytes_load_in_torch(tokenizer, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is optional; TensorReader stands in for it")
    tokenizer.save(tmp_path)
    for weights_only in (True, False):
        tensor = torch.load(tmp_path / "token_bytes.pt", weights_only=weights_only)
        assert tensor.dtype == torch.int32
        assert tensor.tolist() == tokenizer.token_bytes().tolist()


def test_tokenizer_and_token_bytes_are_read_from_the_folder_of_nanochat(
    tokenizer, tmp_path, monkeypatch
):
    fake = SimpleNamespace(from_numpy=lambda array: SimpleNamespace(to=lambda at: (array, at)))
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setenv("HOME", str(tmp_path))
    for base, path in ((str(tmp_path), "tokenizer"), ("", ".cache/nanochat/tokenizer")):
        monkeypatch.setenv("NANOCHAT_BASE_DIR", base)
        with pytest.raises(TokenizerError, match=r"tokenizer\.txt, .* missing.*NANOCHAT_BASE_DIR"):
            Tokenizer.load(tmp_path / path)
        tokenizer.save(tmp_path / path)
        assert get_tokenizer() == tokenizer
        array, device = get_token_bytes("cuda")
        assert array.tolist() == tokenizer.token_bytes().tolist()
        assert device == "cuda"
    with pytest.raises(TokenizerError, match=r"tokenizer\.txt, .* are missing\); check the path"):
        Tokenizer.load(tmp_path / "elsewhere")


def test_a_very_high_id_writes_no_file_of_that_length(tmp_path):
    model = replace(SMALL, special_tokens={"<|x|>": 2**31 - 1})
    for write in (folder.differing_files, lambda model, path: Tokenizer(model).save(path)):
        with pytest.raises(TokenizerError, match="unused"):
            write(model, tmp_path)
