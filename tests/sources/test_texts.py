"""Columns of texts and Arrow arrays."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import SpanCounts, Tokenizer
from nanotok_ray.documents import ArrowTexts, Documents, arrow_texts, batches_of
from nanotok_ray.documents import texts as texts_module
from nanotok_ray.errors import SourceError, SplitError

TEXTS = st.lists(st.text(st.sampled_from("ab é🙂\n"), max_size=6), max_size=9)
STRINGS = np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else np.dtype(object)


class Exported:
    """A column or table of another library that only exports Arrow."""

    def __init__(self, values):
        self._values = values

    def __arrow_c_stream__(self, requested_schema=None):
        return self._values.__arrow_c_stream__(requested_schema)


class ExportedArray:
    def __init__(self, values):
        self._values = values

    def __arrow_c_array__(self, requested_schema=None):
        return self._values.__arrow_c_array__(requested_schema)


class DataSet:
    """The required methods of a data set of `datasets`."""

    def __init__(self, table, form=None):
        self._table, self.format = table, {"type": form}
        self.column_names = table.column_names

    def select_columns(self, names):
        return DataSet(self._table.select(names))

    def with_format(self, form):
        assert form == "arrow"
        return self

    def iter(self, batch_size):
        assert batch_size
        if self.format["type"] == "custom":
            return iter([{"text": [text.as_py().upper() for text in self._table.column("text")]}])
        return (pa.Table.from_batches([batch]) for batch in self._table.to_batches(2))


class Column:
    """A column of a data set; reading it item by item would be slow."""

    def __init__(self, source):
        self.source, self.column_name = source, "text"


def chunked(texts):
    return pa.chunked_array([texts[:2], texts[2:]], pa.string())


def table(texts):
    return pa.table({"id": pa.array(range(len(texts)), pa.int64()), "text": chunked(texts)})


def objects(texts):
    return np.array([*texts, None], dtype=object)[:-1]


COLUMNS = {
    "list": list,
    "tuple": tuple,
    "generator": lambda texts: (text for text in texts),
    "bytes": lambda texts: [text.encode() for text in texts],
    "iterator of bytes": lambda texts: (text.encode() for text in texts),
    "documents": Documents.from_strings,
    "numpy objects": objects,
    "numpy strings": lambda texts: np.array(texts, STRINGS),
    "a part of numpy": lambda texts: np.repeat(objects(texts), 2)[::2],
    "array": lambda texts: pa.array(texts, pa.large_string()),
    "chunked array": chunked,
    "view": lambda texts: pa.array(texts, pa.string_view()),
    "exported array": lambda texts: ExportedArray(pa.array(texts, pa.string())),
    "exported stream": lambda texts: Exported(chunked(texts)),
    "exported dictionary": lambda texts: Exported(chunked(texts).dictionary_encode()),
    "table of one column": lambda texts: Exported(table(texts).select(["text"])),
    "lists": lambda texts: [texts[:1], [], texts[1:]],
    "iterator of lists": lambda texts: iter([texts[:1], None, tuple(texts[1:])]),
    "iterator of arrays": lambda texts: iter(chunked(texts).chunks),
    "iterator of columns": lambda texts: (Exported(chunked(texts)) for _ in range(1)),
    "iterator of iterators": lambda texts: (iter([text]) for text in texts),
    "iterator of numpy": lambda texts: iter([objects(texts[:1]), np.array(texts[1:], STRINGS)]),
    "column of a data set": lambda texts: Column(DataSet(table(texts))),
}
TABLES = {
    "table": table,
    "batches": lambda texts: iter(table(texts).to_batches()),
    "reader": lambda texts: table(texts).to_reader(),
    "tables": lambda texts: [table(texts)],
    "exported table": lambda texts: Exported(table(texts)),
    "mapping": lambda texts: {"id": [], "text": objects(texts)},
    "rows": lambda texts: [{"text": text} for text in texts],
    "iterator of rows": lambda texts: ({"text": text} for text in texts),
    "iterator of mappings": lambda texts: iter([{"text": texts[:2]}, {"text": chunked(texts[2:])}]),
    "data set": lambda texts: DataSet(table(texts)),
}
SOURCES = [(make, None) for make in COLUMNS.values()] + [(make, "text") for make in TABLES.values()]


@pytest.fixture(scope="module")
def tokenizer():
    corpus = ["ab ab é é", "ba ba\n\n🙂🙂", "the cat sat, the hat sat"]
    return Tokenizer.train_from_iterator(corpus, 290)


@pytest.mark.parametrize(("make", "column"), SOURCES, ids=[*COLUMNS, *TABLES])
@given(texts=TEXTS)
def test_ids_and_counts_equal_those_of_a_list(tokenizer, make, column, texts):
    ids, offsets = tokenizer.encode_batch(make(texts), column=column)
    wanted = [tokenizer.encode(text) for text in texts]
    assert [ids[a:b].tolist() for a, b in pairwise(offsets)] == wanted
    assert ids.dtype == np.uint16
    batches = batches_of(make(texts), column=column)
    assert b"|".join(text for batch in batches for text in batch) == "|".join(texts).encode()


@pytest.mark.parametrize(("make", "column"), SOURCES, ids=[*COLUMNS, *TABLES])
@pytest.mark.parametrize("limit", [1, 10_000])
def test_a_tokenizer_is_learned_from_any_source(make, column, limit, monkeypatch):
    monkeypatch.setattr(texts_module, "BATCH_TEXTS", limit)
    texts = ["ab ab ab", "é", "", "abab\n\n🙂"]
    wanted = Tokenizer.train_from_iterator(texts, 275)
    assert Tokenizer.train_from_iterator(make(texts), 275, column=column) == wanted
    counts, same = SpanCounts(), SpanCounts()
    counts.update(make(texts), column=column)
    same.update(texts)
    assert Counter(dict(counts.most_common())) == Counter(dict(same.most_common()))
    assert (counts.texts, counts.text_bytes) == (same.texts, same.text_bytes)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()], ids=str)
def test_arrow_columns_are_not_copied(kind):
    array = pa.array(["abc", "de"], kind)
    columns = (array, Exported(pa.chunked_array([array])), ExportedArray(array), iter([array]))
    whole = pa.table({"text": array})
    tables = (whole, Exported(whole), DataSet(whole), {"text": array}, whole.to_reader())
    for source, column in [*((own, None) for own in columns), *((own, "text") for own in tables)]:
        (batch,) = batches_of(source, column=column)
        assert batch.data.ctypes.data == array.buffers()[2].address


def test_a_stream_is_read_as_it_is_used():
    schema = pa.schema({"text": pa.string()})

    def batches():
        yield pa.record_batch([["a"]], schema=schema)
        pytest.fail("a batch was read before it was needed")

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    assert list(next(batches_of(reader, column="text"))) == [b"a"]


def test_a_dataset_with_a_transform_is_read_through_it():
    source = DataSet(table(["stored"]), form="custom")
    for texts, column in ((Column(source), None), (source, "text")):
        assert [list(batch) for batch in batches_of(texts, column=column)] == [[b"STORED"]]


MISSING = [
    [None, "a"],
    np.array([float("nan"), "a"], dtype=object),
    pa.array([None, "a"]),
    np.array([None, "a"], type(STRINGS)(na_object=None) if STRINGS.kind == "T" else object),
]


class NAType:
    """The missing text of pandas."""


@pytest.mark.parametrize("texts", [*MISSING, [NAType(), "a"]], ids=range(5))
def test_a_missing_text_is_empty_or_an_error(tokenizer, texts):
    _, offsets = tokenizer.encode_batch(texts, nulls="empty")
    assert offsets.tolist() == [0, 0, 1]
    with pytest.raises((TypeError, ValueError), match=r"^texts.*row 0.*nulls=\"empty\""):
        tokenizer.encode_batch(texts)


@pytest.mark.parametrize(
    ("texts", "column", "message"),
    [
        ("a", None, "expected texts, got one text: put it into a list"),
        (b"a", None, "got one text"),
        (7, None, "texts is an int: expected a list, tuple or iterator of str .* with column="),
        (None, None, "texts is a NoneType: expected"),
        (pa.scalar("a"), None, "texts is a StringScalar: expected"),
        (["a", 7], None, "texts, row 1: 'int' object is not an instance of 'str'"),
        (["a", b"b"], None, "row 1: 'bytes' object is not an instance of 'str'"),
        ([b"a", "b"], None, "row 1: 'str' object is not bytes, as the texts before it are"),
        (["a", ["b"]], None, "row 1: 'list' object is not an instance"),
        ([["a", "b"], ["c", 7]], None, "row 3: 'int' object"),
        ([["a"], [b"b"]], None, "row 1: 'bytes' object"),
        ([["a"], "b"], None, "texts, item 1: expected texts, got one text"),
        (iter([["a"], 7]), None, "texts, item 1 is an int"),
        (np.array([1]), None, "texts is an array of int64: expected one of strings or objects"),
        (np.array([["a"]]), None, "texts is an array of 2 dimensions: expected one"),
        ({"id": [], "text": []}, None, "a dict with the columns id, text: name one .* column="),
        (table([]), None, "texts is a Table with the columns id, text: name one"),
        (Exported(table([])), None, "texts is an Exported with the columns id, text: name one"),
        (DataSet(table([])), None, "texts is a DataSet with the columns id, text: name one"),
        ({"id": []}, "text", "texts has no column 'text': it is a dict with the columns id"),
        (table([]), "body", "texts has no column 'body': it is a Table with the columns id, text"),
        (Exported(table([])), "body", "no column 'body': it is an Exported with the columns id, t"),
        (DataSet(table([])), "body", "no column 'body': it is a DataSet with the columns id, text"),
        ([{"id": 1}], "text", "texts, item 0: no 'text' among its keys id"),
        (np.array(["a"]), "text", "texts is a ndarray, which has no columns: leave out column="),
        (7, "text", "texts is an int, which has no columns"),
        (Exported(chunked(["a"])), "text", "texts is an Exported, which has no columns"),
        (["a"], "text", "texts, item 0 is a str, which has no columns"),
        ("a", "text", "got one text"),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_accepted(tokenizer, texts, column, message):
    with pytest.raises(TypeError, match=message):
        tokenizer.encode_batch(texts, column=column)
    with pytest.raises(ValueError, match=r"^texts: expected an Arrow array of .*, got int64"):
        tokenizer.encode_batch(Exported(table(["a"])), column="id")


TEXT_KINDS = [pa.string(), pa.large_string(), pa.string_view()]
BYTE_KINDS = [pa.binary(), pa.large_binary(), pa.binary_view()]
KINDS = TEXT_KINDS + BYTE_KINDS

# Few letters and short texts, so that values repeat and have tokens of several bytes.
TEXT = st.text(st.sampled_from("ab é🙂"), max_size=5) | st.sampled_from(["the cat", "the hat"])
ROWS = st.lists(st.none() | TEXT, max_size=12)


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
    present = list({*texts, *data.draw(st.lists(st.none() | TEXT, max_size=3))})
    values = data.draw(st.permutations(present))
    indices = [
        None if text is None and data.draw(st.booleans()) else values.index(text) for text in texts
    ]
    return pa.DictionaryArray.from_arrays(pa.array(indices, index), array_of(values, kind))


def window(data, array):
    start = data.draw(st.integers(0, len(array)))
    return start, start + data.draw(st.integers(0, len(array) - start))


@given(ROWS, st.sampled_from(KINDS), st.data())
def test_a_slice_of_any_type_has_the_ids_of_its_texts(tokenizer, texts, kind, data):
    start, stop = window(data, texts)
    array = array_of(texts, kind).slice(start, stop - start)
    found = tokenizer.encode_batch(array, nulls="empty")
    same(found, expected(tokenizer, texts[start:stop]))


@given(st.lists(ROWS, max_size=4), st.sampled_from(KINDS), st.integers(1, 3), st.data())
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


@given(ROWS, st.sampled_from(KINDS), st.sampled_from([pa.int8(), pa.uint64()]), st.data())
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
    same(
        tokenizer.encode_batch(array, nulls="empty"),
        expected(tokenizer, ["the", None, "hat"]),
    )


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


def test_nulls_of_a_dictionary_with_a_full_index_are_empty_and_unused_ones_no_error(
    tokenizer,
):
    values = pa.array([f"{number} cats" for number in range(128)])
    array = pa.DictionaryArray.from_arrays(pa.array([127, None], pa.int8()), values)
    same(
        tokenizer.encode_batch(array, nulls="empty"),
        expected(tokenizer, ["127 cats", None]),
    )
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
