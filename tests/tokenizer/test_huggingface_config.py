import json

import pytest
from tokenizers import Tokenizer as Peer

from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import CHAT_TEMPLATE, FILE_NAMES, Tokenizer, to_huggingface_config


def config(special_tokens):
    own = Tokenizer.train_from_iterator(["hello hello"], 290, special_tokens=special_tokens)
    return own, json.loads(to_huggingface_config(own.model))


def test_nanochats_tokens_have_their_roles():
    own, found = config(SPECIAL_TOKENS)
    roles = [found[role] for role in ("bos_token", "eos_token", "pad_token")]
    assert roles == ["<|bos|>", "<|assistant_end|>", "<|bos|>"]
    assert found["chat_template"] == CHAT_TEMPLATE
    assert {*roles, *found["additional_special_tokens"]} == {*own.special_tokens}


@pytest.mark.parametrize(
    ("special_tokens", "roles"),
    [
        (["<|bos|>"], ["<|bos|>", "<|bos|>", "<|bos|>"]),
        (["<|endoftext|>", "<|endofprompt|>"], ["<|endoftext|>"] * 3),
        (["<|bos|>", "<|endoftext|>"], ["<|bos|>", "<|endoftext|>", "<|bos|>"]),
        (["<image>"], [None] * 3),
        ([], [None] * 3),
    ],
)
def test_others_have_the_roles_that_they_can_have_and_no_template(special_tokens, roles):
    _, found = config(special_tokens)
    assert [found.get(role) for role in ("bos_token", "eos_token", "pad_token")] == roles
    assert "chat_template" not in found
    assert sorted({*filter(None, roles), *found["additional_special_tokens"]}) == sorted(
        special_tokens
    )


def test_added_tokens_are_those_of_tokenizer_json(tmp_path):
    own = Tokenizer.train_from_iterator(["hello hello"], 290).extended(["<image>", "<é>"])
    own.save(tmp_path)
    found = json.loads((tmp_path / "tokenizer_config.json").read_text())
    tokens = json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"]
    listed = [{"id": int(number), **each} for number, each in found["added_tokens_decoder"].items()]
    assert listed == tokens
    peer = Peer.from_file(str(tmp_path / "tokenizer.json"))
    known = peer.get_added_tokens_decoder()
    assert {number: each.content for number, each in known.items()} == {
        number: name for name, number in own.special_tokens.items()
    }


def test_what_would_change_ids_or_texts_is_not_set():
    _, found = config(SPECIAL_TOKENS)
    assert found["clean_up_tokenization_spaces"] is False
    absent = {"split_special_tokens", "model_max_length", "unk_token", "add_bos_token"}
    assert absent.isdisjoint(found)


def test_the_file_is_one_of_the_folder(tmp_path):
    own, _ = config(SPECIAL_TOKENS)
    own.save(tmp_path)
    assert "tokenizer_config.json" in FILE_NAMES
    assert FILE_NAMES[-1] == "tokenizer.txt"
    assert (tmp_path / "tokenizer_config.json").read_bytes() == to_huggingface_config(own.model)
