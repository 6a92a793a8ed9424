"""The settings of shards: recipe of the source, limits, special tokens of the tokenizer."""

from dataclasses import replace

import pytest

from nanotok_ray.errors import RecipeError
from nanotok_ray.job import shard_settings
from nanotok_ray.recipe import GROUNDING, SPECIAL_TOKENS, parse_recipe
from nanotok_ray.tokenizer import Tokenizer

PLAIN = Tokenizer.train_from_iterator([], vocab_size=265)
EVERY = PLAIN.extended(["<image>", "<|image|>", *GROUNDING, "<mine>"])
RULES = ("limits.max_tokens=9", "limits.too_long=drop", "limits.untrainable=drop")


def settings(kind, *more, tokenizer=EVERY, overrides=()):
    """Return the settings of a source of a kind with more keys in its recipe."""
    source = [f'name = "a"\nkind = "{kind}"\npaths = ["/in"]\ncount = true', *more]
    text = "\n".join(["[[source]]", *source, '[output]\npath = "/out"'])
    own = parse_recipe(text, overrides=overrides)
    return shard_settings(own, own.sources[0], tokenizer)


def lacking(*names):
    return Tokenizer(EVERY.model.without(names))


@pytest.mark.parametrize("kind", ["chat", "vision"])
def test_limits_of_conversations_apply_only_to_them(kind):
    assert settings("text", overrides=RULES) == settings("text")
    own = settings(kind, overrides=RULES)
    assert (own.max_tokens, own.too_long, own.untrainable) == (9, "drop", "drop")
    assert replace(own, max_tokens=None, too_long="keep", untrainable="keep") == settings(kind)


def test_tokens_around_texts_must_exist():
    with pytest.raises(RecipeError, match=r"source\.a\.prepend has '<\|bos\|>'.*extend = \[\"<"):
        settings("text", tokenizer=lacking("<|bos|>"))
    with pytest.raises(RecipeError, match=r"source\.a\.append has '<\|user_end\|>'.*to \[\]"):
        settings("text", 'append = ["<|user_end|>"]', tokenizer=lacking("<|user_end|>"))
    assert settings("text", "prepend = []", tokenizer=lacking("<|bos|>")).prepend == ()


@pytest.mark.parametrize("name", SPECIAL_TOKENS)
def test_the_special_tokens_of_a_kind_must_exist(name):
    with pytest.raises(RecipeError, match="of kind chat, which is rendered with") as caught:
        settings("chat", tokenizer=lacking(name))
    assert name in str(caught.value)
    if name in ("<|bos|>", "<|assistant_end|>"):
        with pytest.raises(RecipeError, match="of kind vision, which is rendered with") as caught:
            settings("vision", tokenizer=lacking(name))
        assert name in str(caught.value)


def test_documents_with_images_need_no_token_of_a_turn():
    turns = set(SPECIAL_TOKENS) - {"<|bos|>", "<|assistant_end|>"}
    assert settings("vision", tokenizer=lacking(*turns)).image_token == "<image>"


def test_the_image_token_is_the_named_or_the_first_existing_one():
    assert settings("vision", 'image_token = "<mine>"').image_token == "<mine>"
    assert settings("vision", tokenizer=lacking("<image>")).image_token == "<|image|>"
    assert settings("chat").image_token is None
    with pytest.raises(RecipeError, match="rendered with <mine>"):
        settings("vision", 'image_token = "<mine>"', tokenizer=lacking("<mine>"))
    with pytest.raises(RecipeError, match="none of the special tokens"):
        settings("vision", tokenizer=PLAIN)


def test_image_settings_of_a_source_are_passed_on():
    assert settings("vision").grounding == ()
    own = settings("vision", "image_tokens = 7", "train_prompt = false", "grounding = true")
    assert (own.image_tokens, own.train_prompt, own.grounding) == (7, False, GROUNDING)
    with pytest.raises(RecipeError, match="rendered with") as caught:
        settings("vision", "grounding = true", tokenizer=lacking(GROUNDING[-1]))
    assert GROUNDING[-1] in str(caught.value)
