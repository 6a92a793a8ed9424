"""The page of documents: every token once, with its color and text; texts are escaped."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.report.document import Document, Image, items_of, turns_of
from nanotok_ray.report.page import Heading, page_of
from nanotok_ray.tokenizer import Tokenizer
from tests.support.pages import ShownPage
from tests.support.small_corpus import WORDS, conversations, texts

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</span></div></body>",
    "<!-- ",
    "]]>",
    "&amp;&lt;",
    '" onmouseover="alert(1)',
    "' title='",
    "\0\x01\x1b[31m\x7f\x85\xa0\xad",
    "\u202eabc\u202c\u2066\u200b\ufeff\u2028",
    "\r\n\r\t\x0c",
    "a\u200db \u200d c",
    "\ufffe\U000e0041",
    "שלום مرحبا",
    "👩‍👩‍👧 数据",
]


@pytest.fixture(scope="module")
def tokenizer():
    names = [*SPECIAL_TOKENS, "<image>", '<"&>']
    corpus = [*texts(40, seed=0), *HOSTILE * 3]
    return Tokenizer.train_from_iterator(corpus, 400, special_tokens=names)


def document(ids, mask=None, images=None, **others):
    return Document(
        title=others.pop("title", "document 0 of 1"),
        location="document 0 of a/b",
        ids=np.array(ids, dtype=np.uint16),
        mask=None if mask is None else np.array(mask, dtype=np.uint8),
        images=None if images is None else np.array(images, dtype=np.int32).reshape(-1, 3),
        **others,
    )


@pytest.fixture(scope="module")
def chat(tokenizer):
    """A conversation with two tool calls."""
    return tokenizer.render_conversation({"messages": conversations(1, seed=3)[0]})


@pytest.fixture(scope="module")
def scan(tokenizer):
    """A document with two images of 273 tokens and 1, and their positions."""
    image = tokenizer.encode_special("<image>")
    start = [tokenizer.get_bos_token_id()]
    middle, end = tokenizer.encode(" and "), tokenizer.encode("data 数据")
    ids = [*start, *[image] * 273, *middle, image, *end]
    second = 274 + len(middle)
    return ids, [[1, 274, 0], [second, second + 1, 1]]


def page(tokenizer, *documents, **others):
    heading = Heading(title=others.pop("title", "out"), note=others.pop("note", ""))
    return page_of(documents, tokenizer, heading, **others)


def shown(tokenizer, *documents, **others):
    return ShownPage(page(tokenizer, *documents, **others))


def test_every_token_appears_once_with_its_mask_and_title(tokenizer, chat):
    ids, mask = chat
    found = shown(tokenizer, document(ids, mask, document_id="a-7"))
    assert [int(token.attributes["data-i"]) for token in found.tokens] == ids
    assert [int("y" in token.kinds) for token in found.tokens] == mask
    assert all(("n" in token.kinds) != ("y" in token.kinds) for token in found.tokens)
    special = {*tokenizer.special_tokens.values()}
    for position, (token, number, flag) in enumerate(zip(found.tokens, ids, mask, strict=True)):
        title = token.attributes["title"]
        assert title.startswith(f"id {number}, position {position}, ")
        assert title.endswith(", trained on" if flag else ", not trained on")
        assert (
            (token.tag == "bdi")
            == (number in tokenizer.special_tokens.values())
            == ("special" in title)
        )
        if number < 256:
            assert f" 1 byte {number:02X}," in title
    size = len(tokenizer.decode_bytes([number for number in ids if number not in special]))
    for part in (f"tokens{len(ids)}", f"bytes{size}", f"bytes per token{size / len(ids):.2f}"):
        assert part in found.reported
    assert f"trained on{sum(mask)} ({sum(mask) / len(ids):.1%})" in found.reported
    assert "document 0 of a/b, id a-7" in found.reported
    strip = {"y": 0, "n": 0}
    for tag, values in found.attributes:
        if tag == "i" and values.get("style", "").startswith("flex-grow:"):
            strip[values["class"]] += int(values["style"].removeprefix("flex-grow:"))
    assert strip == {"y": sum(mask), "n": len(mask) - sum(mask)}


@given(data=st.data())
def test_any_ids_appear_once_and_their_texts_join_to_the_decoded_text(tokenizer, data):
    number = st.integers(0, tokenizer.get_vocab_size() - 1)
    pieces = st.one_of(
        st.lists(number, max_size=8),
        st.one_of(st.text(max_size=8), st.sampled_from([*HOSTILE, *WORDS])).map(tokenizer.encode),
        st.binary(max_size=6).map(list),
    )
    ids = [each for piece in data.draw(st.lists(pieces, max_size=12)) for each in piece]
    with_mask = data.draw(st.booleans())
    mask = data.draw(st.lists(st.integers(0, 1), min_size=len(ids), max_size=len(ids)))
    found = shown(tokenizer, document(ids, mask if with_mask else None))
    assert found.ids == ids
    assert "".join(token.text for token in found.tokens) == tokenizer.decode(ids)
    if with_mask:
        assert [int("y" in token.kinds) for token in found.tokens] == mask
    else:
        assert all("t" in token.kinds for token in found.tokens)
        assert "trained on" not in found.reported
    for token in found.tokens:
        assert (token.attributes.get("data-x") is not None) == (token.text == "")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_add_no_element(tokenizer, text):
    ids = [tokenizer.encode_special('<"&>'), *tokenizer.encode(text)]
    harmless = shown(tokenizer, document(ids, title="x", document_id="y"), title="z", note="n")
    hostile = document(ids, title=text, document_id=text + "\udcff")
    own = page(tokenizer, hostile, title=text, note=text)
    found = ShownPage(own)
    assert found.tags == harmless.tags
    assert "script" not in found.tags
    assert found.ids == ids
    names = {name for _, attributes in found.attributes for name in attributes}
    assert not any(name.startswith("on") for name in names)
    own.encode()
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\xa0\xad\u202a-\u202e\u2066-\u2069\ufeff]", own)


def test_a_page_loads_nothing_and_runs_nothing(chat, tokenizer):
    two = [document(*chat, title=f"document {number} of 9") for number in (3, 7)]
    own = page(tokenizer, *two)
    found = ShownPage(own)
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(found.tags)
    assert "url(" not in own
    assert "@import" not in own
    assert "http" not in own.replace("http-equiv", "")
    metas = [values.get("content", "") for tag, values in found.attributes if tag == "meta"]
    assert "default-src 'none'; style-src 'unsafe-inline'" in metas
    links = [values["href"] for tag, values in found.attributes if tag == "a"]
    places = [values["id"] for tag, values in found.attributes if tag == "section"]
    assert links == [f"#{place}" for place in places] == ["#d0", "#d1"]
    assert found.ids == chat[0] * 2
    off, on = (shown(tokenizer, two[0], with_ids=with_ids) for with_ids in (False, True))
    assert "table" not in off.tags
    boxes = [dict(each.attributes)["input"] for each in (off, on)]
    assert [box.get("checked") for box in boxes] == [None, ""]
    assert {box["id"] for box in boxes} == {dict(off.attributes)["label"]["for"]}


def test_images_are_one_box_each_with_number_and_tokens(tokenizer, scan):
    ids, images = scan
    mask = [0] * (len(ids) - 3) + [1] * 3
    found = shown(tokenizer, document(ids, mask, images))
    boxes = [token for token in found.tokens if "g" in token.kinds]
    assert [box.text for box in boxes] == ["image 1 273 tokens", "image 2 1 token"]
    image = tokenizer.encode_special("<image>")
    assert boxes[0].attributes["title"] == f"273 times id {image}, positions 1 to 273"
    expanded = []
    for token in found.tokens:
        if "g" in token.kinds:
            expanded += [image] * int(token.attributes["data-n"])
        else:
            expanded.append(int(token.attributes["data-i"]))
    assert expanded == ids
    assert "2 (274 tokens)" in found.reported
    empty = document([97], None, [[1, 1, 0]])
    assert [token.text for token in shown(tokenizer, empty).tokens] == ["a", "image 1 0 tokens"]
    assert Image(number=0, start=1, end=1, token=None) in items_of(empty, tokenizer)


def test_a_character_split_by_an_image_or_special_token_is_replaced(tokenizer):
    image, bos = tokenizer.encode_special("<image>"), tokenizer.get_bos_token_id()
    broken = [0xE6, 0x95]
    ids = [*broken, image, 0xB0, *broken, bos, 0xB0, *broken]
    found = shown(tokenizer, document(ids, None, [[2, 3, 0]]))
    own = [token.text for token in found.tokens if "g" not in token.kinds]
    assert own == ["", "\ufffd", "\ufffd", "", "\ufffd", "<|bos|>", "\ufffd", "", "\ufffd"]


def test_turns_are_named_and_contain_tool_calls(chat, tokenizer):
    turns = turns_of(items_of(document(*chat), tokenizer))
    roles = [[block.role for block in turn.blocks] for turn in turns[:3]]
    assert roles == [[""], ["user"], ["assistant", "python", "python output", "assistant"]]
    assert [turn.role for turn in turns[:3]] == ["", "user", "assistant"]
    found = shown(tokenizer, document(*chat))
    assert found.turns[:4] == ["user", "assistant", "python", "python output"]
    assert found.turns[4:] in ([], ["user", "assistant", "python", "python output"])


@given(data=st.data())
def test_turns_contain_every_item_once_in_order_for_any_special_tokens(tokenizer, data):
    some = [*tokenizer.special_tokens.values(), 97, 98]
    ids = data.draw(st.lists(st.sampled_from(some), max_size=30))
    items = [*items_of(document(ids), tokenizer)]
    turns = turns_of(items)
    assert all(turn.blocks for turn in turns)
    blocks = [block.items for turn in turns for block in turn.blocks]
    assert all(blocks)
    assert [item for block in blocks for item in block] == items


def test_a_long_document_is_cut_and_states_the_omitted_length(scan, tokenizer):
    ids, images = scan
    whole = shown(tokenizer, document(ids, None, images), limit=None)
    cut = shown(tokenizer, document(ids, None, images), limit=3)
    assert cut.tokens == whole.tokens[:3]
    left_out = len(ids) - 1 - 273 - 1
    assert f"{left_out:,} of {len(ids):,} tokens are not shown" in cut.reported
    assert "--all" in cut.reported
    at_image = shown(tokenizer, document(ids, None, images), limit=2).reported
    assert f"{left_out + 1:,} of {len(ids):,} tokens are not shown" in at_image
    assert "not shown" not in whole.reported
    assert "1 of 20,001 tokens are not shown" in page(tokenizer, document([97] * 20_001))


def test_a_long_text_is_split_at_line_breaks_without_losing_a_token(tokenizer):
    ids = ([97] * 9 + [10]) * 200
    own = page(tokenizer, document(ids))
    assert ShownPage(own).ids == ids
    assert own.count('<div class="b"') == 7
    assert page(tokenizer, document([97] * 2999)).count('<div class="b"') == 1


PROGRAM = """
import numpy as np, hashlib
from nanotok_ray.report.document import Document
from nanotok_ray.report.page import Heading, page_of
from nanotok_ray.tokenizer import Tokenizer
tokenizer = Tokenizer.train_from_iterator(['aa'], 257, special_tokens=['<|bos|>'])
one = Document(title='a', location='b', ids=np.arange(257, dtype=np.uint16),
               mask=np.arange(257, dtype=np.uint8) % 2)
print(hashlib.sha256(page_of([one, one], tokenizer, Heading(title='t')).encode()).hexdigest())
"""


def test_another_process_writes_the_same_bytes():
    path = ":".join(sys.path)
    first, second = (
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert first == second


@pytest.mark.parametrize(
    ("mask", "images", "words"),
    [
        ([1], None, "1 bytes of mask for 2 ids"),
        (None, [[1, 3, 0]], "an image from 1 to 3, after position 0 of 2 ids"),
        (None, [[0, 2, 0], [1, 2, 1]], "an image from 1 to 2, after position 2"),
        (None, [[2, 1, 0]], "an image from 2 to 1"),
        (None, [[-1, 1, 0]], "an image from -1 to 1"),
    ],
    ids=["mask", "behind the end", "overlap", "backwards", "before the start"],
)
def test_masks_and_images_that_do_not_match_the_ids_are_refused(mask, images, words):
    with pytest.raises(CorruptOutputError, match=re.escape(words)):
        document([97, 98], mask, images)
