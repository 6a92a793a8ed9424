"""Ids of texts compared with the texts, in batches."""

import random

import numpy as np
import pytest

from nanotok_ray.documents import Documents
from nanotok_ray.shards.check import DocumentCheck
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import shard_settings, texts


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(texts(50, seed=1), vocab_size=300)


def check_of(tokenizer, prepend, append=()):
    """Return the check of texts between special tokens."""
    settings = shard_settings(tokenizer, prepend=prepend, append=append)
    return DocumentCheck(kind="text", settings=settings, tokenizer=tokenizer)


def differing(check, documents, rows):
    ids = np.array([number for row in rows for number in row], dtype=np.uint16)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return check.differing_texts(Documents.from_strings(documents), ids, lengths).tolist()


@pytest.mark.parametrize(
    ("before", "after"), [((), ()), (("<|bos|>",), ()), (("<|bos|>",) * 2, ("<|user_end|>",))]
)
def test_one_changed_id_names_its_document(tokenizer, before, after):
    check = check_of(tokenizer, before, after)
    first, last = (list(map(tokenizer.encode_special, names)) for names in (before, after))
    documents = ["", *texts(20, seed=2), "", "x"]
    rows = [[*first, *tokenizer.encode(text), *last] for text in documents]
    assert differing(check, documents, rows) == []
    rng = random.Random(3)
    for _ in range(50):
        number = rng.choice([place for place, row in enumerate(rows) if row])
        place = rng.randrange(len(rows[number]))
        new = rng.choice([own for own in range(300) if own != rows[number][place]])
        changed = [*rows[number][:place], new, *rows[number][place + 1 :]]
        assert differing(check, documents, [*rows[:number], changed, *rows[number + 1 :]]) == [
            number
        ]


def test_wrong_lengths_and_special_tokens_for_spelled_out_names_are_detected(tokenizer):
    bos = tokenizer.get_bos_token_id()
    assert tokenizer.decode([bos]) == "<|bos|>"
    assert differing(check_of(tokenizer, ()), ["a", "<|bos|>"], [[*b"a"], [bos]]) == [1]
    check = check_of(tokenizer, ("<|bos|>",))
    assert differing(check, ["", ""], [[bos], []]) == [1]
    assert differing(check, ["a", "b"], [[bos, *b"a"], [bos, *b"bb"]]) == [1]
