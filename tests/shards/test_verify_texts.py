"""Ids of texts against the texts, many at a time."""

import random

import numpy as np
import pytest

from nanotok_ray.documents.batch import Documents
from nanotok_ray.shards.check.written import TextComparison
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import texts


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(texts(50, seed=1), vocab_size=300)


def differing(frame, documents, rows):
    ids = np.array([number for row in rows for number in row], dtype=np.uint16)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return frame.differing(ids, lengths, Documents.from_strings(documents)).tolist()


@pytest.mark.parametrize(
    ("before", "after"), [((), ()), (("<|bos|>",), ()), (("<|bos|>",) * 2, ("<|user_end|>",))]
)
def test_one_changed_id_anywhere_names_its_document(tokenizer, before, after):
    frame = TextComparison(
        tokenizer=tokenizer,
        before=tuple(map(tokenizer.encode_special, before)),
        after=tuple(map(tokenizer.encode_special, after)),
    )
    documents = ["", *texts(20, seed=2), "", "x"]
    rows = [[*frame.before, *tokenizer.encode(text), *frame.after] for text in documents]
    assert differing(frame, documents, rows) == []
    rng = random.Random(3)
    for _ in range(50):
        number = rng.choice([place for place, row in enumerate(rows) if row])
        place = rng.randrange(len(rows[number]))
        new = rng.choice([own for own in range(300) if own != rows[number][place]])
        changed = [*rows[number][:place], new, *rows[number][place + 1 :]]
        assert differing(frame, documents, [*rows[:number], changed, *rows[number + 1 :]]) == [
            number
        ]


def test_a_special_token_in_place_of_its_spelled_out_name_is_found(tokenizer):
    frame = TextComparison(tokenizer=tokenizer, before=(), after=())
    rows = [tokenizer.encode("a"), [tokenizer.get_bos_token_id()]]
    assert tokenizer.decode(rows[1]) == "<|bos|>"
    assert differing(frame, ["a", "<|bos|>"], rows) == [1]


def test_documents_shorter_than_their_frame_or_longer_than_their_text_are_found(tokenizer):
    bos = tokenizer.get_bos_token_id()
    frame = TextComparison(tokenizer=tokenizer, before=(bos,), after=())
    assert differing(frame, ["", ""], [[bos], []]) == [1]
    assert differing(frame, ["a", "b"], [[bos, *b"a"], [bos, *b"bb"]]) == [1]
