"""Names of tiktoken's encodings: read from its cache, and the next step without a network."""

import base64
import hashlib

import pytest
import tiktoken
from tiktoken import load, registry

from nanotok_ray import open_tokenizer
from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer import Tokenizer

URL = "https://ranks.invalid/encodings/small_base.tiktoken"
TOKENS = [bytes([255 - value]) for value in range(256)] + [b"th", b"the", b" the"]


def small_base():
    return {
        "name": "small_base",
        "pat_str": PATTERNS["cl100k"],
        "mergeable_ranks": load.load_tiktoken_bpe(URL),
        "special_tokens": {"<|endoftext|>": 300},
    }


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return tiktoken's cache, which is empty; no encoding has been loaded."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    tiktoken.list_encoding_names()
    monkeypatch.setattr(registry, "ENCODINGS", {})
    monkeypatch.setitem(registry.ENCODING_CONSTRUCTORS, "small_base", small_base)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def test_an_encoding_is_read_from_the_cache_of_tiktoken(cache):
    lines = [b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(TOKENS)]
    (cache / hashlib.sha1(URL.encode()).hexdigest()).write_bytes(b"".join(lines))
    own = open_tokenizer("small_base")
    peer = tiktoken.get_encoding("small_base")
    assert own.n_vocab == peer.n_vocab == 301
    for text in ("the the\n\n🙂 1234", "", "<|endoftext|> x"):
        assert own.encode(text) == peer.encode_ordinary(text)
        options = {"allowed_special": "all"}
        assert own.encode(text, **options) == peer.encode(text, **options)


@pytest.mark.parametrize("name", ["small_base", "cl100k_base", "gpt2"])
def test_without_the_files_the_error_names_their_location(cache, monkeypatch, name):
    def refuse(path):
        raise ConnectionError(path)

    monkeypatch.setattr(load, "read_file", refuse)
    with pytest.raises(TokenizerError) as caught:
        open_tokenizer(name)
    named = (f"the files of '{name}'", f"tiktoken.get_encoding('{name}')", str(cache))
    for words in (*named, "(ConnectionError)", "TIKTOKEN_CACHE_DIR="):
        assert words in str(caught.value)


def test_a_pattern_for_an_encoding_and_an_unknown_name_are_refused(cache):
    with pytest.raises(TokenizerError, match="pattern is given, but small_base says its own"):
        open_tokenizer("small_base", pattern="gpt4")
    with pytest.raises(TokenizerError, match="no tokenizer in small_bas "):
        open_tokenizer("small_bas")
    saved = Tokenizer.train_from_iterator(["ab ab"], 266)
    saved.save("small_base")  # a folder of this name is preferred
    assert open_tokenizer("small_base") == saved
