"""Normalizers, compared with those of tokenizers; decoding of explicit tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers import normalizers as theirs
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.errors import TokenizerError

NO_MERGES = np.empty((0, 2), np.uint32)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
FORMS = ["NFC", "NFD", "NFKC", "NFKD", "Lowercase"]

characters = st.one_of(
    st.sampled_from(
        "aAeE  \t\n.\u00e9\u1ec7\u3000\u0301\u0302\u0323\u0316\u0345\u0344\u0130\u03a3"
    ),
    st.sampled_from("\u1100\u1161\u11a8\uac00\uac01\u304b\u3099\u212b\ufb01\u0958\u09c7\u09be"),
    st.characters(exclude_categories=["Cs"]),
)
texts = st.text(characters, max_size=25)
short = st.text(st.sampled_from("aA e\u00e9\u0301\u2581"), min_size=1, max_size=3)
normalizers = st.one_of(
    st.sampled_from(FORMS).map(lambda name: (name,)),
    st.tuples(st.just("Prepend"), short),
    st.tuples(st.just("Replace"), short, st.just("") | short),
    st.tuples(st.just("Strip"), st.booleans(), st.booleans()),
)


def of_tokenizers(steps):
    """Return the normalizers of the library; PrefixSpace is none of them."""
    return theirs.Sequence([getattr(theirs, name)(*arguments) for name, *arguments in steps])


def encoder(steps, pattern=SPLIT_PATTERN, **settings):
    return _core.Encoder(pattern, NO_MERGES, normalizers=steps, **settings)


def normalized(encoder, text):
    return bytes(encoder.encode(text.encode()).tolist()).decode()


@given(st.lists(normalizers, max_size=4), st.lists(texts, max_size=6))
def test_texts_equal_those_of_tokenizers(steps, texts):
    ours, library = encoder(steps), of_tokenizers(steps)
    for text in ["", " ", *texts]:
        assert normalized(ours, text) == library.normalize_str(text)
    raw = [text.encode() for text in texts]
    data = np.frombuffer(b"".join(raw), np.uint8)
    ids, offsets = ours.encode_batch(data, np.cumsum([0, *map(len, raw)], dtype=np.int64))
    assert bytes(ids.tolist()).decode() == "".join(map(library.normalize_str, texts))
    assert len(offsets) == len(texts) + 1


@pytest.mark.parametrize("name", FORMS)
def test_every_character_equals_that_of_tokenizers(name):
    """Alone, between letters, and with marks of other classes around it."""
    ours, library = encoder([(name,)]), of_tokenizers([(name,)])
    for start in range(0, 0x110000, 0x4000):
        for around in (
            ("a{}b", "\u0323{}\u0301 ", "\u1100{}\u11a8") if start < 0x30000 else ("a{}",)
        ):
            points = (at for at in range(start, start + 0x4000) if not 0xD800 <= at < 0xE000)
            text = "".join(around.format(chr(at)) for at in points)
            assert normalized(ours, text) == library.normalize_str(text)


@given(st.lists(normalizers, max_size=2), st.lists(texts, max_size=6))
def test_a_prefix_space_equals_that_of_byte_level(steps, texts):
    letters = {letter: at for at, letter in enumerate(sorted(ByteLevel.alphabet()))}
    library = Tokenizer(BPE(vocab=letters, merges=[]))
    library.normalizer = of_tokenizers(steps)
    library.pre_tokenizer = ByteLevel(add_prefix_space=True)
    names = "".join(map(chr, [*range(33, 127), *range(161, 173), *range(174, 256)]))
    of_byte = {ord(name): name for name in names}
    others = iter(range(256, 400))
    numbering = [letters[of_byte.get(byte) or chr(next(others))] for byte in range(256)]
    ours = encoder(
        [*steps, ("PrefixSpace",)], pattern=GPT2, numbering=np.array(numbering, np.uint32)
    )
    for text in ["", " ", *texts]:
        assert ours.encode_text(text) == library.encode(text, add_special_tokens=False).ids


def test_texts_of_conversations_are_normalized_one_by_one():
    dialect = _core.Dialect("chat", "messages")
    lines = '[{"role": "user", "content": "e\u0301"}, {"role": "assistant", "content": "A\u030a"}]'
    names = ["<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>"]
    special = [(name, 500 + at) for at, name in enumerate([*names, "<|assistant_end|>"])]
    arrays = np.frombuffer(lines.encode(), np.uint8), np.array([0, len(lines.encode())])
    steps = [("NFC",), ("Prepend", "_")]
    ids, labels, *_ = encoder(steps).render(dialect, special, *arrays)
    text = bytes(byte for byte in ids.tolist() if byte < 256)
    assert text.decode() == "_\u00e9_\u00c5"
    assert len(ids) == len(labels)


def test_valid_parts_of_a_document_are_normalized_on_their_own():
    found = encoder([("NFC",), ("Prepend", "_")]).encode(b"e\xcc\x81\xffe\xcc")
    assert bytes(found.tolist()) == b"_\xc3\xa9\xff_e\xcc"


@pytest.mark.parametrize(
    "wrong",
    [
        ("NFX",),
        ("NFC", "a"),
        (),
        ("Prepend",),
        ("Prepend", 3),
        ("Strip", True),
        ("Replace", "a", 1),
    ],
)
def test_a_wrong_normalizer_is_refused(wrong):
    with pytest.raises(TokenizerError, match=r"is not a normalizer$") as raised:
        encoder([("NFC",), wrong])
    assert str(raised.value).startswith(repr(wrong))
    with pytest.raises(TokenizerError, match="a normalizer replaces an empty text"):
        encoder([("Replace", "", "a")])


TOKENS = {7: b"a", 0: b"long" * 9, 900: "<\u00e9>".encode(), 2**31 - 1: b"b"}


def packed(items):
    ends = np.cumsum([0, *map(len, items)], dtype=np.int64)
    return np.frombuffer(b"".join(items), np.uint8), ends


def test_explicit_tokens_decode():
    ids = np.array([*TOKENS], np.uint32)
    decoder = _core.Decoder.of_tokens(ids, *packed([*TOKENS.values()]))
    assert decoder.decode(ids) == b"".join(TOKENS.values())
    data, offsets = decoder.decode_batch(ids, np.array([0, 1, 1, 4]))
    assert (data.tobytes(), offsets.tolist()) == (b"".join(TOKENS.values()), [0, 1, 1, 42])
    with pytest.raises(KeyError, match="Invalid token for decoding: 8"):
        decoder.decode(np.array([7, 8], np.uint16))
    with pytest.raises(TokenizerError, match="token 1 has the id 7, as token 0 has"):
        _core.Decoder.of_tokens(np.array([7, 7], np.uint32), *packed([b"a", b"b"]))
    with pytest.raises(TokenizerError, match="the numbering has 1 ids: there are 2 tokens"):
        _core.Decoder.of_tokens(np.array([7], np.uint32), *packed([b"a", b"b"]))
