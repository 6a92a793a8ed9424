"""Tokenizers by the names of models of the Hugging Face hub, from a local server and the cache."""

import json
import os
import subprocess
import sys

import pytest

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer import open_tokenizer
from tests.support.hub_server import COMMIT, hub_server
from tests.support.library_tokenizers import unigram, word_piece
from tests.support.missing_packages import uninstall

MODEL = "Owner/Model-1.5b"
FILES = {
    "tokenizer.json": word_piece().encode(),
    "tokenizer_config.json": b'{"bos_token": "[CLS]", "add_bos_token": true}',
    "model.safetensors": b"weights, which are never downloaded",
}
SHOW = """
import json, sys
from nanotok_ray import open_tokenizer
own = open_tokenizer(sys.argv[1])
around, origin = own.model.description.prepend, own.extended(["<x>"]).origin
print(json.dumps([own.encode("the cat"), around, origin]))
"""


def shown(name, cache, **environment):
    """Open a tokenizer in a new process, which reads the variables of the hub when it starts."""
    return subprocess.run(
        [sys.executable, "-c", SHOW, name],
        env={**os.environ, "HF_HOME": str(cache), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_of_the_hub_is_opened_online_and_then_from_the_cache(tmp_path):
    with hub_server(MODEL, FILES) as endpoint:
        first = shown(f"{MODEL}@main", tmp_path, HF_ENDPOINT=endpoint)
        assert first.returncode == 0, first.stderr
        other = shown("Owner/Other", tmp_path, HF_ENDPOINT=endpoint)
    again = shown(MODEL, tmp_path, HF_HUB_OFFLINE="1")
    assert again.stdout == first.stdout, again.stderr
    (tmp_path / "tokenizer.json").write_bytes(FILES["tokenizer.json"])
    ids, around, origin = json.loads(first.stdout)
    assert ids == open_tokenizer(tmp_path).encode("the cat")
    assert (around, origin) == (["[CLS]"], f"{MODEL}@{COMMIT}")
    cached = {path.name for path in tmp_path.glob(f"hub/*/snapshots/{COMMIT}/*")}
    assert cached == {"tokenizer.json", "tokenizer_config.json"}
    assert other.returncode != 0
    assert "the Hugging Face hub does not give the tokenizer of a model" in other.stderr


def test_what_is_not_in_the_cache_is_named_without_a_network(tmp_path):
    missing = shown(MODEL, tmp_path, HF_HUB_OFFLINE="1")
    assert missing.returncode != 0
    assert "set HF_HOME to the cache that contains it" in missing.stderr


def test_a_path_below_a_folder_is_never_the_name_of_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Owner").mkdir()
    with pytest.raises(TokenizerError, match="no tokenizer in Owner/Model"):
        open_tokenizer("Owner/Model")
    (tmp_path / "Owner/Model").mkdir()
    (tmp_path / "Owner/Model/tokenizer.json").write_text(unigram())
    assert open_tokenizer("Owner/Model").engine == "tokenizers"


def test_the_package_of_the_hub_is_named_if_it_is_missing(monkeypatch):
    uninstall(monkeypatch, "huggingface_hub")
    with pytest.raises(TokenizerError, match=r"needs the package huggingface_hub: .*\[hf\]"):
        open_tokenizer("Owner/Model")
