"""The source map returns the row of every document."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.shards import SourceMap, mapped_rows
from nanotok_ray.sources import Piece

PIECES = tuple(
    Piece(url=f"/data/{name}", path=name, format="parquet", compression=None, start=0, stop=2)
    for name in ("a", "b")
)
ROWS = st.sets(st.integers(0, 60), min_size=1, max_size=40).map(sorted)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), ROWS), min_size=1, max_size=6))
def test_every_document_has_its_row(parts):
    # Rows increase within a row group, as from a reader.
    parts = [(p, g, rows) for (p, g), rows in {(p, g): rows for p, g, rows in parts}.items()]
    source_map = SourceMap(PIECES)
    for piece, group, rows in parts:
        half = len(rows) // 2
        for part in (rows[:half], rows[half:]):
            if part:
                source_map.add(piece, group, np.array(part))
    entries = source_map.entries()
    assert [entry["file"] for entry in entries] == [PIECES[p].path for p, _, _ in parts]
    assert [mapped_rows(entry).tolist() for entry in entries] == [rows for _, _, rows in parts]
    for entry in entries:
        assert len(entry.get("absent", ())) + len(entry.get("present", ())) <= entry["rows"]


@pytest.mark.parametrize(
    ("rows", "listed"),
    [
        ([0, 2, 3], {"absent": [1]}),
        ([0, 3], {"absent": [1, 2]}),
        ([0, 4], {"present": [0, 4]}),
        ([0, 1, 6, 7], {"absent": [2, 3, 4, 5]}),
        ([0, 1, 7, 8], {"present": [0, 1, 7, 8]}),
    ],
)
def test_the_shorter_list_is_written_and_of_equal_lists_the_absent_rows(rows, listed):
    source_map = SourceMap(PIECES)
    source_map.add(0, 3, np.array(rows))
    (entry,) = source_map.entries()
    assert entry == {"file": "a", "row_group": 3, "first_row": 0, "rows": len(rows)} | listed
