import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.documents import Documents, as_documents, to_utf8
from nanotok_ray.errors import SourceError

texts = st.lists(st.text())


@given(st.lists(texts, max_size=3))
def test_a_chunked_array_contains_the_documents_of_all_chunks(chunks):
    documents = Documents.from_arrow(pa.chunked_array(chunks, pa.string()))
    assert list(documents) == [text.encode() for chunk in chunks for text in chunk]


@given(texts)
def test_documents_convert_to_arrow_and_back(strings):
    array = Documents.from_strings(strings).to_arrow()
    assert array.type == pa.large_string()
    assert array.to_pylist() == strings
    assert list(Documents.from_arrow(array)) == [text.encode() for text in strings]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array(["a", None, None]), "holds 2 nulls"),
        (pa.array([1]), "large_string or string, got int64"),
        ("one text", "got <class 'str'>"),
    ],
    ids=["nulls", "numbers", "str"],
)
def test_values_that_are_not_text_are_refused(array, message):
    with pytest.raises(SourceError, match=message):
        Documents.from_arrow(array)


@given(texts, st.data())
def test_take_returns_the_chosen_documents_in_the_requested_order(strings, data):
    documents = Documents.from_strings(["x", *strings, "y"])
    chosen = data.draw(st.lists(st.integers(0, len(documents) - 1)))
    taken = documents.take(np.array(chosen, dtype=np.int64))
    assert list(taken) == [documents[index] for index in chosen]


def test_documents_in_a_larger_buffer_are_those_between_the_offsets():
    data = np.frombuffer(b"xxabcxx", dtype=np.uint8)
    documents = Documents(data=data, offsets=np.array([2, 4, 5]))
    assert list(documents) == [b"ab", b"c"]
    assert documents.num_bytes == 3
    assert documents.to_arrow().to_pylist() == ["ab", "c"]


@pytest.mark.parametrize("index", [-1, 2])
def test_a_missing_document_is_an_index_error(index):
    with pytest.raises(IndexError, match=f"document {index} of 2"):
        Documents.from_strings(["a", "b"])[index]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ud83d\ude42", "🙂"),
        ("a\ud83d", "a\ufffd"),
        ("\ude42\ud83d", "\ufffd\ufffd"),
        ("\ufeffx\ud83d", "\ufeffx\ufffd"),
        ("é", "é"),
    ],
    ids=["pair", "lone", "swapped", "byte order mark", "none"],
)
def test_surrogates_become_their_character_or_the_replacement_character(text, expected):
    assert to_utf8(text) == expected.encode()


def test_documents_are_returned_unchanged():
    documents = Documents.from_strings(["a"])
    assert as_documents(documents) is documents
    assert list(as_documents(("a", "b"))) == [b"a", b"b"]
    assert list(as_documents([b"a", b"\xff"])) == [b"a", b"\xff"]
