"""Arrow arrays of every type as input of the tokenizer: the ids are those of their texts."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.documents import ArrowTexts, arrow_texts
from nanotok_ray.errors import SourceError, SplitError
from nanotok_ray.tokenizer import Tokenizer

TEXT_KINDS = [pa.string(), pa.large_string(), pa.string_view()]
BYTE_KINDS = [pa.binary(), pa.large_binary(), pa.binary_view()]
KINDS = TEXT_KINDS + BYTE_KINDS

# Few letters and short texts, so that values repeat and have tokens of several bytes.
texts = st.text(st.sampled_from("ab é🙂"), max_size=5) | st.sampled_from(["the cat", "the hat"])
rows = st.lists(st.none() | texts, max_size=12)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(["the cat sat, the hat sat", "ab ab é é"], 280)


def expected(tokenizer, texts):
    return tokenizer.encode_batch(["" if text is None else text for text in texts])


def same(left, right):
    assert [part.dtype for part in left] == [part.dtype for part in right]
    assert [part.tolist() for part in left] == [part.tolist() for part in right]


def array_of(texts, kind):
    data = [None if text is None else text.encode() for text in texts]
    return pa.array(data if kind in BYTE_KINDS else texts, kind)


def dictionary_of(data, texts, kind, index):
    """The same rows in a dictionary with values in any order, unused values and nulls."""
    present = list({*texts, *data.draw(st.lists(texts_or_null, max_size=3))})
    values = data.draw(st.permutations(present))
    indices = [
        None if text is None and data.draw(st.booleans()) else values.index(text) for text in texts
    ]
    return pa.DictionaryArray.from_arrays(pa.array(indices, index), array_of(values, kind))


texts_or_null = st.none() | texts


def window(data, array):
    start = data.draw(st.integers(0, len(array)))
    return start, start + data.draw(st.integers(0, len(array) - start))


@given(rows, st.sampled_from(KINDS), st.data())
def test_a_slice_of_any_type_has_the_ids_of_its_texts(tokenizer, texts, kind, data):
    start, stop = window(data, texts)
    array = array_of(texts, kind).slice(start, stop - start)
    found = tokenizer.encode_batch(array, nulls="empty")
    same(found, expected(tokenizer, texts[start:stop]))


@given(st.lists(rows, max_size=4), st.sampled_from(KINDS), st.integers(1, 3), st.data())
def test_chunks_have_the_ids_of_their_texts(tokenizer, chunks, kind, threads, data):
    wanted = expected(tokenizer, [text for chunk in chunks for text in chunk])
    plain = pa.chunked_array([array_of(chunk, kind) for chunk in chunks], kind)
    encoded = pa.chunked_array(
        [dictionary_of(data, chunk, kind, pa.int32()) for chunk in chunks],
        pa.dictionary(pa.int32(), kind),
    )
    for array in (plain, encoded):
        same(tokenizer.encode_batch(array, num_threads=threads, nulls="empty"), wanted)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrow_texts, "SMALL_BYTES", 0)
            same(tokenizer.encode_batch(array, num_threads=threads, nulls="empty"), wanted)


@given(rows, st.sampled_from(KINDS), st.sampled_from([pa.int8(), pa.uint64()]), st.data())
def test_a_dictionary_is_encoded_as_its_decoded_values(tokenizer, texts, kind, index, data):
    array = dictionary_of(data, texts, kind, index)
    start, stop = window(data, texts)
    found = tokenizer.encode_batch(array.slice(start, stop - start), nulls="empty")
    same(found, expected(tokenizer, texts[start:stop]))


def test_the_values_of_a_fully_used_dictionary_are_borrowed():
    array = pa.array(["a", "b", "a"]).dictionary_encode()
    held = ArrowTexts.from_arrow(array)
    address = array.dictionary.buffers()[2].address
    assert address in [documents.data.ctypes.data for documents in held.chunks]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary()], ids=str)
def test_bytes_below_a_null_are_not_encoded(tokenizer, kind):
    _, starts, data = array_of(["the", "\x00cat", "hat"], kind).buffers()
    array = pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x05"), starts, data])
    assert array.is_null().to_pylist() == [False, True, False]
    same(tokenizer.encode_batch(array, nulls="empty"), expected(tokenizer, ["the", None, "hat"]))


def test_invalid_utf8_is_encoded_as_bytes(tokenizer):
    documents = [b"\xffthe\xc3", b"", b"cat"]
    arrays = [pa.array(documents, kind) for kind in BYTE_KINDS]
    arrays += [documents, tuple(documents), pa.array(documents).dictionary_encode()]
    for given_as in arrays:
        ids, offsets = tokenizer.encode_batch(given_as)
        assert tokenizer.decode_batch(ids, offsets, as_bytes=True).to_pylist() == documents


NULLS = [
    (pa.array(["a", None, None]), 1),
    (pa.array([None], pa.binary_view()), 0),
    (pa.array(["a", "b", "c", None]).slice(2), 1),
    (pa.chunked_array([["a", "b"], ["c", None]]), 3),
    (pa.array(["a", "b", None]).dictionary_encode(), 2),
    (pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None])), 1),
    (pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None], pa.string_view())), 1),
]


@pytest.mark.parametrize(("array", "row"), NULLS, ids=range(len(NULLS)))
def test_a_null_is_an_error_that_names_its_row_unless_it_may_be_empty(tokenizer, array, row):
    message = f"^texts: row {row} of the Arrow array is null: .*nulls="
    with pytest.raises(SourceError, match=message):
        tokenizer.encode_batch(array)
    ids, offsets = tokenizer.encode_batch(array, nulls="empty")
    assert offsets[row] == offsets[row + 1]
    assert len(offsets) == len(array) + 1
    found = tokenizer.decode_batch(ids, offsets).to_pylist()
    assert found == [text or "" for text in array.to_pylist()]


def test_nulls_of_a_dictionary_with_a_full_index_are_empty_and_unused_ones_no_error(tokenizer):
    values = pa.array([f"{number} cats" for number in range(128)])
    array = pa.DictionaryArray.from_arrays(pa.array([127, None], pa.int8()), values)
    same(tokenizer.encode_batch(array, nulls="empty"), expected(tokenizer, ["127 cats", None]))
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["cat", None]))
    same(tokenizer.encode_batch(unused), expected(tokenizer, ["cat", "cat"]))


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (pa.array([1]), "int64"),
        (pa.array([["a"]]), "list<item: string>"),
        (pa.array([1, 2]).dictionary_encode(), "dictionary<values=int64"),
        (pa.array([None]), "null"),
    ],
    ids=range(4),
)
def test_values_that_are_not_text_are_refused(tokenizer, array, found):
    with pytest.raises(SourceError, match=f"string_view.*or a dictionary of these, got {found}"):
        tokenizer.encode_batch(array, nulls="empty")
    with pytest.raises(SourceError, match="nulls is 'drop'"):
        tokenizer.encode_batch(["a"], nulls="drop")


def test_a_text_that_cannot_be_split_is_named_with_the_number_of_texts_before_it(monkeypatch):
    def refuse(documents):
        if b"c" in list(documents):
            raise SplitError("document 0 cannot be split")
        return np.zeros(0, np.uint16), np.zeros(len(documents) + 1, np.int64)

    monkeypatch.setattr(arrow_texts, "SMALL_BYTES", 0)
    held = ArrowTexts.from_arrow(pa.chunked_array([["a", "b"], ["c"]]))
    with pytest.raises(SplitError, match=r"^after 2 texts of the Arrow array, document 0 cannot"):
        held.encode(refuse)


def test_ids_of_32_bits_are_gathered():
    own = Tokenizer.train_from_iterator(
        [], 256 + 65281, special_tokens=[f"<{number}>" for number in range(65281)]
    )
    ids, offsets = own.encode_batch(pa.array(["ab", "c", "ab"]).dictionary_encode())
    assert ids.dtype == np.uint32
    assert (ids.tolist(), offsets.tolist()) == ([97, 98, 99, 97, 98], [0, 2, 3, 5])
