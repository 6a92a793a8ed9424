"""Merges from pairs and from ranks, compared with tokenizers and tiktoken."""

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE

from nanotok_ray import _core
from nanotok_ray.errors import TokenizerError

LETTERS = "abc"
ANY = r"[^\n]+"


def packed(items):
    ends = np.cumsum([0, *map(len, items)], dtype=np.int64)
    return np.frombuffer(b"".join(items), np.uint8), ends


parts = st.text(LETTERS[:2], min_size=1, max_size=3)
words = st.text(LETTERS, min_size=1, max_size=30)


@st.composite
def grown_pairs(draw):
    """Pairs of earlier results, of which some are moved to other positions."""
    strings, pairs = list(LETTERS), []
    for _ in range(draw(st.integers(0, 14))):
        pair = draw(st.sampled_from(strings)), draw(st.sampled_from(strings))
        strings.append("".join(pair))
        pairs.append(pair)
    for _ in range(draw(st.integers(0, 3)) if pairs else 0):
        at, to = (draw(st.integers(0, len(pairs) - 1)) for _ in range(2))
        pairs.insert(to, pairs.pop(at))
    return pairs


def encoder_of_pairs(pairs, numbering_of):
    flat = [part.encode() for pair in pairs for part in pair]
    merges, positions = _core.merges_of_pairs(*packed(flat))
    made = ["".join(pairs[position]) for position in positions]
    numbering = np.array([*map(numbering_of, [*map(chr, range(256)), *made])], np.uint32)
    return _core.Encoder(ANY, merges, priorities=positions, numbering=numbering)


@given(st.lists(st.tuples(parts, parts), max_size=14) | grown_pairs(), st.lists(words, max_size=9))
def test_pairs_encode_as_in_tokenizers(pairs, texts):
    """Lists in any order, with repeated pairs, and pairs that never apply."""
    strings = sorted({string for pair in pairs for string in (*pair, "".join(pair))})
    letters = [chr(byte) for byte in range(256)]
    vocabulary = {string: at for at, string in enumerate(dict.fromkeys([*strings, *letters]))}
    theirs = Tokenizer(BPE(vocab=vocabulary, merges=pairs))
    ours = encoder_of_pairs(pairs, vocabulary.__getitem__)
    for text in [*texts, *strings]:
        assert ours.encode_text(text) == theirs.encode(text, add_special_tokens=False).ids


@given(st.lists(words, max_size=9, unique=True), st.lists(words, max_size=9))
def test_whole_tokens_encode_as_with_ignore_merges(tokens, texts):
    pairs = [("a", "b"), ("ab", "c"), ("c", "c"), ("ab", "ab"), ("b", "c")]
    made = ["".join(pair) for pair in pairs]
    whole = [token for token in tokens if token not in made and len(token) > 1]
    vocabulary = {token: at for at, token in enumerate([*whole, *map(chr, range(256)), *made])}
    theirs = Tokenizer(BPE(vocab=vocabulary, merges=pairs, ignore_merges=True))
    merges, positions = _core.merges_of_pairs(*packed([p.encode() for pair in pairs for p in pair]))
    inner = [*map(chr, range(256)), *("".join(pairs[at]) for at in positions), *whole]
    numbering = np.array([vocabulary[token] for token in inner], np.uint32)
    ours = _core.Encoder(
        ANY,
        merges,
        priorities=positions,
        whole=packed([token.encode() for token in whole]),
        numbering=numbering,
    )
    for text in [*texts, *tokens]:
        assert ours.encode_text(text) == theirs.encode(text, add_special_tokens=False).ids


def of_ranks(tokens):
    merges, whole, positions = _core.merges_of_ranks(*packed(tokens))
    priorities = positions[256 : 256 + len(merges)]
    return _core.Encoder(ANY, merges, priorities=priorities, whole=whole, numbering=positions)


@given(
    st.lists(st.text(LETTERS, min_size=2, max_size=5).map(str.encode), max_size=16, unique=True),
    st.booleans(),
    st.randoms(use_true_random=False),
    st.lists(words, max_size=9),
)
def test_ranks_encode_as_in_tiktoken(tokens, by_length, random, texts):
    """Ranks in any order, the bytes among them."""
    tokens = [*(bytes([byte]) for byte in range(256)), *tokens]
    random.shuffle(tokens)
    if by_length:
        tokens.sort(key=len)
    ranks = {token: rank for rank, token in enumerate(tokens)}
    theirs = tiktoken.Encoding("x", pat_str=ANY, mergeable_ranks=ranks, special_tokens={})
    ours = of_ranks(tokens)
    for text in [*texts, *(token.decode("latin-1") for token in tokens if len(token) > 1)]:
        assert ours.encode_text(text) == theirs.encode_ordinary(text)


def test_a_token_of_parts_with_higher_ranks_is_made_at_once():
    """As " nghi\u1ec7" of Llama 3, whose rank is below that of a part."""
    tokens = [b"axx", *(bytes([byte]) for byte in range(256)), b"xx", b"aby", b"ab", b"xy"]
    merges, whole, positions = _core.merges_of_ranks(*packed(tokens))
    assert (positions[256:].tolist(), len(whole[1])) == ([257, 0, 259, 258, 260], 1)
    with pytest.raises(TokenizerError, match="merge 3 has the priority 259"):
        _core.Encoder(ANY, merges[[0, 1, 4, 2]], priorities=positions[[256, 257, 260, 258]])
    with pytest.raises(TokenizerError, match="there are 4 priorities and 5 merges"):
        _core.Encoder(ANY, merges, priorities=positions[256:260])


SINGLE = [bytes([byte]) for byte in range(256)]
REFUSED = {
    "no token is the single byte 0x00": lambda: _core.merges_of_ranks(*packed([b"ab"])),
    "token 256 is empty": lambda: _core.merges_of_ranks(*packed([*SINGLE, b""])),
    'token 257, "ab", has the same bytes as token 256': lambda: _core.merges_of_ranks(
        *packed([*SINGLE, b"ab", b"ab"])
    ),
    "there are 1 parts of pairs: it must be an even number": lambda: _core.merges_of_pairs(
        *packed([b"a"])
    ),
    "token 0 has 131073 bytes: the limit is 131072": lambda: _core.merges_of_pairs(
        *packed([b"a", b"a" * 131_072])
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_arguments_are_refused_by_name(message):
    with pytest.raises(TokenizerError, match=f"^{message}$"):
        REFUSED[message]()
