"""nanotok_ray.arrow: a column of results equals the tokenizer's results row by row."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import Tokenizer, arrow
from nanotok_ray.errors import SourceError, TokenizerError, UnknownTokenError

texts = st.text(st.sampled_from("ab é🙂\n"), max_size=6) | st.just("the cat")
rows = st.lists(st.none() | texts, max_size=9)
KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


def exported(values):
    """Return the values as an object of another Arrow library."""
    return SimpleNamespace(__arrow_c_stream__=values.__arrow_c_stream__)


def chunked(values, kind):
    chunks = [pa.array(part, pa.string()) for part in (values[:2], values[2:])]
    return pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind)


SOURCES = {
    **{str(kind): lambda values, kind=kind: chunked(values, kind) for kind in KINDS},
    "array": lambda values: pa.array(values, pa.string()),
    "exported": lambda values: exported(chunked(values, pa.large_string())),
    "list": list,
    "numpy": lambda values: np.array([*values, None], dtype=object)[:-1],
    "iterator": iter,
    "batches": lambda values: [values[:3], pa.array(values[3:], pa.string())],
}


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(["the cat sat, the hat", "ab ab é é"], 280)


def ids_of(tokenizer, text, **around):
    return None if text is None else tokenizer.encode(text, **around)


@pytest.mark.parametrize("make", list(SOURCES.values()), ids=list(SOURCES))
@given(values=rows, threads=st.integers(1, 2))
def test_every_row_has_its_ids_and_their_number(tokenizer, make, values, threads):
    found = arrow.encode(make(values), tokenizer, num_threads=threads)
    found.validate(full=True)
    assert found.type == pa.list_(pa.uint16())
    assert found.to_pylist() == [ids_of(tokenizer, text) for text in values]
    counted = arrow.count(make(values), tokenizer, num_threads=threads)
    assert counted.type == pa.int32()
    lengths = [None if row is None else len(row) for row in found.to_pylist()]
    assert counted.to_pylist() == lengths


@given(values=rows)
def test_special_tokens_surround_every_row_except_nulls(tokenizer, values):
    around = {"prepend": "<|bos|>", "append": 7}
    found = arrow.encode(values, tokenizer, **around)
    assert found.to_pylist() == [ids_of(tokenizer, text, **around) for text in values]


@given(values=rows, start=st.integers(0, 3))
def test_rows_of_ids_are_decoded(tokenizer, values, start):
    ids = arrow.encode(values, tokenizer)[start:]
    wanted = values[start:]
    whole = pa.chunked_array([ids.slice(0, 1), ids.slice(1)])
    for array in (ids, whole, exported(whole), ids.cast(pa.large_list(pa.int64()))):
        assert arrow.decode(array, tokenizer).to_pylist() == wanted


def test_ids_of_a_large_vocabulary_have_32_bits():
    own = Tokenizer.train_from_iterator(
        [], 256 + 65281, special_tokens=[f"<{number}>" for number in range(65281)]
    )
    found = arrow.encode(["ab"], own, prepend="<65280>")
    assert (found.type, found.to_pylist()) == (pa.list_(pa.uint32()), [[65536, 97, 98]])


def test_a_column_of_nulls_returns_as_many_nulls(tokenizer):
    for values in (pa.array([None, None]), [None, None], pa.nulls(2, pa.string())):
        for function in (arrow.encode, arrow.count, arrow.render):
            assert function(values, tokenizer).to_pylist() == [None, None]
    for values in ([], pa.array([], pa.string()), pa.chunked_array([], pa.string())):
        for function in (arrow.encode, arrow.count, arrow.render):
            assert len(function(values, tokenizer)) == 0
        assert len(arrow.decode(arrow.encode(values, tokenizer), tokenizer)) == 0


GOOD = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat é"}]
TALKS = [GOOD, None, GOOD[:1], GOOD[1:], []]
FORMS = {
    "JSON": lambda: pa.array([None if talk is None else json.dumps(talk) for talk in TALKS]),
    "list of JSON": lambda: [None if talk is None else json.dumps(talk) for talk in TALKS],
    "lists of structures": lambda: pa.array(TALKS),
    "chunks": lambda: pa.chunked_array([pa.array(TALKS[:3]), pa.array(TALKS[3:4]), [[]]]),
    "structures": lambda: pa.array(
        [None if talk is None else {"messages": talk} for talk in TALKS]
    ),
    "lists of Python": lambda: TALKS,
    "exported": lambda: exported(pa.chunked_array([pa.array(TALKS)])),
    "numpy": lambda: np.array([*(t if t is None else np.array(t) for t in TALKS), 0], object)[:-1],
}


@pytest.mark.parametrize("form", list(FORMS))
def test_conversations_return_ids_masks_and_errors(tokenizer, form):
    found = arrow.render(FORMS[form](), tokenizer, num_threads=2)
    found.validate(full=True)
    ids = pa.list_(pa.uint16())
    assert found.type == pa.struct(
        [("ids", ids), ("mask", pa.list_(pa.uint8())), ("problem", pa.string())]
    )
    wanted = []
    for talk in TALKS[:3]:
        rendered = talk and tokenizer.render_conversation({"messages": talk}, max_tokens=None)
        wanted.append(rendered and {"ids": rendered[0], "mask": rendered[1], "problem": None})
    wrong = {"ids": None, "mask": None}
    wanted.append({**wrong, "problem": "Message 0 is from assistant but should be from user"})
    wanted.append({**wrong, "problem": "the conversation has no messages"})
    assert found.to_pylist() == wanted
    other = [{"from": "human", "value": "the cat"}, {"from": "gpt", "value": "sat é"}]
    (row,) = arrow.render([{"conversations": other}], tokenizer, "sharegpt").to_pylist()
    assert row == wanted[0]


def test_values_that_cannot_be_encoded_are_refused_by_name(tokenizer, monkeypatch):
    with pytest.raises(SourceError, match="got int64"):
        arrow.encode(pa.array([1]), tokenizer)
    with pytest.raises(TypeError, match="array, row 1: 'int' object is not"):
        arrow.encode(["a", 7], tokenizer)
    with pytest.raises(UnknownTokenError, match="<eot>"):
        arrow.encode(["a"], tokenizer, append="<eot>")
    with pytest.raises(TypeError, match="expected lists of integers"):
        arrow.decode(pa.array([["a"]]), tokenizer)
    with pytest.raises(KeyError, match="Invalid token for decoding: 5000"):
        arrow.decode(pa.array([[97], [5000]]), tokenizer)
    monkeypatch.setattr(arrow, "_MAX_LIST_IDS", 2)
    with pytest.raises(TokenizerError, match=r"3 ids are more than .*: pass fewer rows"):
        arrow.encode(["xyz"], tokenizer)
