"""The file of ids: reads the written ids, and refuses damaged files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import DocumentIds, ids_parts


def packed(*parts):
    batches = [
        Documents.from_strings(["before", *names]).part(1, len(names) + 1) for names in parts
    ]
    data = b"".join(ids_parts([(each.data, each.offsets) for each in batches]))
    return np.frombuffer(data, dtype=np.uint8)


@given(st.lists(st.text(max_size=5), max_size=6), st.integers(0, 6))
def test_ids_are_read_as_written(names, cut):
    ids = DocumentIds(packed(names[:cut], names[cut:]), name="a.ids", documents=len(names))
    assert [ids[number] for number in range(len(ids))] == [
        name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") for name in names
    ]


@given(st.data())
def test_a_changed_file_is_an_error_or_contains_as_many_other_ids(data):
    whole = packed(["a", "", "b7"]).tobytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    other = whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + 1 :]
    try:
        ids = DocumentIds(np.frombuffer(other, np.uint8), name="a.ids", documents=3)
        assert sum(len(ids[number].encode()) for number in range(3)) == 3
    except CorruptOutputError as error:
        assert "a.ids" in str(error)  # noqa: PT017 - both are right


@pytest.mark.parametrize("documents", [0, 2, 4, 2**60])
def test_ids_of_another_number_of_documents_are_refused(documents):
    with pytest.raises(CorruptOutputError, match=r"a\.ids"):
        DocumentIds(packed(["a", "", "b7"]), name="a.ids", documents=documents)


def test_an_id_that_is_not_utf8_is_refused():
    data = packed(["a", "b7"]).tobytes().replace(b"b7", b"b\xff")
    ids = DocumentIds(np.frombuffer(data, np.uint8), name="a.ids", documents=2)
    assert ids[0] == "a"
    with pytest.raises(CorruptOutputError, match=r"a\.ids: id 1 is not UTF-8"):
        ids[1]
