"""Vision documents: the recommended answers, those of the fork where they agree, and invariants."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import chat
from nanotok_ray.chat import (
    PLACEHOLDER,
    Composed,
    ImageSettings,
    base_image_tokens,
    compose,
    cut,
    message_segments,
    prompt_segments,
    text_segments,
    tiled_image_tokens,
    tiles_of,
)
from nanotok_ray.errors import SourceError, TokenizerError
from nanotok_ray.recipe import GROUNDING, PRESETS, SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer


def read(name):
    return json.loads((Path(__file__).parents[1] / "vectors" / f"{name}.json").read_text())


VISION = read("vision")
FORK = VISION["fork"]
SEED, OCR = PRESETS["seed"], PRESETS["nano-deepseek-ocr"]
ANSWERED = [case for case in VISION["cases"] if "returns" in case["recommended"]]
REFUSED = [case for case in VISION["cases"] if "raises" in case["recommended"]]
ERRORS = {"ValueError": ValueError, "TypeError": TypeError}
OTHER_WORDS = {"int_instead_of_list": "image_token_counts must be a list of ints, .* got 4"}
"""Messages that replace Python's own message of the recommendation."""


@pytest.fixture(scope="module")
def base():
    return Tokenizer.train_from_iterator(read("training")["corpora"]["mix"], 565)


@pytest.fixture(scope="module")
def tokenizer(base):
    return base.extended(SEED.special_tokens)


def named(cases):
    return [pytest.param(case, id=case["name"]) for case in cases]


def mask_of(answer):
    return [int(flag) for flag in answer["mask"]]


def text_form(tokenizer, case, *, grounding=()):
    """Return the reference result of a case, from the functions that a job uses."""
    counts = case.get("image_token_counts")
    images = ImageSettings(token="<image>", counts=counts, grounding=grounding)
    segments = text_segments(case["text"], images)
    composed = compose(tokenizer.encode, tokenizer.encode_special, segments)
    return cut(composed, case.get("max_tokens", 2048))


@pytest.mark.parametrize("case", named(ANSWERED))
def test_a_text_renders_as_recommended(tokenizer, case):
    expected = case["recommended"]["returns"]
    composed = text_form(tokenizer, case)
    assert composed.ids == expected["ids"]
    assert composed.mask == mask_of(expected)
    assert composed.images == [tuple(each) for each in expected["image_positions"]]
    limit = case.get("max_tokens", 2048)
    got = tokenizer.render_vision_pretraining(case["text"], limit, case.get("image_token_counts"))
    assert got == (composed.ids, composed.images)


@pytest.mark.parametrize("case", named(REFUSED))
def test_job_and_method_refuse_a_text_as_recommended(tokenizer, case):
    limit, expected = case.get("max_tokens", 2048), case["recommended"]
    words = OTHER_WORDS.get(case["name"], re.escape(expected["message"]))
    with pytest.raises(ERRORS[expected["raises"]], match=words):
        text_form(tokenizer, case)
    with pytest.raises(ERRORS[expected["raises"]], match=words):
        tokenizer.render_vision_pretraining(case["text"], limit, case["image_token_counts"])


@pytest.mark.parametrize(
    "case", named(c for c in VISION["cases"] if "recommended_grounding_on" in c)
)
def test_grounding_is_recognized_only_where_enabled(tokenizer, case):
    expected = case["recommended_grounding_on"]["returns"]
    composed = text_form(tokenizer, case, grounding=GROUNDING)
    assert (composed.ids, composed.mask) == (expected["ids"], mask_of(expected))
    counts = case["image_token_counts"]
    grounded = tokenizer.render_vision_pretraining(
        case["text"], image_token_counts=counts, grounding=True
    )
    assert grounded == (expected["ids"], [tuple(each) for each in expected["image_positions"]])


def test_a_prompt_and_its_response_equal_their_text_form(tokenizer):
    case = VISION["cases"][0]
    prompt, response = "<image>\nConvert this document to markdown.", "# Title"
    ids, mask, images = tokenizer.render_vision(prompt, response, image_token_counts=[5])
    whole = text_form(tokenizer, case | {"text": f"{prompt}<|assistant_end|>", "max_tokens": None})
    assert ids == [*whole.ids[:-1], *tokenizer.encode(response), whole.ids[-1]]
    assert (mask, images) == ([0] * 6 + [1] * (len(ids) - 6), [(1, 6)])


AGREEING = [
    case
    for case in FORK["render_conversation"]
    if case["name"] not in {"image_plus_literal_special_raises", "audio_raises_or_not"}
]


@pytest.mark.parametrize("case", named(AGREEING))
def test_conversations_render_as_in_the_fork(base, case):
    tokenizer = base.extended(OCR.special_tokens)
    ids, mask, images = tokenizer.render_vision_conversation({"messages": case["messages"]})
    assert (ids, mask) == (case["returns"]["ids"], mask_of(case["returns"]))
    image = tokenizer.encode_special("<|image|>")
    assert images == [(at, at + 1) for at, number in enumerate(ids) if number == image]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("image_plus_literal_special_raises", " <|assistant_end|>"),
        ("audio_raises_or_not", "<audio> hi"),
    ],
)
def test_errors_of_the_fork_are_not_copied(base, name, text):
    """The fork refuses the name of a special token beside an image, and rewrites `<audio>`."""
    case = next(case for case in FORK["render_conversation"] if case["name"] == name)
    tokenizer = base.extended(OCR.special_tokens)
    ids, _, images = tokenizer.render_vision_conversation({"messages": case["messages"]})
    image = [tokenizer.encode_special("<|image|>")] * len(images)
    start = [tokenizer.encode_special(each) for each in ("<|bos|>", "<|user_start|>")]
    asked = [*start, *image, *tokenizer.encode(text)]
    assert ids[: len(asked) + 1] == [*asked, tokenizer.encode_special("<|user_end|>")]


def test_fixed_counts_equal_the_expansion_of_the_fork_and_return_positions(base):
    tokenizer = base.extended(OCR.special_tokens)
    case = next(case for case in AGREEING if case["name"] == "two_images")
    image = tokenizer.encode_special("<|image|>")
    expanded = []
    for number in case["returns"]["ids"]:
        expanded += [number] * (273 if number == image else 1)
    conversation = {"messages": case["messages"]}
    ids, _, images = tokenizer.render_vision_conversation(conversation, image_token_counts=273)
    assert (ids, images) == (expanded, [(2, 275), (275, 548)])


def test_image_sizes_have_the_token_counts_of_the_fork_and_tiles_add_rows_that_end_once():
    sizes = FORK["vision_tokens_per_image"]
    assert {size: base_image_tokens(int(size)) for size in sizes} == sizes
    assert tiled_image_tokens(1, 1) == base_image_tokens(1024)
    assert tiled_image_tokens(1, 2, base=1280) == 421 + 10 * 21
    assert tiled_image_tokens(2, 1) == 273 + 20 * 11


@pytest.mark.parametrize(
    ("width", "height", "tiles"),
    [
        (640, 640, (1, 1)),
        (641, 640, (2, 2)),  # as near as 3 x 3, of which it fills less than half
        (1300, 1300, (2, 2)),
        (1400, 1400, (3, 3)),
        (2000, 1000, (2, 4)),
        (1000, 500, (1, 2)),
        (500, 1000, (2, 1)),
        (10_000, 10, (1, 9)),
        (900, 800, (2, 2)),
        (1280, 1440, (2, 2)),  # as near as 3 x 3, of which it fills exactly half
        (1281, 1440, (3, 3)),
    ],
)
def test_tiles_are_chosen_by_proportions_then_by_size(width, height, tiles):
    assert tiles_of(width, height) == tiles


@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 9), st.integers(0, 8))
def test_tiles_respect_the_limit_and_the_orientation(width, height, least, more):
    high, wide = tiles_of(width, height, least=least, most=least + more)
    if max(width, height) <= 640:
        assert (high, wide) == (1, 1)
    else:
        assert least <= high * wide <= least + more


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *[
            (lambda wrong=wrong: base_image_tokens(wrong), f"of 64 pixels, got {wrong}")
            for wrong in (0, -64, 63, 100)
        ],
        (lambda: tiled_image_tokens(0, 2), "got 0 by 2"),
        (lambda: tiles_of(0, 7), "got 0 by 7"),
        (lambda: tiles_of(700, 700, least=3, most=2), "got 3, 2"),
        (lambda: tiles_of(700, 700, least=0, most=2), "got 0, 2"),
        (
            lambda: text_segments("<image>", ImageSettings(token="<image>", num_tokens=0)),
            "got 0",
        ),
        (lambda: cut(Composed(ids=[1], labels=[0], images=[]), -1), "max_tokens is -1"),
    ],
)
def test_impossible_sizes_and_numbers_of_tiles_are_refused(call, message):
    with pytest.raises(SourceError, match=message):
        call()


@pytest.mark.parametrize(("counts", "expected"), [(None, [1, 7, 7]), ([2, 3], [1, 2, 3])])
def test_explicit_counts_override_a_fixed_number(counts, expected):
    images = ImageSettings(token="<image>", counts=counts, num_tokens=7)
    segments = text_segments("<image><image>", images)
    assert [each.count for each in segments] == expected


def test_a_tokenizer_without_an_image_token_names_the_remedy(base):
    for preset, name in ((SEED, "<image>"), (OCR, "<|image|>")):
        ids, _ = base.extended(preset.special_tokens).render_vision_pretraining("<image>")
        assert base.extended(preset.special_tokens).decode(ids) == f"<|bos|>{name}"
    both = base.extended(["<|image|>", "<image>"])
    assert both.decode(both.render_vision_pretraining("<image>")[0]) == "<|bos|><image>"
    with pytest.raises(TokenizerError, match=r"neither <image> nor <\|image\|>.*\.extended"):
        base.render_vision("<image>", "x")
    with pytest.raises(TokenizerError, match=r"no <\|grounding\|>.*\.extended"):
        both.render_vision("<image>", "x", grounding=True)


def test_values_that_are_not_text_are_refused(tokenizer):
    for values in ((None,), ("a", b"b"), ("a", None), (None, "b")):
        own = tokenizer.render_vision if len(values) == 2 else tokenizer.render_vision_pretraining
        with pytest.raises(ValueError, match="Invalid input type"):
            own(*values)


def test_a_boolean_is_not_a_number_of_tokens(tokenizer):
    conversation = {"messages": [{"role": "user", "content": "no image"}]}
    assert tokenizer.render_vision_conversation(conversation, None, 1)[2] == []
    with pytest.raises(TypeError, match="image_token_counts must be a list of ints"):
        tokenizer.render_vision_conversation(conversation, None, True)


def test_documents_are_cut_at_2048_tokens_by_default(tokenizer):
    long = "".join(map(str, range(9999)))
    conversation = {"messages": [{"role": "user", "content": long}]}
    assert len(tokenizer.render_vision_pretraining(long)[0]) == 2048
    assert len(tokenizer.render_vision(long, "x")[0]) == 2048
    assert len(tokenizer.render_vision_conversation(conversation)[0]) == 2048


def test_only_tokens_with_mask_1_are_green(tokenizer):
    shown = tokenizer.visualize_tokenization([97, 97, 97], [0, 1, 2])
    assert shown == "\x1b[91ma\x1b[0m|\x1b[92ma\x1b[0m|\x1b[91ma\x1b[0m"


NAMES = (*SPECIAL_TOKENS, *SEED.special_tokens)
NUMBERS = {name: 256 + at for at, name in enumerate(NAMES)}
LITERALS = [PLACEHOLDER, "<|image|>", *SPECIAL_TOKENS[:5], *GROUNDING, "<|ref|", "|>"]
texts = st.lists(st.sampled_from(LITERALS) | st.text(max_size=4), max_size=7).map("".join)


def composed_of(segments):
    return compose(lambda text: list(text.encode()), NUMBERS.__getitem__, segments)


@st.composite
def documents(draw):
    """Return segments, numbers of image tokens, the whole text, and the names for grounding."""
    kind = draw(st.sampled_from(["prompt", "text", "messages"]))
    grounding = draw(st.sampled_from([(), GROUNDING]))

    def settings(asked):
        number = asked.count(PLACEHOLDER)
        counts = draw(st.lists(st.integers(1, 5), min_size=number, max_size=number))
        return ImageSettings(token=PLACEHOLDER, grounding=grounding, counts=counts)

    if kind == "messages":
        turns = draw(st.lists(texts, min_size=1, max_size=4))
        roles = ("user", "assistant")
        messages = [{"role": roles[at % 2], "content": turn} for at, turn in enumerate(turns)]
        own = settings("\0".join(turns[::2]))
        segments = message_segments({"messages": messages}, own)
        whole = "".join(each.text for each in chat.layout({"messages": messages}))
    elif kind == "prompt":
        prompt, response, trained = draw(texts), draw(texts), draw(st.booleans())
        own = settings(prompt)
        segments = prompt_segments(prompt, response, own, train_prompt=trained)
        whole = f"<|bos|>{prompt}{response}<|assistant_end|>"
    else:
        text = draw(texts) + draw(st.sampled_from(["", "<|assistant_end|>"]))
        own = settings(text)
        segments = text_segments(text, own)
        whole = f"<|bos|>{text}"
    return segments, own.counts, whole, grounding


@given(documents())
def test_ids_are_the_images_texts_and_special_tokens_of_the_segments(document):
    segments, counts, whole, grounding = document
    composed = composed_of(segments)
    inside = {at for start, end in composed.images for at in range(start, end)}
    image = NUMBERS[PLACEHOLDER]
    assert inside == {at for at, number in enumerate(composed.ids) if number == image}
    assert [end - start for start, end in composed.images] == counts
    assert not any(composed.mask[at] for at in inside)
    assert "".join(each.text for each in segments) == whole
    special = [each for each in segments if each.is_special]
    meant = [NUMBERS[each.text] for each in special for _ in range(each.count)]
    assert [number for number in composed.ids if number >= 256] == meant
    frame = {"<|bos|>", PLACEHOLDER, *SPECIAL_TOKENS[1:5], *grounding}
    assert {each.text for each in special} <= frame
    texts = [each.text for each in segments if not each.is_special]
    assert not any(name in text for name in grounding for text in texts)


@given(documents(), st.integers(0, 40))
def test_a_cut_keeps_images_whole_or_is_refused(document, limit):
    composed = composed_of(document[0])
    if any(end > limit for _, end in composed.images):
        with pytest.raises(SourceError, match=f"^max_tokens={limit} cuts an image span$"):
            cut(composed, limit)
        return
    kept = cut(composed, limit)
    assert (kept.ids, kept.labels) == (composed.ids[:limit], composed.labels[:limit])
    assert kept.images == composed.images
    assert cut(composed, None) == composed


@given(st.lists(texts, min_size=1, max_size=5))
def test_a_conversation_without_images_renders_as_a_chat(turns):
    said = [turn.replace(PLACEHOLDER, "") for turn in turns]
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
    expected = list(chat.layout({"messages": messages}))
    for counts in (None, []):
        images = ImageSettings(token="<image>", counts=counts)
        segments = message_segments({"messages": messages}, images)
        assert segments == expected


def test_the_longest_of_names_with_a_common_prefix_wins():
    names = ["<b>", "<b><b>", "<b"]
    images = ImageSettings(token="<image>", counts=[], grounding=names)
    segments = text_segments("a<b><b>c<b>", images)
    reported = [(each.text, each.is_special) for each in segments[1:]]
    assert reported == [("a", False), ("<b><b>", True), ("c", False), ("<b>", True)]


@pytest.mark.parametrize("counts", [[2**20 + 1], [2**20, 1], [2**19, 2**19 + 1]])
def test_the_image_tokens_of_a_document_are_limited(counts):
    def segments(numbers):
        images = ImageSettings(token="<image>", counts=numbers)
        return text_segments("<image>" * len(numbers), images)

    assert [each.count for each in segments([2**19, 2**19])[1:]] == [2**19, 2**19]
    with pytest.raises(SourceError, match="the images have 1048577 tokens together"):
        segments(counts)
