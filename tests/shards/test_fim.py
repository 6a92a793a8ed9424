"""Filling in the middle: documents against the rule on docs/formats.md, and the check of them."""

import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.documents import Documents
from nanotok_ray.formats import DocumentBatch, FimSettings
from nanotok_ray.shards.check.cross_check import NoCrossCheckError
from nanotok_ray.shards.check.document import WINDOW_BYTES, DocumentCheck
from nanotok_ray.shards.fim import Arrangement, choose, cuts_of
from nanotok_ray.tokenizer import Tokenizer
from tests.support.doc_commands import ROOT
from tests.support.small_corpus import shard_settings, texts

NAMES = ("<fim_prefix>", "<fim_middle>", "<fim_suffix>")
TOKENIZER = Tokenizer.train_from_iterator(
    texts(50, seed=1), vocab_size=320, special_tokens=["<|bos|>", "<|end|>", *NAMES]
)
FIM = FimSettings(rate=1.0, spm_rate=0.5, tokens=NAMES)


def rule_of_the_page():
    """Return the function `rearranged` of docs/formats.md."""
    page = (ROOT / "docs/formats.md").read_text("utf-8")
    [code] = re.findall(r"```python\n([^`]*def rearranged\([^`]*)```", page)
    names = {}
    exec(code, names)
    return names["rearranged"]


RULE = rule_of_the_page()


class Token(str):
    """A special token, to tell it from a text that spells it."""

    __slots__ = ()


def plain_ids(text, fim, *, before=(), after=(), tokenizer=TOKENIZER):
    """Return the ids of a text, rearranged by the rule of the page."""
    prefix, middle, suffix = map(Token, fim.tokens)
    parts = RULE(text, fim.rate, fim.spm_rate, prefix, middle, suffix)
    return [
        number
        for part in [*map(Token, before), *parts, *map(Token, after)]
        for number in (
            [tokenizer.encode_special(part)] if isinstance(part, Token) else tokenizer.encode(part)
        )
    ]


def arranged(documents, fim, *, before=(), after=()):
    """Return the ids of each document."""
    arrangement = Arrangement(documents, fim)
    special = TOKENIZER.encode_special
    batch = arrangement.joined(
        *TOKENIZER.encode_documents(arrangement.parts),
        tokens=[*map(special, fim.tokens)],
        before=[*map(special, before)],
        after=[*map(special, after)],
    )
    return [ids.tolist() for ids, _ in batch.documents()]


RATES = st.sampled_from([0.0, 1.0, 0.5, 1e-30, 0.1]) | st.floats(0, 1)
AROUND = st.lists(st.sampled_from(["<|bos|>", "<|end|>"]), max_size=2)
TEXTS = st.lists(st.text(alphabet="ab \né数🙂<|fim_prefix>") | st.sampled_from(NAMES), max_size=8)


@given(given_texts=TEXTS, rate=RATES, spm=RATES, before=AROUND, after=AROUND)
def test_every_document_is_that_of_the_page(given_texts, rate, spm, before, after):
    fim = FimSettings(rate=rate, spm_rate=spm, tokens=NAMES)
    documents = Documents.from_strings(["é", *given_texts]).part(1, 1 + len(given_texts))
    assert arranged(documents, fim, before=before, after=after) == [
        plain_ids(text, fim, before=before, after=after) for text in given_texts
    ]
    forms = choose(documents, fim).forms
    parts = [RULE(text, rate, spm, *map(Token, NAMES)) for text in given_texts]
    spm_parts = [each for each in parts if len(each) > 1 and isinstance(each[1], Token)]
    assert forms["spm"] == len(spm_parts)
    assert forms["psm"] == sum(len(each) > 1 for each in parts) - len(spm_parts)


def test_long_texts_are_cut_between_their_characters():
    for alphabet in ("x", "é", "🙂a", "数"):
        text = alphabet * 50_000
        document = np.frombuffer(text.encode(), np.uint8)
        for place in (0, 1, 4321, 49_999, len(text) - 1, len(text)):
            cuts = cuts_of(document, [place, 7])
            assert cuts == sorted(len(text[:number].encode()) for number in (place, 7))


def test_rates_and_places_are_those_that_are_asked_for():
    made = [f"text {number} " + "x" * 90 for number in range(4000)]
    documents = Documents.from_strings(made)
    fim = FimSettings(rate=0.3, spm_rate=0.8, tokens=NAMES)
    choice = choose(documents, fim)
    assert abs(len(choice.numbers) - 1200) < 120  # more than four deviations
    assert abs(choice.forms["spm"] / len(choice.numbers) - 0.8) < 0.05
    cuts = np.array(
        [
            cuts_of(np.frombuffer(documents[number], np.uint8), places)
            for number, places in zip(choice.numbers.tolist(), choice.places.tolist(), strict=True)
        ]
    )
    lengths = np.array([len(made[number]) for number in choice.numbers.tolist()])
    shares = cuts / lengths[:, None]
    assert abs(shares.mean(axis=0) - [1 / 3, 2 / 3]).max() < 0.03
    larger = choose(documents, FimSettings(rate=0.6, spm_rate=0.8, tokens=NAMES))
    kept = np.isin(larger.numbers, choice.numbers)
    assert np.array_equal(larger.places[kept], choice.places)


def check_of(fim=FIM, **others):
    settings = shard_settings(TOKENIZER, append=("<|end|>",), fim=fim, **others)
    return DocumentCheck(kind="text", settings=settings, tokenizer=TOKENIZER)


def ids_of(text, fim=FIM):
    return plain_ids(text, fim, before=["<|bos|>"], after=["<|end|>"])


LONG = "".join(texts(3000, seed=9)) + "é🙂"
SOME = [*texts(60, seed=3), "", "a", "é🙂", "<fim_prefix>", LONG]


def test_the_check_accepts_the_ids_of_the_page_and_encodes_every_part_again():
    assert len(LONG.encode()) > 3 * WINDOW_BYTES
    for fim in (FIM, FimSettings(rate=0.5, spm_rate=1.0, tokens=NAMES)):
        check = check_of(fim)
        for text in SOME:
            ids = np.array(ids_of(text, fim), np.uint16)
            assert check.problem(text.encode(), ids) is None
        assert check.count.encoded_again == check.count.documents == len(SOME)
        assert differing(check, SOME, [ids_of(text, fim) for text in SOME]) == []


def differing(check, documents, rows):
    ids = np.array([number for row in rows for number in row], dtype=np.uint16)
    written = DocumentBatch(ids=ids, positions=np.cumsum([0, *map(len, rows)]))
    return check.differing_texts(Documents.from_strings(documents), written).tolist()


def test_every_changed_id_and_every_other_order_is_found():
    rng = random.Random(5)
    check = check_of(FimSettings(rate=0.7, spm_rate=0.5, tokens=NAMES))
    documents = [text for text in texts(40, seed=4) if len(text) > 20]
    rows = [ids_of(text, FimSettings(rate=0.7, spm_rate=0.5, tokens=NAMES)) for text in documents]
    for _ in range(150):
        number = rng.randrange(len(rows))
        row = [*rows[number]]
        place = rng.randrange(len(row))
        row[place] = rng.choice([own for own in range(320) if own != row[place]])
        assert check.problem(documents[number].encode(), np.array(row, np.uint16)) is not None
        assert differing(check, documents, [*rows[:number], row, *rows[number + 1 :]]) == [number]
    for number, text in enumerate(documents):
        others = [
            ids_of(text, FimSettings(rate=rate, spm_rate=spm, tokens=NAMES))
            for rate, spm in ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
        ]
        for other in others:
            if other == rows[number]:
                continue
            problem = check.problem(text.encode(), np.array(other, np.uint16))
            assert problem is not None
            changed = [*rows[:number], other, *rows[number + 1 :]]
            assert differing(check, documents, changed) == [number]


def test_a_part_with_another_text_is_named():
    check, text = check_of(), "one two three four five six"
    ids = np.array(ids_of(text), np.uint16)
    number = [*ids].index(TOKENIZER.encode_special("<fim_middle>"))
    swapped = ids.copy()
    swapped[number + 1] = next(
        token for token in range(97, 123) if token != ids[number + 1]
    )  # a letter
    problem = check.problem(text.encode(), swapped)
    assert re.match("its (prefix|middle): |its special tokens of prefix, middle", problem)


def test_a_part_that_the_other_library_cannot_compare_hides_no_error_of_the_next(monkeypatch):
    check, text = check_of(), "one two three four five six seven eight nine ten eleven twelve"
    right = check._part_problem

    def compare(document, ids):
        problem = right(document, ids)
        if problem is None and len(document):
            raise NoCrossCheckError("cannot")
        return problem

    monkeypatch.setattr(check, "_part_problem", compare)
    ids = ids_of(text)
    assert check.problem(text.encode(), np.array(ids, np.uint16)) is None
    assert check.count.not_encoded_again == {"cannot": 1}
    last = max(place for place, token in enumerate(ids) if token < 256)
    ids[last] = 97 if ids[last] != 97 else 98
    assert check.problem(text.encode(), np.array(ids, np.uint16)) is not None


@pytest.mark.parametrize("text", ["a<|end|>b <fim_middle> c d" * 4, "<fim_suffix>" * 5])
def test_a_text_can_spell_the_tokens_if_names_are_recognized(text):
    check = check_of(special_text="recognise")
    arrangement = Arrangement(Documents.from_strings([text]), FIM)
    special = TOKENIZER.encode_special
    batch = arrangement.joined(
        *TOKENIZER.encode_recognized(arrangement.parts),
        tokens=[*map(special, NAMES)],
        before=[special("<|bos|>")],
        after=[special("<|end|>")],
    )
    ids = batch.ids
    assert check.problem(text.encode(), ids) is None
    assert check.differing_texts(Documents.from_strings([text]), batch).tolist() == []
    assert np.count_nonzero(ids >= special("<|bos|>")) > len(NAMES) + 2  # of the text too
    assert check_of().problem(text.encode(), ids) is not None
