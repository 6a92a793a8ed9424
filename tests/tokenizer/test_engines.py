"""Tokenizers that files of other tools define: their ids are those of the libraries."""

import json
import pickle
import sys
import unicodedata
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import sentencepiece
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from nanotok_ray import open_tokenizer
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError, PatternError, TokenizerError
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer, expected_tokenizer, written_tokenizer
from nanotok_ray.tokenizer.foreign import TokenizerFile
from tests.support.library_tokenizers import (
    HOSTILE,
    SENTENCES,
    byte_fallback,
    byte_level,
    equal_spaces,
    plain_sentence_piece,
    scored_oddly,
    sentence_piece,
    texts,
    unigram,
    with_flags,
    without_added,
    word_piece,
)
from tests.support.missing_packages import uninstall

FILES = {"word_piece": word_piece, "unigram": unigram, "byte_fallback": byte_fallback}
PIECES = {
    "normalized": sentence_piece,
    "unigram": lambda: sentence_piece("unigram"),
    "plain": plain_sentence_piece,
    "spaces inside": lambda: plain_sentence_piece(split_by_whitespace=False),
    "no prefix": lambda: plain_sentence_piece(add_dummy_prefix=False),
    "equal spaces": equal_spaces,
    "no bytes": lambda: sentence_piece(byte_fallback=False),
    "own unknown": lambda: sentence_piece(byte_fallback=False, unk_surface=" <?> "),
    "invisible unknown": lambda: sentence_piece("unigram", byte_fallback=False, unk_surface=""),
}
ENCODED_BY_LIBRARY = {"normalized", "unigram", "no bytes", "own unknown", "invisible unknown"}


def opened(data: str | bytes, **beside: str) -> Tokenizer:
    """Return the tokenizer of a file."""
    files = {f"{name}.json": text.encode() for name, text in beside.items()}
    data = data.encode() if isinstance(data, str) else data
    return Tokenizer(TokenizerFile(name="a file", data=data, beside=files).model())


def ids_of(library: tokenizers.Tokenizer, text: str) -> list[int]:
    return library.encode(text, add_special_tokens=False).ids


def check_against_library(own: Tokenizer, data: str) -> None:
    """Compare ids and texts, of one call for each text and of batches, with those of tokenizers."""
    plain, whole = without_added(data), tokenizers.Tokenizer.from_str(data)

    @given(text=texts)
    def check(text):
        ids = own.encode(text)
        assert ids == ids_of(plain, text)
        assert own.decode(ids) == whole.decode(ids, skip_special_tokens=False)

    check()
    rows, offsets = own.encode_batch([*HOSTILE, *SENTENCES])
    assert rows.tolist() == [
        number for text in (*HOSTILE, *SENTENCES) for number in ids_of(plain, text)
    ]
    decoded = own.decode_batch(rows, offsets).to_pylist()
    assert decoded == [
        whole.decode(ids_of(plain, text), skip_special_tokens=False)
        for text in (*HOSTILE, *SENTENCES)
    ]


@pytest.mark.parametrize("kind", FILES)
def test_a_tokenizer_json_of_any_model_gives_the_ids_and_texts_of_the_library(kind):
    data = FILES[kind]()
    own = opened(data)
    assert own.engine == "tokenizers"
    assert own.model.reason
    check_against_library(own, data)


@pytest.mark.parametrize("kind", PIECES)
def test_a_sentencepiece_model_gives_the_ids_and_texts_of_the_library(kind):
    data = PIECES[kind]()
    own, library = opened(data), sentencepiece.SentencePieceProcessor(model_proto=data)
    assert own.special_tokens == {"<s>": 1, "</s>": 2}
    by_library = kind in ENCODED_BY_LIBRARY
    ids_of_text = st.one_of(st.just(0), st.integers(3, own.get_vocab_size() - 1))
    assert (own.engine == "sentencepiece") == by_library == bool(own.model.reason)

    @given(text=texts, numbers=st.lists(ids_of_text, max_size=9))
    def check(text, numbers):
        ids = own.encode(text)
        assert ids == library.encode(text)
        assert own.decode(ids) == library.decode(ids)
        assert own.decode(numbers) == library.decode(numbers)

    check()
    rows, offsets = own.encode_batch(HOSTILE)
    assert rows.tolist() == [number for text in HOSTILE for number in library.encode(text)]
    assert own.decode_batch(rows, offsets).to_pylist() == [
        library.decode(library.encode(text)) for text in HOSTILE
    ]
    assert own.decode([1, *own.encode("a"), 2]) == "<s>a</s>"


@pytest.mark.parametrize(
    ("settings", "field"), [(b"\x1a", b"\x10"), (b"\x12", b"\xe0\x02")], ids=["rules", "unknown"]
)
def test_a_setting_of_another_type_is_skipped_as_by_the_library(settings, field):
    number = field + b"\xff" * 8 + b"\x01"  # instead of bytes
    data = plain_sentence_piece() + settings + bytes([len(number)]) + number
    own, library = opened(data), sentencepiece.SentencePieceProcessor(model_proto=data)
    assert own.encode("the cat") == library.encode("the cat")
    assert own.decode([0, 5]) == library.decode([0, 5])


def test_names_and_ids_of_tokens_are_those_of_the_file():
    library = tokenizers.Tokenizer.from_str(byte_fallback())
    own = opened(byte_fallback())
    assert own.get_vocab() == library.get_vocab()
    pieces = sentencepiece.SentencePieceProcessor(model_proto=plain_sentence_piece())
    own = opened(plain_sentence_piece())
    assert own.get_vocab() == {
        pieces.id_to_piece(number): number for number in range(pieces.get_piece_size())
    }
    assert own.encode_special("t") == own.token_to_id("t") == pieces.piece_to_id("t")


def test_names_of_special_tokens_are_text_unless_they_are_recognized():
    data = with_flags(byte_fallback(), lstrip=True, rstrip=True, single_word=True)
    own, library = opened(data), tokenizers.Tokenizer.from_str(data)
    said = ["a <tool> b", "a<tool>b", "<s>x</s>", "<unk>"]
    plain, _ = own.encode_documents(Documents.from_strings(said))
    special = {number for name, number in own.special_tokens.items()}
    assert not special & {*plain.tolist()}
    known, _ = own.encode_recognized(Documents.from_strings(said), before=[1])
    assert known.tolist() == [n for text in said for n in (1, *ids_of(library, text))]
    assert special & {*known.tolist()}


def with_added(data: str, *added: tokenizers.AddedToken) -> str:
    """Return a file with more added tokens."""
    library = tokenizers.Tokenizer.from_str(data)
    library.add_tokens([*added])
    return library.to_str()


ADDED = [tokenizers.AddedToken(name, normalized=False) for name in ("<t", "<t>", "t>a")]
NORMALIZED = [tokenizers.AddedToken(name, normalized=True) for name in ("the", "e>", " t")]
RECOGNIZED = {
    "names": (byte_level(), ADDED),
    "two passes": (byte_level(), [*ADDED, *NORMALIZED]),
    "normalizer": (byte_level(normalizer=normalizers.NFC()), ADDED),
    "normalized names": (byte_level(normalizer=normalizers.Lowercase()), NORMALIZED),
    "space around": (byte_level(), [tokenizers.AddedToken("<t>", rstrip=True)]),
}


@pytest.mark.parametrize("kind", RECOGNIZED)
def test_the_names_of_added_tokens_are_recognized_as_by_the_library(kind):
    plain, added = RECOGNIZED[kind]
    data = with_added(plain, *added)
    own, library = opened(data), tokenizers.Tokenizer.from_str(data)
    assert own.engine != "tokenizers"
    by_library = kind in {"normalized names", "space around"}
    assert bool(own.added_tokens.reason) == by_library
    names = st.sampled_from(["<t>", "<t", "t>a", "the", "<s>", "<|user|>", "THE", " t"])

    @given(parts=st.lists(names | texts, max_size=9))
    def check(parts):
        text = "".join(parts)
        ids, _ = own.encode_recognized(Documents.from_strings([text]), after=[2])
        assert ids.tolist() == [*ids_of(library, text), 2]

    check()


def test_added_special_tokens_follow_the_last_id_and_decode_to_their_names():
    for data in (word_piece(), sentence_piece()):
        own = opened(data).extended(["<|new|>", "<|newer|>"])
        first = opened(data).get_vocab_size()
        assert own.encode_special("<|newer|>") == first + 1
        ids = [first, *own.encode("the cat"), first + 1]
        assert own.decode(ids) == f"<|new|>{opened(data).decode(ids[1:-1])}<|newer|>"
        assert own.model.without(["<|new|>", "<|newer|>"]) == opened(data).model


def test_a_saved_tokenizer_is_the_same_and_knows_its_file(tmp_path):
    config = json.dumps({"bos_token": "<s>", "add_bos_token": True})
    own = opened(byte_fallback(), tokenizer_config=config).extended(["<|new|>"])
    own.save(tmp_path / "t")
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [
        *("tokenizer.json", "tokenizer.txt", "tokenizer_config.json"),
    ]
    for again in (
        Tokenizer.load(tmp_path / "t"),
        written_tokenizer(str(tmp_path / "t")),
        expected_tokenizer(str(tmp_path / "t"), own.sha256),
        pickle.loads(pickle.dumps(own)),
    ):
        assert again == own
        assert (again.sha256, again.encode("a b")) == (own.sha256, own.encode("a b"))
    assert own.model.description.prepend == ("<s>",)
    (tmp_path / "t/tokenizer.json").write_text(unigram())
    with pytest.raises(CorruptOutputError, match=r"is not the file that tokenizer\.txt describes"):
        Tokenizer.load(tmp_path / "t")
    (tmp_path / "t/tokenizer.json").unlink()
    with pytest.raises(TokenizerError, match=r"describes tokenizer\.json, which is missing"):
        Tokenizer.load(tmp_path / "t")


def test_another_tokenizer_replaces_all_files_of_the_one_before(tmp_path):
    learned = Tokenizer.train_from_iterator(SENTENCES, 300)
    learned.save(tmp_path)
    own = opened(sentence_piece())
    with pytest.raises(TokenizerError, match="is not overwritten"):
        own.save(tmp_path)
    own.save(tmp_path, overwrite=True)
    assert Tokenizer.load(tmp_path) == own
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer.txt", "tokenizer.model"}
    learned.save(tmp_path, overwrite=True)
    assert Tokenizer.load(tmp_path) == learned


@pytest.mark.parametrize(
    ("data", "config", "around"),
    [
        (word_piece, None, (("[CLS]",), ("[SEP]",))),
        (byte_fallback, None, ((), ())),
        (byte_fallback, {"bos_token": "<s>", "add_bos_token": True}, (("<s>",), ())),
        (
            byte_fallback,
            {"eos_token": {"content": "</s>"}, "add_eos_token": True, "add_bos_token": False},
            ((), ("</s>",)),
        ),
        (byte_fallback, {"bos_token": "<none>", "add_bos_token": True}, ((), ())),
        (sentence_piece, None, (("<s>",), ())),
        (sentence_piece, {"bos_token": "<s>", "add_bos_token": False}, ((), ())),
    ],
)
def test_a_tokenizer_says_which_special_tokens_surround_a_text(data, config, around):
    beside = {} if config is None else {"tokenizer_config": json.dumps(config)}
    described = opened(data(), **beside).model.description
    assert (described.prepend, described.append) == around


def test_objects_of_libraries_are_converted():
    library = tokenizers.Tokenizer.from_str(unigram())
    own = open_tokenizer(library)
    assert own.encode("the cat") == ids_of(library, "the cat")

    class Fast:
        backend_tokenizer = library

    assert open_tokenizer(Fast()) == own
    for value in (None, 7, object()):
        with pytest.raises(TokenizerError, match="is no tokenizer that can be converted"):
            open_tokenizer(value)


def test_a_missing_package_is_named_with_its_extra():
    files = {"tokenizers": word_piece(), "sentencepiece": sentence_piece()}
    before = {name: pickle.loads(pickle.dumps(opened(data))) for name, data in files.items()}
    for name, data in files.items():
        with pytest.MonkeyPatch.context() as patch:
            uninstall(patch, name)
            with pytest.raises(TokenizerError, match=rf"needs the package {name}: .*\[{name}\]"):
                opened(data)
            with pytest.raises(TokenizerError, match=rf"needs the package {name}"):
                before[name].encode("a")


def changed(**values: object) -> str:
    return json.dumps({**json.loads(word_piece()), **values})


def model_with(**values: object) -> str:
    model = json.loads(word_piece())["model"]
    return changed(model={**model, **values})


DAMAGED = {
    "cut": (lambda: word_piece()[:-40], "line 1"),
    "list": (lambda: "[]", "not a tokenizer file"),
    "other object": (lambda: '{"a": 1}', "its keys are a"),
    "empty vocabulary": (lambda: model_with(vocab={}), "has no vocabulary"),
    "negative id": (lambda: model_with(vocab={"a": -1}), "the id of the token 'a' is -1"),
    "no integer": (lambda: model_with(vocab={"a": 1.5}), "the id of the token 'a' is 1.5"),
    "id twice": (lambda: model_with(vocab={"a": 1, "b": 1}), "'a' and 'b' have the id 1"),
    "dropout": (lambda: model_with(dropout=0.1), "differ from call to call"),
    "model": (lambda: model_with(type="Wordy"), "is refused by tokenizers"),
    "normalizer": (lambda: changed(normalizer={"type": "Magic"}), "is refused by tokenizers"),
    "added token": (lambda: changed(added_tokens=[{"id": 7}]), "'content' must be of type str"),
    "special only": (
        lambda: json.dumps(
            {
                "added_tokens": [{"id": 0, "content": "a"}],
                "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "b"},
            }
        ),
        "every token of tokenizer.json is a special token",
    ),
    "high id": (
        lambda: changed(added_tokens=[{"id": 10**12, "content": "<x>"}]),
        "tokenizers would give it",
    ),
    "cut model": (lambda: sentence_piece()[:-200], "ends after the file"),
    "bytes": (lambda: b"\n\x03\n\xff\xff\xff", "is no SentencePiece model"),
    "no pieces": (lambda: b"\n\x00\n\x00", "piece must not be empty"),
    "empty": (lambda: b"", "not a tokenizer file"),
    "program": (lambda: b"MZ\x90\x00", "it begins with b'MZ"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_or_hostile_file_is_refused_with_one_line(kind):
    data, message = DAMAGED[kind]
    with pytest.raises(TokenizerError, match=message) as caught:
        opened(data())
    assert "\n" not in str(caught.value)


@given(
    which=st.sampled_from([plain_sentence_piece, byte_level, unigram]),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_any_changed_byte_is_refused_or_gives_a_tokenizer(which, changes):
    data = which()
    changed_bytes = bytearray(data.encode() if isinstance(data, str) else data)
    for place, byte in changes:
        changed_bytes[int(place * (len(changed_bytes) - 1))] = byte
    with suppress(TokenizerError, PatternError):
        opened(bytes(changed_bytes)).encode("the cat 12")


@pytest.mark.parametrize("kind", ["not a number", "unused"])
def test_a_model_that_the_core_cannot_prove_is_encoded_by_the_library(kind):
    data = scored_oddly(kind)
    own, library = opened(data), sentencepiece.SentencePieceProcessor(model_proto=data)
    assert own.engine == "sentencepiece"
    assert own.model.reason
    for text in HOSTILE:
        assert own.encode(text) == library.encode(text)


def test_more_pieces_than_the_limit_are_refused_before_they_are_read():
    with pytest.raises(TokenizerError, match=r"2,097,153 pieces"):
        opened(b"\n\x03\n\x01a" * 2_200_000)


def test_a_tokenizer_of_a_library_has_no_merges_and_no_pattern():
    own = opened(word_piece())
    assert own.merges == []
    for use in (
        lambda: own.pattern,
        lambda: own.truncated(100),
        own.to_tiktoken,
        lambda: own.encode_with_offsets("a"),
    ):
        with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
            use()
    with pytest.raises(KeyError):
        own.decode([10**6])
    lengths = own.token_bytes()
    assert len(lengths) == own.get_vocab_size()
    assert np.count_nonzero(lengths) == own.num_text_ids


CORE = {
    "special ids first": {},
    "nfc": {"normalizer": normalizers.NFC()},
    "nfkc and lower case": {
        "normalizer": normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    },
    "strip": {"normalizer": normalizers.Strip()},
    "replace": {"normalizer": normalizers.Replace("a", "bb")},
    "prefix space": {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)},
    "ignored merges": {"ignore_merges": True},
    "digits": {
        "pre_tokenizer": pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
    },
    "splits": {
        "pre_tokenizer": pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(r"\p{N}{1,3}"), "isolated"),
                pre_tokenizers.Split(tokenizers.Regex("[一-龥]+"), "merged_with_previous"),
                pre_tokenizers.Split(" ", "merged_with_next"),
                pre_tokenizers.Split(tokenizers.Regex("[a-h]"), "contiguous", invert=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    },
}


@pytest.mark.parametrize("kind", CORE)
def test_the_core_gives_the_ids_and_texts_of_the_library(kind):
    data = byte_level(**CORE[kind])
    own = opened(data)
    assert own.model.description.engine == "core", own.model.reason
    check_against_library(own, data)


def test_a_lone_surrogate_is_encoded_like_its_replacement():
    for data in (byte_fallback(), sentence_piece()):
        own = opened(data)
        expected = own.encode("a\ufffdb")
        assert own.encode("a\ud800b") == expected
        assert own.encode(["a\ud800b", "c"]) == [expected, own.encode("c")]


def test_a_library_renders_conversations_as_the_core_does():
    own = opened(byte_level(special=SPECIAL_TOKENS))
    by_library = Tokenizer(
        replace(
            own.model,
            tables=None,
            description=replace(own.model.description, engine="tokenizers"),
        )
    )
    documents = [
        '[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes, 12"}]',
        '[{"role": "user"}]',
        "[]",
    ]
    expected, batch = own.render_batch(documents), by_library.render_batch(documents)
    assert by_library.engine == "tokenizers"
    for name in ("ids", "labels", "offsets", "images", "sizes"):
        assert np.array_equal(getattr(batch, name), getattr(expected, name)), name
    assert batch.problems == expected.problems
    assert len(by_library.render_batch([])) == 0


def test_every_numeric_character_is_a_digit_of_the_library():
    digits = pre_tokenizers.Digits(individual_digits=True)
    steps = [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    data = byte_level(pre_tokenizer=pre_tokenizers.Sequence(steps))
    own, plain = opened(data), without_added(data)
    numeric = [chr(n) for n in range(sys.maxunicode) if unicodedata.category(chr(n))[0] == "N"]
    newer = map(chr, (*range(0x11DE0, 0x11DEA), *range(0x16FF4, 0x16FF7)))
    for character in (*numeric, *newer):
        text = f"a{character}{character}1"
        assert own.encode(text) == ids_of(plain, text), hex(ord(character))
