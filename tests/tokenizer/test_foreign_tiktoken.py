"""Tokenizers of tiktoken and rustbpe, in files and pickles."""

import base64
import inspect
import os
import pickle
import pickletools
from contextlib import suppress

import pytest
import rustbpe
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import RustBPETokenizer, get_tokenizer
from nanotok_ray.counts import PATTERNS, SPLIT_PATTERN
from nanotok_ray.errors import PatternError, TokenizerError
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer, default_folder, open_tokenizer
from nanotok_ray.tokenizer.foreign import from_pickle, from_rank_file, pickled
from nanotok_ray.tokenizer.foreign import tiktoken as ranks_module
from nanotok_ray.tokenizer.foreign.tiktoken import model_of_ranks
from nanotok_ray.tokenizer.nanochat_files import pickle_instance, to_pickle
from tests.support.foreign_models import CORPUS, GPT2_ORDER, in_order, orders, texts

SPECIAL = {"<|endoftext|>": 400, "<|fim|>": 403, "<|endofprompt|>": 419}
HOSTILE = [
    *("", "<|endoftext|>", "a<|fim|><|fim|>", "\x00\x7f\x85\u2028\ufeff", "e\u0301" * 40),
    *(" " * 300 + "x", "a" * 5000, "\n\r\n\t \u3000\n", "12345678901234567890"),
    *("'s'S'LL'\u017f", "🏳️‍🌈👩‍👩‍👧‍👦🇩🇪", "\U0010ffff\ue000\u0378"),
]
SINGLES = {bytes([byte]): rank for rank, byte in enumerate(GPT2_ORDER)}
NUMBERS = {b"%d" % number: number for number in range(300)}


def encoding(ranks, pattern=PATTERNS["gpt4"], special_tokens=None):
    return tiktoken.Encoding(
        "made up", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special_tokens or {}
    )


@st.composite
def made_up_ranks(draw):
    """Draw reachable tokens: each joins two earlier ones, with unique bytes."""
    tokens = [bytes([byte]) for byte in draw(orders)]
    some = st.sampled_from([b"a", b"b", b" ", b"c", b"\xc3", b"\xa9"])
    for _ in range(draw(st.integers(0, 25))):
        parts = st.one_of(some, st.sampled_from(tokens[256:])) if len(tokens) > 256 else some
        token = draw(parts) + draw(parts)
        if token not in tokens:
            tokens.append(token)
    return {token: rank for rank, token in enumerate(tokens)}


@given(ranks=made_up_ranks(), some=st.lists(st.text("abc é'1\n", max_size=40), max_size=5))
def test_any_ranks_yield_the_ids_of_tiktoken_or_are_refused_for_a_token(ranks, some):
    peer = encoding(ranks)
    with suppress(TokenizerError):
        own = Tokenizer.from_tiktoken(peer)
        assert {token: number for number, token in own.model.text_tokens.items()} == ranks
        for text in some:
            assert own.encode(text) == peer.encode_ordinary(text)


@pytest.fixture(scope="module", params=["nanochat", "gpt4", "cl100k", "r50k"])
def pair(request):
    pattern = PATTERNS[request.param]
    model = in_order(special_tokens=SPECIAL, pattern=pattern)
    peer = encoding(model.ranks(), pattern, SPECIAL)
    own = Tokenizer.from_tiktoken(peer)
    assert own.model == model
    return own, peer


@given(text=texts)
def test_ids_of_texts_equal_tiktoken(pair, text):
    own, peer = pair
    assert own.encode(text) == peer.encode_ordinary(text)


def test_ids_of_hostile_texts_equal_tiktoken_and_special_names_remain_text(pair):
    own, peer = pair
    for text in (*HOSTILE, *CORPUS):
        ids = own.encode(text)
        assert ids == peer.encode_ordinary(text)
        assert all(number < len(own.model.tokens) for number in ids)
        assert own.decode(ids) == peer.decode(ids) == text


def test_special_tokens_keep_their_ids_and_unused_ids_are_not_tokens(pair, tmp_path):
    own, peer = pair
    assert (own.get_vocab_size(), own.special_tokens) == (peer.n_vocab, SPECIAL)
    assert own.encode("a", prepend="<|endoftext|>") == [400, *peer.encode_ordinary("a")]
    assert own.decode([403, 419]) == "<|fim|><|endofprompt|>"
    for unused in (401, 418, 420):
        with pytest.raises(KeyError):
            own.decode([unused])
    own.save(tmp_path)
    assert Tokenizer.load(tmp_path) == own
    assert own.to_tiktoken().encode(CORPUS[0]) == peer.encode(CORPUS[0])


@pytest.mark.parametrize(
    ("ranks", "special", "message"),
    [
        (SINGLES | {b"ab": 257}, {}, "the id of b'ab' is 257 where 256 is the next"),
        (SINGLES | {b"ab": 255}, {}, "is 255 where 256 is the next"),
        (SINGLES | {b"abc": 256}, {}, 'token 256, "abc", cannot be reached'),
        (SINGLES | {b"aa": 256, b"a" * 131_072: 257}, {}, "cannot be reached"),
        (
            SINGLES | {b"a" * 131_073: 256},
            {},
            "f: token 256 has 131,073 bytes: the limit is 131,072",
        ),
        (SINGLES | {b"": 256}, {}, 'token 256, "", cannot be reached'),
        ({b"ab": 256}, {}, "has 1 tokens of text: byte-level BPE has from 256"),
        (NUMBERS, {}, "ids 0 to 255 must be each byte once: there are 10 of 256"),
        (SINGLES, {"<a>": 255}, "special token '<a>' has id 255, which is one of the 256 tokens"),
        (SINGLES, {"<a>": 256, "<b>": 256}, "special tokens '<a>' and '<b>' share id 256"),
        (SINGLES, {"": 256}, "empty name"),
        (SINGLES, {"<a>": 2**31}, "are free"),
    ],
)
def test_ranks_that_no_model_can_hold_are_refused(ranks, special, message):
    with pytest.raises(TokenizerError) as caught:
        model_of_ranks(ranks, pattern="a", special_tokens=special, name="f")
    assert message in str(caught.value)


def test_too_many_tokens_are_refused_before_merges_are_searched(monkeypatch):
    monkeypatch.setattr(ranks_module, "MAX_TOKENS", 256)
    with pytest.raises(TokenizerError, match="has 257 tokens of text"):
        model_of_ranks(SINGLES | {b"ab": 256}, pattern="a", special_tokens={}, name="f")


def test_tokens_of_too_many_bytes_together_are_refused_before_merges_are_searched():
    long = {b"%060000d" % number: 256 + number for number in range(1200)}
    with pytest.raises(TokenizerError, match=r"together have 72,000,256 bytes: the limit is"):
        model_of_ranks(SINGLES | long, pattern="a", special_tokens={}, name="f")


def test_a_value_that_is_not_an_encoding_is_refused():
    for thing in (None, "gpt2", 7, {}):
        with pytest.raises(TokenizerError, match=r"takes a tiktoken\.Encoding"):
            Tokenizer.from_tiktoken(thing)


def rank_file(ranks):
    return b"".join(b"%s %d\n" % (base64.b64encode(own), rank) for own, rank in ranks.items())


def test_a_rank_file_accepts_pattern_and_special_tokens(pair, tmp_path):
    own, _ = pair
    path = tmp_path / "made.up.tiktoken"
    path.write_bytes(rank_file(own.model.ranks()))
    named = open_tokenizer(path, pattern=own.pattern, special_tokens=["<a>", "<b>"])
    first = len(own.model.tokens)
    assert named.special_tokens == {"<a>": first, "<b>": first + 1}
    assert open_tokenizer(path, pattern=own.pattern, special_tokens=SPECIAL) == own
    path.write_bytes(rank_file(dict(reversed(own.model.ranks().items()))).replace(b"\n", b"\r\n\n"))
    assert open_tokenizer(path, pattern=own.pattern, special_tokens=SPECIAL) == own


def test_a_rank_file_without_a_pattern_names_how_to_pass_one(tmp_path):
    path = tmp_path / "a.tiktoken"
    path.write_bytes(rank_file(SINGLES))
    with pytest.raises(TokenizerError, match=r"as .*/a\.tiktoken:gpt4 \(llama3, "):
        open_tokenizer(path)
    with pytest.raises(PatternError, match="no split pattern is called 'gpt5'"):
        open_tokenizer(path, pattern="gpt5")
    assert open_tokenizer(path, pattern="r50k").pattern == PATTERNS["r50k"]
    assert open_tokenizer(f"{path}:r50k") == open_tokenizer(path, pattern="r50k")
    assert open_tokenizer(rf"{path}:\w+|:\W+").pattern == r"\w+|:\W+"
    Tokenizer(in_order()).save(tmp_path / "own")
    for spec, options, message in (
        (f"{path}:r50k", {"pattern": "gpt4"}, "pattern is given, but .*:r50k says its own"),
        (tmp_path / "own", {"pattern": "gpt4"}, "pattern is given, but"),
        (tmp_path / "own", {"special_tokens": []}, "special_tokens is given, but"),
        (f"{path}:r50k", {"special_tokens": "<a>"}, "put it into a list"),
        (f"{path}:r50k", {"special_tokens": ["<a>", "<a>"]}, "given twice"),
    ):
        with pytest.raises(TokenizerError, match=message):
            open_tokenizer(spec, **options)


def test_missing_and_huge_files_and_those_of_another_kind_are_refused(tmp_path):
    (tmp_path / "a.pt").write_bytes(b"")
    message = r"a\.pt is not a tokenizer file: it begins with b''"
    with pytest.raises(TokenizerError, match=message):
        open_tokenizer(tmp_path / "a.pt")
    for name in ("missing", "missing.json", "missing.tiktoken"):
        with pytest.raises(TokenizerError, match=name):
            open_tokenizer(tmp_path / name, pattern="gpt4" if name.endswith("n") else None)
    for name in ("a.json", "a.pkl", "a.tiktoken", "a.txt"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(TokenizerError, match="are refused"):
            open_tokenizer(tmp_path / name, pattern="gpt4" if name == "a.tiktoken" else None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"YWI=", "f, line 257: expected base64, a space and a rank, found b'YWI="),
        (b"YWI= 256 7", "f, line 257: expected base64, a space and a rank"),
        (b"Y!I= 256", "f, line 257: b'Y!I=' is not base64"),
        (b"YWI 256", "f, line 257: b'YWI' is not base64"),
        (b"YWI= -1", "f, line 257: b'-1' is not a rank"),
        (b"YWI= " + b"9" * 5000, "f, line 257: b'9999"),
        (b"YWI= 255", "f, line 257: rank 255 is that of line 256 too"),
        (b"IQ== 256", "f, line 257: the token of line 1 again"),
        (b"\xff\xfe\x00", "f, line 257: expected base64"),
    ],
)
def test_a_damaged_rank_file_is_refused_with_its_line(line, message):
    with pytest.raises(TokenizerError) as caught:
        from_rank_file(rank_file(SINGLES) + line, pattern="a", name="f")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["tokenizer.txt", "tokenizer.json", "tokenizer.pkl"])
def test_a_folder_or_its_file_is_opened_by_its_contents(tmp_path, name):
    own = Tokenizer(in_order()).extended(["<|bos|>"])
    own.save(tmp_path / "all")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / name).write_bytes((tmp_path / "all" / name).read_bytes())
    for spec in (tmp_path / "one", str(tmp_path / "one"), tmp_path / "one" / name):
        assert open_tokenizer(spec) == own
    assert Tokenizer.load(tmp_path / "one") == own
    copy = tmp_path / "one" / f"other{name[9:]}"
    (tmp_path / "one" / name).rename(copy)
    assert open_tokenizer(copy) == own


def test_the_first_existing_file_is_read_and_a_url_is_a_folder(tmp_path):
    own = Tokenizer(in_order())
    own.save("memory://foreign/here")
    assert open_tokenizer("memory://foreign/here") == own
    assert open_tokenizer("memory://foreign/here/tokenizer.json") == own
    own.save(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(b"damaged")
    assert open_tokenizer(tmp_path) == own
    (tmp_path / "tokenizer.txt").unlink()
    with pytest.raises(TokenizerError, match=r"tokenizer\.json, line 1: Expecting value"):
        open_tokenizer(tmp_path)


MODEL = in_order(special_tokens={"<|bos|>": 400, "<|é|>": 410})
ENCODING = encoding(MODEL.ranks(), SPLIT_PATTERN, MODEL.special_tokens)
STATE = {"name": "x", "pat_str": "a", "mergeable_ranks": SINGLES, "special_tokens": {}}


class Runs:
    """Calls a function when it is unpickled."""

    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("dumps", [pickle.dumps, pickle._dumps])
def test_an_encoding_is_read_unchanged(protocol, dumps):
    data = dumps(ENCODING, protocol=protocol)
    assert from_pickle(data, name="f") == MODEL
    assert from_pickle(pickletools.optimize(data), name="f") == MODEL


@pytest.mark.parametrize(
    "thing",
    [
        *(Runs((os.system, ("touch ran",))), Runs((eval, ("open('ran', 'w')",)))),
        {"a": Runs((os.mkdir, ("ran",)))},
        *([ENCODING], tiktoken.Encoding, 7, None, ("a", 1.5)),
    ],
)
def test_other_classes_are_refused_and_nothing_runs(thing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(thing)
    with pytest.raises(TokenizerError, match=r"f, byte .*nothing in it is executed"):
        from_pickle(data, name="f")
    assert not list(tmp_path.iterdir())


def instance(state):
    return pickle_instance("tiktoken.core", "Encoding", state=state)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "f: pat_str is not a str but a NoneType"),
        (STATE | {"pat_str": b"a"}, "f: pat_str is not a str but a bytes"),
        (STATE | {"mergeable_ranks": "x"}, "f: mergeable_ranks is not a dict but a str"),
        (STATE | {"mergeable_ranks": {"a": 1}}, "must give ids by bytes, but holds str: int"),
        (STATE | {"special_tokens": {"a": b"1"}}, "must give ids by str, but holds str: bytes"),
        (STATE | {"mergeable_ranks": {b"a": 0}}, "f has 1 tokens of text"),
        (STATE | {"special_tokens": {"a": -1}}, "special token 'a' has id -1, which is one of"),
    ],
)
def test_a_state_that_is_not_a_tokenizer_is_refused(state, message):
    with pytest.raises(TokenizerError) as caught:
        from_pickle(instance(state), name="f")
    assert message in str(caught.value)


def test_a_pickle_that_only_names_an_encoding_names_the_way_to_import_it():
    data = pickle.dumps(Runs((tiktoken.core.Encoding.__new__, (tiktoken.Encoding,), "gpt2")))
    by_name = (
        b"\x80\x04\x8c\rtiktoken.core\x94\x8c\x08Encoding\x94\x93\x94)\x81\x94\x8c\x04gpt2\x94b."
    )
    with pytest.raises(TokenizerError, match=r"from_tiktoken\(tiktoken\.get_encoding\('gpt2'\)\)"):
        from_pickle(by_name, name="f")
    with pytest.raises(TokenizerError, match="not admitted"):
        from_pickle(data, name="f")


MALFORMED = [
    *(b"", b".", b"\x80\x04.", b"\x80\x04}.", b"\x80\x04u.", b"\x80\x04(u."),
    *(b"\x80\x04}}\x94s.", b"\x80\x04}(K\x01K\x02u.", b"\x80\x04h\x07.", b"\x80\x04\x93."),
    *(b"\x80\x04)\x81.", b"\x80\x04}b.", b"\x80\x04r\xff\xff\xff\xff.", b"\x80\x04\xff."),
    b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    b"\x80\x04X\xff\xff\xff\xff.",
    b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
    *(b"ctiktoken.core\nCoreBPE\n.", b"ctiktoken.core\nEncod\\qing\n.", b"ctiktoken.core"),
    *(b"ctiktoken.core\nEncod\xc3\xa9\n.", b"S'\\q'\n.", b"I" + b"9" * 10_000 + b"\n."),
    b"(" * 100_000 + b".",
]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *((data, "f, byte") for data in MALFORMED),
        (b"\x80\x04}\x8c\x01aK\x01s\x8c\x01aK\x02s.", "a dict has the key 'a' twice"),
        (b"\x80\x04}(\x8c\x01au.", "items are set on no dict, or a key has no value"),
        (
            b"\x80\x04\x8c\rtiktoken.core\x8c\x08Encoding\x93}\x81.",
            "something else than its class alone",
        ),
        (b"\x80\x04S'\\C'\n.", r"at byte 2, .* nothing in it is executed"),  # and no warning
    ],
)
def test_a_malformed_pickle_is_refused(data, message):
    with pytest.raises(TokenizerError, match=message):
        from_pickle(data, name="f")


def test_mutually_nested_dicts_as_a_class_name_are_refused_quickly():
    doubled = (b"}\x94\x8c\x01ah%cs\x8c\x01bh%cs" % (n, n) for n in range(60))
    twice = b"}\x94" + b"".join(doubled)
    deep = b"}" + b"\x8c\x01a}" * 100_000 + b"s" * 100_000
    for module in (twice, deep):
        with pytest.raises(TokenizerError, match="a class is named by a dict"):
            from_pickle(b"\x80\x04" + module + b"\x8c\x01x\x93.", name="f")


def test_a_pickle_of_too_many_steps_is_refused(monkeypatch):
    monkeypatch.setattr(pickled, "MAX_STEPS", 100)
    with pytest.raises(TokenizerError, match="more than 100 steps"):
        from_pickle(to_pickle(MODEL), name="f")


SMALL = instance(STATE)


@given(st.data())
def test_a_changed_pickle_is_refused_or_another_tokenizer(data):
    changed = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(SMALL) - 1))] = data.draw(st.integers(0, 255))
    with suppress(TokenizerError):
        model = from_pickle(bytes(changed), name="f")
        assert len(model.tokens) == len(SINGLES)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data):
    with pytest.raises(TokenizerError):
        from_pickle(b"\x80\x04" + data, name="f")


SIGNATURES = {
    "__init__": ["self", "enc", "bos_token"],
    "train_from_iterator": ["text_iterator", "vocab_size"],
    "from_directory": ["tokenizer_dir"],
    "from_pretrained": ["tiktoken_name"],
    "get_vocab_size": ["self"],
    "get_special_tokens": ["self"],
    "id_to_token": ["self", "id"],
    "encode_special": ["self", "text"],
    "get_bos_token_id": ["self"],
    "encode": ["self", "text", "prepend", "append", "num_threads"],
    "decode": ["self", "ids"],
    "decode_single_token_bytes": ["self", "token_id"],
    "save": ["self", "tokenizer_dir"],
    "render_conversation": ["self", "conversation", "max_tokens"],
    "visualize_tokenization": ["self", "ids", "mask", "with_token_id"],
    "render_for_completion": ["self", "conversation"],
}
"""nanochat's signatures at commit 92d63d4."""


@pytest.fixture(scope="module")
def rustbpes_encoding():
    """The encoding of nanochat's class after training: rustbpe learns, tiktoken encodes."""
    learner = rustbpe.Tokenizer()
    learner.train_from_iterator(iter(CORPUS), 300 - len(SPECIAL_TOKENS), pattern=SPLIT_PATTERN)
    ranks = {bytes(token): number for token, number in learner.get_mergeable_ranks()}
    names = {name: len(ranks) + number for number, name in enumerate(SPECIAL_TOKENS)}
    return tiktoken.Encoding(
        "rustbpe", pat_str=learner.get_pattern(), mergeable_ranks=ranks, special_tokens=names
    )


def test_parameters_have_the_names_and_order_of_nanochat():
    for method, names in SIGNATURES.items():
        parameters = inspect.signature(getattr(RustBPETokenizer, method)).parameters.values()
        found = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        assert found == names


def test_learned_and_converted_tokenizers_are_equal(rustbpes_encoding):
    learned = RustBPETokenizer.train_from_iterator(text_iterator=iter(CORPUS), vocab_size=300)
    converted = RustBPETokenizer(rustbpes_encoding, "<|bos|>")
    assert learned == converted
    bos = rustbpes_encoding.encode_single_token("<|bos|>")
    assert learned.bos_token_id == converted.get_bos_token_id() == bos
    assert learned.enc.encode_ordinary(CORPUS[0]) == learned.encode(CORPUS[0])
    assert learned.enc.n_vocab == learned.get_vocab_size()
    assert learned.id_to_token(id=104) == "h"
    assert isinstance(learned, Tokenizer)
    copy = pickle.loads(pickle.dumps(converted))
    assert (type(copy), copy) == (RustBPETokenizer, converted)


def test_save_writes_the_pickle_of_nanochat_and_overwrites(rustbpes_encoding, tmp_path):
    other = Tokenizer.train_from_iterator(CORPUS, 280)
    other.save(tmp_path)
    RustBPETokenizer(rustbpes_encoding, "<|bos|>").save(tokenizer_dir=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"token_bytes.pt", "tokenizer.pkl"}
    assert (tmp_path / "tokenizer.pkl").read_bytes() == pickle.dumps(rustbpes_encoding, protocol=4)
    assert RustBPETokenizer.from_directory(tokenizer_dir=tmp_path) != other
    assert RustBPETokenizer.from_directory(tmp_path).encode(
        "it"
    ) == rustbpes_encoding.encode_ordinary("it")


def test_encodings_of_tiktoken_start_documents_with_their_end_of_text(
    monkeypatch, rustbpes_encoding
):
    ranks = rustbpes_encoding._mergeable_ranks
    gpt2 = tiktoken.Encoding(
        "gpt2",
        pat_str=PATTERNS["r50k"],
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": len(ranks)},
    )
    monkeypatch.setattr(tiktoken, "get_encoding", {"gpt2": gpt2}.__getitem__)
    tokenizer = RustBPETokenizer.from_pretrained(tiktoken_name="gpt2")
    assert tokenizer.bos_token_id == tokenizer.get_bos_token_id() == len(ranks)
    assert tokenizer.extended(["<|x|>"]).bos_token_id == len(ranks)
    with pytest.raises(KeyError, match="bos"):
        RustBPETokenizer(gpt2, "<|bos|>")


@pytest.fixture
def base(monkeypatch, tmp_path):
    for name in ("NANOCHAT_EXPERIMENT", "NANOCHAT_EXPERIMENTS_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NANOCHAT_BASE_DIR", str(tmp_path))
    return tmp_path


def test_the_folder_is_that_of_the_environment_of_nanochat(base, monkeypatch):
    assert default_folder() == f"{base}/tokenizer"
    (base / "experiments/default/tokenizer").mkdir(parents=True)
    assert default_folder() == f"{base}/experiments/default/tokenizer"
    (base / "tokenizer").mkdir()
    assert default_folder() == f"{base}/tokenizer"
    monkeypatch.setenv("NANOCHAT_EXPERIMENT", "wide")
    assert default_folder() == f"{base}/experiments/wide/tokenizer"
    monkeypatch.setenv("NANOCHAT_EXPERIMENTS_DIR", "/elsewhere/")
    assert default_folder() == "/elsewhere/wide/tokenizer"
    monkeypatch.delenv("NANOCHAT_EXPERIMENT")
    assert default_folder() == "/elsewhere/default/tokenizer"


def test_the_tokenizer_of_an_experiment_is_loaded(base, monkeypatch, rustbpes_encoding):
    monkeypatch.setenv("NANOCHAT_EXPERIMENT", "wide")
    with pytest.raises(TokenizerError, match=f"no tokenizer in {base}/experiments/wide/tokenizer"):
        get_tokenizer()
    RustBPETokenizer(rustbpes_encoding, "<|bos|>").save(base / "experiments/wide/tokenizer")
    assert get_tokenizer() == RustBPETokenizer(rustbpes_encoding)
    assert type(get_tokenizer()) is RustBPETokenizer
