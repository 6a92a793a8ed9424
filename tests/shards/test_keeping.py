"""Settings of shards, and the length policy."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from nanotok_ray.chat import RenderedBatch
from nanotok_ray.errors import RecipeError
from nanotok_ray.formats import ShardSettings
from nanotok_ray.job.tokenize import shard_settings
from nanotok_ray.recipe import GROUNDING, SPECIAL_TOKENS, parse_recipe
from nanotok_ray.shards import LengthPolicy, render
from nanotok_ray.tokenizer import Tokenizer
from tests.support.dialect_documents import parts, talks, texts

PLAIN = Tokenizer.train_from_iterator([], vocab_size=265)


def settings(**rules):
    return ShardSettings(
        tokenizer_sha256="0" * 64,
        gaps="spans",
        prepend=(),
        append=(),
        max_document_bytes=100,
        max_shard_tokens=100,
        **rules,
    )


def batch(documents):
    """Return a batch of (labels, images, problem or None); the ids are consecutive numbers."""
    labels = [label for own, _, _ in documents for label in own]
    images = [(n, *span) for n, (_, spans, _) in enumerate(documents) for span in spans]
    lengths = [len(own) for own, _, _ in documents]
    return RenderedBatch(
        ids=np.arange(len(labels), dtype=np.uint16),
        labels=np.array(labels, dtype=np.uint8),
        offsets=np.cumsum([0, *lengths]).astype(np.int64),
        images=np.array(images, dtype=np.int64).reshape(-1, 3),
        sizes=np.zeros((len(documents), 2), dtype=np.int64),
        problems={n: why for n, (_, _, why) in enumerate(documents) if why},
    )


@st.composite
def documents(draw):
    if draw(st.integers(0, 5)) == 0:
        return [], [], "bad"
    labels = draw(st.lists(st.integers(0, 11), max_size=9))
    spans, start = [], 0
    while start < len(labels) and draw(st.booleans()):
        end = draw(st.integers(start + 1, len(labels)))
        spans.append((start, end))
        start = end
    return labels, spans, None


def plainly(document, rules):
    """Return (kept labels, images, reason) of one document."""
    labels, spans, why = document
    limit = rules.get("max_tokens")
    if why:
        return [], [], why
    if limit is not None and len(labels) > limit:
        if rules["too_long"] == "drop":
            return [], [], f"dropped: {len(labels)} tokens, limits.max_tokens = {limit}"
        if rules["too_long"] == "cut":
            if any(end > limit for _, end in spans):
                return [], [], f"dropped: max_tokens={limit} cuts an image span"
            labels = labels[:limit]
    if rules["untrainable"] == "drop" and not any(label & 1 for label in labels):
        return [], [], "dropped: no token to train on, limits.untrainable = 'drop'"
    return labels, spans, None


@given(
    st.lists(documents(), max_size=7),
    st.none() | st.integers(1, 9),
    st.sampled_from(["keep", "cut", "drop"]),
    st.sampled_from(["keep", "drop"]),
)
def test_rules_on_a_batch_equal_rules_on_each_document(own, limit, too_long, untrainable):
    rules = {"max_tokens": limit, "too_long": too_long, "untrainable": untrainable}
    rendered = batch(own)
    found = LengthPolicy.of(rendered, settings(**rules))
    expected = [plainly(document, rules) for document in own]
    kept = [n for n, (_, _, why) in enumerate(expected) if why is None]
    assert found.selected.tolist() == kept
    assert found.left_out == {n: why for n, (_, _, why) in enumerate(expected) if why}
    assert list(found.left_out) == sorted(found.left_out)
    assert found.lengths.tolist() == [len(expected[n][0]) for n in kept]
    assert found.labels.tolist() == [label for n in kept for label in expected[n][0]]
    starts = rendered.offsets.tolist()
    ids = [starts[n] + place for n in kept for place in range(len(expected[n][0]))]
    assert found.ids.tolist() == ids
    images = [[place, *span] for place, n in enumerate(kept) for span in expected[n][1]]
    assert found.images.tolist() == images
    long = [
        n for n, (labels, _, why) in enumerate(own) if not why and limit and len(labels) > limit
    ]
    assert found.too_long == len(long)
    assert found.cut == (len([n for n in long if n in kept]) if too_long == "cut" else 0)


@examples(max_examples=25)  # of about 60 places each
@given(st.lists(talks(texts | parts), min_size=1, max_size=3))
def test_a_cut_at_every_length_equals_that_of_nanochat(talks):
    rendered = PLAIN.render_batch([json.dumps(each) for each in talks])
    for limit in range(1, int(np.diff(rendered.offsets).max()) + 2):
        found = LengthPolicy.of(rendered, settings(max_tokens=limit, too_long="cut"))
        expected = [
            PLAIN.render_conversation({"messages": each}, max_tokens=limit) for each in talks
        ]
        assert found.ids.tolist() == [number for ids, _ in expected for number in ids]
        assert (found.labels & 1).tolist() == [flag for _, mask in expected for flag in mask]
        assert found.lengths.tolist() == [len(ids) for ids, _ in expected]


def test_documents_without_trainable_tokens_are_always_counted():
    own = [([2, 3], [], None), ([2, 2], [], None), ([], [], "bad"), ([], [], None)]
    for rule in ("keep", "drop"):
        assert LengthPolicy.of(batch(own), settings(untrainable=rule)).untrainable == 2
    cut = settings(max_tokens=1, too_long="cut")
    assert LengthPolicy.of(batch(own), cut).untrainable == 3


def test_an_index_holds_its_limit_and_rules_of_the_recipe_apply_first(monkeypatch):
    monkeypatch.setattr(render, "MAX_DOCUMENT_TOKENS", 2)
    own = batch([([3, 3, 3], [], None), ([3, 3], [], None)])
    found = LengthPolicy.of(own, settings())
    assert found.selected.tolist() == [1]
    assert found.left_out == {0: "too many tokens: 3, an index holds at most 2"}
    found = LengthPolicy.of(own, settings(max_tokens=1, too_long="drop"))
    why = "dropped: {} tokens, limits.max_tokens = 1"
    assert found.left_out == {0: why.format(3), 1: why.format(2)}
    found = LengthPolicy.of(own, settings(max_tokens=2, too_long="cut"))
    assert found.selected.tolist() == [0, 1]


@pytest.mark.parametrize("cuts", [[0, 0, 3], [0, 1, 2, 3], [0, 3], [0, 2, 2, 3]])
def test_parts_of_a_batch_join_to_the_batch(cuts):
    own = [([3, 2], [(0, 1)], None), ([], [], "bad"), ([5, 4, 4], [(0, 1), (1, 3)], None)]
    whole = batch(own)
    parts = [whole.part(start, stop) for start, stop in pairwise(cuts)]
    joined = RenderedBatch.joined(parts)
    for name in ("ids", "labels", "offsets", "images", "sizes"):
        assert getattr(joined, name).tolist() == getattr(whole, name).tolist()
    assert joined.problems == whole.problems


EVERY = PLAIN.extended(["<image>", "<|image|>", *GROUNDING, "<mine>"])
RULES = ("limits.max_tokens=9", "limits.too_long=drop", "limits.untrainable=drop")


def settings_of(kind, *more, tokenizer=EVERY, overrides=()):
    """Return the settings of a source of a kind with more keys in its recipe."""
    source = [f'name = "a"\nkind = "{kind}"\npaths = ["/in"]\ncount = true', *more]
    text = "\n".join(["[[source]]", *source, '[output]\npath = "/out"'])
    own = parse_recipe(text, overrides=overrides)
    return shard_settings(own, own.sources[0], tokenizer)


def lacking(*names):
    return Tokenizer(EVERY.model.without(names))


@pytest.mark.parametrize("kind", ["chat", "vision"])
def test_limits_of_conversations_apply_only_to_them(kind):
    assert settings_of("text", overrides=RULES) == settings_of("text")
    own = settings_of(kind, overrides=RULES)
    assert (own.max_tokens, own.too_long, own.untrainable) == (9, "drop", "drop")
    assert replace(own, max_tokens=None, too_long="keep", untrainable="keep") == settings_of(kind)


def test_tokens_around_texts_must_exist():
    with pytest.raises(RecipeError, match=r"source\.a\.prepend has '<\|bos\|>'.*extend = \[\"<"):
        settings_of("text", tokenizer=lacking("<|bos|>"))
    with pytest.raises(RecipeError, match=r"source\.a\.append has '<\|user_end\|>'.*to \[\]"):
        settings_of("text", 'append = ["<|user_end|>"]', tokenizer=lacking("<|user_end|>"))
    assert settings_of("text", "prepend = []", tokenizer=lacking("<|bos|>")).prepend == ()


@pytest.mark.parametrize("name", SPECIAL_TOKENS)
def test_the_special_tokens_of_a_kind_must_exist(name):
    kinds = ("chat", "vision") if name in ("<|bos|>", "<|assistant_end|>") else ("chat",)
    for kind in kinds:
        with pytest.raises(RecipeError, match=f"of kind {kind}, which is rendered") as caught:
            settings_of(kind, tokenizer=lacking(name))
        assert name in str(caught.value)


def test_documents_with_images_need_no_token_of_a_turn():
    turns = set(SPECIAL_TOKENS) - {"<|bos|>", "<|assistant_end|>"}
    assert settings_of("vision", tokenizer=lacking(*turns)).image_token == "<image>"


def test_the_image_token_is_the_named_or_the_first_existing_one():
    assert settings_of("vision", 'image_token = "<mine>"').image_token == "<mine>"
    assert settings_of("vision", tokenizer=lacking("<image>")).image_token == "<|image|>"
    assert settings_of("chat").image_token is None
    with pytest.raises(RecipeError, match="rendered with <mine>"):
        settings_of("vision", 'image_token = "<mine>"', tokenizer=lacking("<mine>"))
    with pytest.raises(RecipeError, match="none of the special tokens"):
        settings_of("vision", tokenizer=PLAIN)


def test_image_settings_of_a_source_are_passed_on():
    assert settings_of("vision").grounding == ()
    own = settings_of("vision", "image_tokens = 7", "train_prompt = false", "grounding = true")
    assert (own.image_tokens, own.train_prompt, own.grounding) == (7, False, GROUNDING)
    with pytest.raises(RecipeError, match="rendered with") as caught:
        settings_of("vision", "grounding = true", tokenizer=lacking(GROUNDING[-1]))
    assert GROUNDING[-1] in str(caught.value)
