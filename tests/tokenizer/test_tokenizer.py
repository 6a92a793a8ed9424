import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import rustbpe
from hypothesis import given
from hypothesis import strategies as st

import nanotok_ray
from nanotok_ray.counts import PATTERNS, default_threads
from nanotok_ray.documents import Documents
from nanotok_ray.errors import SplitError, TokenizerError, VocabularySizeError
from nanotok_ray.tokenizer import Tokenizer, make_model

CORPUS = [
    "the cat sat on the mat",
    "the hat, that cat's hat: 12345",
    "naïve café 你好 🙂",
    "   x\n\n y",
]

# Repeated letters, so that pairs have equal counts and overlap; digits; white space; marks.
texts = st.text(
    st.sampled_from("aab the''s1234 \n\r\t\u00a0\u3000é\u0301你🙂.,-\u017f\x00")
    | st.characters(codec="utf-8")
)
corpora = st.lists(texts, max_size=6)
patterns = st.sampled_from(list(PATTERNS))


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(CORPUS, 300)


@given(corpora, st.integers(0, 60), st.sampled_from(["nanochat", "gpt4"]))
def test_merges_equal_rustbpe(corpus, num_merges, name):
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(corpus), 256 + num_merges, pattern=PATTERNS[name])
    own = Tokenizer.train_from_iterator(
        corpus, 256 + num_merges, pattern=name, special_tokens=(), num_threads=2
    )
    assert list(own.model.tokens) == [token for token, _ in peer.get_mergeable_ranks()]


@given(corpora, texts, patterns)
def test_ids_equal_tiktoken(corpus, text, name):
    own = Tokenizer.train_from_iterator(corpus, 320, pattern=name)
    peer = own.to_tiktoken()
    assert own.encode(text) == peer.encode_ordinary(text)
    assert own.get_vocab_size() == peer.n_vocab
    assert own.engine == "lexer"
    assert own.encode_special("<|bos|>") == peer.encode_single_token("<|bos|>")


@given(st.permutations(CORPUS), st.integers(1, 3))
def test_merges_depend_on_neither_order_nor_threads(tokenizer, corpus, threads):
    assert Tokenizer.train_from_iterator(iter(corpus), 300, num_threads=threads) == tokenizer


def test_bos_is_the_special_token_even_if_a_merge_spells_it():
    own = Tokenizer.train_from_iterator(
        ["<|bos|>"], 400, pattern="(?s:.+)", special_tokens=["<|bos|>"]
    )
    assert own.model.tokens[-1] == b"<|bos|>"
    assert own.get_bos_token_id() == own.special_tokens["<|bos|>"] == own.get_vocab_size() - 1
    assert own.encode("<|bos|>") == [own.get_vocab_size() - 2]


def test_a_vocabulary_that_is_too_small_is_refused_before_anything_is_read():
    def texts():
        pytest.fail("a text was read")
        yield ""

    with pytest.raises(VocabularySizeError, match=r"^vocab_size_no_special must be at least 256"):
        Tokenizer.train_from_iterator(texts(), 264)
    with pytest.raises(VocabularySizeError, match="at most 2147483648, got 2147483649"):
        Tokenizer.train_from_iterator(texts(), 2**31 + 1)


def test_special_tokens_may_be_chosen():
    own = Tokenizer.train_from_iterator(["abab"], 258, special_tokens=["<end>"])
    assert own.merges == [(97, 98)]
    assert own.special_tokens == {"<end>": 257}
    assert own.get_special_tokens() == {"<end>"}


@given(texts | st.text())
def test_one_text_has_the_ids_of_its_bytes(tokenizer, text):
    ids, _ = tokenizer.encode_batch([text])
    assert tokenizer.encode(text) == ids.tolist()
    assert tokenizer.encode(text * 60) == tokenizer.to_tiktoken().encode_ordinary(text * 60)
    framed = [7, *ids.tolist(), tokenizer.get_bos_token_id()]
    assert tokenizer.encode(text, append="<|bos|>", prepend=7) == framed


def test_values_that_are_not_text_have_their_own_error(tokenizer):
    class Text(str):
        __slots__ = ()

    assert tokenizer.encode(Text("the")) == tokenizer.encode("the")
    for value in (None, b"the", 7):
        with pytest.raises(ValueError, match="Invalid input type"):
            tokenizer.encode(value)
    for texts in ([b"the"], ["the", None]):
        with pytest.raises(TypeError, match="is not an instance of 'str'"):
            tokenizer.encode(texts)
    for text in ("a", b"a"):
        with pytest.raises(TypeError, match=r"iterator: .* got one text: put it into a list"):
            Tokenizer.train_from_iterator(text, 300)
    for value, kind in (({"messages": []}, "dict"), ([], "list")):
        with pytest.raises(TypeError, match=f"got a {kind}: use json.dumps"):
            tokenizer.render_batch([value])


def test_gaps_are_kept_or_refused():
    own = Tokenizer.train_from_iterator(["ab ab"], 300, pattern="[a-z]+")
    assert own.engine == "table"
    documents = Documents.from_strings(["ab", "ab?"])
    ids, _ = own.encode_documents(documents)
    assert own.decode(ids) == "abab?"
    with pytest.raises(SplitError):
        own.encode_documents(documents, gaps="error")
    backtracking = Tokenizer.train_from_iterator([], 265, pattern=r"(?:(a+)+\1)+$")
    with pytest.raises(SplitError, match="document 0 cannot be split at byte 0"):
        backtracking.encode("a" * 100 + "b")


@pytest.mark.parametrize(
    ("num_special", "dtype"), [(9, np.uint16), (65280, np.uint16), (65281, np.uint32)]
)
def test_ids_have_the_narrowest_dtype(num_special, dtype):
    own = Tokenizer.train_from_iterator(
        [], 256 + num_special, special_tokens=[f"<{number}>" for number in range(num_special)]
    )
    ids, offsets = own.encode_batch(["ab"])
    assert ids.dtype == own.model.id_dtype == dtype
    assert offsets.dtype == np.int64
    assert own.encode_special(f"<{num_special - 1}>") == own.get_vocab_size() - 1


@pytest.mark.parametrize("number", [-1, 300, 10**20])
def test_an_unknown_id_is_a_key_error(tokenizer, number):
    assert tokenizer.get_vocab_size() == 300
    with pytest.raises(KeyError, match=f"Invalid token for decoding: {number}"):
        tokenizer.decode([97, number])
    with pytest.raises(KeyError, match=str(number)):
        tokenizer.decode_single_token_bytes(number)


def test_a_truncated_tokenizer_equals_one_learned_at_that_size(tokenizer):
    largest = tokenizer.get_vocab_size()
    for size in (265, 266, 300, largest):
        smaller, learned = tokenizer.truncated(size), Tokenizer.train_from_iterator(CORPUS, size)
        assert smaller == learned
        assert smaller.sha256 == learned.sha256
        assert learned.sha256[:16] in repr(learned)
        assert smaller.encode_special("<|bos|>") == size - 9
        assert (smaller == tokenizer) == (size == largest)
        assert smaller != "tokenizer"
    for size in (264, largest + 1):
        with pytest.raises(TokenizerError, match=rf"to {size} ids: from 265 .* to {largest} "):
            tokenizer.truncated(size)


def test_distant_special_ids_follow_the_merges_after_truncation():
    model = make_model([(97, 98), (256, 99)], pattern="nanochat", special_tokens=[])
    model = replace(model, special_tokens={"<|bos|>": 300, "<|end|>": 400})
    assert model.truncated(259).special_tokens == {"<|bos|>": 257, "<|end|>": 258}
    with pytest.raises(TokenizerError, match="to 260 "):
        model.truncated(261)


def test_training_uses_one_thread_inside_a_ray_worker(monkeypatch):
    def fake(mode):
        context = SimpleNamespace(worker=SimpleNamespace(mode=mode))
        return SimpleNamespace(
            WORKER_MODE=1, is_initialized=lambda: True, get_runtime_context=lambda: context
        )

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)))
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    assert default_threads() == 7
    monkeypatch.setitem(sys.modules, "ray", fake(mode=0))
    assert default_threads() == 7
    monkeypatch.setitem(sys.modules, "ray", fake(mode=1))
    assert default_threads() == 1


def test_every_public_name_exists():
    for name in nanotok_ray.__all__:
        assert getattr(nanotok_ray, name)
    assert {"open_shards", "open_tokenizer"} <= set(nanotok_ray.__all__) <= set(dir(nanotok_ray))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = nanotok_ray.nothing
