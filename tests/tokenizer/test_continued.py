"""Continued tokenizers: new tokens after those of a base, which keep their ids."""

import base64
import json
import pickle

import pytest
import tiktoken
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import SpanCounts, learn, open_tokenizer
from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import TokenizerError, VocabularySizeError
from nanotok_ray.tokenizer import Model, Tokenizer, from_readable, to_readable
from tests.support.foreign_models import CORPUS, in_order
from tests.support.library_tokenizers import (
    HOSTILE,
    SENTENCES,
    byte_fallback,
    byte_level,
    sentence_piece,
    word_piece,
)

SPECIAL = ["<|bos|>", "<|end|>"]
OTHERS = ["the thicket thawed; thus théy — 中文 12345 thrive", "  def g(y):\n        return y"] * 5
corpora = st.lists(
    st.text(st.sampled_from("abc '1é中\n "), max_size=30).map(lambda text: text * 3), max_size=8
)
patterns = st.sampled_from([*PATTERNS, r"\p{L}+|\p{N}+", r"(?s:.)+", r"[ab]+|\s"])


@pytest.mark.parametrize("first", [0, 1, "half", "all but one"])
@given(corpora, patterns, st.booleans())
def test_continuing_the_first_merges_makes_the_others(first, texts, pattern, has_special):
    special = SPECIAL if has_special else []
    counts = SpanCounts(pattern)
    counts.update(texts)
    whole = learn(counts, 256 + 40 + len(special), special_tokens=special)
    total = len(whole.learned.merges)
    number = {0: 0, 1: min(1, total), "half": total // 2, "all but one": max(0, total - 1)}[first]
    base = whole.tokenizer.truncated(256 + number + len(special))
    size = base.get_vocab_size() + max(1, total - number)
    continued = learn(counts, size, base=base)
    assert continued.tokenizer.model.tokens == whole.tokenizer.model.tokens
    assert continued.learned.counts.tolist() == whole.learned.counts[number:].tolist()
    assert continued.learned.applied.tolist() == whole.learned.applied[number:].tolist()
    assert continued.report.base.unreachable == ()
    if not special:
        assert continued.tokenizer == whole.tokenizer.truncated(256 + total)
    if total:
        assert continued.report.curve[-1].tokens == whole.report.curve[-1].tokens
    ids = dict(enumerate(continued.tokenizer.model.token_ids))
    for text in (*texts, *CORPUS):
        expected = [ids[number] for number in whole.tokenizer.encode(text)]
        assert continued.tokenizer.encode(text) == expected
        assert continued.tokenizer.decode(expected) == text


def continued_twice(byte_order=None):
    """Return a tokenizer with special tokens, new tokens, more special tokens, and new tokens."""
    model = (
        in_order(special_tokens={"<|bos|>": 405}) if byte_order is None else in_order(byte_order)
    )
    base = Tokenizer(model)
    once = Tokenizer.train_from_iterator(OTHERS, base.get_vocab_size() + 9, base=base)
    more = once.extended(SPECIAL)
    twice = Tokenizer.train_from_iterator(SENTENCES, more.get_vocab_size() + 30, base=more)
    return base, twice


def test_every_file_has_the_same_ids_in_its_own_library(tmp_path):
    base, tokenizer = continued_twice()
    assert len(tokenizer.model.continuations) == 2
    tokenizer.save(tmp_path)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    encoding = pickle.loads((tmp_path / "tokenizer.pkl").read_bytes())
    ranks = {}
    for line in (tmp_path / "tokenizer.tiktoken").read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    of_ranks = tiktoken.Encoding(
        "it", pat_str=tokenizer.pattern, mergeable_ranks=ranks, special_tokens={}
    )
    assert library.get_vocab() == tokenizer.get_vocab()
    assert encoding._special_tokens == tokenizer.special_tokens
    assert encoding.n_vocab == tokenizer.get_vocab_size()
    for number, token in tokenizer.model.text_tokens.items():
        assert encoding.decode_single_token_bytes(number) == token
        assert of_ranks.decode_single_token_bytes(number) == token
    for text in (*CORPUS, *SENTENCES, *OTHERS, *HOSTILE):
        if "<" in text:
            continue
        ids = tokenizer.encode(text)
        assert library.encode(text, add_special_tokens=False).ids == ids
        assert encoding.encode_ordinary(text) == of_ranks.encode_ordinary(text) == ids
        assert tokenizer.decode(ids) == library.decode(ids) == text
    for name, number in tokenizer.special_tokens.items():
        assert library.encode(f"a{name}b", add_special_tokens=False).ids[1] == number
    assert tokenizer.encode_special("<|bos|>") == base.encode_special("<|bos|>")
    assert Tokenizer.load(tmp_path) == tokenizer
    of_library = open_tokenizer(tmp_path / "tokenizer.json")
    assert of_library.engine_version is None  # the core encodes
    assert of_library.encode(CORPUS[1]) == tokenizer.encode(CORPUS[1])


@given(st.text(max_size=40), st.booleans())
def test_the_readable_file_and_the_decoder_hold_all_continuations(text, has_order):
    _, tokenizer = continued_twice(bytes(reversed(range(256))) if has_order else None)
    data = to_readable(tokenizer.model)
    assert from_readable(data, name="it") == tokenizer.model
    ids, offsets = tokenizer.encode_batch([text, ""])
    assert tokenizer.decode_batch(ids, offsets).to_pylist() == [text, ""]


def test_old_ids_stay_and_text_without_new_tokens_has_the_same_ids():
    base, tokenizer = continued_twice()
    texts = base.model.text_tokens
    assert {n: t for n, t in tokenizer.model.text_tokens.items() if n in texts} == texts
    for text in CORPUS:
        ids = tokenizer.encode(text)
        expanded = [
            part
            for number in ids
            for part in (base.encode(tokenizer.decode([number])) if number >= 406 else [number])
        ]
        assert expanded == base.encode(text)


@pytest.mark.parametrize(
    "damage",
    [
        ("continuations 2\n81 406", "continuations 2\n80 406"),
        ("continuations 2\n81 406", "continuations 2\n81 336"),
        ("continuations 2\n", "continuations 3\n"),
    ],
)
def test_a_damaged_readable_file_is_refused(damage):
    _, tokenizer = continued_twice()
    data = to_readable(tokenizer.model).decode()
    assert data.count(damage[0]) == 1
    with pytest.raises(TokenizerError, match="it"):
        from_readable(data.replace(*damage).encode(), name="it")


def test_truncating_leaves_out_the_last_merges_only():
    base, tokenizer = continued_twice()
    smaller = tokenizer.truncated(tokenizer.get_vocab_size() - 5)
    assert smaller.model.merges == tokenizer.model.merges[:-5]
    assert smaller.special_tokens == tokenizer.special_tokens
    longer = tokenizer.extended(["<|new|>"])
    cut = longer.truncated(longer.get_vocab_size() - 5)
    assert cut.encode_special("<|new|>") == smaller.get_vocab_size()
    start = tokenizer.model.continuations[-1][1]
    assert tokenizer.truncated(start).model.continuations == tokenizer.model.continuations[:1]
    with pytest.raises(TokenizerError, match="cannot truncate"):
        tokenizer.truncated(base.get_vocab_size())


def files_of_bases():
    """Yield files of byte-level tokenizers of other tools that are no `Model`."""
    model = json.loads(byte_level())
    yield "normalizer", json.dumps(model | {"normalizer": {"type": "NFC"}})
    digits = [{"type": "Digits", "individual_digits": True}, model["pre_tokenizer"]]
    steps = {"type": "Sequence", "pretokenizers": digits}
    yield "steps", json.dumps(model | {"pre_tokenizer": steps})
    whole = model["model"] | {"ignore_merges": True, "merges": model["model"]["merges"][:-20]}
    yield "whole spans", json.dumps(model | {"model": whole})


@pytest.mark.parametrize(("kind", "data"), [*files_of_bases()])
def test_a_tokenizer_json_gets_new_tokens_as_its_library_reads_them(kind, data, tmp_path):
    (tmp_path / "tokenizer.json").write_text(data)
    base = open_tokenizer(tmp_path)
    before = tokenizers.Tokenizer.from_str(data)
    size = base.get_vocab_size()
    tokenizer = Tokenizer.train_from_iterator(OTHERS, size + 20, base=base)
    tokenizer.save(tmp_path / "longer")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "longer/tokenizer.json"))
    vocab = library.get_vocab()
    assert tokenizer.get_vocab_size() == max(vocab.values()) + 1 == size + 20, kind
    assert {name: vocab[name] for name in before.get_vocab()} == before.get_vocab()
    assert {tokenizer.special_tokens[name] for name in base.special_tokens} == {
        *base.special_tokens.values()
    }
    loaded = Tokenizer.load(tmp_path / "longer")
    assert loaded == tokenizer
    used = set()
    for text in (*OTHERS, *SENTENCES, *HOSTILE):
        if any(name in text for name in tokenizer.special_tokens):
            continue
        ids = tokenizer.encode(text)
        assert library.encode(text, add_special_tokens=False).ids == ids == loaded.encode(text)
        used |= {*ids}
    assert used.intersection(range(size, size + 20))


def test_a_new_token_is_not_spelled_as_an_added_one(tmp_path):
    model = json.loads(byte_level())
    model["normalizer"] = {"type": "NFC"}
    added = {"content": "zqzq", "id": 380, "special": False, "normalized": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    last = max([*model["model"]["vocab"].values(), *(one["id"] for one in model["added_tokens"])])
    model["added_tokens"].append(added | flags | {"id": last + 1})
    (tmp_path / "tokenizer.json").write_text(json.dumps(model))
    base = open_tokenizer(tmp_path)
    tokenizer = Tokenizer.train_from_iterator(["zqzq zqzq "] * 9, last + 2 + 9, base=base)
    tokens = [*tokenizer.model.text_tokens.values()]
    assert b"zqzq" not in tokens
    assert b"zq" in tokens
    assert tokenizer.special_tokens["zqzq"] == last + 1


def test_ranks_get_new_tokens_as_tiktoken_reads_them(tmp_path):
    ranks = b"".join(
        b"%s %d\n" % (base64.b64encode(token), number + (number > 300))  # with a hole
        for number, token in enumerate(in_order().tokens)
    )
    (tmp_path / "ranks.tiktoken").write_bytes(ranks)
    names = {"<|bos|>": 301, "<|end|>": 500}
    base = open_tokenizer(tmp_path / "ranks.tiktoken", pattern="gpt4", special_tokens=names)
    tokenizer = Tokenizer.train_from_iterator(OTHERS, 501 + 20, base=base)
    tokenizer.save(tmp_path / "longer")
    loaded = Tokenizer.load(tmp_path / "longer")
    assert loaded == tokenizer
    assert loaded.special_tokens == names
    encoding = loaded.to_tiktoken()
    used = set()
    for text in (*OTHERS, *CORPUS, *SENTENCES):
        ids = tokenizer.encode(text)
        assert encoding.encode_ordinary(text) == ids
        used |= {*ids}
    assert used.intersection(range(501, 521))


def test_new_tokens_are_listed_with_their_ids_in_the_base(tmp_path):
    base, _ = continued_twice()
    counts = SpanCounts(base.pattern)
    counts.update(OTHERS)
    learned = learn(counts, base.get_vocab_size() + 12, base=base)
    learned.save(tmp_path)
    listed = json.loads((tmp_path / "new_tokens.json").read_text())
    assert listed["base_sha256"] == base.sha256
    assert [token["id"] for token in listed["tokens"]] == [*range(406, 418)]
    texts = base.model.text_tokens
    for token in listed["tokens"]:
        data = base64.b64decode(token["bytes"])
        assert b"".join(texts[number] for number in token["base_ids"]) == data
        assert learned.tokenizer.model.text_tokens[token["id"]] == data
        assert len(token["base_ids"]) > 1
    used = {n for text in OTHERS for n in learned.tokenizer.encode(text)}
    assert {*listed["unused"]} == {*texts} - used
    saved = sum(len(base.encode(text)) - len(learned.tokenizer.encode(text)) for text in OTHERS)
    assert learned.report.base.tokens - learned.report.curve[-1].tokens == saved
    smaller = learned.truncated(410)
    assert smaller.tokenizer == Tokenizer.train_from_iterator(OTHERS, 410, base=base)
    assert len(smaller.new_tokens.tokens) == 4
    Tokenizer.train_from_iterator(CORPUS, 300).save(tmp_path, overwrite=True)
    assert not (tmp_path / "new_tokens.json").exists()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (word_piece(), "WordPiece"),
        (byte_fallback(), "byte_fallback"),
        (sentence_piece(), "tokenizer.model"),
    ],
)
def test_other_tokenizers_are_refused(data, reason, tmp_path):
    name = "tokenizer.json" if isinstance(data, str) else "tokenizer.model"
    (tmp_path / name).write_bytes(data.encode() if isinstance(data, str) else data)
    base = open_tokenizer(tmp_path)
    with pytest.raises(TokenizerError, match=reason) as caught:
        Tokenizer.train_from_iterator(OTHERS, base.get_vocab_size() + 9, base=base)
    assert "cannot be continued" in str(caught.value)


def test_a_base_with_other_sizes_or_counts_is_refused():
    base = Tokenizer(in_order())
    with pytest.raises(VocabularySizeError, match="has 337 ids"):
        Tokenizer.train_from_iterator(OTHERS, 337, base=base)
    counts = SpanCounts("r50k")
    counts.update(OTHERS)
    with pytest.raises(TokenizerError, match="count the texts with the pattern of the base"):
        learn(counts, 500, base=base)
    twice = Model(
        pattern="a",
        unicode_version=base.model.unicode_version,
        special_tokens={},
        merges=((97, 98), (98, 99), (256, 99), (97, 257)),
    )
    with pytest.raises(TokenizerError, match="both stand for"):
        Tokenizer.train_from_iterator(OTHERS, 500, base=Tokenizer(twice))
