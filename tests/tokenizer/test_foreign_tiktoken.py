"""tiktoken's encodings and rank files: the ids of any text are equal, or the file is refused."""

import base64
from contextlib import suppress

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import PatternError, TokenizerError
from nanotok_ray.tokenizer import Tokenizer, open_tokenizer
from nanotok_ray.tokenizer.foreign import from_rank_file
from nanotok_ray.tokenizer.foreign import tiktoken as ranks_module
from nanotok_ray.tokenizer.foreign.tiktoken import model_of_ranks
from tests.support.foreign_models import CORPUS, GPT2_ORDER, in_order, orders, texts

SPECIAL = {"<|endoftext|>": 400, "<|fim|>": 403, "<|endofprompt|>": 419}
HOSTILE = [
    *("", "<|endoftext|>", "a<|fim|><|fim|>", "\x00\x7f\x85\u2028\ufeff", "e\u0301" * 40),
    *(" " * 300 + "x", "a" * 5000, "\n\r\n\t \u3000\n", "12345678901234567890"),
    *("'s'S'LL'\u017f", "🏳️‍🌈👩‍👩‍👧‍👦🇩🇪", "\U0010ffff\ue000\u0378"),
]
NUMBERS = {b"%d" % number: number for number in range(300)}


def singles(byte_order=GPT2_ORDER):
    return {bytes([byte]): rank for rank, byte in enumerate(byte_order)}


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
        assert own.model.ranks() == ranks
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
        (singles() | {b"ab": 257}, {}, "the id of b'ab' is 257 where 256 is the next"),
        (singles() | {b"ab": 255}, {}, "is 255 where 256 is the next"),
        (singles() | {b"abc": 256}, {}, 'token 256, "abc", cannot be reached'),
        (singles() | {b"aa": 256, b"a" * 1_000_000: 257}, {}, "cannot be reached"),  # quickly
        (singles() | {b"": 256}, {}, 'token 256, "", cannot be reached'),
        ({b"ab": 256}, {}, "has 1 tokens of text: byte-level BPE has from 256"),
        (NUMBERS, {}, "ids 0 to 255 must be each byte once: there are 10 of 256"),
        (singles(), {"<a>": 255}, "special token '<a>' has id 255, which is one of the 256 tokens"),
        (singles(), {"<a>": 256, "<b>": 256}, "special tokens '<a>' and '<b>' share id 256"),
        (singles(), {"": 256}, "empty name"),
        (singles(), {"<a>": 2**31}, "are free"),
    ],
)
def test_ranks_that_no_model_can_hold_are_refused(ranks, special, message):
    with pytest.raises(TokenizerError) as caught:
        model_of_ranks(ranks, pattern="a", special_tokens=special, name="f")
    assert message in str(caught.value)


def test_too_many_tokens_are_refused_before_merges_are_searched(monkeypatch):
    monkeypatch.setattr(ranks_module, "MAX_TOKENS", 256)
    with pytest.raises(TokenizerError, match="has 257 tokens of text"):
        model_of_ranks(singles() | {b"ab": 256}, pattern="a", special_tokens={}, name="f")
    monkeypatch.setattr(ranks_module, "MAX_VOCABULARY_BYTES", 255)
    with pytest.raises(TokenizerError, match="256 bytes, more than 255"):
        model_of_ranks(singles(), pattern="a", special_tokens={}, name="f")


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
    path.write_bytes(rank_file(singles()))
    with pytest.raises(TokenizerError, match=r"as .*/a\.tiktoken:gpt4 \(nanochat, "):
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
    message = r"a\.pt is not a tokenizer file: .* \.pkl, \.tiktoken; pass one"
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
        from_rank_file(rank_file(singles()) + line, pattern="a", name="f")
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
