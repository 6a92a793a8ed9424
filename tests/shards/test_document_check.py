"""The check of a document: detects wrong ids, accepts right ones, gives reasons for exceptions."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.formats import DocumentIds, to_values
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.shards import render, tokenize_slices
from nanotok_ray.shards.check import cross_check
from nanotok_ray.shards.check.document import (
    LONG_CONVERSATION,
    LONG_SPAN,
    LOOKS_FURTHER,
    MAX_CONVERSATION,
    OTHER_IDS,
    OTHER_MASK,
    OTHER_TEXT,
    WINDOW_BYTES,
    DocumentCheck,
)
from nanotok_ray.shards.check.sample import Sample
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Model, Tokenizer
from tests.support.small_corpus import conversations, plan_of, shard_settings, texts

LEARNED = Tokenizer.train_from_iterator(texts(200, seed=1), vocab_size=500)
LONG = "".join(texts(3000, seed=2))
assert len(LONG.encode()) > 3 * WINDOW_BYTES


def settings(tokenizer=LEARNED, **others):
    """Return settings of a text source with special tokens on both sides."""
    return shard_settings(tokenizer, **({"append": ("<|user_end|>",)} | others))


def own_tokenizer(*merges, pattern=r"\p{L}+|\s+", special=("<|bos|>", "<|user_end|>")):
    """Return a tokenizer of chosen merges and special tokens."""
    version, first = LEARNED.model.unicode_version, 256 + len(merges)
    ids = {name: first + number for number, name in enumerate(special)}
    return Tokenizer(
        Model(pattern=pattern, unicode_version=version, merges=merges, special_tokens=ids)
    )


def check_text(text, *, tokenizer=LEARNED, change=lambda ids: ids):
    """Return the problem of a text with its ids, changed, and the count of the check."""
    check = DocumentCheck(kind="text", settings=settings(tokenizer), tokenizer=tokenizer)
    special = tokenizer.encode_special
    ids = [special("<|bos|>"), *tokenizer.encode(text), special("<|user_end|>")]
    problem = check.problem(text.encode(), np.array(change(ids), dtype=np.uint16), None)
    return problem, check.count


def test_the_ids_of_texts_are_accepted():
    for text in [*texts(40, seed=3), "", "a", "<|bos|>", LONG]:
        problem, count = check_text(text)
        assert problem is None
        assert to_values(count.proof()) == {
            "documents": 1,
            "bytes": min(len(text.encode()), WINDOW_BYTES),
            "encoded_again": 1,
            "not_encoded_again": {},
        }


def swap(ids):
    """Exchange two ids of different bytes in the middle."""
    middle = len(ids) // 2
    at = next(at for at in range(middle, len(ids)) if ids[at] != ids[at + 1])
    return [*ids[:at], ids[at + 1], ids[at], *ids[at + 2 :]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ids: ids[1:], "not within ['<|bos|>'] and ['<|user_end|>']"),
        (lambda ids: ids[:-1], "not within"),
        (lambda ids: [*ids[:-2], ids[-1]], "stand for"),
        (lambda ids: [*ids[:3], ids[0], *ids[3:]], "not an id of text"),
        (lambda ids: [*ids[:1], *[n % 256 for n in ids[1:-1]], ids[-1]], "stand for"),
        (swap, "are not what its ids decode to"),
    ],
    ids=["bos", "end", "last", "special", "narrow", "swapped"],
)
def test_wrong_ids_are_detected(change, message):
    problem, count = check_text("".join(texts(30, seed=5)), change=change)
    assert message in problem
    assert count.encoded_again == 0


def test_other_tokens_of_the_same_bytes_are_detected():
    problem, _ = check_text("the the", change=lambda ids: [ids[0], *b"the the", ids[-1]])
    assert problem == "tiktoken gives other ids for its bytes 0 to 7"


def test_lost_ids_of_a_long_document_outside_the_sample_are_detected():
    problem, _ = check_text(LONG, change=lambda ids: [*ids[:-3], ids[-1]])
    assert "stand for" in problem


def test_a_span_longer_than_the_window_is_decoded_only_in_its_middle():
    text = "ab" * WINDOW_BYTES
    problem, count = check_text(text)
    assert problem is None
    assert count.not_encoded_again == {LONG_SPAN: 1}
    problem, _ = check_text(
        text, change=lambda ids: [ids[0], *swap([*b"ab" * WINDOW_BYTES]), ids[-1]]
    )
    assert "are not what its ids decode to" in problem


@pytest.mark.parametrize(
    ("tokenizer", "text", "reason"),
    [
        (own_tokenizer(pattern=r"\p{L}+"), "a 1", cross_check.GAPS),
        (
            own_tokenizer((97, 98), (98, 99), (256, 99), (97, 257)),
            "abc",
            cross_check.SHARED_BYTES,
        ),
        (own_tokenizer((98, 99), (97, 98), (257, 99)), "abcd", cross_check.NOT_LEARNED),
        (own_tokenizer((97, 98), pattern="ab(?=[ab]{99})|a|b"), "ab" * 50_000, LOOKS_FURTHER),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 99 else "",
)
def test_where_tiktoken_cannot_agree_the_reason_is_counted(tokenizer, text, reason):
    problem, count = check_text(text, tokenizer=tokenizer)
    assert problem is None
    assert count.not_encoded_again == {reason: 1}
    assert count.encoded_again == 0


def test_a_panic_a_refused_pattern_and_a_missing_package_are_reasons(monkeypatch):
    class PanicException(BaseException):
        pass

    def panic(self, text):
        raise PanicException

    monkeypatch.setattr("tiktoken.Encoding.encode_ordinary", panic)
    assert check_text("a")[1].not_encoded_again == {cross_check.PANIC: 1}

    reasons = {ImportError: cross_check.NO_PACKAGE, ValueError: cross_check.NO_PATTERN}
    for error, reason in (reasons | {PanicException: cross_check.PANIC}).items():

        def fail(self, error=error):
            raise error

        monkeypatch.setattr(Tokenizer, "to_tiktoken", fail)
        with pytest.raises(cross_check.NoCrossCheckError, match=f"^{reason}$"):
            cross_check.TiktokenCrossCheck(LEARNED).ids("a")


@pytest.mark.parametrize("limit", [None, 20])
def test_the_ids_and_masks_of_conversations_are_accepted(limit):
    rules = {"max_tokens": limit, "too_long": "cut" if limit else "keep"}
    for messages in conversations(9, seed=4):
        ids, mask = LEARNED.render_conversation({"messages": messages}, max_tokens=limit)
        problem, count = check_rendered(messages, ids, mask, **rules)
        assert (problem, count.encoded_again) == (None, 1)
        other_mask = [1 - flag for flag in mask]
        assert check_rendered(messages, ids, other_mask, **rules)[0] == OTHER_MASK
        assert check_rendered(messages, ids[::-1], mask, **rules)[0] == OTHER_TEXT
        assert "no mask of its length" in check_rendered(messages, ids, mask[1:], **rules)[0]


def test_a_long_conversation_is_compared_to_its_end_in_little_memory():
    messages = [{"role": "user", "content": ""}, {"role": "assistant", "content": "the " * 400_000}]
    check = DocumentCheck(kind="chat", settings=settings(prepend=(), append=()), tokenizer=LEARNED)
    ids, mask = LEARNED.render_conversation({"messages": messages}, max_tokens=None)
    arrays = np.array(ids, np.uint16), np.array(mask, np.uint8)
    del ids, mask
    line = json.dumps(messages).encode()
    tracemalloc.start()
    try:
        assert check.problem(line, *arrays, dialect="messages") is None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 15 * len(line)  # as lists, its ids alone would need more
    assert check.count.not_encoded_again == {LONG_CONVERSATION: 1}
    arrays[0][-2] = arrays[0][-3]
    assert check.problem(line, *arrays, dialect="messages") == OTHER_TEXT


def check_rendered(
    document,
    ids,
    mask,
    *,
    tokenizer=LEARNED,
    images=None,
    kind="chat",
    longest=MAX_CONVERSATION,
    **rules,
):
    """Return the problem of a document with its ids, mask and images, and the check's count."""
    own = settings(tokenizer, prepend=(), append=(), **rules)
    check = DocumentCheck(kind=kind, settings=own, tokenizer=tokenizer, max_conversation=longest)
    arrays = np.array(ids, np.uint16), np.array(mask, np.uint8), images and np.array(images)
    name = "messages" if kind == "chat" else "text"
    return check.problem(json.dumps(document).encode(), *arrays, dialect=name), check.count


def test_as_many_other_tokens_of_the_same_bytes_are_detected():
    tokenizer = own_tokenizer((97, 98), (98, 99), special=(*SPECIAL_TOKENS, "<image>"))
    messages = [{"role": "user", "content": "abc"}]
    ids, mask = tokenizer.render_conversation({"messages": messages})
    assert ids[2:4] == [256, 99]
    assert check_rendered(messages, ids, mask, tokenizer=tokenizer)[0] is None
    other = [*ids[:2], 97, 257, *ids[4:]]
    assert check_rendered(messages, other, mask, tokenizer=tokenizer)[0] == OTHER_IDS.format(
        "tiktoken"
    )


def test_moved_images_are_detected():
    tokenizer = own_tokenizer(special=(*SPECIAL_TOKENS, "<image>"))
    document = {"text": "<image>a<image>", "image_token_counts": [2, 1]}
    ids, images = tokenizer.render_vision_pretraining(document["text"], None, [2, 1])
    assert images == [(1, 3), (4, 5)]
    rules = {"tokenizer": tokenizer, "kind": "vision", "image_token": "<image>"}
    right, *others = (
        check_rendered(document, ids, [0, 0, 0, 1, 0], images=places, **rules)[0]
        for places in (
            *(images, [(1, 3)], [(1, 2), (4, 5)], [(1, 3), (4, 6)], [(0, 2), (4, 5)], None),
        )
    )
    assert right is None
    assert [each.startswith("its images are at ") for each in others] == [True] * 5


def test_a_long_conversation_is_decoded_but_not_encoded_again():
    for said, reasons in (("12345", {}), ("123456", {LONG_CONVERSATION: 1})):
        messages = [{"role": "user", "content": said}]
        ids, mask = LEARNED.render_conversation({"messages": messages})
        problem, count = check_rendered(messages, ids, mask, longest=5)
        assert problem is None
        assert (count.not_encoded_again, count.encoded_again) == (reasons, not reasons)
        assert check_rendered(messages, ids[:-1], mask[:-1], longest=5)[0] == OTHER_TEXT
        # Only a document with the length of the limit may have been cut.
        for limit in (len(ids) - 1, len(ids), len(ids) + 1):
            rules = {"max_tokens": limit, "too_long": "cut", "longest": 5}
            problem, _ = check_rendered(messages, ids[:-1], mask[:-1], **rules)
            assert (problem is None) == (limit == len(ids) - 1)


@given(st.lists(st.lists(st.integers(0, 200_000), max_size=30), max_size=6), st.text(max_size=3))
def test_a_sample_is_three_documents_or_three_per_mille(batches, seed):
    sample, again = Sample(seed), Sample(seed)
    for sizes in batches:
        array = np.array(sizes, dtype=np.int64)
        chosen = list(sample.choose(array))
        assert chosen == list(again.choose(array))
        assert len(set(chosen)) == len(chosen)
        assert all(0 <= number < len(sizes) for number in chosen)
    sizes = [size for own in batches for size in own]
    assert sample.documents >= min(3, len(sizes))
    checked = sum(min(size, WINDOW_BYTES) for size in sizes)
    assert sample.bytes <= checked
    if sizes and sample.documents < len(batches[-1]):  # more documents could have been chosen
        assert sample.bytes * 1000 >= 3 * sum(sizes)


@pytest.mark.parametrize(("count", "documents"), [(2, 2), (900, 3), (1000, 3), (10_000, 30)])
def test_a_sample_reads_no_more_documents_than_needed(count, documents):
    sample = Sample("seed")
    assert len(list(sample.choose(np.full(count, 100)))) == documents
    assert (sample.documents, sample.bytes) == (documents, 100 * documents)


def test_documents_after_an_omitted_one_are_compared_with_their_own_source(tmp_path, monkeypatch):
    rows = [{"text": text, "id": name} for name, text in zip("abcd", texts(4, seed=8), strict=True)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lengths = [len(LEARNED.encode(row["text"])) + 2 for row in rows]
    monkeypatch.setattr(render, "MAX_DOCUMENT_TOKENS", max(lengths) - 1)
    [each] = plan_of(tmp_path / "a.jsonl", id_column="id").slices()
    out = Folder(str(tmp_path / "out"))
    [record] = tokenize_slices([each], settings(), tokenizer=LEARNED, out=out)
    assert lengths.index(max(lengths)) < 3
    assert record.proof.encoded_again == record.documents.out == 3
    data = np.frombuffer(out.read_bytes(f"{record.shards[0].name}.ids"), np.uint8)
    names = DocumentIds(data, name="a.ids", documents=3)
    left = [row["id"] for row, length in zip(rows, lengths, strict=True) if length < max(lengths)]
    assert [names[number] for number in range(3)] == left
