import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.documents import Documents, as_documents, to_utf8
from nanotok_ray.errors import SourceError

texts = st.lists(st.text())


@given(texts, st.data())
def test_documents_convert_to_arrow_and_back(strings, data):
    documents = Documents.from_strings(strings)
    array = documents.to_arrow()
    assert array.type == pa.large_string()
    assert array.to_pylist() == strings
    cut = data.draw(st.integers(0, len(strings)))
    chunks = pa.chunked_array([strings[:cut], strings[cut:]], pa.string())
    for own in (array, chunks, pa.chunked_array([strings], pa.string())):
        assert list(Documents.from_arrow(own)) == [text.encode() for text in strings]
    chosen = data.draw(st.lists(st.integers(0, len(strings) - 1))) if strings else []
    taken = documents.take(np.array(chosen, dtype=np.int64))
    assert list(taken) == [documents[index] for index in chosen]


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


def test_surrogates_become_their_character_or_the_replacement_character():
    assert to_utf8("\ud83d\ude42") == "🙂".encode()
    assert to_utf8("a\ud83d") == "a\ufffd".encode()
    assert to_utf8("\ude42\ud83d") == "\ufffd\ufffd".encode()
    assert to_utf8("\ufeffx\ud83d") == "\ufeffx\ufffd".encode()


def test_documents_are_returned_unchanged():
    documents = Documents.from_strings(["a"])
    assert as_documents(documents) is documents
    assert list(as_documents(("a", "b"))) == [b"a", b"b"]
    assert list(as_documents([b"a", b"\xff"])) == [b"a", b"\xff"]
